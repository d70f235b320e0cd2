"""`interop.batch`: batched environments of functions that were written for one lane."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import interop, random, specs
from jaxenv.testing import check_env
from tests.rows import assert_equal

KEY = jax.random.key(0)
X = np.zeros(4, np.float32)


# --- CartPole, written for one lane in the style of gymnax ------------------------------------------------------------


def cart_pole_reset(key):
    state = jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)
    return state, state


def cart_pole_step(state, action, key):
    x, x_dot, theta, theta_dot = state
    force = 10.0 * (2 * action - 1)
    sin, cos = jnp.sin(theta), jnp.cos(theta)
    temp = (force + 0.05 * theta_dot**2 * sin) / 1.1
    theta_acc = (9.8 * sin - cos * temp) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
    x_acc = temp - 0.05 * theta_acc * cos / 1.1
    state = jnp.array([x + 0.02 * x_dot, x_dot + 0.02 * x_acc, theta + 0.02 * theta_dot, theta_dot + 0.02 * theta_acc])
    fallen = (jnp.abs(state[0]) > 2.4) | (jnp.abs(state[2]) > 12 * 2 * np.pi / 360)
    return state, state, 1.0, fallen


def cart_pole(**options):
    options = {"num_envs": 4, "max_episode_steps": 20, "name": "OwnCartPole-v0", **options}
    return interop.batch(cart_pole_reset, cart_pole_step, action=specs.discrete(2), **options)


# --- a walk with noise, continuous actions and an env_info ------------------------------------------------------------


def walk_reset(key):
    position = jax.random.normal(key, (2,))
    return {"position": position, "time": 0}, position


def walk_step(state, action, key):
    position = state["position"] + 0.1 * action["push"] + 0.01 * jax.random.normal(key, (2,))
    distance = jnp.linalg.norm(position)
    state = {"position": position, "time": state["time"] + 1}
    return state, position, -distance, distance > 4, {"distance": distance}


def walk(**options):
    action = {"push": specs.Bounded((2,), np.float32, -1, 1)}
    return interop.batch(walk_reset, walk_step, action=action, **{"num_envs": 3, "max_episode_steps": 9, **options})


# --- a typed key in the state, a dict observation ---------------------------------------------------------------------


def guess_reset(key):
    key, own = jax.random.split(key)
    target = jax.random.randint(own, (), 0, 3)
    return {"key": key, "target": target}, {"hint": jax.nn.one_hot(target, 3), "time": jnp.zeros((), jnp.int32)}


def guess_step(state, action, key):
    own, draw = jax.random.split(state["key"])
    target = jax.random.randint(draw, (), 0, 3)
    observation = {"hint": jax.nn.one_hot(target, 3), "time": jnp.ones((), jnp.int32)}
    hit = action == state["target"]
    return {"key": own, "target": target}, observation, jnp.where(hit, 1.0, 0.0), ~hit


def guess(**options):
    return interop.batch(guess_reset, guess_step, action=specs.discrete(3), num_envs=4, **options)


@pytest.mark.parametrize(
    ("make", "properties"),
    [
        (guess, ["x64_invariant", "strict_promotion", "state_round_trip", "lane_independent", "any_number_of_lanes"]),
        (walk, ["x64_invariant"]),
        *(pytest.param(make, None, marks=pytest.mark.thorough) for make in (cart_pole, walk, guess)),
    ],
)
def test_check_env_passes(make, properties):
    check_env(make(max_episode_steps=20), properties=properties, raise_on_failure=True)


def test_episodes_are_those_of_the_functions():
    env = cart_pole(autoreset=None)
    state, timestep = env.reset(KEY)
    own = timestep.observation
    for t in range(20):
        action = jnp.array([0, 1, t % 2, 1])
        state, timestep = env.step(state, action)
        own, _, _, fallen = jax.vmap(cart_pole_step)(own, action, jax.random.split(KEY, 4))
        np.testing.assert_allclose(timestep.observation, own, rtol=1e-5)
        np.testing.assert_array_equal(timestep.terminated, fallen)
        assert timestep.reward.tolist() == [1] * 4
    assert timestep.truncated.tolist() == [False, False, True, False]


def test_keys_are_those_of_the_streams_and_differ_by_lane_step_and_episode():
    def reset(key):
        return (), jax.random.key_data(key)

    def step(state, action, key):
        return (), jax.random.key_data(key), 0.0, True

    env = interop.batch(reset, step, action=specs.discrete(2), num_envs=2)
    clock = env.clock(env.reset(KEY)[0])
    expected = jax.random.key_data(random.jax_keys(clock.stream()))
    np.testing.assert_array_equal(env.reset(KEY)[1].observation, expected)
    rows = [env.reset(KEY)]
    for _ in range(3):
        rows.append(env.step(rows[-1][0], jnp.zeros(2, jnp.int32)))
    seen = np.concatenate([timestep.observation for _, timestep in rows])
    assert len({tuple(words) for words in seen.tolist()}) == 8
    more = interop.batch(reset, step, action=specs.discrete(2), num_envs=5).reset(KEY)[1].observation
    np.testing.assert_array_equal(more[:2], expected)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_typed_keys_in_the_state_are_stored_as_words_and_passed_as_keys(impl):
    def reset(key):
        return jax.random.key(3, impl=impl), X

    def step(state, action, key):
        assert str(jax.random.key_impl(state)) == impl
        return jax.random.fold_in(state, 1), X, 0.0, False

    env = interop.batch(reset, step, action=specs.discrete(2), num_envs=2)
    state, _ = env.step(env.reset(KEY)[0], jnp.zeros(2, jnp.int32))
    expected = jax.random.key_data(jax.random.fold_in(jax.random.key(3, impl=impl), 1))
    np.testing.assert_array_equal(state.inner.task.inner, [expected] * 2)


def test_weak_types_become_strong_and_state_keeps_its_dtypes():
    env = walk(autoreset=None)
    first, _ = env.reset(KEY)
    state, timestep = env.step(first, specs.zeros(env.action_spec(), (3,)))
    leaves = [*jax.tree.leaves(first), *jax.tree.leaves(state)]
    assert not any(x.weak_type for x in leaves)
    assert [x.dtype for x in jax.tree.leaves(first)] == [x.dtype for x in jax.tree.leaves(state)]
    np.testing.assert_allclose(timestep.env_info["distance"], -timestep.reward)


def test_the_spec_of_the_observation_is_found_or_given():
    found = guess().observation_spec()
    assert found == {"hint": specs.Array((3,), np.float32), "time": specs.Array((), np.int32)}
    bounded = {"hint": specs.Bounded((3,), np.float32, 0, 1), "time": specs.Bounded((), np.int32, 0, 1)}
    assert guess(observation=bounded).observation_spec() == bounded


def test_options_are_those_of_make():
    env = cart_pole(autoreset="same_step", wrappers=["FlattenObservation"], reset_strategy="compact")
    assert repr(env) == "<AutoReset<FlattenObservation<TimeLimit<OwnCartPole-v0>>>>"
    assert env.autoreset == "same_step"
    assert env.reset_strategy == "compact"


def test_a_registered_function_makes_the_same_environment():
    jaxenv.register("OwnWalk-v0", functools.partial(walk, autoreset=None, max_episode_steps=0), max_episode_steps=9)
    made = jaxenv.make("OwnWalk-v0", num_envs=3)
    assert made.name == "OwnWalk-v0"
    assert repr(made) == "<AutoReset<TimeLimit<ClipAction<GuardNonFinite<OwnWalk-v0>>>>>"
    assert_equal(made.reset(KEY)[1].observation, walk(name="OwnWalk-v0").reset(KEY)[1].observation)


def test_the_same_functions_share_compiled_code():
    traces = []

    def step(state, action, key):
        traces.append(0)
        return cart_pole_step(state, action, key)

    def stepped():
        env = interop.batch(cart_pole_reset, step, action=specs.discrete(2), num_envs=2)
        _stepped(env, env.reset(KEY)[0])
        return env

    first = stepped()  # programs of functions that are defined inside of others go with the last environment
    once = len(traces)
    second = stepped()
    assert second is not first
    assert len(traces) == once + 1  # the check of the functions


@jax.jit
def _stepped(env, state):
    return env.step(state, jnp.zeros(2, jnp.int32))


SWAPPED = r"reset returns \(state, observation\)$"


def failing(*arguments):
    raise AttributeError("mine")


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"reset": failing}, "in reset(key), which batch calls under vmap for one lane"),
        (
            {"step": failing},
            "in step(state, action, key), which batch calls under vmap for one lane; "
            "reset returns (state, observation)",
        ),
    ],
)
def test_an_error_in_a_function_says_where_it_is_called(change, note):
    with pytest.raises(AttributeError, match="mine") as caught:
        interop.batch(**{"reset": cart_pole_reset, "step": cart_pole_step, "action": specs.discrete(2), **change})
    assert note in caught.value.__notes__


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reset": 3}, r"mine: reset .*got 3"),
        ({"reset": lambda key: X}, r"mine.reset: .*got one value, float32\[4\]"),
        ({"reset": lambda key: (X, X, 1)}, r"mine.reset: .*got 3 values"),
        ({"reset": lambda key: (None, X)}, r"mine.reset: state .*got None"),
        ({"step": lambda s, a, k: (s, X, 1.0)}, r"terminated\), or these and.* 3 values"),
        ({"step": lambda s, a, k: (s, X, 1.0, False, 2)}, r"fifth value .*got int32\[\]"),
        ({"step": lambda s, a, k: (s, X, 1, False)}, r"mine.step: reward .*got int32\[\]"),
        ({"step": lambda s, a, k: (s, X, X[:1], False)}, r"mine.step: reward .*got float32\[1\]"),
        ({"step": lambda s, a, k: (s, X, 1.0, 0.0)}, r"terminated .*got float32\[\]"),
        ({"step": lambda s, a, k: (s, X, 1.0, X > 0)}, r"terminated .*got bool\[4\]"),
        ({"step": lambda s, a, k: (s, X[:3], 1.0, False)}, r"observation .*got float32\[3\]"),
        (
            {"reset": lambda key: ({"t": 0}, X), "step": lambda s, a, k: ({"t": 0.5}, X, 1.0, False)},
            r"mine.step: state.t .*got float32\[\]",
        ),
        (
            {"reset": lambda key: ({"t": 0}, X), "step": lambda s, a, k: ({"u": 0}, X, 1.0, False)},
            r"mine.step: state .*got a dict with 'u', as reset returns",
        ),
        ({"action": None}, r"mine: action .*got None"),
        ({"observation": specs.Array((3,), np.float32)}, r"mine: spec of observation .*got float32\[3\]"),
        ({"max_steps": 3}, "mine: unknown keyword 'max_steps'"),
        ({"reset": lambda key: (X, key)}, r"holds a typed.* \(state, observation\)"),
        ({"reset": lambda key: (X[:3], X), "step": lambda s, a, k: (X, X[:3], 1.0, False)}, SWAPPED),
        ({"reset": lambda key: (X[:3], X), "observation": specs.Array((3,), np.float32)}, SWAPPED),
        ({"num_envs": 0}, r"num_envs .*got 0"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    arguments = {"reset": cart_pole_reset, "step": cart_pole_step, "action": specs.discrete(2), "name": "mine"}
    with pytest.raises(ValueError, match=message):
        interop.batch(**{**arguments, **change})
