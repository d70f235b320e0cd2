"""The protocol: what an author gets, and what a mistake of his says."""

import copy
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs, tree
from jaxenv._declared import declared_leaves
from jaxenv.task import Task, Transition
from jaxenv.testing import Counting
from tests.rows import assert_equal, unrolled


@tree.struct
class Params:
    speed: float = 1.0
    walls: np.ndarray = tree.leaf(rank=1, default=(5.0, 6.0))


class Walk(Task):
    """A float on a line, with everything an author may declare."""

    params: Params = Params()

    def initial(self, stream):
        return {"at": jnp.zeros(stream.shape, jnp.float32)}

    def transition(self, state, action, stream):
        at = state["at"] + self.params.speed * (action * 2 - 1).astype(jnp.float32)
        walls = jnp.broadcast_to(self.params.walls, (*at.shape, 2))
        return Transition({"at": at}, jnp.abs(at), at >= walls[:, 0], {"moved": action})

    def observe(self, state):
        return state["at"]

    def state_info(self, state):
        return {"twice": 2 * state["at"]}

    def observation_spec(self):
        return specs.Array((), np.float32)

    def action_spec(self):
        return specs.discrete(2)


def variant(**methods):
    """Walk with other methods."""
    return type("Variant", (Walk,), methods)(num_envs=3)


def step(env, action=None):
    action = jnp.ones(env.num_envs, jnp.int32) if action is None else action
    return jax.jit(lambda key: env.step(env.reset(key)[0], action))(jax.random.key(0))


# --- rows ------------------------------------------------------------------------------------------------------------


def test_env_info_of_transitions_is_zero_at_first_and_of_states_is_valid_there():
    env = variant(initial=lambda self, key: {"at": jnp.ones(key.shape, jnp.float32)})
    rows = unrolled(env, jnp.ones((1, 3), jnp.int32))
    assert rows.env_info["moved"].tolist() == [[0, 0, 0], [1, 1, 1]]
    assert rows.env_info["twice"].tolist() == [[2, 2, 2], [4, 4, 4]]


def test_a_reset_by_one_key_gives_lane_i_the_key_folded_with_its_id():
    env = jaxenv.make("CartPole-v1", num_envs=6)
    key = jax.random.key(3)
    _, by_key = env.reset(key)
    _, by_keys = env.reset(jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(6)))
    _, shard = env.reset(key, env_id=jnp.array([4, 5], jnp.int32))
    assert_equal(jax.device_get(by_key), jax.device_get(by_keys))
    assert shard.env_id.tolist() == [4, 5]
    np.testing.assert_array_equal(shard.observation, by_key.observation[4:])
    assert len(np.unique(by_key.observation, axis=0)) == 6
    _, again = env.reset(key)
    np.testing.assert_array_equal(again.observation, by_key.observation)


def test_a_batch_of_exactly_two_keys_is_a_batch_and_raw_keys_are_refused():
    env = jaxenv.make("CartPole-v1", num_envs=9)
    _, timestep = env.reset(jax.random.split(jax.random.key(0), 2))
    assert timestep.env_id.tolist() == [0, 1]
    with pytest.raises(ValueError, match=r"typed key from jax.random.key\(seed\), got uint32\[2\]"):
        env.reset(jax.random.PRNGKey(0))


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_keys_of_any_implementation_serve(impl):
    _, timestep = jaxenv.make("CartPole-v1", num_envs=8).reset(jax.random.key(0, impl=impl))
    assert len(np.unique(timestep.observation)) == 32


def test_no_array_is_shared_so_that_a_donated_state_leaves_the_row_alone():
    env = jaxenv.make("CartPole-v1", num_envs=4, autoreset="same_step")
    state, timestep = env.reset(jax.random.key(0))
    for rows in ((state, timestep), env.step(state, jnp.ones(4, jnp.int32))):
        arrays = jax.tree.leaves(rows)
        assert len({id(x) for x in arrays}) == len(arrays)
    step_ = jax.jit(env.step, donate_argnums=0)
    for _ in range(3):
        state, following = step_(state, jnp.ones(4, jnp.int32))
        assert timestep.env_id.tolist() == [0, 1, 2, 3]
        timestep = following


