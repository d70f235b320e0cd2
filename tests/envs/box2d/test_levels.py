"""Levels of the tasks with rigid bodies: starts that they fix, edits of grounds, and what is refused."""

import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import random, tree
from jaxenv.envs.box2d import bipedal_level, bipedal_obstacles
from jaxenv.envs.box2d.bipedal_obstacles import AHEAD, BEHIND, MOST, NEAR, PIT, STAIRS, STUMP
from jaxenv.envs.box2d.bipedal_terrain import LEVEL, PAD, POINTS, SPACING
from jaxenv.envs.box2d.bipedal_walker import END, BipedalWalker
from jaxenv.envs.box2d.car_racing import CarRacing
from jaxenv.envs.box2d.lunar_lander import HEIGHT, LunarLander
from jaxenv.envs.box2d.lunar_lander import PAD as HELIPAD
from tests.envs.physics2d.steps import QUICK

TASKS = {
    "walker": BipedalWalker(),
    "hardcore": BipedalWalker(hardcore=True),
    "lander": LunarLander(enable_wind=True),
    "car": CarRacing(domain_randomize=True, observe_pixels=False),
}
HARDCORE = TASKS["hardcore"]


def streams(seed, lanes):
    return random.stream(jax.random.split(jax.random.key(seed), lanes))


def sampled(name, seed=0, lanes=4):
    return jax.jit(TASKS[name].sample_level)(streams(seed, lanes))


def edited(name, level, edits, seed=9):
    """The levels after each of some edits."""
    env, lanes = TASKS[name], level.force.shape[0]
    edit = jax.jit(env.mutate_level)
    found = [level]
    for i in range(edits):
        found.append(edit(found[-1], streams(seed + i, lanes)))
    return found


@pytest.mark.parametrize("name", TASKS)
def test_an_episode_starts_in_its_level_whatever_its_stream(name):
    env, lanes = TASKS[name], 4
    begin = jax.jit(env.initial, compiler_options=QUICK)
    level = sampled(name)
    start = begin(streams(0, lanes), level)
    chex.assert_trees_all_equal(begin(streams(5, lanes), level), start)
    other = begin(streams(0, lanes), sampled(name, 1))
    for x, y in zip(jax.tree.leaves(env.observe(start)), jax.tree.leaves(env.observe(other)), strict=True):
        assert (np.asarray(x) != np.asarray(y)).any(axis=1).all()


def test_levels_are_seen_in_the_state():
    level = sampled("hardcore")
    heights, blocks = bipedal_level.ground(level)
    state = jax.jit(HARDCORE.initial, compiler_options=QUICK)(streams(0, 4), level)
    np.testing.assert_allclose(state.heights, heights, atol=1e-5)
    np.testing.assert_allclose(state.blocks, blocks, atol=1e-5)
    car = sampled("car")
    state = jax.jit(TASKS["car"].initial, compiler_options=QUICK)(streams(0, 4), car)
    chex.assert_trees_all_equal((state.track, state.colours), (car.track, car.colours))


# --- grounds of the walker --------------------------------------------------------------------------------------------


def with_obstacles(*obstacles):
    """A level without bumps and with these obstacles: pairs of point, kind and size."""
    kinds, sizes = np.zeros((2, 1, POINTS), np.int8)
    for point, kind, size in obstacles:
        kinds[0, point], sizes[0, point] = kind, size
    return bipedal_level.WalkerLevel(
        np.zeros((1, POINTS), np.float32), np.zeros(1, np.float32), None, jnp.array(kinds), jnp.array(sizes)
    )


def test_new_ground_has_obstacles_of_gymnasiums_sizes():
    level = sampled("hardcore", lanes=500)
    HARDCORE.check_level(level)
    kinds, sizes = np.asarray(level.obstacles), np.asarray(level.sizes)
    found = {k: set(sizes[kinds == k].tolist()) for k in (0, STUMP, STAIRS, PIT)}
    assert found == {0: {0}, STUMP: {1, 2}, STAIRS: {3, 4, -3, -4}, PIT: {3, 4}}


