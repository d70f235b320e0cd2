"""Seaquest: parity with the package ``minatar``."""

import functools

import jax
import numpy as np

from jaxenv.envs.minatar._seaquest_enemies import Enemies
from jaxenv.envs.minatar.seaquest import Diver, Draws, State
from tests.envs.minatar import reference
from tests.envs.minatar.boards import bitboard

ID = "Seaquest-MinAtar"


def state(env):
    """Translates the original's game to our arrays."""
    level = env.ramp_index
    # Our state has no intervals, since they follow from the level.
    assert (env.e_spawn_speed, env.move_speed) == (max(20 - level, 1), max(5 - level // 2, 2))
    # Axes: move timer modulo 3; the four bits of the code and whether the timer is 3 or more; row; column.
    planes = np.zeros((3, 5, 10, 10), bool)
    fish, submarines, right = np.zeros((3, 10, 10), bool)
    of_fish = [(*each, 15) for each in env.e_fish]
    for x, y, heads_right, timer, code in of_fish + [(*each[:4], each[4] + 1) for each in env.e_subs]:
        bits = planes[timer % 3, :, y, x]
        assert not bits.any()  # enemies in one cell differ in their move timer modulo 3
        bits[:] = [*((code >> bit) & 1 for bit in range(4)), timer >= 3]
        right[y, x] = heads_right
        (fish if code == 15 else submarines)[y, x] = True
    shots, torpedoes = (
        np.zeros((2, 10, 10), bool),
        np.zeros((2, 10, 10), bool),
    )  # first those to the left, then those to the right
    for x, y, heads_right in env.f_bullets:
        assert not shots[:, y, x].any()
        shots[int(heads_right), y, x] = True
    for x, y, heads_right in env.e_bullets:
        torpedoes[int(heads_right), y, x] = True
    none = Diver(np.int32(0), np.int32(0), np.bool_(False))
    divers = [none, none]
    for x, y, heads_right, timer in env.divers:
        # All divers move at the same steps, since they enter every 30 steps and move every 6.
        assert timer == (env.d_spawn_timer - 25) % 6
        age = (x if heads_right else 9 - x) * 6 + 4 - timer
        assert divers[age // 30] is none
        divers[age // 30] = Diver(np.int32(y), np.int32(x), np.bool_(heads_right))
    number, flag = np.int32, np.bool_
    return State(
        row=number(env.sub_y),
        column=number(env.sub_x),
        facing_right=flag(env.sub_or),
        surfaced=flag(env.surface),
        oxygen=number(env.oxygen),
        aboard=number(env.diver_count),
        shot_timer=number(env.shot_timer),
        enemy_timer=number(env.e_spawn_timer),
        diver_timer=number(env.d_spawn_timer),
        level=number(level),
        shots_right=bitboard(shots[1]),
        shots_left=bitboard(shots[0]),
        torpedoes_right=bitboard(torpedoes[1]),
        torpedoes_left=bitboard(torpedoes[0]),
        enemies=tuple(Enemies(bitboard(late), tuple(map(bitboard, code))) for *code, late in planes),
        fish=bitboard(fish),
        submarines=bitboard(submarines),
        right=bitboard(right),
        divers=tuple(divers),
    )


def draws(calls):
    """Translates the draws of one step: side, kind and row of an enemy, then side and row of a diver."""
    values = [result for _, _, result in calls]
    names = [name for name, _, _ in calls]
    assert all(args == (1, 9) for name, args, _ in calls if name == "randint")
    enemy, diver = (1.0, 1.0, 1), (1.0, 1)
    if names[:3] == ["rand", "rand", "randint"]:
        enemy, names, values = values[:3], names[3:], values[3:]
    if names:
        assert names == ["rand", "randint"]
        diver = values
    return Draws(
        enemy_from_left=np.bool_(enemy[0] < 1 / 2),
        enemy_row=np.int32(enemy[2]),
        is_submarine=np.bool_(enemy[1] < 1 / 3),
        diver_from_left=np.bool_(diver[0] < 1 / 2),
        diver_row=np.int32(diver[1]),
    )


TRANSLATION = reference.Translation(ID, state, draws)
bare = functools.cache(lambda **kwargs: reference.bare(ID, **kwargs))


def set_level(env, level):
    env.ramp_index, env.e_spawn_speed, env.move_speed = level, max(20 - level, 1), max(5 - level // 2, 2)
    env.e_spawn_timer = min(env.e_spawn_timer, env.e_spawn_speed)


def at_any_level(env, rng):
    """Starts at any level, sometimes with two divers that are about to share a cell or with six divers aboard."""
    set_level(env, int(rng.integers(20)))
    if rng.random() < 0.5:
        timer, y = int(rng.integers(6)), int(rng.integers(1, 9))
        from_left = bool(rng.integers(2))
        older, newer = ([7, 7] if from_left else [2, 2]) if rng.integers(2) else ([6, 8] if from_left else [3, 1])
        env.divers = [[older, y, from_left, timer], [newer, y, not from_left, timer]]
        env.d_spawn_timer = 13 + timer if older == newer else 19 + timer
        env.sub_x, env.sub_y, env.surface = older + int(rng.integers(-1, 2)), y, False
        env.diver_count = int(rng.integers(3, 7))
    elif rng.random() < 0.5:
        env.sub_y, env.surface, env.oxygen, env.diver_count = 1, False, int(rng.integers(1, 201)), 6


def revive(env, rng, probability=0.85):
    """Moves a lost submarine in front of an enemy, so that the water fills and the level rises."""
    env.terminal, env.f_bullets, env.shot_timer = False, [], 0
    places = [tuple(each[:2]) for each in env.e_fish + env.e_subs]
    places = [place for place in places if places.count(place) > 1] or places or [(0, 4)]
    x, env.sub_y = places[rng.integers(len(places))]
    env.sub_or = x > 4
    env.sub_x, env.surface = x + int(rng.integers(1, 5)) * (-1 if env.sub_or else 1), False
    env.oxygen, env.diver_count = int(rng.integers(1, 201)), int(rng.integers(-2, 7))
    return rng.random() < probability


def revive_at_last_level(env, rng):
    """Continues forever at the last level, where the water is most crowded."""
    set_level(env, 19)
    return revive(env, rng, probability=1)


def cautious(env, rng):
    """A random action that ends neither near an enemy nor at the surface without divers."""
    weights = np.array([1, 1, 6 if env.diver_count > 0 and env.oxygen < 120 else 1, 1, 2 if env.sub_y < 2 else 1, 3])
    dangers = [each[:3] for each in env.e_fish + env.e_subs + env.e_bullets]
    for action in rng.choice(6, 6, replace=False, p=weights / weights.sum()):
        dx, dy = ((0, 0), (-1, 0), (0, -1), (1, 0), (0, 1), (0, 0))[action]
        x, y = min(max(env.sub_x + dx, 0), 9), min(max(env.sub_y + dy, 0), 8)
        near = any(b == y and -1 <= (x - a) * (1 if heads_right else -1) <= 3 for a, b, heads_right in dangers)
        enters = y > 0 and x in (0, 9) and env.e_spawn_timer == 0
        if not near and not enters and (y > 0 or env.surface or env.diver_count != 0):
            return action
    return 5


def count_enemies(game):
    """Returns the number of enemies in a state of one lane, and the number of cells with an enemy."""
    cells = [group.code[0] | group.code[1] | group.code[2] | group.code[3] for group in game.enemies]
    number = sum(int(np.bitwise_count(word)) for group in cells for word in group.words)
    return number, sum(int(np.bitwise_count(word)) for word in (game.fish | game.submarines).words)


def test_channels_and_minimal_actions_match_the_original():
    reference.assert_channels_and_actions_match(bare())


def test_steps_match_the_original_at_every_level():
    weights = (1, 1, 1, 1, 1, 4)
    steps = reference.random_steps(TRANSLATION, 2500, weights=weights, prepare=at_any_level, revive=revive)
    steps += reference.random_steps(TRANSLATION, 1500, weights=weights, revive=revive_at_last_level)
    counts = [count_enemies(s.before) for s in steps]
    sharing = [number > cells for number, cells in counts]
    assert {int(s.before.level) for s in steps} == set(range(20))
    assert max(number for number, _ in counts) > 15
    assert sum(shared and s.reward > 0 for shared, s in zip(sharing, steps, strict=True)) > 30
    assert max(s.reward for s in steps) > 2  # for oxygen, with six divers
    assert min(s.after.aboard for s in steps) < 0
    both = [s for s in steps if s.before.divers[0].row * s.before.divers[1].row > 0]
    assert sum(s.before.aboard == 5 and s.after.aboard == 6 for s in both) > 2  # only one diver takes the last place
    assert sum(s.terminated for s in steps) > 200
    reference.assert_steps_match(bare(), steps)


def test_whole_episodes_match_the_original():
    played = reference.episodes(TRANSLATION, cautious, range(16), max_steps=500)
    assert max(map(len, played)) > 300
    assert max(int(steps[-1].after.level) for steps in played) >= 2
    assert sum(steps[-1].terminated for steps in played) > 5
    reference.assert_episodes_match(bare(), played)


def test_the_level_stays_when_the_submarine_surfaces_without_ramping():
    def about_to_surface(env, rng):
        env.sub_y, env.surface, env.diver_count = 1, False, int(rng.integers(1, 7))

    steps = reference.random_steps(
        TRANSLATION, 300, ramping=False, weights=(1, 0, 3, 0, 2, 0), prepare=about_to_surface
    )
    assert sum(s.after.surfaced and not s.before.surfaced for s in steps) > 20
    assert {int(s.after.level) for s in steps} == {0}
    reference.assert_steps_match(bare(difficulty_ramping=False), steps)


def test_spawns_have_the_probabilities_of_the_original():
    # One word per lane yields all five choices: each has the right distribution, and they are independent.
    words = jax.random.bits(jax.random.key(1), (40000,))
    drawn = jax.device_get(jax.jit(bare().draws)([words]))
    counts = np.zeros((2, 8, 2, 2, 8))
    enemy = drawn.enemy_from_left.astype(int), drawn.enemy_row - 1, drawn.is_submarine.astype(int)
    np.add.at(counts, (*enemy, drawn.diver_from_left.astype(int), drawn.diver_row - 1), 1)
    expected = len(words) / 2 / 8 / 2 / 8 * np.broadcast_to(np.array([2, 1])[:, None, None] / 3, counts.shape)
    assert abs(np.sum((counts - expected) ** 2 / expected) - counts.size) < 5 * np.sqrt(2 * counts.size)
    for axis in range(5):
        others = tuple(i for i in range(5) if i != axis)
        found, mean = counts.sum(axis=others), expected.sum(axis=others)
        assert np.all(np.abs(found - mean) < 4.5 * np.sqrt(mean)), axis
