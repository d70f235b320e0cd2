"""Composed: named observations, actions, rewards and terminations around the dynamics of another environment."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import random, specs, tree
from jaxenv.core.elements import Composed
from jaxenv.core.registry import EnvSpec
from jaxenv.core.task import Task
from jaxenv.core.timestep import Transition
from jaxenv.testing import Counting, check_env
from jaxenv.wrappers import AutoReset, TimeLimit
from tests.rows import assert_equal, random_actions, unrolled
from tests.wrappers.paying import paying

# Properties of the conformance kit that are cheap once the shared rollout is compiled.
CHEAP = (
    "same_tree",
    "leading_lanes",
    "rows_match_specs",
    "strict_promotion",
    "lane_independent",
    "nan_contained",
    "wrong_actions_refused",
    "scalar_equals_per_lane",
    "within_specs",
    "episode_grammar",
    "discount_zero_only_at_last",
)


@tree.struct
class Point:
    """State of `Reacher`, each float32 ``[B, 2]``."""

    at: jax.Array
    target: jax.Array


class Reacher(Task):
    """A point that is pushed to a target and reports the terms of its reward, like Gymnasium's Reacher."""

    def initial(self, stream):
        at, target = (random.uniform(random.fold_in(stream, name), (2,), -1, 1) for name in ("at", "target"))
        return Point(at, target)

    def transition(self, state, action, stream):
        at = jnp.clip(state.at + np.float32(0.05) * action, -1, 1)
        distance, effort = (jnp.sum(x * x, axis=-1) for x in (at - state.target, action))
        env_info = {"reward_dist": -distance, "reward_ctrl": -effort}
        return Transition(Point(at, state.target), -distance - effort, distance < 0.1, env_info)

    def observe(self, state):
        return jnp.concatenate([state.at, state.target], axis=-1)

    def observation_spec(self):
        return specs.Bounded((4,), np.float32, -1, 1)

    def action_spec(self):
        return specs.Bounded((2,), np.float32, -1, 1)


def reacher(env, w1=1.0, w2=0.5):
    """Gymnasium's ReacherReward in three lines."""
    terms = {"distance": "reward_dist", "control": "reward_ctrl"}
    weights = {"distance": w1, "control": w2}
    return Composed(env, rewards=terms, weights=weights)


def two(name):
    return specs.Array((2,), np.float32, name)


PARTS = {
    "observations": {
        "cart": (two("cart"), lambda state: jnp.stack([state.x, state.x_dot], axis=-1)),
        "pole": (two("pole"), lambda state: jnp.stack([state.theta, state.theta_dot], axis=-1)),
    },
    "rewards": {
        "upright": lambda state, action, out: np.float32(1) - jnp.abs(out.state.theta),
        "moved": lambda state, action, out: jnp.abs(out.state.x - state.x),
    },
    "terminations": {"far": lambda state, action, out: jnp.abs(out.state.x) > np.float32(0.05)},
    "weights": {"upright": 0.5, "moved": -4.0},
}


def cart_pole(num_envs=3):
    return Composed(jaxenv.spec("CartPole-v1").make(num_envs), **PARTS)


def lanes(values):
    return np.asarray(values).T.tolist()


# --- the examples ----------------------------------------------------------------------------------------------------


def test_the_reacher_reward_is_the_weighted_sum_of_two_entries_of_env_info():
    core = Reacher(num_envs=3)
    actions = random_actions(core, 6)
    plain, composed = unrolled(core, actions), unrolled(reacher(core), actions)
    distance, control = plain.env_info["reward_dist"], np.float32(0.5) * plain.env_info["reward_ctrl"]
    assert (control[1:] < 0).all()
    np.testing.assert_array_equal(composed.reward, distance + control)
    terms = {"distance": distance, "control": control}
    assert_equal(composed.env_info, {**plain.env_info, "rewards": terms})
    for field in ("step_type", "discount", "observation", "prev_action", "env_id"):
        np.testing.assert_array_equal(getattr(composed, field), getattr(plain, field))


@functools.cache
def pushed():
    """A cart pole whose first lane is always pushed to the right, the others at random."""
    actions = np.array(random_actions(cart_pole(), 14))
    actions[:, 0] = 1
    return unrolled(cart_pole(), actions)


