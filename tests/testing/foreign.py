"""Small environments in the forms of gymnax, Jumanji and JaxMARL, written without these libraries.

Each takes the name of a fault to plant; ``FAULTS`` says which property of `certify` must find it.
"""

import atexit
import functools
import sys
import threading
import types
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

FAULTS = {
    "gymnax": {
        "reset_key_constant": "draws_from_its_keys",
        "step_key_constant": "draws_from_its_keys",
        "restart_repeats_the_first_start": "restart",
        "no_restart": "restart",
        "restart_for_all_ends_equal": "restart",
        "reward_nan": "finite",
        "start_nan": "finite",
        "final_nan": "finite",
        "observation_beyond_its_bounds": "observation_in_space",
        "observation_float16": "observation_in_space",
        "observation_of_another_shape": "observation_in_space",
        "done_is_a_number": "done_is_a_flag",
        "time_becomes_a_float": "same_types",
        "counts_calls": "pure",
        "changes_an_attribute": "pure",
        "writes_into_an_attribute": "pure",
        "numpy_draws_the_start": "pure",
        "final_observation_is_the_next_start": "final_observation",
        "truncated_early": "truncation",
        "one_step_too_long": "ends_within_its_limit",
        "python_branch": "runs_under_jit",
        "five_values": "runs_under_jit",
        "no_final_observation": "runs_under_jit",
        "lanes_leak": "vmap_equals_single",
        "eager_differs": "jit_equals_eager",
        "host_draws": "same_key_same_episode",
        "reward_is_a_vector": "reward_shape",
        "shape_of_the_space_is_a_number": "observation_in_space",
    },
    "jumanji": {
        "last_is_mid": "step_types",
        "first_is_mid": "step_types",
        "discount_is_two": "step_types",
        "extras_after_a_step_only": "same_types",
        "key_stays": "draws_from_its_keys",
        "no_action_at_the_start": "legal_actions",
        "mask_of_numbers": "legal_actions",
        "count_beyond_its_bound": "observation_in_space",
        "writes_into_the_state": "arguments_unchanged",
    },
    "jaxmarl": {
        "reward_of_one_agent_missing": "agents",
        "all_is_not_told": "agents",
        "num_agents_wrong": "agents",
        "no_available_action": "legal_actions",
        "dones_are_numbers": "done_is_a_flag",
        "observation_of_one_agent_beyond": "observation_in_space",
        "one_step_too_long": "ends_within_its_limit",
    },
}


class Box(NamedTuple):
    low: float
    high: float
    shape: tuple[int, ...]
    dtype: Any = jnp.float32

    def sample(self, key):
        return jax.random.uniform(key, self.shape, self.dtype, self.low, self.high)


class Discrete(NamedTuple):
    n: int
    shape: tuple[int, ...] = ()
    dtype: Any = jnp.int32

    def sample(self, key):
        return jax.random.randint(key, (), 0, self.n)


class Params(NamedTuple):
    max_steps_in_episode: int = 12


class Place(NamedTuple):
    position: jax.Array  # [2]
    first: jax.Array
    time: jax.Array


def _callback(function, x, vmap_method):
    return jax.pure_callback(function, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method=vmap_method)