def test_a_task_that_starts_with_one_array_twice_gets_two():
    def initial(self, stream):
        zeros = jnp.zeros(stream.shape, jnp.float32)
        return {"at": zeros, "was": zeros}

    def transition(self, state, action, stream):
        return Transition(state, state["at"], state["at"] > 1, {"moved": action})

    state, _ = variant(initial=initial, transition=transition).reset(jax.random.key(0))
    assert state.task["at"] is not state.task["was"]


# --- params ----------------------------------------------------------------------------------------------------------


def test_params_are_one_number_or_one_per_lane_judged_by_rank_alone():
    env = Walk(num_envs=2)
    assert env.params.speed.shape == ()
    assert env.params.walls.shape == (2,), "two walls are no two lanes"
    assert not any(d.per_lane for d in declared_leaves(env))
    lanes = env.with_params(speed=[1.0, 2.0], walls=np.array([[1.0, 9.0], [2.0, 9.0]]))
    assert all(d.per_lane for d in declared_leaves(lanes))
    _, timestep = step(lanes)
    assert timestep.observation.tolist() == [1, 2]
    assert timestep.is_last().tolist() == [True, True]


def test_take_gathers_what_is_per_lane_and_nothing_else():
    env = jaxenv.wrappers.TimeLimit(Walk(num_envs=3).with_params(speed=[1.0, 2.0, 3.0]), np.array([4, 5, 6]))
    rows = env.take(jnp.array([2, 0], jnp.int32))
    assert rows.duration.tolist() == [6, 4]
    assert rows.unwrapped.params.speed.tolist() == [3, 1]
    assert rows.unwrapped.params.walls is env.unwrapped.params.walls


def test_derived_values_follow_a_changed_param():
    params = jaxenv.make("CartPole-v1").with_params(masspole=0.5, masscart=[2.0]).unwrapped.params
    assert params.total_mass.tolist() == [2.5]
    assert params.polemass_length == 0.25


def test_params_are_strong_float32_however_they_are_given():
    for value in (9, 9.0, np.float64(9), np.int64(9), jnp.array(9), jnp.array(9.0, jnp.bfloat16)):
        gravity = jaxenv.make("CartPole-v1", gravity=value).unwrapped.params.gravity
        assert gravity.dtype == np.float32
        assert not getattr(gravity, "weak_type", False)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"gravitas": 1.0}, "no param 'gravitas', the params are gravity, masscart"),
        ({"gravity": "heavy"}, "gravity must be a number or an array of numbers, got 'heavy'"),
        ({"gravity": np.nan}, "gravity must be finite, got nan"),
        ({"gravity": [1.0, np.inf]}, "gravity must be finite"),
        ({"gravity": [1.0, 2.0, 3.0]}, "gravity has 3 values, one per lane would be num_envs = 2"),
        ({"gravity": np.ones((2, 2))}, r"gravity must have 0 axes, or 1 for one value per lane, got shape \(2, 2\)"),
    ],
)
def test_a_wrong_param_is_refused_by_name_and_value(values, message):
    with pytest.raises(ValueError, match=message):
        jaxenv.make("CartPole-v1", num_envs=2).with_params(**values)


def test_params_given_to_reset_for_another_number_of_lanes_are_refused():
    env = jaxenv.make("CartPole-v1", num_envs=2, gravity=[1.0, 2.0])
    with pytest.raises(ValueError, match=r"params.gravity holds 2 lanes, the batch has 3"):
        env.reset(jax.random.split(jax.random.key(0), 3))


def test_an_environment_is_frozen_and_compared_by_identity():
    env = Walk()
    with pytest.raises(dataclasses.FrozenInstanceError):
        env.num_envs = 3
    assert env != Walk()
    assert len({env, Walk()}) == 2
    assert copy.copy(env) is not env