def test_a_cart_pole_shows_cart_and_pole_by_name():
    plain = unrolled(jaxenv.spec("CartPole-v1").make(3), pushed().prev_action[1:])
    assert cart_pole().observation_spec() == {"cart": two("cart"), "pole": two("pole")}
    shown = {"cart": plain.observation[..., :2], "pole": plain.observation[..., 2:]}
    assert_equal(pushed().observation, shown, rtol=1e-6)


def test_a_cart_pole_receives_the_sum_of_its_terms_bit_for_bit():
    r = pushed()
    x, theta = r.observation["cart"][..., 0], r.observation["pole"][..., 0]
    upright = np.float32(0.5) * (np.float32(1) - np.abs(theta[1:]))
    moved = np.float32(-4) * np.abs(x[1:] - x[:-1])
    np.testing.assert_array_equal(r.env_info["rewards"]["upright"][1:], upright)
    np.testing.assert_array_equal(r.env_info["rewards"]["moved"][1:], moved)
    np.testing.assert_array_equal(r.reward[1:], moved + upright)
    assert r.reward.dtype == np.float32
    assert not r.reward[0].any()
    assert not r.env_info["rewards"]["upright"][0].any()


def test_a_cart_pole_reports_which_termination_ended_it():
    r = pushed()
    far, own = r.env_info["terminations"]["far"][1:], r.env_info["terminations"]["env"][1:]
    x, theta = r.observation["cart"][1:, :, 0], r.observation["pole"][1:, :, 0]
    np.testing.assert_array_equal(far, np.abs(x) > np.float32(0.05))
    np.testing.assert_array_equal(own, np.abs(theta) > np.float32(12 * 2 * np.pi / 360))
    np.testing.assert_array_equal(r.terminated[1:], far | own)
    assert (far & ~own).any()
    assert (own & far).any()


@pytest.mark.parametrize("env", [cart_pole(), reacher(Reacher())], ids=["cart_pole", "reacher"])
def test_compositions_pass_the_conformance_checks(env):
    check_env(env, properties=CHEAP, raise_on_failure=True)


# The dynamics end lane 1, an element ends lane 2, and lane 0 continues.
STREAMS = {
    "next_step": {
        "step_type": [[0, 1, 1, 1, 1], [0, 1, 2, 0, 1], [0, 1, 2, 0, 1]],
        "reward": [[0, -1.5, -6.5, -5, -4.5], [0, -3, -2.5, 0, -1.5], [0, -1, -42.5, 0, -1.5]],
        "control": [[0, -0.5, -4.5, -2, -0.5], [0, -2, -0.5, 0, -0.5], [0, 0, -40.5, 0, -0.5]],
        "env": [[0] * 5, [0, 0, 1, 0, 0], [0] * 5],
    },
    "same_step": {
        "step_type": [[0, 1, 1, 1, 1], [0, 1, 2, 1, 2], [0, 1, 2, 1, 1]],
        "reward": [[0, -1.5, -6.5, -5, -4.5], [0, -3, -2.5, -13.5, -2.5], [0, -1, -42.5, -25.5, -2.5]],
        "control": [[0, -0.5, -4.5, -2, -0.5], [0, -2, -0.5, -12.5, -0.5], [0, 0, -40.5, -24.5, -0.5]],
        "env": [[0] * 5, [0, 0, 1, 0, 1], [0] * 5],
    },
}


@pytest.mark.parametrize("mode", STREAMS)
def test_lanes_end_and_restart_independently(mode):
    env = Composed(
        paying(3),
        rewards={"distance": "reward_dist", "control": "reward_ctrl"},
        terminations={"lost": "life_lost"},
        weights={"control": 0.5},
    )
    r = unrolled(AutoReset(env, mode), np.array([[1, 2, 0], [3, 1, 9], [2, 5, 7], [1, 1, 1]]))
    wanted = STREAMS[mode]
    assert lanes(r.step_type) == wanted["step_type"]
    assert lanes(r.reward) == wanted["reward"]
    assert lanes(r.env_info["rewards"]["control"]) == wanted["control"]
    assert lanes(r.env_info["terminations"]["env"]) == wanted["env"]
    assert lanes(r.env_info["terminations"]["lost"]) == [[0] * 5, [0] * 5, [0, 0, 1, 0, 0]]