class Walk:
    """A walk in the plane that ends outside of a square, in the form of gymnax 1.x."""

    default_params = Params()

    def __init__(self, fault=""):
        self.fault, self.calls, self.table = fault, 0, np.zeros(2)

    def action_space(self, params):
        return Discrete(4)

    def observation_space(self, params):
        return Box(-2.0, 2.0, 2 if self.fault == "shape_of_the_space_is_a_number" else (2,))

    def reset(self, key, params):
        key = jax.random.PRNGKey(7) if self.fault == "reset_key_constant" else key
        position = jax.random.uniform(key, (2,), minval=-0.5, maxval=0.5)
        if self.fault == "numpy_draws_the_start":
            position += np.random.default_rng().normal(size=2).astype(np.float32)
        if self.fault == "start_nan":
            return jnp.where(position > 0.4, jnp.nan, position), Place(position, position, jnp.zeros((), jnp.int32))
        return self._observe(position), Place(position, position, jnp.zeros((), jnp.int32))

    def _observe(self, position):
        if self.fault == "observation_float16":
            return position.astype(jnp.float16)
        if self.fault == "observation_of_another_shape":
            return position[:, None]
        return position + 3 * (position > 0.9) if self.fault == "observation_beyond_its_bounds" else position

    def step(self, key, state, action, params):
        key_step, key_reset = jax.random.split(key)
        if self.fault == "step_key_constant":
            key_step = jax.random.PRNGKey(3)
        moves = jnp.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]) * 0.3
        position = state.position + moves[action] + 0.05 * jax.random.normal(key_step, (2,))
        if self.fault == "lanes_leak":
            position = _callback(lambda x: x + 0.01 * np.mean(x, dtype=np.float32), position, "broadcast_all")
        if self.fault == "host_draws":  # too small to end an episode, after which two runs may show the same start
            position = _callback(
                lambda x: x + np.random.default_rng().uniform(high=0.1, size=2).astype(np.float32),
                position,
                "sequential",
            )
        if self.fault == "eager_differs" and not isinstance(position, jax.core.Tracer):
            position += 0.1
        time = state.time + 1
        reward = -jnp.abs(position).sum()
        if self.fault == "counts_calls":
            self.calls += 1
            reward += self.calls
        if self.fault == "changes_an_attribute":
            self.calls = 5
        if self.fault == "writes_into_an_attribute":
            self.table[1] = 5
        if self.fault == "python_branch" and position[0] > 1:
            reward += 1
        if self.fault == "reward_nan":
            reward = jnp.where(position[0] > 0.8, jnp.nan, reward)
        limit = params.max_steps_in_episode + (self.fault == "one_step_too_long")
        terminated = jnp.any(jnp.abs(position) > 1)
        truncated = time >= limit
        if self.fault == "limit_told_as_termination":
            terminated, truncated = terminated | truncated, jnp.zeros((), bool)
        if self.fault == "truncated_early":
            truncated |= terminated
        done = terminated | truncated
        obs = final = self._observe(position)
        state = Place(position, state.first, time.astype(float) if self.fault == "time_becomes_a_float" else time)
        if self.fault == "restart_for_all_ends_equal":
            fresh = Place(jnp.zeros(2), jnp.zeros(2), jnp.zeros((), jnp.int32))
        else:
            fresh = self.reset(key_reset, params)[1]
        if self.fault == "restart_repeats_the_first_start":
            fresh = Place(state.first, state.first, fresh.time)
        if self.fault != "no_restart":
            state = jax.tree.map(functools.partial(jnp.where, done), fresh, state)
            obs = jnp.where(done, self._observe(fresh.position), obs)
        if self.fault == "final_observation_is_the_next_start":
            final = obs
        if self.fault == "final_nan":
            final = jnp.where(done, jnp.nan, final)
        if self.fault == "done_is_a_number":
            terminated = terminated.astype(jnp.int32)
        if self.fault == "reward_is_a_vector":
            reward = reward[None]
        info = {} if self.fault == "no_final_observation" else {"final_observation": final}
        row = obs, state, reward, terminated, truncated, info
        return (*row[:3], done, row[5]) if self.fault == "five_values" else row


class Spec:
    """A spec of Jumanji: bounds, a number of values, or specs by name."""

    def __init__(self, shape=(), dtype=float, minimum=-np.inf, maximum=np.inf, **specs):
        self.shape, self.dtype, self.minimum, self.maximum, self._specs = shape, dtype, minimum, maximum, specs


class Choice(Spec):
    def __init__(self, num_values):
        super().__init__((), jnp.int32, 0, num_values - 1)
        self.num_values = num_values


class Seen(NamedTuple):
    cards: jax.Array
    step_count: jax.Array
    action_mask: jax.Array


class Row(NamedTuple):
    step_type: jax.Array
    reward: jax.Array
    discount: jax.Array
    observation: Seen
    extras: dict[str, jax.Array]


