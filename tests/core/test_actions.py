"""Conversion of actions: casts, clipping, and error messages."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import make, specs
from jaxenv.core._checks import actions as _actions
from jaxenv.specs import Array, Bounded
from tests.rows import unrolled

INF = np.inf


def keys(n, seed=0):
    return jax.random.split(jax.random.key(seed), n)


ACTION = {"arm": Bounded((2,), np.float32, -1, 1), "grip": specs.discrete(3), "on": Array((), np.bool_)}


def action(arm=np.float32, grip=np.int32, on=np.bool_, lanes=4):
    return {"arm": np.zeros((lanes, 2), arm), "grip": np.ones(lanes, grip), "on": np.ones(lanes, on)}


@pytest.mark.parametrize("grip", [np.int32, np.int64, np.uint8, np.int8, np.uint32])
@pytest.mark.parametrize("arm", [np.float32, np.float64, np.float16, jnp.bfloat16])
def test_conform_casts_all_integer_and_float_dtypes(grip, arm):
    got = _actions.conform(ACTION, action(arm, grip), 4, "Env")
    assert {k: v.dtype for k, v in got.items()} == {"arm": jnp.float32, "grip": jnp.int32, "on": jnp.bool_}
    assert got["grip"].tolist() == [1] * 4


def test_conform_keeps_values_that_the_dtype_can_represent():
    given = {**action(), "arm": np.full((4, 2), 9.0, np.float32), "grip": np.array([-7, 0, 2, 99], np.int64)}
    got = _actions.conform(ACTION, given, 4, "Env")
    assert got["grip"].tolist() == [-7, 0, 2, 99]
    assert got["arm"].tolist() == [[9, 9]] * 4


@pytest.mark.parametrize(
    ("spec", "given", "expected"),
    [
        (specs.discrete(3), np.array([2**40 + 1, -(2**40)], np.int64), [2**31 - 1, -(2**31)]),
        (specs.discrete(3), np.array([2**32 - 1, 1], np.uint32), [2**31 - 1, 1]),
        (Bounded((), np.uint8, 0, 9), jnp.array([-1, 300]), [0, 255]),
        (Bounded((), np.uint32, 0, 9), jnp.array([-1, 7]), [0, 7]),
    ],
)
def test_conform_saturates_integers_instead_of_wrapping(spec, given, expected):
    got = _actions.conform(spec, given, 2, "Env")
    assert got.dtype == spec.dtype
    assert got.tolist() == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([0, 1], r"Env: action .*got a list of 2, .*"),
        ({"arm": np.zeros((4, 2))}, r"Env: action .*got a dict with 'arm'"),
        (
            action(lanes=5),
            r"Env: action arm .*got \(5, 2\)",
        ),
        ({**action(), "grip": np.zeros((4, 1), int)}, r"Env: action grip .*got \(4, 1\)"),
        ({**action(), "grip": np.int32(0)}, r"Env: action grip .*got \(\)"),
        (action(grip=np.float32), r"Env: action grip .*got float32"),
        (action(grip=np.bool_), r"Env: action grip .*got bool"),
        (action(arm=np.int32), r"Env: action arm .*got int32"),
        (action(arm=np.complex64), r"Env: action arm .*got complex64"),
        (action(on=np.int32), r"Env: action on .*got int32"),
        (action(on=np.float32), r"Env: action on .*got float32"),
    ],
)
def test_conform_names_the_expected_and_the_given_action(given, message):
    with pytest.raises(ValueError, match=message):
        _actions.conform(ACTION, given, 4, "Env")


def test_conform_names_no_leaf_of_a_single_array():
    with pytest.raises(ValueError, match=r"^Env: action .*got float32"):
        _actions.conform(specs.discrete(3), np.zeros(4, np.float32), 4, "Env")


def test_conform_refuses_keys_as_actions():
    with pytest.raises(ValueError, match=r"^Env: action .*got key"):
        _actions.conform(specs.discrete(3), keys(4), 4, "Env")


def test_conform_checks_tracers_at_trace_time():
    conform = jax.jit(lambda a: _actions.conform(specs.discrete(3), a, 4, "Env"))
    assert conform(jnp.ones(4, jnp.uint8)).dtype == jnp.int32
    with pytest.raises(ValueError, match=r"must be integers.* int32, got float32"):
        conform(jnp.ones(4))


@pytest.mark.parametrize(
    ("spec", "given", "expected"),
    [
        (specs.discrete(3, start=1), [-5, 1, 3, 4], [1, 1, 3, 3]),
        (Bounded((2,), np.int32, [0, 1], [2, 5]), [[-1, 0], [3, 3], [2, 9]], [[0, 1], [2, 3], [2, 5]]),
        (Array((), np.int32), [-5, 99], [-5, 99]),
        (Bounded((), np.float32, 0, 1), [-5.0, 99.0], [-5.0, 99.0]),
        (Bounded((), np.bool_, False, True), [False, True], [False, True]),
    ],
)
def test_clip_discrete_clips_bounded_integers_and_nothing_else(spec, given, expected):
    got = _actions.clip_discrete({"a": spec}, {"a": jnp.array(given, spec.dtype)})["a"]
    assert got.dtype == spec.dtype
    assert got.tolist() == expected


def test_finite_replaces_nan_and_infinities_by_0_and_keeps_integers():
    n = jnp.arange(2)
    got = _actions.finite({"x": jnp.array([np.nan, INF, -INF, 2.0]), "n": n})
    assert got["x"].tolist() == [0, 0, 0, 2]
    assert got["n"] is n


@pytest.mark.parametrize("value", [-3, 7, 10**6])
def test_discrete_actions_out_of_range_are_clipped_to_the_spec(value):
    env = make("CartPole-v1", num_envs=2)
    legal = 0 if value < 0 else 1
    given = unrolled(env, jnp.full((3, 2), value, jnp.int32))
    clipped = unrolled(env, jnp.full((3, 2), legal, jnp.int32))
    np.testing.assert_array_equal(given.observation, clipped.observation)
    assert given.prev_action[1].tolist() == [value, value]
    assert jax.tree.structure(given) == jax.tree.structure(clipped)


# --- eager steps ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("array", [np.array, jnp.array])
@pytest.mark.parametrize(("place", "value"), [(2, 2), (0, -1)])
def test_an_eager_step_refuses_a_discrete_action_out_of_range(array, place, value):
    env = make("CartPole-v1", num_envs=3)
    state, _ = env.reset(jax.random.key(0))
    actions = array([1, 0, 1]).tolist()
    actions[place] = value
    with pytest.raises(ValueError, match=rf"CartPole-v1.*action .*got {value} in lane {place}$"):
        env.step(state, array(actions))
    assert env.step(state, array([1, 0, 1]))[1].reward.tolist() == [1, 1, 1]
    assert jax.jit(env.step)(state, array(actions))[1].reward.tolist() == [1, 1, 1]


def test_an_action_that_a_restart_ignores_may_be_out_of_range():
    env = make("CartPole-v1", num_envs=2, max_episode_steps=np.array([1, 5]))
    state, _ = env.reset(jax.random.key(0))
    state, timestep = env.step(state, np.array([0, 1]))
    assert timestep.is_last().tolist() == [True, False]
    assert env.step(state, np.array([-1, 1]))[1].is_first().tolist() == [True, False]
    with pytest.raises(ValueError, match="got 7 in lane 1"):
        env.step(state, np.array([-1, 7]))


def test_an_integer_that_jax_would_wrap_is_refused_as_it_was_given():
    env = make("CartPole-v1", num_envs=2)
    state, _ = env.reset(jax.random.key(0))
    with pytest.raises(ValueError, match=f"from 0 to 1, got {2**32} in lane 1"):
        env.step(state, np.array([0, 2**32]))


def test_check_values_names_the_leaf_and_the_place_of_bounds_that_differ():
    spec = {"arm": ACTION["arm"], "legs": Bounded((2, 3), np.int32, [[0, 0, 1], [0, 0, 0]], [[4, 2, 3], [2, 2, 2]])}
    bounds = _actions.discrete_bounds(spec)
    given = {"arm": np.full((5, 2), 9.0), "legs": np.ones((5, 2, 3), np.int32)}
    assert _actions.are_legal(bounds, given)
    given["legs"][3, 0, 1] = 4
    assert not _actions.are_legal(bounds, given)
    with pytest.raises(ValueError, match=r"Env: action legs .*got 4 in lane 3 at \[0, 1\]"):
        _actions.check_values(bounds, given, np.ones(5, bool), "Env")
    given["legs"][3, 0] = [4, 2, 0]
    with pytest.raises(ValueError, match=r"from 1 to 3, got 0 in lane 3 at \[0, 2\]"):
        _actions.check_values(bounds, given, np.ones(5, bool), "Env")


def test_an_action_of_another_structure_or_shape_keeps_its_own_error():
    env = make("CartPole-v1", num_envs=2)
    state, _ = env.reset(jax.random.key(0))
    with pytest.raises(ValueError, match=r"action .*got \(\)"):
        env.step(state, np.array(0))
    rule = r"as in the action spec: actions of several agents are one array, \[lanes, agents, ...\]"
    with pytest.raises(ValueError, match=rule):
        env.step(state, {"push": np.array([0, 0]), "pull": np.array([9, 9])})