def test_unflattening_runs_no_checks_so_that_axes_and_shapes_can_stand_for_leaves():
    env = jaxenv.make("CartPole-v1", num_envs=3)
    axes = jax.tree.map(lambda _: None, env)
    assert axes.unwrapped.params.gravity is None
    assert jax.tree.map(lambda x: x.shape, env).unwrapped.params.gravity == ()


def test_equal_environments_share_compilation_when_passed_as_an_argument():
    traces = []

    @jax.jit
    def start(env, key):
        traces.append(1)
        return env.reset(key)

    for gravity in (1.0, 2.0, 3):
        start(jaxenv.make("CartPole-v1", num_envs=2, gravity=gravity), jax.random.key(0))
    assert len(traces) == 1


# --- mistakes of an author -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"initial": lambda s, key: {"at": jnp.zeros(())}}, r"initial: every array must lead with the 3 lanes, at has"),
        ({"observe": lambda s, state: {"a": state["at"]}}, "observe: structure must be"),
        ({"observe": lambda s, state: state["at"][:, None]}, r"observe: observation must have shape \(lanes, \*\(\)\)"),
        (
            {"transition": lambda s, state, a, k: Transition({"at": a}, state["at"], a == 2)},
            r"state leaf at must stay float32\[3\] as initial made it, got int32\[3\]",
        ),
        (
            {"transition": lambda s, state, a, k: Transition({"to": a}, state["at"], a == 2)},
            "the state's structure must stay",
        ),
        (
            {"transition": lambda s, state, a, k: Transition(state, jnp.ones(()), a == 2)},
            r"every array must lead with the 3 lanes, reward has shape \(\)",
        ),
        (
            {"transition": lambda s, state, a, k: Transition(state, state["at"], a)},
            "terminated must be bool, got int32",
        ),
        (
            {"transition": lambda s, state, a, k: Transition(state, state["at"], a == 2, {"twice": a})},
            r"env_info entries \['twice'\] come from transition and from state_info",
        ),
    ],
)
def test_a_mistake_in_an_environment_is_named_with_what_was_expected(methods, message):
    with pytest.raises(ValueError, match=message):
        step(variant(**methods))


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (np.zeros(2, np.int32), r"must have shape \(3,\) .*, got \(2,\)"),
        (np.zeros((3, 1), np.int32), r"must have shape \(3,\) .*, got \(3, 1\)"),
        (np.zeros(3, np.float32), "must be int32 or of its kind, got float32"),
        (np.zeros(3, bool), "must be int32 or of its kind, got bool"),
        ({"a": np.zeros(3, np.int32)}, "the action's structure must be"),
        (1, r"must have shape \(3,\) .*, got \(\)"),
    ],
)
@pytest.mark.parametrize("jitted", [False, True])
def test_a_wrong_action_is_refused_at_trace_time_and_both_sides_are_named(action, message, jitted):
    env = Walk(num_envs=3)
    state, _ = jax.jit(env.reset)(jax.random.key(0))
    with pytest.raises(ValueError, match=message):
        (jax.jit(env.step) if jitted else env.step)(state, action)


def test_any_integer_dtype_serves_as_a_discrete_action():
    for dtype in (np.int8, np.uint8, np.int64):
        _, timestep = step(Walk(num_envs=3), np.ones(3, dtype))
        assert timestep.observation.tolist() == [1, 1, 1]
        assert timestep.prev_action.dtype == np.int32


def test_a_field_that_is_neither_structure_nor_number_is_refused():
    class Odd(Counting):
        thing: object = None

    with pytest.raises(TypeError, match=r"field 'thing' must be static\(\), leaf\(\), a number with a default"):
        Odd(np.array([1]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"position_limit": "far"}, "position_limit must be a number, got 'far'"),
        ({"sutton_barto_reward": 1}, "sutton_barto_reward must be of type bool, got 1"),
    ],
)
def test_a_wrong_option_is_refused_by_name_and_value(options, message):
    with pytest.raises(ValueError, match=message):
        jaxenv.make("CartPole-v1", **options)


def test_it_runs_without_jit():
    env = jaxenv.make("CartPole-v1", num_envs=1)
    with jax.disable_jit():
        _, timestep = step(env)
    assert timestep.step_type.tolist() == [1]