class Draw:
    """Take cards of four piles that shrink and are refilled, in the form of Jumanji."""

    time_limit = 9

    def __init__(self, fault=""):
        self.fault = fault
        count = Spec((), jnp.int32, 0, self.time_limit - (fault == "count_beyond_its_bound"))
        mask = Spec((4,), bool, False, True)
        self.observation_spec = Spec(cards=Spec((4,), jnp.int32, 0, 9), step_count=count, action_mask=mask)
        self.action_spec = Choice(4)

    def _observe(self, state):
        mask = state["cards"] > 0
        if self.fault == "no_action_at_the_start":
            mask &= state["time"] > 0
        mask = mask.astype(jnp.int32) if self.fault == "mask_of_numbers" else mask
        return Seen(state["cards"], state["time"], mask)

    def reset(self, key):
        key, key_cards = jax.random.split(key)
        cards = jax.random.randint(key_cards, (4,), 1, 4)
        state = {"cards": cards, "time": jnp.zeros((), jnp.int32), "key": key}
        step_type = jnp.int8(self.fault == "first_is_mid")
        extras = {} if self.fault == "extras_after_a_step_only" else {"drawn": jnp.zeros((), jnp.int32)}
        return state, Row(step_type, jnp.float32(0), jnp.float32(1), self._observe(state), extras)

    def step(self, state, action):
        key, key_pile = jax.random.split(state["key"])
        cards = state["cards"].at[action].add(-1)
        drawn = jax.random.randint(key_pile, (), 0, 4)
        cards = jnp.minimum(cards.at[drawn].add(jnp.int32(state["time"] % 2 == 0)), 9)
        if self.fault == "writes_into_the_state":
            state["cards"] = cards
        key = state["key"] if self.fault == "key_stays" else key
        after = {"cards": cards, "time": state["time"] + 1, "key": key}
        empty = cards.sum() == 0
        done = empty | (after["time"] >= self.time_limit)
        step_type = jnp.where(done & (self.fault != "last_is_mid"), 2, 1).astype(jnp.int8)
        discount = jnp.where(done, 0.0, 2.0 if self.fault == "discount_is_two" else 1.0)
        return after, Row(step_type, jnp.float32(1), discount, self._observe(after), {"drawn": drawn})


class Meet:
    """Three agents on a ring that leave when they have reached the first cell, in the form of JaxMARL."""

    max_steps = 15

    def __init__(self, fault=""):
        self.fault = fault
        self.agents = ["north", "south", "west"]
        self.num_agents = 2 if fault == "num_agents_wrong" else 3

    def observation_space(self, agent):
        return Discrete(4 if self.fault == "observation_of_one_agent_beyond" and agent == "south" else 8)

    def action_space(self, agent):
        return Discrete(3)

    def get_avail_actions(self, state):
        cells, _ = state
        mask = jnp.ones(3, bool) & (self.fault != "no_available_action")
        return {a: mask | (cells[i] == 5) for i, a in enumerate(self.agents)}

    def reset(self, key):
        state = jax.random.randint(key, (3,), 2, 8), jnp.zeros((), jnp.int32)
        return dict(zip(self.agents, state[0], strict=True)), state

    def step(self, key, state, actions):
        cells, time = state
        moves = jnp.stack([actions[a] - 1 for a in self.agents])
        slips = jax.random.bernoulli(key, 0.1, (3,))
        cells = jnp.where(cells == 0, 0, (cells + jnp.where(slips, 0, moves)) % 8)
        time = time + 1
        out = time >= self.max_steps + (self.fault == "one_step_too_long")
        gone = (cells == 0) | out
        everyone = out & (self.fault != "all_is_not_told") & gone.all()
        if self.fault == "all_is_not_told":
            everyone = time >= self.max_steps + 5
        else:
            everyone |= gone.all()
        fresh_obs, fresh = self.reset(jax.random.fold_in(key, 1))
        state = jax.tree.map(functools.partial(jnp.where, everyone), fresh, (cells, time))
        obs = {a: jnp.where(everyone, fresh_obs[a], cells[i]) for i, a in enumerate(self.agents)}
        rewards = {a: jnp.float32(cells[i] == 0) for i, a in enumerate(self.agents)}
        if self.fault == "reward_of_one_agent_missing":
            del rewards["west"]
        dones = {a: gone[i] for i, a in enumerate(self.agents)} | {"__all__": everyone}
        if self.fault == "dones_are_numbers":
            dones = {a: x.astype(jnp.float32) for a, x in dones.items()}
        return obs, state, rewards, dones, {}


class Steer(Meet):
    """`Meet` with vectors as actions, of which the mask marks the components, as JaxNav's does."""

    def action_space(self, agent):
        return types.SimpleNamespace(sample=lambda key: jax.random.uniform(key, (2,), minval=-1.4, maxval=1.4))

    def get_avail_actions(self, state):
        return {a: jnp.ones(2) for a in self.agents}

    def step(self, key, state, actions):
        return super().step(key, state, {a: jnp.round(x[0]).astype(jnp.int32) + 1 for a, x in actions.items()})


class Deaf(Meet):
    """`Meet` without the space of an agent that it has."""

    def action_space(self, agent):
        return {}[agent]


class Unlimited(Meet):
    """`Meet` with a word as its limit."""

    max_steps = "none"


