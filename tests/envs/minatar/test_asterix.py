"""Asterix: parity with the package ``minatar``."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.envs.minatar.asterix import Draws, State
from tests.envs.minatar import reference
from tests.envs.minatar.boards import bitboard

ID = "Asterix-MinAtar"


def state(env):
    """Translates the original's game to our arrays."""
    level = env.ramp_index
    # Our state has no intervals, since they follow from the level.
    assert (env.spawn_speed, env.move_speed) == (max(10 - level, 1), max(5 - level // 2, 1))
    board = np.zeros((3, 10, 10), bool)
    for slot, entity in enumerate(env.entities):
        if entity is not None:
            x, y, right, is_gold = entity
            assert y == slot + 1
            board[int(is_gold), y, x] = True
            board[2, y, x] = right
    return State(
        player_row=np.int32(env.player_y),
        player_column=np.int32(env.player_x),
        enemies=bitboard(board[0]),
        gold=bitboard(board[1]),
        right=bitboard(board[2]),
        spawn_timer=np.int32(env.spawn_timer),
        move_timer=np.int32(env.move_timer),
        ramp_timer=np.int32(env.ramp_timer),
        level=np.int32(level),
    )


def draws(calls):
    """Translates the draws of one step: side and kind by ``rand``, then one of the free rows by ``randint``."""
    if not calls:
        return Draws(np.bool_(False), np.bool_(False), np.uint32(0))
    (_, _, side), (_, _, kind), *choice = calls
    row_fraction = 0
    if choice:
        ((name, (num_free,), chosen),) = choice
        assert name == "randint"
        row_fraction = -(-(int(chosen) << 27) // num_free)  # the smallest fraction that selects the chosen row
    return Draws(np.bool_(side < 1 / 2), np.bool_(kind < 1 / 3), np.uint32(row_fraction))


TRANSLATION = reference.Translation(ID, state, draws)
bare = functools.cache(lambda **kwargs: reference.bare(ID, **kwargs))


def revive(env, rng):
    """Moves a caught player to another cell, in 99% of cases, so that play reaches all levels."""
    env.terminal = False
    env.player_x, env.player_y = int(rng.integers(10)), int(rng.integers(1, 9))
    return rng.random() < 0.99


def cautious(env, rng):
    """A random action that ends far from enemies, so that episodes are long."""
    for action in rng.permutation(5):
        dx, dy = ((0, 0), (-1, 0), (0, -1), (1, 0), (0, 1))[action]
        x, y = min(max(env.player_x + dx, 0), 9), min(max(env.player_y + dy, 1), 8)
        entity = env.entities[y - 1]
        entering = env.spawn_timer == 0 and x in (0, 9)
        if not entering and (entity is None or entity[3] or abs(entity[0] - x) > 2):
            return action
    return 0


def test_channels_and_minimal_actions_match_the_original():
    reference.assert_channels_and_actions_match(bare())


def test_steps_match_the_original_at_every_level():
    steps = reference.random_steps(TRANSLATION, 6000, revive=revive)
    seen = {int(s.before.level) for s in steps}
    full = [s for s in steps if (s.before.enemies | s.before.gold).count() == 8 and s.before.spawn_timer == 0]
    assert seen == set(range(10))
    assert len(full) > 50  # nothing enters while all rows are taken
    assert sum(s.reward for s in steps) > 50
    assert sum(s.terminated for s in steps) > 50
    reference.assert_steps_match(bare(), steps)


def test_whole_episodes_match_the_original():
    played = reference.episodes(TRANSLATION, cautious, range(32), max_steps=1200)
    assert max(map(len, played)) > 400
    assert sum(steps[-1].terminated for steps in played) > 16
    reference.assert_episodes_match(bare(), played)


def test_the_level_stays_at_zero_without_ramping():
    steps = reference.random_steps(TRANSLATION, 1000, ramping=False, revive=revive)
    assert {int(s.after.level) for s in steps} == {0}
    reference.assert_steps_match(bare(difficulty_ramping=False), steps)


def test_entries_have_the_probabilities_of_the_original():
    # Rows 1, 4 and 8 are taken. Each of the five free rows is equally likely, as is each side; one third is gold.
    lanes = 30000
    taken = np.zeros((10, 10), bool)
    taken[[1, 4, 8], [0, 4, 9]] = True
    env = bare()

    @jax.jit
    def enter(key):
        state, _ = env.reset(key, jnp.arange(lanes, dtype=jnp.int32))
        enemies = jax.tree.map(lambda word: jnp.full(lanes, word), bitboard(taken))
        game = tree.rebuild(state.task.game, spawn_timer=jnp.zeros(lanes, jnp.int32), enemies=enemies)
        state = tree.rebuild(state, task=tree.rebuild(state.task, game=game))
        state, timestep = env.step(state, jnp.zeros(lanes, jnp.int32))
        return timestep.observation, env.board(tree.rebuild(state.task.game, enemies=state.task.game.right))

    board, heading_right = jax.device_get(enter(jax.random.key(3)))
    new = board[..., [1, 3]]  # enemy and gold
    assert np.array_equal(heading_right[..., 1], np.any(new, axis=-1) & (np.arange(10) == 0) & ~taken)
    new[..., 0] &= ~taken
    assert np.all(np.sum(new, axis=(1, 2, 3)) == 1)
    assert not np.any(new[:, :, 1:9])
    # The joint distribution of row, side and kind: they are independent.
    free = ~taken.any(axis=1)[1:9]
    counts = np.sum(new[:, 1:9][:, :, [0, 9]], axis=0)
    expected = lanes * free[:, None, None] / 5 / 2 * np.broadcast_to([2 / 3, 1 / 3], (8, 2, 2))
    assert np.all(np.abs(counts - expected) <= 4.5 * np.sqrt(expected))
