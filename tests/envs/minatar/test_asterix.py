"""Asterix against MinAtar's own."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.envs.minatar.asterix import Draws, State
from tests.envs.minatar import reference
from tests.envs.minatar.boards import words

ID = "Asterix-MinAtar"


def state(env):
    """The original's game in our arrays."""
    level = env.ramp_index
    # Speeds need no place in our state: they follow from the level.
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
        enemies=words(board[0]),
        gold=words(board[1]),
        right=words(board[2]),
        spawn_timer=np.int32(env.spawn_timer),
        move_timer=np.int32(env.move_timer),
        ramp_timer=np.int32(env.ramp_timer),
        level=np.int32(level),
    )


def draws(calls):
    """What the original drew in one step: side and kind by ``rand``, then a place among free slots by ``randint``."""
    if not calls:
        return Draws(np.bool_(False), np.bool_(False), np.uint32(0))
    (_, _, side), (_, _, kind), *choice = calls
    place = 0
    if choice:
        ((name, (num_free,), chosen),) = choice
        assert name == "randint"
        place = -(-(int(chosen) << 27) // num_free)  # the least fraction that counts to the chosen one
    return Draws(np.bool_(side < 1 / 2), np.bool_(kind < 1 / 3), np.uint32(place))


TRANSLATION = reference.Translation(ID, state, draws)
bare = functools.cache(lambda **kwargs: reference.bare(ID, **kwargs))


def elsewhere(env, rng):
    """Puts a player that was caught in another place, most times: so all levels are seen."""
    env.terminal = False
    env.player_x, env.player_y = int(rng.integers(10)), int(rng.integers(1, 9))
    return rng.random() < 0.99


def cautious(env, rng):
    """A random action among those that end nowhere near an enemy, so that episodes last."""
    for action in rng.permutation(5):
        dx, dy = ((0, 0), (-1, 0), (0, -1), (1, 0), (0, 1))[action]
        x, y = min(max(env.player_x + dx, 0), 9), min(max(env.player_y + dy, 1), 8)
        entity = env.entities[y - 1]
        entering = env.spawn_timer == 0 and x in (0, 9)
        if not entering and (entity is None or entity[3] or abs(entity[0] - x) > 2):
            return action
    return 0


def test_channels_and_actions_are_the_originals():
    reference.assert_channels_and_actions_match(bare())


def test_steps_follow_the_original_at_every_level():
    steps = reference.random_steps(TRANSLATION, 6000, revive=elsewhere)
    seen = {int(s.before.level) for s in steps}
    full = [s for s in steps if (s.before.enemies | s.before.gold).count() == 8 and s.before.spawn_timer == 0]
    assert seen == set(range(10))
    assert len(full) > 50  # nothing comes while all rows are taken
    assert sum(s.reward for s in steps) > 50
    assert sum(s.terminated for s in steps) > 50
    reference.assert_steps_match(bare(), steps)


def test_whole_episodes_show_the_originals_boards():
    played = reference.episodes(TRANSLATION, cautious, range(32), max_steps=1200)
    assert max(map(len, played)) > 400
    assert sum(steps[-1].terminated for steps in played) > 16
    reference.assert_episodes_match(bare(), played)


def test_without_ramping_the_level_stays():
    steps = reference.random_steps(TRANSLATION, 1000, ramping=False, revive=elsewhere)
    assert {int(s.after.level) for s in steps} == {0}
    reference.assert_steps_match(bare(difficulty_ramping=False), steps)


def test_what_comes_in_is_drawn_with_the_originals_probabilities():
    # Three rows are taken: 1, 4 and 8. Of five free ones each is as likely; half come from the left, a third is gold.
    lanes = 30000
    taken = np.zeros((10, 10), bool)
    taken[[1, 4, 8], [0, 4, 9]] = True
    env = bare()

    @jax.jit
    def enter(key):
        state, _ = env.reset(key, jnp.arange(lanes, dtype=jnp.int32))
        enemies = jax.tree.map(lambda word: jnp.full(lanes, word), words(taken))
        game = tree.rebuild(state.task.game, spawn_timer=jnp.zeros(lanes, jnp.int32), enemies=enemies)
        state = tree.rebuild(state, task=tree.rebuild(state.task, game=game))
        state, timestep = env.step(state, jnp.zeros(lanes, jnp.int32))
        return timestep.observation, env.show(tree.rebuild(state.task.game, enemies=state.task.game.right))

    board, heading_right = jax.device_get(enter(jax.random.key(3)))
    new = board[..., [1, 3]]  # enemy and gold
    assert np.array_equal(heading_right[..., 1], np.any(new, axis=-1) & (np.arange(10) == 0) & ~taken)
    new[..., 0] &= ~taken
    assert np.all(np.sum(new, axis=(1, 2, 3)) == 1)
    assert not np.any(new[:, :, 1:9])
    # Row, side and kind together, so that none leans on another.
    free = ~taken.any(axis=1)[1:9]
    counts = np.sum(new[:, 1:9][:, :, [0, 9]], axis=0)
    expected = lanes * free[:, None, None] / 5 / 2 * np.broadcast_to([2 / 3, 1 / 3], (8, 2, 2))
    assert np.all(np.abs(counts - expected) <= 4.5 * np.sqrt(expected))