# --- single groups ---------------------------------------------------------------------------------------------------


def test_a_composition_without_elements_equals_its_dynamics():
    core = Counting(np.array([[2], [9], [9]]), stride=10, num_envs=3)
    actions = random_actions(core, 5)
    assert_equal(unrolled(AutoReset(Composed(core)), actions), unrolled(AutoReset(core), actions))


def both_hands(env):
    hands = {"left": specs.discrete(10), "right": specs.discrete(10)}
    return Composed(
        env,
        actions=(hands, lambda state, action: action["left"] + action["right"] + state.step),
        rewards={"taken": lambda state, action, out: action, "own": lambda state, action, out: out.reward},
    )


def test_parts_of_an_action_are_combined_and_clipped_for_the_dynamics():
    env = both_hands(Counting(np.array([9]), num_envs=2))
    r = unrolled(env, {"left": np.array([[1, 2], [3, 99]]), "right": np.array([[0, 4], [5, 1]])})
    assert r.env_info["rewards"]["taken"][1:].tolist() == [[1, 6], [9, 9]]  # lane 1 is clipped twice
    assert r.env_info["rewards"]["own"][1:].tolist() == [[1, 6], [9, 9]]
    assert r.prev_action["left"].tolist() == [[0, 0], [1, 2], [3, 99]]


def test_other_actions_drop_the_action_mask_of_the_dynamics():
    board = jaxenv.spec("TicTacToe-v0").make()
    cell = ({"cell": specs.discrete(9)}, lambda state, action: action["cell"])
    assert "action_mask" in Composed(board, terminations={"won": "play0_win"}).env_info_spec()
    assert "action_mask" not in Composed(board, actions=cell).env_info_spec()


def test_a_termination_named_env_replaces_that_of_the_dynamics():
    env = Composed(Counting([2]), terminations={"env": lambda state, action, out: out.state.step == 3})
    r = unrolled(env, np.zeros((3, 1), np.int32))
    assert lanes(r.step_type) == [[0, 1, 1, 2]]
    assert lanes(r.env_info["terminations"]["env"]) == [[0, 0, 0, 1]]


# --- the list of elements --------------------------------------------------------------------------------------------


def still(state, action, out):
    """Whether the count stands.

    It never does.
    """
    return out.state.step == state.step


def test_elements_lists_names_specs_weights_and_details():
    hands = {"left": specs.discrete(10), "right": specs.discrete(10)}
    env = Composed(
        paying(2),
        observations={"cost": (specs.Array((), np.int32), lambda state: state.step)},
        actions=(hands, lambda state, action: action["left"]),
        rewards={"still": lambda state, action, out: out.reward, "cost": "cost"},
        terminations={"still": still, "lost": "life_lost"},
        weights={"cost": [2, 3]},
    )
    by_name = {element.name: element for element in env.elements}
    assert [*by_name] == [
        *("observations.cost", "actions.left", "actions.right", "rewards.cost", "rewards.still"),
        *("terminations.env", "terminations.lost", "terminations.still"),
    ]
    assert by_name["actions.left"].spec == specs.discrete(10)
    assert by_name["rewards.cost"].spec == specs.Array((), np.float32)
    assert by_name["terminations.still"].spec == specs.Array((), bool)
    assert by_name["rewards.cost"].weight.tolist() == [2, 3]
    assert by_name["rewards.still"].weight.tolist() == [1, 1]
    assert by_name["observations.cost"].weight is None
    details = {name: element.details for name, element in by_name.items() if element.details}
    assert details == {
        "rewards.cost": "env_info['cost']",
        "terminations.env": "The termination of the dynamics.",
        "terminations.lost": "env_info['life_lost']",
        "terminations.still": "Whether the count stands.",
    }
    assert Composed(paying()).elements == ()


# --- weights ---------------------------------------------------------------------------------------------------------


def paid(env):
    """Rewards ``[B]`` of one step on which distance costs 1 and control costs 4."""
    return env.step(env.reset(jax.random.key(0))[0], np.full(env.num_envs, 2))[1].reward.tolist()


