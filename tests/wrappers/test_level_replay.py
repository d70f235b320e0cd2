"""Levels and states that a caller assigns to the next episodes of single lanes."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.wrappers import AutoReset, EpisodeStatistics, FrameStack, LevelReplay, TimeLimit
from tests.core.test_levels import Goal, ToGoal

KEY, LANES = jax.random.key(5), 6
MASK = np.array([True, False, False, True, True, False])
RIGHT = jnp.zeros(LANES, jnp.int32)


def task():
    return ToGoal(num_envs=LANES)


def goals(at):
    return Goal(jnp.full(LANES, at), jnp.ones(LANES))


def play(env, state, num_steps):
    """Returns the state and the rows ``[T, B]`` after steps."""
    return jax.lax.scan(lambda state, _: env.step(state, RIGHT), state, length=num_steps)


def starts(env, rows):
    """Returns the goals that the first observations of episodes show, one list per lane."""
    first = np.asarray(jax.vmap(env.episode_starts)(rows))
    shown = np.asarray(rows.observation)[..., 0]
    return [shown[first[:, lane], lane].tolist() for lane in range(LANES)]


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("strategy", ["select", "cond", "compact"])
def test_assigned_lanes_replay_and_the_others_sample_until_they_are_released(strategy, mode):
    env = LevelReplay(AutoReset(task(), mode, strategy, block=4))
    state, timestep = env.reset(KEY)
    first = timestep.observation[:, 0]
    state = env.assign(state, goals(2), MASK)
    np.testing.assert_array_equal(env.step(state, RIGHT)[1].observation[:, 0], first)  # the current episodes go on
    state, rows = play(env, state, 45)
    seen = starts(env, rows)
    assert all(set(seen[lane]) == {2.0} for lane in np.flatnonzero(MASK))
    assert all(min(seen[lane]) > 2 for lane in np.flatnonzero(~MASK))
    released = np.array([True, True] + [False] * 4)
    state, rows = play(env, env.release(state, released), 45)
    seen = starts(env, rows)
    assert min(seen[0]) > 2
    assert set(seen[3]) == set(seen[4]) == {2.0}


def test_without_assignments_nothing_changes():
    plain = AutoReset(task())
    env = LevelReplay(plain)
    one, other = plain.reset(KEY), env.reset(KEY)
    chex.assert_trees_all_equal(one, (other[0].inner, other[1]))
    chex.assert_trees_all_equal(play(plain, one[0], 30)[1], play(env, other[0], 30)[1])


def test_lanes_without_a_level_keep_their_task():
    tasks = np.array([0, 1, 1, 0, 1, 1], np.int32)
    env = LevelReplay(AutoReset(jaxenv.Multitask((task(), task()), tasks)))
    state, _ = env.reset(KEY)
    level = jaxenv.sample_level(env, KEY)
    state = env.assign(state, {**level, "task_id": 1 - level["task_id"]}, MASK)
    state, rows = play(env, state, 45)
    assert np.asarray(rows.is_first()).any(axis=0).all()
    np.testing.assert_array_equal(rows.env_info["task_id"][-1], np.where(MASK, 1 - tasks, tasks))


def test_a_reset_with_levels_assigns_them():
    env = LevelReplay(AutoReset(task()))
    state, timestep = env.reset(KEY, level=goals(2))
    assert timestep.observation[:, 0].tolist() == [2.0] * LANES
    state, rows = play(env, state, 20)
    assert all(set(seen) == {2.0} for seen in starts(env, rows))
    state, timestep = jaxenv.reset_where(env, state, timestep, jnp.asarray(MASK), level=goals(4))
    np.testing.assert_array_equal(timestep.observation[MASK, 0], 4)
    state, rows = play(env, state, 30)
    assert [set(seen) for seen in starts(env, rows)] == [{4.0} if lane else {2.0} for lane in MASK]


def test_lanes_return_to_a_state():
    """With what the stack keeps starting afresh."""
    inner = FrameStack(EpisodeStatistics(TimeLimit(task(), 5)), num=2)
    env = LevelReplay(AutoReset(inner), of="state")
    state, _ = env.reset(KEY, from_state=LevelReplay(AutoReset(inner), of="state").reset(KEY)[0])
    state, rows = play(env, state, 3)
    archived = state
    state = env.assign(state, archived, MASK)
    place = rows.observation[-1, :, -1]
    state, rows = play(env, state, 9)
    first = np.asarray(rows.is_first())
    for lane in np.flatnonzero(MASK):
        shown = rows.observation[first[:, lane], lane]
        assert len(shown) >= 1
        np.testing.assert_array_equal(shown, np.broadcast_to(place[lane], shown.shape))
    lengths = np.asarray(rows.env_info["episode"]["length"])[np.asarray(rows.is_last())]
    assert lengths.max() <= 5


def test_lanes_over_a_mesh_replay_their_own_levels():
    env = LevelReplay(AutoReset(task(), reset_strategy="compact", block=2))
    level = Goal(jnp.arange(2, 2 + LANES), jnp.ones(LANES))
    state = env.assign(env.reset(KEY)[0], level)
    mesh = jax.make_mesh((1,), ("lanes",), axis_types=(jax.sharding.AxisType.Auto,))
    specs = jaxenv.partition_specs(state)
    shard = jax.shard_map(
        lambda state: play(env, state, 40)[1].observation[-1],
        mesh=mesh, in_specs=(specs,), out_specs=jax.sharding.PartitionSpec("lanes"),
    )  # fmt: skip
    np.testing.assert_array_equal(jax.jit(shard)(state), play(env, state, 40)[1].observation[-1])


def test_make_places_it_outside_the_restarts():
    env = jaxenv.make("CartPole-v1", num_envs=2, wrappers=["LevelReplay"])
    assert isinstance(env, LevelReplay)
    assert env.autoreset == "next_step"
    assert jaxenv.from_data(jaxenv.to_data(env)).describe() == env.describe()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda env, state: env.assign(state, goals(2), np.ones(3, bool)), r"assign: mask must be bool\[6\]"),
        (lambda env, state: env.release(state, np.ones(LANES)), r"release: mask must be bool\[6\]"),
        (lambda env, state: env.assign(state, state), "assign: level must be a Goal, got a LevelReplayState"),
        (
            lambda env, state: env.assign(state, jax.tree.map(lambda x: x[:4], goals(2))),
            "assign: start must hold 6 lanes, as the batch, got 4",
        ),
        (
            lambda env, state: env.reset(KEY, from_state=state),
            "LevelReplay: its episodes start in a level and cannot start in a state, build it with of='state'",
        ),
        (
            lambda env, state: env.assign(state.inner, goals(2)),
            "assign: state must be a LevelReplayState, got AutoReset",
        ),
        (lambda env, state: env.release(state.inner), "release: state must be a LevelReplayState, got AutoReset"),
        (lambda env, state: LevelReplay(env), "LevelReplay: the environment inside already has a LevelReplay"),
        (
            lambda env, state: LevelReplay(env.env.with_level(goals(4)), of="state"),
            "LevelReplay: env must not start in levels of its own",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    env = LevelReplay(AutoReset(task()))
    with pytest.raises(ValueError, match=message):
        call(env, env.reset(KEY)[0])


@pytest.mark.parametrize("order", ["levels inside", "levels outside"])
def test_lanes_without_an_assigned_level_start_in_the_levels_of_the_stack(order):
    inner = AutoReset(task())
    outside = order == "levels outside"
    env = LevelReplay(inner).with_level(goals(2)) if outside else LevelReplay(inner.with_level(goals(2)))
    state, timestep = env.reset(KEY)
    assert timestep.observation[:, 0].tolist() == [2.0] * LANES
    state, rows = play(env, state, 20)
    assert all(set(seen) == {2.0} for seen in starts(env, rows))
    state, rows = play(env, env.assign(state, goals(3), MASK), 45)
    assert set(starts(env, rows)[0][1:]) == {3.0}
    assert set(starts(env, rows)[1]) == {2.0}
    last = jax.tree.map(lambda x: x[-1], rows)
    _, timestep = jaxenv.reset_where(env, state, last, jnp.ones(LANES, bool))
    assert timestep.observation[:, 0].tolist() == [3.0 if lane else 2.0 for lane in MASK]
    state, rows = play(env, env.release(state), 45)
    assert all(set(seen[1:]) == {2.0} for seen in starts(env, rows))