class Unset(Walk):
    """`Walk` whose params must be set first."""

    @property
    def default_params(self):
        raise RuntimeError("no params")


CLASSES = {"gymnax": Walk, "jumanji": Draw, "jaxmarl": Meet}


def nan_walk():
    return Walk("reward_nan")


def drawing_walk():
    return Walk("host_draws")


def nan_walk_and_params():
    return nan_walk(), Walk.default_params


def short_walk_and_params():
    return Walk("one_step_too_long"), Params(3)


def no_walk():
    atexit.register(print, "Python ended by itself", file=sys.stderr)
    threading.Event().wait()


class KeyedWalk(Walk):
    """A walk that is seen through a fixed projection and draws with the key in its state, which stays."""

    def observation_space(self, params):
        return Box(-20.0, 20.0, (2,))

    def _observe(self, position):
        return position @ jax.random.normal(jax.random.PRNGKey(5), (2, 2))

    def reset(self, key, params):
        key, key_position = jax.random.split(key)
        position = jax.random.uniform(key_position, (2,), minval=-0.5, maxval=0.5) * (self.fault != "one_start")
        return self._observe(position), {"position": position, "key": key, "time": jnp.zeros((), jnp.int32)}

    def step(self, key, state, action, params):
        drawn = state["key"] if self.fault == "key_stays" else jax.random.fold_in(state["key"], state["time"])
        noise = jnp.ones(2) if self.fault == "no_noise" else jax.random.normal(drawn, (2,))
        if self.fault == "fixed_matrix":
            noise = jax.random.normal(jax.random.PRNGKey(6), (2, 2)) @ noise
        position = state["position"] + 0.3 * noise
        terminated, truncated = jnp.any(jnp.abs(position) > 1), state["time"] + 1 >= params.max_steps_in_episode
        final, (next_obs, fresh) = (
            self._observe(position),
            self.reset(state["key"] if self.fault == "no_noise" else key, params),
        )
        choose = functools.partial(jnp.where, terminated | truncated)
        state = jax.tree.map(choose, fresh, {**state, "position": position, "time": state["time"] + 1})
        return choose(next_obs, final), state, jnp.float32(1), terminated, truncated, {"final_observation": final}


def _matrix(key):
    return (jax.random.normal(jax.random.PRNGKey(5), (2, 2)) @ jax.random.normal(key, (2,)))[0]


# What adds to a reward, as functions of a key.
ADDED = {
    "noise": jax.random.normal,
    "noise through a fixed matrix": _matrix,
    "a draw from a constant key": lambda key: jax.random.normal(jax.random.PRNGKey(7)),
    "a draw of NumPy": lambda key: jnp.float32(np.random.default_rng().normal()),
}


def _with_gradient(add):
    function = jax.custom_jvp(add)
    function.defjvp(lambda keys, _: (function(*keys), jnp.zeros(())))
    return function


# Where it is computed: functions of it and of a key.
PLACES = {
    "a scan": lambda add, key: jax.lax.map(add, jax.random.split(key, 3)).sum(),
    "a loop": lambda add, key: jax.lax.fori_loop(
        0, 3, lambda i, total: total + add(jax.random.fold_in(key, i)), jnp.float32(0)
    ),
    "a loop whose rounds depend on values": lambda add, key: jax.lax.while_loop(
        lambda carry: carry[0] < 2 + (key[0] == 0),
        lambda carry: (carry[0] + 1, carry[1] + add(jax.random.fold_in(key, carry[0]))),
        (0, jnp.float32(0)),
    )[1],
    "a branch": lambda add, key: jax.lax.cond(key[0] > 0, add, lambda key: jnp.float32(0), key),
    "a compiled function": lambda add, key: jax.jit(add)(key),
    "a vmap": lambda add, key: jax.vmap(add)(jax.random.split(key, 3)).sum(),
    "a function with its own gradient": lambda add, key: _with_gradient(add)(key),
    "a checkpoint": lambda add, key: jax.checkpoint(add)(key),
    "a gradient": lambda add, key: jax.grad(lambda x: x * add(key))(jnp.float32(1)),
}


class Placed(Walk):
    """A walk whose reward has something added at some places of the program."""

    def __init__(self, added, *places):
        super().__init__()
        self._added, self._places = ADDED[added], [PLACES[place] for place in places]

    def step(self, key, state, action, params):
        obs, state, reward, *rest = super().step(key, state, action, params)
        keys = jax.random.split(jax.random.fold_in(key, 99), len(PLACES))
        added = sum(place(self._added, k) for place, k in zip(self._places, keys, strict=False))
        return obs, state, reward + added, *rest


