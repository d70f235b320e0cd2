"""A checked environment raises at the first invalid value and changes nothing else."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify

import jaxenv
from jaxenv import specs, tree
from jaxenv.core.task import Task
from jaxenv.core.timestep import Transition
from jaxenv.testing import Chain, Counting, count_to_two, random_environment
from jaxenv.testing._checked import checked
from jaxenv.wrappers import AutoReset, ClipAction, GuardNonFinite, LevelReplay, TimeLimit
from tests.rows import assert_equal

LANES = 3


def message_of(env, *actions):
    """The message of a checked environment; only the last of ``actions`` may raise."""
    env = checked(env)
    state, _ = env.reset(jax.random.key(0))
    for action in actions[:-1]:
        state, _ = env.step(state, action)
    with pytest.raises(ValueError, match=re.escape(str(env.env))) as error:
        env.step(state, actions[-1])
    return str(error.value)


def lanes(*values, dtype=np.int32):
    return np.array(values, dtype)


# --- sound environments -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["next_step", "same_step", None])
def test_state_and_rows_equal_those_of_the_wrapped_environment(mode, key):
    env = jaxenv.make("CardGame-v0", num_envs=LANES, autoreset=mode)
    step, under = jax.jit(env.step), checked(env)
    plain, under_check = jax.jit(env.reset)(key), under.reset(key)
    for action in (lanes(0, 1, 0), lanes(1, 0, 0), lanes(0, 0, 1)):
        assert_equal(jax.device_get(plain), jax.device_get((under.inner(under_check[0]), under_check[1])))
        plain, under_check = step(plain[0], action), under.step(under_check[0], action)
        if mode is None:
            plain, under_check = (
                jaxenv.reset_where(e, *rows, rows[1].is_last()) for e, rows in ((env, plain), (under, under_check))
            )
    assert_equal(jax.device_get(plain), jax.device_get((under.inner(under_check[0]), under_check[1])))


def test_specs_and_lanes_equal_those_of_the_wrapped_environment():
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
    env = checked(random_environment(observation, action, reward, end_probability=0, num_envs=LANES))
    state, _ = env.reset(key)
    for value in (3, 200):
        state, row = env.step(state, {"{odd}": np.full((LANES, 2), value, np.uint8), "flag": np.ones(LANES, bool)})
    assert row.reward.shape == (LANES, 2)
    with pytest.raises(ValueError, match=r"action\.\{odd\}\[0\] at lane 0, episode \d, step \d is 201: it must"):
        env.step(state, {"{odd}": np.full((LANES, 2), 201, np.uint8), "flag": np.ones(LANES, bool)})


def test_an_environment_compiles_once(key):
    env = checked(count_to_two(LANES))
    state, _ = env.reset(key)
    state, _ = env.step(state, lanes(0, 0, 0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Counting, "transition", None)  # a trace would call it
        state, _ = env.step(state, lanes(9, 9, 9))


class IgnoresActions(Chain):
    """A corridor in which actions, whose spec is ``takes``, have no effect."""

    takes: tree.Static = tree.static(default=None)

    def transition(self, state, action, stream):
        return super().transition(state, jnp.zeros_like(state), stream)

    def action_spec(self):
        return self.takes.value


def ignores_actions(spec):
    return IgnoresActions(takes=tree.Static(spec), num_envs=LANES)


# --- episodes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda env: env, lambda env: TimeLimit(env, 2)], ids=["task", "TimeLimit"])
def test_a_step_past_last_without_auto_reset_is_reported_with_lane_episode_and_step(wrap):
    env = wrap(Counting(np.array([[2], [3], [9]]), num_envs=LANES))
    message = message_of(env, *[lanes(0, 0, 0)] * 3)
    assert message.startswith(f"{env}: step_type at lane 0, episode 0, step 2 is 2: ")


def test_a_lane_that_reset_where_restarted_may_step(key):
    env = checked(Counting(np.array([[1], [9], [9]]), num_envs=LANES))
    state, timestep = env.reset(key)
    for _ in range(2):
        state, timestep = env.step(state, lanes(0, 0, 0))
        state, timestep = jaxenv.reset_where(env, state, timestep, timestep.is_last())
    with pytest.raises(ValueError, match=r"step_type at lane 0, episode 2, step 1 is 2"):
        env.step(env.step(state, lanes(0, 0, 0))[0], lanes(0, 0, 0))


# --- actions ----------------------------------------------------------------------------------------------------------


def test_an_out_of_range_action_is_reported_with_lane_step_and_rule():
    message = message_of(Chain(num_envs=LANES), lanes(0, 1, 0), lanes(1, 2, -1))
    assert message.startswith("Chain: action at lane 1, episode 0, step 1 is 2: ")
    assert "Bounded((), int32, 0, 1, name='action')" in message


@pytest.mark.parametrize(("value", "dtype"), [(256, np.int32), (-1, np.int8), (259, np.uint32)])
def test_an_integer_outside_of_the_dtype_of_the_spec_is_illegal(value, dtype):
    env = ignores_actions(specs.Bounded((), np.uint8, 0, 255))
    message = message_of(env, lanes(3, 4, value, dtype=dtype))
    assert f"action at lane 2, episode 0, step 0 is {value}: " in message


def test_integers_of_any_dtype_are_legal_within_the_bounds(key):
    env = checked(Chain(num_envs=LANES))
    state, _ = env.reset(key)
    for dtype in (np.int8, np.uint32):
        state, _ = env.step(state, lanes(0, 1, 1, dtype=dtype))


@pytest.mark.parametrize("value", [2.5, np.nan, np.inf])
def test_a_continuous_action_is_checked_before_it_is_clipped(value):
    spec = {"torque": specs.Bounded((2,), np.float32, -2.0, 2.0), "mode": specs.discrete(2)}
    env = ClipAction(ignores_actions(spec))
    torque = np.zeros((LANES, 2), np.float32)
    torque[1, 1] = value
    message = message_of(env, {"torque": torque, "mode": lanes(0, 0, 0)})
    assert message.startswith(f"{env}: action.torque[1] at lane 1, episode 0, step 0 is {value}: ")
    assert "Bounded((2,), float32, -2.0, 2.0)" in message


def test_an_action_without_bounds_must_be_finite():
    env = ignores_actions(specs.Array((), np.float32))
    message = message_of(env, lanes(1, 2, np.nan, dtype=np.float32))
    assert ": action at lane 2, episode 0, step 0 is nan: " in message


def test_an_action_that_the_mask_excludes_is_illegal():
    env = jaxenv.spec("TicTacToe-v0").make(LANES)
    message = message_of(env, lanes(0, 1, 2), lanes(3, 4, 5), lanes(8, 8, 5))
    assert message.startswith(f"{env}: action at lane 2, episode 0, step 2 is 5: action_mask ")


def test_a_mask_starts_at_the_minimum_of_the_action():
    class Shifted(Chain):
        def action_spec(self):
            return specs.discrete(4, start=5)

        def state_info(self, state):
            return {"action_mask": jnp.broadcast_to(np.array([True, False, True, False]), (*state.shape, 4))}

    legal, ignored = lanes(5, 7, 7), lanes(6, 6, 8)
    message = message_of(AutoReset(Shifted(2, num_envs=LANES)), legal, ignored, lanes(5, 7, 8))
    assert "action at lane 2, episode 1, step 0 is 8: action_mask " in message


def test_a_mask_of_the_wrong_size_is_refused():
    class Masked(Chain):
        def state_info(self, state):
            return {"action_mask": jnp.ones((*state.shape, 3), bool)}

    assert re.search(r"^Masked: action_mask .*\(2, 3\).* 2\b", message_of(Masked(num_envs=2), lanes(0, 0)))


def test_an_ignored_action_is_not_checked():
    env = AutoReset(Counting(np.array([1, 5]), num_envs=2))
    ended = lanes(1, 1)
    message = message_of(env, ended, lanes(99, -1), lanes(3, 99))
    assert "lane 1, episode 1, step 0 is 99" in message


def test_an_action_of_the_wrong_shape_is_refused_by_the_environment():
    assert "must have shape (3,)" in message_of(Chain(num_envs=LANES), lanes(0, 1))


# --- rows -------------------------------------------------------------------------------------------------------------


_VALUES = np.array([0, np.nan, np.inf, -1.5], np.float32)


class Diverging(Task):
    """Counts up to ``length``; on step ``bad_at`` the observation is ``shown`` and the reward is ``paid``."""

    length: int = 4
    bad_at: Any = tree.leaf(dtype=np.int32, default=-1)
    shown: int = 0  # an index into _VALUES, since constructors refuse non-finite values
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
def test_a_non_finite_reward_is_reported_with_lane_and_step(value):
    env = diverging(lanes(-1, 2, -1), paid=value)
    message = message_of(env, IDLE, IDLE)
    assert message.startswith(f"Diverging: reward at lane 1, episode 0, step 2 is {value}: ")


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("bounded", [False, True])
def test_a_non_finite_observation_is_reported_with_path_element_lane_and_step(value, bounded):
    env = diverging(lanes(-1, -1, 1), shown=value, bounded=bounded)
    message = message_of(env, IDLE)
    assert message.startswith(f"Diverging: observation.place[1] at lane 2, episode 0, step 1 is {value}: ")
    assert ("Bounded((2,), float32, -1.0, inf)" in message) == bounded


def test_an_observation_outside_of_its_spec_is_rejected():
    env = diverging(lanes(-1, -1, 1), shown=-1.5, bounded=True)
    assert "observation.place[1] at lane 2, episode 0, step 1 is -1.5: " in message_of(env, IDLE)


def test_the_row_of_a_reset_is_checked(key):
    env = checked(diverging(lanes(-1, 0, -1), shown=np.nan))
    with pytest.raises(ValueError, match=r"observation.place\[1\] at lane 1, episode 0, step 0 is nan"):
        env.reset(key)


def test_episodes_are_counted_across_restarts(key):
    sound, broken = (
        AutoReset(diverging(bad_at, length=1, shown=np.nan)) for bad_at in (lanes(-1, -1, -1), lanes(-1, 0, -1))
    )
    state, _ = checked(sound).step(checked(sound).reset(key)[0], IDLE)
    with pytest.raises(ValueError, match="lane 1, episode 1, step 0 is nan"):
        checked(broken).step(state, IDLE)


def test_lanes_that_wait_are_not_checked():
    env = checked(Chain(num_envs=2))
    state, timestep = env.reset(jax.random.key(0))
    for _ in range(6):  # lane 0 arrives after four steps and waits
        mask = ~timestep.is_last()
        state, timestep = jaxenv.step_where(env, state, timestep, np.where(mask, lanes(1, 0), 9), mask)
    assert timestep.step_type.tolist() == [2, 1]
    with pytest.raises(ValueError, match="Chain: step_type at lane 0, episode 0, step 4 is 2: the episode ended"):
        jaxenv.step_where(env, state, timestep, lanes(1, 0), np.array([True, True]))
    with pytest.raises(ValueError, match="Chain: action at lane 1, episode 0, step 6 is 9"):
        jaxenv.step_where(env, state, timestep, lanes(1, 9), ~timestep.is_last())


def test_the_last_row_of_an_episode_belongs_to_it_in_same_step_mode():
    env = diverging(lanes(-1, 2, -1), length=2, paid=np.nan, shown=-1.5)
    assert "reward at lane 1, episode 0, step 2 is nan" in message_of(AutoReset(env, "same_step"), IDLE, IDLE)
    env = diverging(lanes(-1, 2, -1), length=2, shown=np.nan)
    message = message_of(AutoReset(env, "same_step"), IDLE, IDLE)
    assert "env_info.final_observation.place[1] at lane 1, episode 0, step 2 is nan" in message


def test_a_lane_ended_by_guard_non_finite_is_an_error():
    env = GuardNonFinite(diverging(lanes(-1, 2, -1), shown=np.nan))
    message = message_of(env, IDLE, IDLE)
    assert message.startswith(f"{env}: env_info.abnormal at lane 1, episode 0, step 2 is 1: ")


# --- in traced code ---------------------------------------------------------------------------------------------------


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


def test_a_valid_scan_raises_nothing():
    actions = np.array([[0, 1], [1, 1]], np.int32)
    error, (_, rows) = scanned(Chain(num_envs=2), actions)
    error.throw()
    assert rows.observation.tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize(("bad_at", "expected"), [(2, "reward at lane 0, episode 0, step 2"), (4, "action at lane 1")])
def test_a_scan_reports_the_error_that_occurred_first(bad_at, expected):
    error, _ = scanned(diverging(bad_at, paid=np.nan, length=9), np.stack([IDLE, IDLE, lanes(0, 5, 0), IDLE]))
    assert expected in error.get()


@pytest.mark.parametrize("strategy", ["cond", "compact"])
def test_every_restart_strategy_can_be_checked(strategy):
    env = AutoReset(Counting(np.array([1, 2]), num_envs=2), reset_strategy=strategy)
    error, _ = scanned(env, np.array([[0, 0], [0, 0], [0, 0], [10, 3]], np.int32))
    assert "action at lane 0, episode 1, step 1 is 10" in error.get()


def test_compiling_a_step_without_checkify_is_refused(key):
    env = checked(Chain(num_envs=2))
    with pytest.raises(ValueError, match="without functionalizing it"):
        jax.jit(env.step)(env.reset(key)[0], lanes(0, 0))


# --- levels that are given inside of jit ------------------------------------------------------------------------------


@tree.struct
class Place:
    """``at``: float32 ``[B, 2]``."""

    at: jax.Array


class FromPlace(Counting):
    """Counts on, whatever its level, of which the first number must be positive."""

    Level = Place

    def sample_level(self, stream):
        return Place(jnp.ones((*stream.shape, 2), jnp.float32))

    def check_level(self, level):
        if np.any(np.asarray(level.at)[:, 0] <= 0):
            raise ValueError("FromPlace: level.at must be positive")

    def initial(self, stream, level):
        return super().initial(stream)


def places(lane, value):
    at = np.ones((LANES, 2), np.float32)
    at[lane] = value
    return Place(at)


def error_of(call, level):
    return jax.jit(checkify.checkify(call))(level, jax.random.key(0))[0].get()


@pytest.mark.parametrize(
    ("level", "message"),
    [
        (places(1, (1, 5)), None),
        (places(1, (1, np.nan)), r"^FromPlace: level\.at\[1\] at lane 1 is nan: it must be finite"),
        (places(2, (np.inf, 1)), r"level\.at\[0\] at lane 2 is inf"),
        (places(2, (-3, 1)), r"level at lane 2: check_level refuses it"),
    ],
)
def test_levels_that_are_not_known_before_the_program_runs_are_checked(level, message):
    env = checked(FromPlace(np.array([2]), num_envs=LANES))
    calls = [lambda level, key: env.reset(key, level=level), lambda level, key: env.with_level(level).reset(key)]
    for call in calls:
        found = error_of(call, level) or ""
        assert re.search(message, found) if message else not found


def test_levels_of_lanes_that_start_elsewhere_are_not_checked():
    env = checked(FromPlace(np.array([2]), num_envs=LANES))
    given = np.arange(LANES) != 1

    def start(level, key):
        replay = LevelReplay(env)
        state = replay.assign(replay.reset(key)[0], level, jnp.asarray(given))
        mask = jnp.ones(LANES, bool)
        return jaxenv.reset_where(replay, state, replay.reset(key)[1], mask)

    assert error_of(start, places(1, (-1, np.nan))) is None
    assert error_of(start, places(1, (-1, 1))) is None
    assert "at lane 2: check_level" in error_of(start, places(2, (-1, 1)))


def test_the_first_of_several_faults_is_reported():
    env = checked(FromPlace(np.array([2]), num_envs=LANES))
    level = Place(np.array([[1, 1], [-1, 1], [-1, np.nan]], np.float32))
    assert "level.at[1] at lane 2 is nan" in error_of(lambda level, key: env.reset(key, level=level), level)


@pytest.mark.parametrize(("mode", "restart"), [("next_step", 3), ("same_step", 2)])
@pytest.mark.parametrize(
    ("value", "message"), [((-3, 1), "level at lane 2: check_level"), ((1, np.nan), "level.at[1]")]
)
def test_a_level_of_a_replay_is_checked_when_an_episode_starts_in_it(mode, restart, value, message):
    replay = LevelReplay(AutoReset(FromPlace(np.array([2]), num_envs=LANES), mode))
    env = checked(replay)

    def played(steps, mask):
        def play(level, key):
            state, _ = env.reset(key)
            state = replay.assign(state, level, mask)
            return jax.lax.scan(lambda state, _: env.step(state, IDLE), state, length=steps)

        return error_of(play, places(2, value)) or ""

    everywhere, elsewhere = jnp.ones(LANES, bool), jnp.array([True, True, False])
    assert played(restart - 1, everywhere) == ""
    assert message in played(restart, everywhere)
    assert played(restart + 1, elsewhere) == ""