def test_obstacles_stand_where_a_level_has_them():
    level = with_obstacles((30, STUMP, 4), (50, STAIRS, -2), (80, PIT, 7), (100, STAIRS, 1))
    HARDCORE.check_level(level)
    heights, blocks = (np.asarray(x)[0] for x in bipedal_level.ground(level))
    left, low, right, top = (blocks[:, blocks[0] < 1e5] - np.array([0, LEVEL, 0, LEVEL])[:, None]) / SPACING
    np.testing.assert_allclose(left, [30, 50, 54, 80, 87, 100], atol=1e-4)
    np.testing.assert_allclose(right - left, [4, 4, 4, 1, 1, 4], atol=1e-4)
    base = (heights[99] - LEVEL) / SPACING
    np.testing.assert_allclose(top[:3], [4, 0, -1], atol=1e-4)
    np.testing.assert_allclose((top - low)[:3], [4, 1, 1], atol=1e-4)
    np.testing.assert_allclose(top[3:5] - low[3:5], 4, atol=1e-4)
    np.testing.assert_allclose(top[5], base, atol=1e-4)
    inside = (heights[81:88] - heights[88]) / SPACING
    np.testing.assert_allclose(inside, -4, atol=1e-4)


@pytest.mark.parametrize("name", ["walker", "hardcore", "lander"])
def test_edited_levels_are_levels(name):
    for level in edited(name, sampled(name, lanes=200), 12):
        TASKS[name].check_level(level)


def test_edits_of_ground_do_all_that_they_may():
    before, *_, after = levels = edited("hardcore", sampled("hardcore", lanes=300), 40)
    kinds, sizes = np.asarray(after.obstacles), np.abs(np.asarray(after.sizes))
    for kind in (STUMP, STAIRS, PIT):
        found = sizes[kinds == kind]
        assert (found.min(), found.max()) == (bipedal_level.SMALLEST[kind], bipedal_level.LARGEST[kind])
    assert 1.5 < np.abs(after.bumps).max() <= 3
    # An edit changes one thing: a stretch of bumps, or one obstacle.
    changes = {"bumps": 0, "placed": 0, "removed": 0, "resized": 0}
    for old, new in itertools.pairwise(levels[20:26]):
        bumps = np.asarray(old.bumps != new.bumps).any(axis=1)
        points = np.asarray(old.obstacles != new.obstacles) | np.asarray(old.sizes != new.sizes)
        assert not (bumps & points.any(axis=1)).any()
        assert np.asarray(old.bumps != new.bumps).sum(axis=1).max() <= 20
        assert points.sum(axis=1).max() <= 1
        was, now = (np.asarray(x.obstacles)[points] > 0 for x in (old, new))
        changes["bumps"] += bumps.sum()
        changes["placed"] += (~was & now).sum()
        changes["removed"] += (was & ~now).sum()
        changes["resized"] += (was & now).sum()
    assert min(changes.values()) > 20, changes
    np.testing.assert_array_equal(before.force, after.force)
    old, new = edited("walker", sampled("walker"), 1)
    assert (old.bumps != new.bumps).any(axis=1).all()


def test_no_legal_ground_has_more_blocks_than_are_kept_or_near():
    """Pits are closest: two blocks for ten points. Edits of grounds full of small obstacles find no exception."""
    shortest = {STUMP: 1, STAIRS: 1, PIT: 3}
    full = []
    for kind, size in shortest.items():
        apart = int(bipedal_obstacles.length(np.int32(kind), np.int32(size))) + 5
        full.append(with_obstacles(*((p, kind, size) for p in range(PAD, POINTS, apart))))
    level = jax.tree.map(lambda *x: jnp.repeat(jnp.concatenate(x), 60, axis=0), *full)
    HARDCORE.check_level(level)
    level = jax.tree.map(lambda *x: jnp.concatenate(x), level, edited("hardcore", level, 25)[-1])
    blocks = np.asarray(jax.jit(bipedal_level.ground)(level)[1])
    assert np.sum(blocks[:, 0] < 1e5, axis=1).max() <= MOST
    for x in np.linspace(0, END, 60, dtype=np.float32):
        kept = np.asarray(bipedal_obstacles.near(jnp.array(blocks), jnp.full(len(blocks), x)).first)[:, None]
        seen = (blocks[:, 2] > x - BEHIND) & (blocks[:, 0] < x + AHEAD)
        number = np.arange(MOST)[None]
        assert np.all(~seen | ((number >= kept) & (number < kept + NEAR)))