class Kept(Walk):
    """A walk that pays noise from the key in its state, which stays the same in an episode, at a place of a program."""

    def __init__(self, place):
        super().__init__()
        self._walk, self._place = Walk(), PLACES[place]

    def reset(self, key, params):
        obs, place = self._walk.reset(key, params)
        return obs, {"place": place, "key": jax.random.fold_in(key, 5)}

    def step(self, key, state, action, params):
        obs, place, reward, terminated, truncated, info = self._walk.step(key, state["place"], action, params)
        kept = jnp.where(terminated | truncated, jax.random.fold_in(key, 6), state["key"])
        reward += self._place(jax.random.normal, state["key"])
        return obs, {"place": place, "key": kept}, reward, terminated, truncated, info


def kept_walk():
    return Kept("a scan")


def numpy_walk():
    return Walk("numpy_draws_the_start")


class Picture(Walk):
    """A walk of three objects in a picture of 16x16 cells."""

    default_params = Params(50)

    def observation_space(self, params):
        return Box(0.0, 1.0, (16, 16, 3))

    def reset(self, key, params):
        cells = jax.random.randint(key, (2, 3), 0, 16)
        return self._observe(cells), Place(cells, cells, jnp.zeros((), jnp.int32))

    def _observe(self, cells):
        return jnp.zeros((16, 16, 3)).at[*cells, jnp.arange(3)].set(1.0)

    def step(self, key, state, action, params):
        cells, done = (state.position + action) % 16, state.time + 1 >= params.max_steps_in_episode
        fresh = self.reset(key, params)[1]
        after = jax.tree.map(functools.partial(jnp.where, done), fresh, Place(cells, cells, state.time + 1))
        final = {"final_observation": self._observe(cells)}
        return self._observe(after.position), after, jnp.float32(0), jnp.zeros((), bool), done, final


class RareStart(Picture):
    """Starts that mostly look like the last observation of an episode."""

    def observation_space(self, params):
        return Discrete(2)

    def _observe(self, cells):
        return jnp.int32((cells[0, 0] == 0) & (cells[1, 0] < 4))


class OneWayWalk(Walk):
    """A walk that moves into two of the four directions only."""

    def action_space(self, params):
        return Discrete(2)


class EndlessWalk(Walk):
    """A walk whose steps end no episode and state no limit."""

    default_params = None

    def step(self, key, state, action, params):
        position = jax.random.uniform(key, (2,), minval=-0.5, maxval=0.5)
        no, state = jnp.zeros((), bool), Place(position, position, state.time + 1)
        return position, state, jnp.float32(0), no, no, {"final_observation": position}


class Hill(NamedTuple):
    position: jax.Array
    velocity: jax.Array
    time: jax.Array


class MountainCar:
    """Gymnasium's MountainCar-v0 in the form of gymnax 1.x."""

    default_params = Params(200)

    def __init__(self, gravity=0.0025):
        self.gravity = gravity

    def action_space(self, params):
        return Discrete(3)

    def observation_space(self, params):
        return Box(-1.2, 0.6, (2,))

    def reset(self, key, params):
        position = jax.random.uniform(key, (), minval=-0.6, maxval=-0.4)
        return jnp.stack([position, 0.0]), Hill(position, jnp.zeros(()), jnp.zeros((), jnp.int32))

    def step(self, key, state, action, params):
        force = 0.001 * (action.astype(jnp.float32) - 1)
        velocity = state.velocity + force - jnp.cos(3 * state.position) * self.gravity
        velocity = jnp.clip(velocity, -0.07, 0.07)
        position = jnp.clip(state.position + velocity, -1.2, 0.6)
        velocity = jnp.where((position == -1.2) & (velocity < 0), 0.0, velocity)
        terminated = (position >= 0.5) & (velocity >= 0)
        truncated = state.time + 1 >= params.max_steps_in_episode
        final = jnp.stack([position, velocity])
        next_obs, fresh = self.reset(key, params)
        choose = functools.partial(jnp.where, terminated | truncated)
        state = jax.tree.map(choose, fresh, Hill(position, velocity, state.time + 1))
        return choose(next_obs, final), state, jnp.float32(-1), terminated, truncated, {"final_observation": final}


def light_mountain_car():
    return MountainCar(gravity=0.0024)
