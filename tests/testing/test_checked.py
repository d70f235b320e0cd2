"""A checked environment raises at the first fault and changes nothing else."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify

import jaxenv
from jaxenv import specs, tree
from jaxenv.task import Task, Transition
from jaxenv.testing import Chain, Counting, mock_012, random_environment
from jaxenv.testing.checked import checked
from jaxenv.wrappers import AutoReset, ClipAction, GuardNonFinite
from tests.rows import assert_equal

LANES = 3


def fault_of(env, *actions):
    """What a checked environment says on the way through ``actions``, the first of which must pass."""
    env = checked(env)
    state, _ = env.reset(jax.random.key(0))
    for action in actions[:-1]:
        state, _ = env.step(state, action)
    with pytest.raises(ValueError, match=re.escape(repr(env.env))) as error:
        env.step(state, actions[-1])
    return str(error.value)


def lanes(*values, dtype=np.int32):
    return np.array(values, dtype)


# --- sound environments ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["next_step", "same_step", None])
def test_state_and_rows_are_those_of_the_environment_inside(mode, key):
    env = jaxenv.make("CardGame-v0", num_envs=LANES, autoreset=mode)
    step = jax.jit(env.step)
    plain, guarded = jax.jit(env.reset)(key), checked(env).reset(key)
    for action in (lanes(0, 1, 0), lanes(1, 0, 0), lanes(0, 0, 1)):
        assert_equal(jax.device_get(plain), jax.device_get(guarded))
        plain, guarded = step(plain[0], action), checked(env).step(guarded[0], action)
    assert_equal(jax.device_get(plain), jax.device_get(guarded))


def test_specs_and_lanes_are_those_of_the_environment_inside():
    env = jaxenv.make("TicTacToe-v0", num_envs=LANES)
    specs.require_equal(checked(env).time_step_spec(), env.time_step_spec())
    assert checked(env).num_envs == LANES
    assert checked(env).autoreset == "next_step"
    assert repr(checked(env)) == f"<Checked{env!r}>"


def test_nested_spaces_empty_leaves_and_vector_rewards_pass(key):
    observation = {
        "place": specs.Bounded((2, 3), np.float32, -1.0, 1.0),
        "{odd} name": (specs.Array((0,), np.float32), specs.Array((), np.bool_)),
    }
    action = {"{odd}": specs.Bounded((2,), np.uint8, 3, 200), "flag": specs.Array((), np.bool_)}
    reward = specs.Bounded((2,), np.float32, 0.0, 1.0)
    env = checked(random_environment(observation, action, reward, num_envs=LANES))
    state, _ = env.reset(key)
    for value in (3, 200):
        state, row = env.step(state, {"{odd}": np.full((LANES, 2), value, np.uint8), "flag": np.ones(LANES, bool)})
    assert row.reward.shape == (LANES, 2)
    with pytest.raises(ValueError, match=r"action\.\{odd\}\[0\] at lane 0, episode \d, step \d is 201: it must lie"):
        env.step(state, {"{odd}": np.full((LANES, 2), 201, np.uint8), "flag": np.ones(LANES, bool)})


def test_an_environment_compiles_once(key):
    env = checked(mock_012(LANES))
    state, _ = env.reset(key)
    state, _ = env.step(state, lanes(0, 0, 0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Counting, "transition", None)  # a trace would call it
        state, _ = env.step(state, lanes(9, 9, 9))


class Deaf(Chain):
    """A corridor in which nobody moves, whatever the action, of which ``takes`` is the spec."""

    takes: tree.Static = tree.static(default=None)

    def transition(self, state, action, stream):
        return super().transition(state, jnp.zeros_like(state), stream)

    def action_spec(self):
        return self.takes.value


def deaf(spec):
    return Deaf(takes=tree.Static(spec), num_envs=LANES)


# --- actions ---------------------------------------------------------------------------------------------------------


def test_an_action_out_of_range_is_named_with_lane_step_and_rule():
    assert fault_of(Chain(num_envs=LANES), lanes(0, 1, 0), lanes(1, 2, -1)) == (
        "<Chain>: action at lane 1, episode 0, step 1 is 2: it must lie within Bounded((), int32, 0, 1, name='action')"
    )


@pytest.mark.parametrize(("value", "dtype"), [(256, np.int32), (-1, np.int8), (259, np.uint32)])
def test_an_integer_that_the_specs_dtype_does_not_hold_is_illegal(value, dtype):
    env = deaf(specs.Bounded((), np.uint8, 0, 255))
    fault = fault_of(env, lanes(3, 4, value, dtype=dtype))
    assert f"action at lane 2, episode 0, step 0 is {value}: it must lie within" in fault


def test_integers_of_any_dtype_are_legal_within_the_bounds(key):
    env = checked(Chain(num_envs=LANES))
    state, _ = env.reset(key)
    for dtype in (np.int8, np.uint32):
        state, _ = env.step(state, lanes(0, 1, 1, dtype=dtype))


@pytest.mark.parametrize("value", [2.5, np.nan, np.inf])
def test_a_continuous_action_is_judged_before_it_is_clipped(value):
    spec = {"torque": specs.Bounded((2,), np.float32, -2.0, 2.0), "mode": specs.discrete(2)}
    env = ClipAction(deaf(spec))
    torque = np.zeros((LANES, 2), np.float32)
    torque[1, 1] = value
    assert fault_of(env, {"torque": torque, "mode": lanes(0, 0, 0)}) == (
        f"<ClipAction<Deaf>>: action.torque[1] at lane 1, episode 0, step 0 is {value}: "
        "it must lie within Bounded((2,), float32, -2.0, 2.0)"
    )


def test_an_action_without_bounds_must_be_finite():
    env = deaf(specs.Array((), np.float32))
    fault = fault_of(env, lanes(1, 2, np.nan, dtype=np.float32))
    assert fault.endswith("action at lane 2, episode 0, step 0 is nan: it must be finite")


def test_an_action_that_the_mask_excludes_is_illegal():
    env = jaxenv.spec("TicTacToe-v0").make(LANES)
    fault = fault_of(env, lanes(0, 1, 2), lanes(3, 4, 5), lanes(8, 8, 5))
    assert fault == f"{env}: action at lane 2, episode 0, step 2 is 5: action_mask does not allow it"


def test_the_mask_of_an_action_that_starts_above_zero_counts_from_there_where_the_action_is_heeded():
    class Shifted(Chain):
        def action_spec(self):
            return specs.discrete(3, start=5)

        def state_info(self, state):
            return {"action_mask": jnp.broadcast_to(np.array([True, False, True]), (*state.shape, 3))}

    legal, ignored = lanes(5, 7, 7), lanes(6, 6, 6)
    fault = fault_of(AutoReset(Shifted(2, num_envs=LANES)), legal, ignored, lanes(5, 7, 6))
    assert "action at lane 2, episode 1, step 0 is 6: action_mask does not allow it" in fault


def test_a_mask_of_another_size_than_the_action_is_refused():
    class Masked(Chain):
        def state_info(self, state):
            return {"action_mask": jnp.ones((*state.shape, 3), bool)}

    assert fault_of(Masked(num_envs=2), lanes(0, 0)) == (
        "<Masked>: action_mask has shape (2, 3), the action spec has 2 values"
    )


def test_an_action_that_the_environment_ignores_is_not_judged():
    env = AutoReset(Counting(np.array([1, 5]), num_envs=2))
    ended = lanes(1, 1)
    fault = fault_of(env, ended, lanes(99, -1), lanes(3, 99))
    assert "lane 1, episode 1, step 0 is 99" in fault


def test_an_action_of_another_shape_is_refused_as_by_the_environment():
    assert "must have shape (3,)" in fault_of(Chain(num_envs=LANES), lanes(0, 1))


# --- rows ------------------------------------------------------------------------------------------------------------


_VALUES = np.array([0, np.nan, np.inf, -1.5], np.float32)


class Diverging(Task):
    """Counts up to ``length``; in every lane the row of step ``bad_at`` shows ``shown`` and pays ``paid``."""

    length: int = 4
    bad_at: Any = tree.leaf(dtype=np.int32, default=-1)
    shown: int = 0  # a place in _VALUES: constructors refuse what is not finite
    paid: int = 0
    bounded: bool = tree.static(default=False)

    def initial(self, stream):
        return jnp.zeros(stream.shape, jnp.int32)

    def transition(self, state, action, stream):
        step = state + 1
        reward = jnp.where(step == self.bad_at, jnp.asarray(_VALUES)[self.paid], np.float32(1))
        return Transition(step, reward, terminated=step == self.length)

    def observe(self, state):
        x = jnp.where(state == self.bad_at, jnp.asarray(_VALUES)[self.shown], np.float32(0))
        return {"place": jnp.stack([jnp.zeros_like(x), x], axis=-1)}

    def observation_spec(self):
        bounded = specs.Bounded((2,), np.float32, -1.0, np.inf)
        return {"place": bounded if self.bounded else specs.Array((2,), np.float32)}

    def action_spec(self):
        return specs.discrete(2, name="action")


def diverging(bad_at, shown=0.0, paid=0.0, length=4, bounded=False):
    shown, paid = (int(np.flatnonzero(np.isclose(_VALUES, x, equal_nan=True))[0]) for x in (shown, paid))
    return Diverging(length, np.asarray(bad_at, np.int32), shown, paid, bounded=bounded, num_envs=LANES)


IDLE = lanes(0, 0, 0)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_reward_that_is_not_finite_is_named_with_lane_and_step(value):
    env = diverging(lanes(-1, 2, -1), paid=value)
    fault = fault_of(env, IDLE, IDLE)
    assert fault == f"<Diverging>: reward at lane 1, episode 0, step 2 is {value}: it must be finite"


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("bounded", [False, True])
def test_an_observation_that_is_not_finite_is_named_by_path_element_lane_and_step(value, bounded):
    env = diverging(lanes(-1, -1, 1), shown=value, bounded=bounded)
    rule = "it must lie within Bounded((2,), float32, -1.0, inf)" if bounded else "it must be finite"
    assert fault_of(env, IDLE) == (f"<Diverging>: observation.place[1] at lane 2, episode 0, step 1 is {value}: {rule}")


def test_an_observation_out_of_its_spec_is_rejected():
    env = diverging(lanes(-1, -1, 1), shown=-1.5, bounded=True)
    assert "observation.place[1] at lane 2, episode 0, step 1 is -1.5: it must lie within" in fault_of(env, IDLE)


def test_the_row_of_a_reset_is_checked(key):
    env = checked(diverging(lanes(-1, 0, -1), shown=np.nan))
    with pytest.raises(ValueError, match=r"observation.place\[1\] at lane 1, episode 0, step 0 is nan"):
        env.reset(key)


def test_an_episode_that_auto_reset_began_is_counted(key):
    sound, broken = (
        AutoReset(diverging(bad_at, length=1, shown=np.nan)) for bad_at in (lanes(-1, -1, -1), lanes(-1, 0, -1))
    )
    state, _ = checked(sound).step(checked(sound).reset(key)[0], IDLE)
    with pytest.raises(ValueError, match="lane 1, episode 1, step 0 is nan"):
        checked(broken).step(state, IDLE)


def test_a_row_that_ends_an_episode_in_a_same_step_stream_belongs_to_that_episode():
    env = diverging(lanes(-1, 2, -1), length=2, paid=np.nan, shown=-1.5)
    assert "reward at lane 1, episode 0, step 2 is nan" in fault_of(AutoReset(env, "same_step"), IDLE, IDLE)
    env = diverging(lanes(-1, 2, -1), length=2, shown=np.nan)
    fault = fault_of(AutoReset(env, "same_step"), IDLE, IDLE)
    assert "env_info.final_observation.place[1] at lane 1, episode 0, step 2 is nan" in fault


def test_what_a_guard_contains_is_an_error():
    env = GuardNonFinite(diverging(lanes(-1, 2, -1), shown=np.nan))
    assert fault_of(env, IDLE, IDLE) == (
        "<GuardNonFinite<Diverging>>: env_info.abnormal at lane 1, episode 0, step 2 is 1: "
        "the state, observation or reward was not finite, so GuardNonFinite ended the lane"
    )


# --- in traced code --------------------------------------------------------------------------------------------------


def scanned(env, actions):
    """The error of a compiled rollout."""
    env = checked(env)

    def rollout(key, actions):
        state, _ = env.reset(key)
        return jax.lax.scan(env.step, state, actions)

    return jax.jit(checkify.checkify(rollout))(jax.random.key(0), actions)


def test_a_scan_raises_through_checkify():
    error, _ = scanned(Chain(num_envs=2), np.array([[0, 1], [1, 1], [0, 5], [7, 0]], np.int32))
    with pytest.raises(ValueError, match="action at lane 1, episode 0, step 2 is 5"):
        error.throw()


def test_a_scan_without_a_fault_throws_nothing():
    actions = np.array([[0, 1], [1, 1]], np.int32)
    error, (_, rows) = scanned(Chain(num_envs=2), actions)
    error.throw()
    assert rows.observation.tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize(("bad_at", "expected"), [(2, "reward at lane 0, episode 0, step 2"), (4, "action at lane 1")])
def test_of_faults_of_several_kinds_a_scan_tells_the_first_in_time(bad_at, expected):
    error, _ = scanned(diverging(bad_at, paid=np.nan, length=9), np.stack([IDLE, IDLE, lanes(0, 5, 0), IDLE]))
    assert expected in error.get()


@pytest.mark.parametrize("strategy", ["cond", "compact"])
def test_every_way_to_restart_lanes_can_be_checked(strategy):
    env = AutoReset(Counting(np.array([1, 2]), num_envs=2), strategy=strategy)
    error, _ = scanned(env, np.array([[0, 0], [0, 0], [0, 0], [10, 3]], np.int32))
    assert "action at lane 0, episode 1, step 1 is 10" in error.get()


def test_compiling_a_step_without_checkify_is_refused(key):
    env = checked(Chain(num_envs=2))
    with pytest.raises(ValueError, match="without functionalizing it"):
        jax.jit(env.step)(env.reset(key)[0], lanes(0, 0))