def test_weights_may_be_per_lane_and_change_through_wrappers():
    env = reacher(paying(3), w1=[1, 2, 3])
    assert env.weights.tolist() == [[0.5, 1], [0.5, 2], [0.5, 3]]
    assert paid(env) == [-3, -4, -5]
    assert paid(env.take(np.array([2, 0]))) == [-5, -3]
    stack = TimeLimit(env, 5)
    assert paid(stack.with_params(weights={"control": 0})) == [-1, -2, -3]
    assert paid(stack.with_params(weights={"distance": 0, "control": [1, 2, 3]})) == [-4, -8, -12]
    assert paid(stack) == [-3, -4, -5]


def test_with_params_sets_params_of_the_dynamics_and_weights():
    env = AutoReset(cart_pole()).with_params(gravity=[1, 2, 3], weights={"upright": 7}).env
    assert env.params.gravity.tolist() == [1, 2, 3]
    assert env.weights.tolist() == [-4, 7]


def test_the_gradient_with_respect_to_a_weight_is_the_sum_of_its_term():
    core, actions = paying(3), np.array([[1, 2, 0], [3, 1, 9]])
    terms = unrolled(core, actions).env_info

    def returned(w1, w2):
        env = reacher(core, w1, w2)
        state, _ = env.reset(jax.random.key(0))
        return jnp.sum(jax.lax.scan(lambda s, a: (lambda s, r: (s, r.reward))(*env.step(s, a)), state, actions)[1])

    by_lane, by_number = jax.jit(jax.grad(returned, (0, 1)))(np.ones(3, np.float32), np.float32(0.5))
    np.testing.assert_array_equal(by_lane, terms["reward_dist"].sum(axis=0))
    np.testing.assert_array_equal(by_number, terms["reward_ctrl"].sum())


# --- forwarded declarations ------------------------------------------------------------------------------------------


def test_declarations_of_the_dynamics_hold_unless_an_element_changes_them():
    pendulum = jaxenv.spec("Pendulum-v1").make()
    ends = {"fast": lambda state, action, out: jnp.abs(out.state.theta_dot) > 7}
    turns = {"angle": (specs.Array((), np.float32), lambda state: 1 / state.theta)}
    torque = ({"right": specs.discrete(2)}, lambda state, action: action["right"].astype(jnp.float32)[:, None])
    kept, changed = Composed(pendulum, terminations=ends), Composed(pendulum, observations=turns, actions=torque)
    assert (kept.smooth, kept.finite_observation) == (True, True)
    assert (changed.smooth, changed.finite_observation) == (False, False)
    assert changed.can_diverge  # its actions are discrete, those of the pendulum continuous
    assert Composed(jaxenv.spec("CardGame-v0").make()).reset_strategy == {"cpu": "cond", "default": "select"}


class Declaring(Counting):
    """Overrides every declaration."""

    opt_outs = {"gradients_sound": "to be forwarded"}
    closed = []

    def reward_spec(self):
        return specs.Bounded((), np.float32, 0, 9, "reward")

    def close(self):
        self.closed.append(self)


def test_declarations_of_the_dynamics_are_forwarded():
    core = Declaring([3])
    env = Composed(core, terminations={"late": lambda state, action, out: out.state.step > 5})
    env.close()
    assert core.closed == [env.env]
    assert env.opt_outs == {"gradients_sound": "to be forwarded"}
    assert env.reward_spec() == core.reward_spec()
    free = Composed(core, rewards={"own": lambda state, action, out: out.reward}).reward_spec()
    assert free == specs.Array((), np.float32)
    poles = jaxenv.spec("CartPole-v1").make(start_range=0.25), cart_pole().with_params(start_range=0.25)
    assert_equal(*(env.initial_bounds() for env in poles))


def test_a_composition_is_drawn_and_played_as_its_dynamics():
    env, dynamics = cart_pole(1), jaxenv.spec("CartPole-v1").make(1)
    state, _ = env.reset(jax.random.key(0))
    np.testing.assert_array_equal(env.render(state, 32), dynamics.render(state, 32))
    assert (env.play_fps, env.action_names) == (dynamics.play_fps, dynamics.action_names)
    hand = {"hand": specs.discrete(2)}, lambda state, action: action["hand"]
    assert Composed(dynamics, actions=hand).action_names == ()  # actions of its own
    assert Composed(jaxenv.spec("LunarLander-v3").make()).rounding == 1e-3


