"""Space Invaders: parity with the package ``minatar``."""

import chex
import jax
import numpy as np

from jaxenv.envs.minatar.minatar import LETTERS
from jaxenv.envs.minatar.space_invaders import State
from tests.envs.minatar import reference

ID = "SpaceInvaders-MinAtar"


def row_words(board):
    """Packs a map of the original into ten words, one per row."""
    return (np.asarray(board, bool) @ (1 << np.arange(10))).astype(np.uint32)


def state(env):
    """Translates the original's game to our arrays."""
    assert not env.f_bullet_map[9].any()
    assert env.ramp_index == 0 or env.ramping
    return State(
        column=np.int32(env.pos),
        cooldown=np.int32(env.shot_timer),
        aliens=row_words(env.alien_map),
        right=np.bool_(env.alien_dir > 0),
        interval=np.int32(env.enemy_move_interval),
        move_timer=np.int32(env.alien_move_timer),
        shot_timer=np.int32(env.alien_shot_timer),
        friendly=row_words(env.f_bullet_map),
        enemy=row_words(env.e_bullet_map),
    )


WAVE = [0b0011111100] * 4 + [0] * 6
SPACE_INVADERS = reference.Translation(ID, state)


def anywhere(env, rng):
    """Moves the original to a random state: any number of aliens and bullets anywhere, timers often about to end."""
    env.pos = int(rng.integers(10))
    env.alien_map[:] = rng.random((10, 10)) < rng.choice([0, 0.02, 0.1, 0.5])
    if rng.random() < 0.5:
        env.alien_map[:, [0, 9]] = 0
    if rng.random() < 0.5:
        env.alien_map[9] = 0
    env.alien_map[tuple(rng.integers(10, size=2))] = 1
    env.f_bullet_map[:] = rng.random((10, 10)) < rng.choice([0, 0.1, 1])
    env.f_bullet_map[9] = 0
    env.e_bullet_map[:] = rng.random((10, 10)) < rng.choice([0, 0.02, 0.1])
    env.alien_dir = int(rng.choice([-1, 1]))
    env.enemy_move_interval = int(rng.integers(6, 13))
    env.alien_move_timer = int(rng.choice([0, 1, rng.integers(12)]))
    env.alien_shot_timer = int(rng.choice([0, 1, rng.integers(10)]))
    env.shot_timer = int(rng.choice([0, rng.integers(5)]))


def any_level(env, rng):
    """Starts at any level."""
    env.enemy_move_interval = int(rng.integers(6, 13))


def live_on(env, rng):
    """Continues after a hit in 98% of cases, so that play reaches later waves."""
    env.terminal = False
    return rng.random() < 0.98


def aim(env, rng):
    """Moves below aliens and fires, avoids bullets, and sometimes acts at random."""
    if rng.random() < 0.02:
        return int(rng.integers(6))
    columns = np.flatnonzero(env.alien_map.any(axis=0))
    target = columns[np.argmin(np.abs(columns - env.pos))]
    toward_it = "n" if target == env.pos else "r" if target > env.pos else "l"
    # The last few aliens are too fast to follow.
    few = env.alien_map.sum() < 4
    preferred = "f" if env.shot_timer == 0 and (few or target == env.pos) else "n" if few else toward_it
    for letter in (preferred, "l", "r", "n"):
        column = min(max(env.pos + {"l": -1, "r": 1}.get(letter, 0), 0), 9)
        if not (env.e_bullet_map[8, column] or env.alien_map[8:, column].any()):
            return LETTERS.index(letter)
    return 0


def test_steps_from_random_states_match_the_original():
    steps = reference.random_steps(SPACE_INVADERS, 5000, seed=1, prepare=anywhere, every=2)
    shoots = sum(s.before.shot_timer == 0 for s in steps)
    turns = sum(s.before.right != s.after.right for s in steps)
    new_waves = sum(s.before.interval != s.after.interval for s in steps)
    assert min(shoots, turns, new_waves, sum(s.terminated for s in steps)) > 100
    assert max(s.reward for s in steps) > 10
    reference.assert_steps_match(reference.bare(ID), steps)


def test_steps_of_long_play_match_the_original_at_every_level():
    weights = (1, 2, 1, 2, 1, 4)
    steps = reference.random_steps(SPACE_INVADERS, 9000, 2, weights=weights, prepare=any_level, revive=live_on)
    cleared = [s for s in steps if s.reward and s.after.aliens.tolist() == WAVE]
    waves = {(int(s.before.interval), int(s.after.interval)) for s in cleared}
    assert waves == {(interval, max(interval - 1, 6)) for interval in range(6, 13)}
    reference.assert_steps_match(reference.bare(ID), steps)


def test_every_wave_marches_as_fast_as_the_first_without_ramping():
    steps = reference.random_steps(SPACE_INVADERS, 3000, seed=3, ramping=False, prepare=anywhere, every=2)
    assert sum(s.reward and s.after.aliens.tolist() == WAVE for s in steps) > 100
    assert not any(s.before.interval != s.after.interval for s in steps)
    reference.assert_steps_match(reference.bare(ID, difficulty_ramping=False), steps)


def test_whole_episodes_match_the_original():
    played = reference.episodes(SPACE_INVADERS, aim, seeds=range(16), max_steps=1500)
    assert sum(steps[-1].terminated for steps in played) >= 8
    assert max(sum(s.reward for s in steps) for steps in played) > 24, "no wave was cleared"
    reference.assert_episodes_match(reference.bare(ID), played)


def test_episodes_start_in_the_state_of_the_original():
    ours = jax.jit(reference.bare(ID, 2).reset)(jax.random.key(0))[0].task.game
    theirs = state(reference.original(ID))
    chex.assert_trees_all_equal(jax.device_get(ours), jax.tree.map(lambda x: np.stack([x, x]), theirs))


def test_channels_and_minimal_actions_match_the_original():
    reference.assert_channels_and_actions_match(reference.bare(ID))