def wrong(name, **changes):
    level = sampled(name, lanes=2)
    return TASKS[name], tree.rebuild(level, **{k: change(getattr(level, k)) for k, change in changes.items()})


REFUSED = [
    (lambda: wrong("walker", bumps=lambda x: x.at[1, 3].set(11)), r"level\.bumps .*got 11\.0 in lane 1"),
    (lambda: wrong("walker", force=lambda x: x + 20), r"level\.force .* in lane 0"),
    (lambda: (HARDCORE, with_obstacles((19, STUMP, 1))), r"got obstacle 1 of size 1 at point 19 in lane 0"),
    (lambda: (HARDCORE, with_obstacles((30, STUMP, 2), (36, PIT, 3))), "got obstacle 3 of size 3 at point 36"),
    (lambda: (HARDCORE, with_obstacles((30, STAIRS, 5))), "got obstacle 2 of size 5 at point 30"),
    (lambda: (HARDCORE, with_obstacles((30, STAIRS, -5))), "got obstacle 2 of size -5 at point 30"),
    (lambda: (HARDCORE, with_obstacles((30, STUMP, -1))), "got obstacle 1 of size -1 at point 30"),
    (lambda: (HARDCORE, with_obstacles((30, PIT, 2))), "got obstacle 3 of size 2 at point 30"),
    (lambda: (HARDCORE, with_obstacles((40, 4, 1))), "got obstacle 4 of size 1 at point 40"),
    (lambda: (HARDCORE, with_obstacles((40, -1, 1))), "got obstacle -1 of size 1 at point 40"),
    (lambda: wrong("lander", heights=lambda x: x.at[1, 0].set(7)), r"level\.heights .*got 7\.0 in lane 1"),
    (lambda: wrong("lander", force=lambda x: x.at[0, 1].set(-1.5)), r"level\.force .*got -1\.5 in lane 0"),
    (lambda: wrong("car", track=lambda x: tree.rebuild(x, length=x.length * 0)), r"level\.track\.length .*got 0"),
]


@pytest.mark.parametrize(("made", "message"), REFUSED)
def test_levels_that_break_a_rule_are_refused(made, message):
    env, level = made()
    with pytest.raises(ValueError, match=message):
        env.check_level(level)


def test_obstacles_as_close_as_they_may_be_are_accepted():
    HARDCORE.check_level(with_obstacles((20, STUMP, 2), (27, PIT, 3), (37, STAIRS, -4), (58, STUMP, 5), (199, PIT, 10)))


def test_edits_of_a_lander_move_one_point_outside_of_the_pad_or_redraw_the_push():
    old, new = edited("lander", sampled("lander", lanes=300), 1)
    points, pushes = np.asarray(old.heights != new.heights), np.asarray(old.force != new.force).any(axis=1)
    np.testing.assert_array_equal(points.sum(axis=1), ~pushes)
    assert set(np.nonzero(points)[1].tolist()) == {0, 1, 2, 3, 7, 8, 9, 10}
    assert 100 < pushes.sum() < 200
    np.testing.assert_allclose(new.heights[:, 4:7], HELIPAD, rtol=0.02)
    assert np.asarray(new.heights).max() <= HEIGHT / 2


def test_levels_reach_an_episode_through_a_stack():
    env = jaxenv.make("BipedalWalkerHardcore-v3", num_envs=1)
    level = with_obstacles((26, STUMP, 1))
    played = env.with_level(level)
    with pytest.raises(ValueError, match="got obstacle 1 of size 1 at point 3"):
        env.with_level(with_obstacles((3, STUMP, 1)))
    shape = jax.eval_shape(played.reset, jax.random.key(0))[1].observation.shape
    assert shape == (1, 24)