def test_a_composition_has_the_name_of_its_dynamics_until_it_is_registered():
    env = cart_pole()
    assert (env.name, repr(env), env.num_envs) == ("CartPole-v1", "<Composed<CartPole-v1>>", 3)
    made = EnvSpec("Balance-v0", cart_pole).make(num_envs=2)
    assert (made.name, repr(made), made.num_envs) == ("Balance-v0", "<Balance-v0>", 2)
    assert "Composed(observations=cart/pole, rewards=moved/upright, terminations=far)" in env.describe()


def test_the_same_elements_compile_once():
    @jax.jit
    @chex.assert_max_traces(n=1)
    def step(env, key):
        return env.step(env.reset(key)[0], jnp.zeros(3, jnp.int32))[1].reward

    for w1 in (1.0, 2.0):
        step(reacher(paying(3), w1), jax.random.key(0))


# --- errors --------------------------------------------------------------------------------------------------------

WRONG = {
    "wrapped": (lambda: Composed(TimeLimit(paying(), 3)), r"env .*got <TimeLimit<Paying>>"),
    "no env": (lambda: Composed(3), r"env .*got 3"),
    "empty": (lambda: Composed(paying(), rewards={}), r"rewards .*got {}"),
    "dotted": (lambda: Composed(paying(), rewards={"a.b": "cost"}), r"rewards .*got 'a.b'"),
    "no pair": (lambda: Composed(paying(), observations={"at": two("at")}), r"observation 'at' .*got Array\(\(2"),
    "no spec": (lambda: Composed(paying(), observations={"at": (3, abs)}), r"observation 'at' .*got 3"),
    "no action spec": (lambda: Composed(paying(), actions=({"go": 3}, abs)), r"action 'go' .*got 3"),
    "no function": (
        lambda: Composed(paying(), rewards={"cost": 2.0}),
        r"reward 'cost' .*got 2.0",
    ),
    "unknown entry": (
        lambda: Composed(paying(), terminations={"lost": "lives"}),
        r"termination 'lost' .*'lives', .*life_lost, reward_ctrl, reward_dist",
    ),
    "observation of another shape": (
        lambda: Composed(paying(), observations={"at": (two("at"), lambda state: state.step)}),
        r"Composed.observe: at .*got \(1,\)",
    ),
    "observation without lanes": (
        lambda: Composed(paying(), observations={"at": (two("at"), lambda state: jnp.zeros(2))}),
        r"Composed.observe: at .*got \(2,\)",
    ),
    "action of another shape": (
        lambda: Composed(paying(2), actions=({"go": two("go")}, lambda state, action: action["go"])),
        r"the result of the function of actions: action .*got \(2, 2\)",
    ),
    "reward of another shape": (
        lambda: Composed(paying(2), rewards={"alive": lambda state, action, out: 1.0}),
        r"reward 'alive' .*got 1.0",
    ),
    "termination of another dtype": (
        lambda: Composed(paying(), terminations={"lost": "cost"}),
        r"termination 'lost' .*got float32",
    ),
    "taken entry": (
        lambda: Composed(reacher(paying()), rewards={"paid": lambda state, action, out: out.reward}),
        "<Composed<Paying>> already has an env_info entry 'rewards'",
    ),
    "weight of nothing": (
        lambda: reacher(paying()).with_params(weights={"effort": 1}),
        "weight 'effort' belongs",
    ),
    "weight without rewards": (
        lambda: Composed(paying(), weights={"effort": 1}),
        r"weight 'effort' belongs to no.* \(none\)",
    ),
    "weight that is no number": (lambda: reacher(paying(), w1=np.nan), r"weight 'distance' .*got nan"),
    "weights of other lanes": (
        lambda: reacher(paying(3), w1=[1, 2]),
        r"weight 'distance' .*got 2 values",
    ),
    "weights without names": (
        lambda: reacher(paying()).with_params(weights=[1, 2]),
        r"weights .*got \[1, 2\]",
    ),
    "param": (lambda: cart_pole().with_params(gravitas=1), "CartPole-v1: no param 'gravitas'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_invalid_element_is_refused_with_a_sentence(name):
    make, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        make()
