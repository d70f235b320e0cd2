"""Breakout: parity with the package ``minatar``."""

import functools

import chex
import jax
import numpy as np

import jaxenv
from jaxenv.core.timestep import StepType
from jaxenv.envs.minatar.breakout import State
from jaxenv.envs.minatar.minatar import LETTERS
from tests.envs.minatar import reference
from tests.rows import unrolled

ID = "Breakout-MinAtar"
FIRST, MID, LAST = int(StepType.FIRST), int(StepType.MID), int(StepType.LAST)
reset = jax.jit(lambda env, key: env.reset(key))


def state(env):
    """Translates the original's game to our arrays."""
    number, flag = np.int32, np.bool_
    assert not env.brick_map[[0, *range(4, 10)]].any()
    return State(
        paddle=number(env.pos),
        ball_row=number(env.ball_y),
        ball_column=number(env.ball_x),
        trail_row=number(env.last_y),
        trail_column=number(env.last_x),
        down=flag(env.ball_dir in (2, 3)),
        right=flag(env.ball_dir in (1, 2)),
        strike=flag(env.strike),
        bricks=np.uint32(sum(1 << i for i, brick in enumerate(env.brick_map[1:4].reshape(-1)) if brick)),
    )


BREAKOUT = reference.Translation(ID, state)


def anywhere(env, rng):
    """Moves the original to a random state: any fraction of the bricks, ball and paddle in any cell."""
    env.brick_map[1:4] = rng.random((3, 10)) < rng.choice([0, 0.1, 0.5, 0.9])
    if rng.random() < 0.1:
        env.brick_map[1:4] = 0
    env.ball_x, env.pos = (int(i) for i in rng.integers(10, size=2))
    env.ball_y, env.ball_dir = int(rng.choice([0, 1, 2, 3, 4, 7, 8])), int(rng.integers(4))
    env.strike = bool(rng.integers(2))
    env.last_x, env.last_y = (int(i) for i in rng.integers(9, size=2))


def follow_the_ball(env, rng):
    """Mostly stays below the ball, so that all bricks are cleared; sometimes acts at random."""
    ahead = env.ball_x + (1 if env.ball_dir in (1, 2) else -1)
    target = env.ball_x if rng.random() < 0.7 else ahead
    if rng.random() < 0.02:
        return int(rng.integers(6))
    return LETTERS.index("n" if target == env.pos else "r" if target > env.pos else "l")


@functools.cache
def long_episodes():
    return reference.episodes(BREAKOUT, follow_the_ball, seeds=range(12), max_steps=1500)


def test_steps_from_random_states_match_the_original():
    steps = reference.random_steps(BREAKOUT, 6000, seed=1, prepare=anywhere, every=2)
    assert sum(s.terminated for s in steps) > 200
    assert sum(s.reward for s in steps) > 200
    bricks_replaced = sum(s.before.bricks == 0 and s.after.bricks != 0 for s in steps)
    passes_through = sum(s.before.strike and s.after.strike for s in steps)
    assert min(bricks_replaced, passes_through) > 30
    reference.assert_steps_match(reference.bare(ID), steps)


def test_whole_episodes_match_the_original():
    played = long_episodes()
    assert sum(steps[-1].terminated for steps in played) >= 6
    assert max(sum(s.reward for s in steps) for steps in played) > 30, "the bricks were never cleared and replaced"
    reference.assert_episodes_match(reference.bare(ID), played)


def test_the_ball_starts_at_either_wall_with_equal_probability_as_in_the_original():
    env = reference.bare(ID, 4096)
    game = jax.device_get(reset(env, jax.random.key(0))[0].task.game)
    theirs = {}
    for seed in range(20):
        start = state(reference.original(ID, seed))
        theirs[bool(start.right)] = start
    assert set(theirs) == {False, True}
    for side, start in theirs.items():
        lanes = game.right == side
        assert abs(lanes.mean() - 0.5) < 5 * 0.5 / 64  # standard error of 4096 draws
        of_side = jax.tree.map(lambda x, lanes=lanes: x[lanes], game)
        chex.assert_trees_all_equal(of_side, jax.tree.map(np.broadcast_to, start, jax.tree.map(np.shape, of_side)))


def test_a_missed_ball_terminates_the_episode_and_the_next_one_starts_with_all_bricks():
    # A ball from the left wall reaches the bottom in column 6 at the sixth step, one from the right wall in column 3.
    # The paddle is then in column 9.
    env = jaxenv.make(ID, num_envs=16, sticky_action_prob=0)
    rows = unrolled(env, np.full((8, 16), 2, np.int32))
    from_left = rows.observation[0, :, 3, 0, 1]
    assert 0 < from_left.sum() < 16
    assert rows.step_type.tolist() == [[FIRST] * 16, *[[MID] * 16] * 5, [LAST] * 16, [FIRST] * 16, [MID] * 16]
    assert np.all(rows.discount[6] == 0)
    assert np.all(rows.observation[6, from_left, 9, 6, 1])
    assert np.all(rows.observation[6, ~from_left, 9, 3, 1])
    assert np.all(rows.observation[:, :, 1:4, :, 3])
    assert not rows.reward.any()


def test_channels_and_minimal_actions_match_the_original():
    reference.assert_channels_and_actions_match(reference.bare(ID))
