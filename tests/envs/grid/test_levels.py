"""Parity of the levels with MiniGrid 3.2.0: single steps, whole episodes, and starts of episodes.

Levels that differ only in size form one batch, in which every lane has a grid of its own size.
"""

import functools
import itertools

import chex
import jax
import numpy as np
import pytest

import jaxenv
from jaxenv import tree
from tests.envs.grid import reference
from tests.parity import certify

# Ids by level.
EMPTY = ("MiniGrid-Empty-8x8-v0", "MiniGrid-Empty-5x5-v0", "MiniGrid-Empty-Random-5x5-v0")
LAVA_GAP = ("MiniGrid-LavaGapS7-v0",)
FOUR_ROOMS = ("MiniGrid-FourRooms-v0",)
DOOR_KEY = ("MiniGrid-DoorKey-5x5-v0", "MiniGrid-DoorKey-8x8-v0", "MiniGrid-DoorKey-16x16-v0")


def together(ids, lanes):
    """Returns the largest level, with ``lanes`` lanes of the size and time limit of each id."""
    sizes = [jaxenv.spec(id).make().max_size for id in ids]
    size = np.repeat(sizes, lanes).astype(np.int32)
    limit = np.repeat([jaxenv.spec(id).max_episode_steps for id in ids], lanes).astype(np.int32)
    largest = ids[np.argmax(sizes)]
    return jaxenv.make(largest, len(size), autoreset=None, size=size, max_episode_steps=limit)


@pytest.mark.parametrize("ids", [EMPTY, LAVA_GAP, FOUR_ROOMS, DOOR_KEY], ids=lambda ids: ids[0].split("-")[1])
def test_steps_and_whole_episodes_match_minigrid(ids):
    files = [reference.golden(id) for id in ids]
    lanes, played = len(files[0]["action"]), len(files[0]["episode_length"])
    steps = reference.batched(files, lanes)
    episodes = reference.batched(files, played, prefix="episode_")
    assert np.sum(steps["reward"] > 0) >= 5 * len(ids)
    assert np.sum(steps["after_step"] >= steps["max_steps"]) >= len(ids) - 1
    assert np.sum(episodes["episode_terminated"]) >= 5 * len(ids)
    error = reference.assert_steps_match(together(ids, lanes), steps)
    error = max(error, reference.assert_episodes_match(together(ids, played), episodes))
    for id, file in zip(ids, files, strict=True):
        assert jaxenv.spec(id).max_episode_steps == file["max_steps"]
        certify(
            id,
            "minigrid 3.2.0",
            states=lanes,
            episodes=played,
            steps=int(np.sum(file["episode_length"])),
            tolerance=reference.TOLERANCE,
            error=error,
        )


def test_empty_rooms_start_as_in_minigrid():
    env = together(EMPTY[:2], 4)
    state, timestep = jax.device_get(reference.reset(env, jax.random.key(0)))
    files = [reference.golden(id) for id in EMPTY[:2]]
    data = reference.batched(files, 4, prefix="episode_")
    expected = reference.inject(env, data["episode_grid"], data["episode_agent"])
    chex.assert_trees_all_equal(*map(jax.tree.leaves, (state.task, expected.task)))
    assert np.all(timestep.observation["direction"] == 0)


def test_starts_in_random_empty_rooms_are_distributed_as_in_minigrid():
    (id,) = EMPTY[2:]
    theirs = reference.golden(id)["starts"]
    task, others = with_other_sizes(jaxenv.spec(id), len(theirs), (4, 6), max_size=6)
    cells = [(x, y) for x in range(1, 4) for y in range(1, 4) if (x, y) != (3, 3)]
    expected = {(*c, d): 1 / 32 for c in cells for d in range(4)}
    for starts in (theirs, poses(task)):
        assert_distributed(starts[:, :3], expected)
    assert np.all(reference.coordinates(task.goal) == 3)
    for size, other in others.items():
        inside = {(x, y) for x in range(1, size - 1) for y in range(1, size - 1)}
        assert set(map(tuple, poses(other)[:, :2].tolist())) == inside - {(size - 2, size - 2)}
        assert np.all(reference.coordinates(other.goal) == size - 2)


def test_the_gap_in_the_lava_is_distributed_as_in_minigrid():
    (id,) = LAVA_GAP
    theirs = reference.golden(id)["starts"]
    task, others = with_other_sizes(jaxenv.spec(id), len(theirs), (5, 6))
    lava = reference.plane(task.lava)[:, 1:6, 1:6]
    column = np.any(lava, axis=2)
    assert np.all(np.sum(column, axis=1) == 1)
    assert np.all(np.sum(lava, axis=(1, 2)) == 4)
    gap = np.argmax(column, axis=1), np.argmin(lava[column], axis=1)
    expected = {(x, y): 1 / 15 for x in range(2, 5) for y in range(1, 6)}
    for starts in (theirs[:, 5:7], np.stack(gap, axis=1) + 1):
        assert_distributed(starts, expected)
    assert np.all(poses(task) == [1, 1, 0])
    assert np.all(reference.coordinates(task.goal) == 5)
    assert np.all(np.sum(reference.plane(task.floor), axis=(1, 2)) == 25)
    for size, other in others.items():
        lava = reference.plane(other.lava)
        column = np.argmax(np.any(lava, axis=2), axis=1)
        gap = 1 + np.argmin(lava[np.arange(len(lava)), column, 1:], axis=1)
        assert set(column) == set(range(2, size - 2))
        assert set(gap) == set(range(1, size - 1))
        assert np.all(np.sum(lava, axis=(1, 2)) == size - 3)


def test_gaps_agent_and_goal_of_four_rooms_are_distributed_as_in_minigrid():
    (id,) = FOUR_ROOMS
    theirs = reference.golden(id)["starts"]
    task, others = with_other_sizes(jaxenv.spec(id), len(theirs), (5, 7, 11))
    floor = reference.plane(task.floor)
    upper, left = np.argmax(floor[:, 9, :9], axis=1), np.argmax(floor[:, :9, 9], axis=1)
    lower, right = 10 + np.argmax(floor[:, 9, 10:], axis=1), 10 + np.argmax(floor[:, 10:, 9], axis=1)
    goal = reference.coordinates(task.goal)
    ours = np.concatenate([poses(task), goal, np.stack([upper, lower, left, right], axis=1)], axis=1)
    assert np.all(np.sum(floor, axis=(1, 2)) == 260)
    rooms = [*range(1, 9), *range(10, 18)]
    free = {(x, y): 1 / 260 for x in rooms for y in rooms}
    free |= {c: 1 / 260 / 8 for i in rooms for c in ((9, i), (i, 9))}
    directions = {(d,): 1 / 4 for d in range(4)}
    for starts in (theirs, ours):
        assert_distributed(starts[:, :2], free)
        assert_distributed(starts[:, 2:3], directions)
        assert_distributed(starts[:, 3:5], free)
        for column, low in ((5, 1), (6, 10), (7, 1), (8, 10)):
            assert_distributed(starts[:, column : column + 1], {(low + i,): 1 / 8 for i in range(8)})
        assert np.all(np.any(starts[:, :2] != starts[:, 3:5], axis=1))
    assert np.all(floor[np.arange(len(ours)), ours[:, 0], ours[:, 1]])
    assert np.all(floor[np.arange(len(ours)), goal[:, 0], goal[:, 1]])
    for size, other in others.items():
        floor, goal, middle = reference.plane(other.floor), reference.coordinates(other.goal), size // 2
        rooms = [i for i in range(1, size - 1) if i != middle]
        assert np.all(floor[:, rooms][:, :, rooms])
        assert np.all(np.sum(floor, axis=(1, 2)) == len(rooms) ** 2 + 4)
        for line in (floor[:, middle], floor[:, :, middle]):  # one gap on each side
            assert np.all(np.sum(line[:, 1:middle], axis=1) == 1)
            assert np.all(np.sum(line[:, middle + 1 : size - 1], axis=1) == 1)
        for cell in (poses(other)[:, :2], goal):
            assert np.all(floor[np.arange(len(floor)), cell[:, 0], cell[:, 1]])
            assert (cell.min(), cell.max()) == (1, size - 2)


@functools.cache
def door_keys():
    """Returns starts of the three sizes, as many of each as were recorded from MiniGrid."""
    return starts_of(together(DOOR_KEY, len(reference.golden(DOOR_KEY[0])["starts"])).unwrapped)


def test_a_small_grid_starts_the_same_alone_and_in_a_batch_with_larger_ones():
    within = door_keys()
    # Streams depend on the name of the environment.
    small = starts_of(tree.rebuild(jaxenv.spec(DOOR_KEY[0]).make(len(within.step) // 3), name=DOOR_KEY[-1]))
    lanes = len(small.step)
    # Cells beyond the smaller grid are walls.
    inner = jax.tree.map(lambda a, b: b[:lanes, :5] if a.ndim == 2 else b[:lanes], small, within)
    chex.assert_trees_all_equal(small, inner)
    assert not np.any(within.floor.rows[:lanes, 5:] | within.floor.columns[:lanes, 5:])


def test_door_key_and_agent_are_distributed_as_in_minigrid():
    files = [reference.golden(id)["starts"] for id in DOOR_KEY]
    lanes, task = len(files[0]), door_keys()
    ours = np.concatenate(
        [poses(task), *(reference.coordinates(c) for c in (task.goal, task.lock.door, task.lock.key))], axis=1
    )
    assert np.all(task.lock.door_state == 2)
    for size, theirs, mine in zip((5, 8, 16), files, np.split(ours, 3), strict=True):
        walls, rows = range(2, size - 2), range(1, size - 1)
        left = {
            (x, y): sum(1 / len(walls) / ((wall - 1) * len(rows)) for wall in walls if wall > x)
            for x in range(1, size - 3)
            for y in rows
        }
        doors = {(wall, y): 1 / len(walls) / (size - 3) for wall in walls for y in range(1, size - 2)}
        for starts in (theirs, mine):
            assert_distributed(starts[:, 5:7], doors)
            assert_distributed(starts[:, :2], left)
            assert_distributed(starts[:, 7:9], left)
            assert_distributed(starts[:, 2:3], {(d,): 1 / 4 for d in range(4)})
            assert np.all(np.any(starts[:, :2] != starts[:, 7:9], axis=1))
            assert np.all(starts[:, 3:5] == size - 2)
            if size == 5:  # small enough to test the joint distribution
                cells = [(1, y) for y in rows]
                together_ = itertools.product(cells, range(4), [(2, 1), (2, 2)], cells)
                expected = {(*a, d, *door, *k): 1 / 48 for a, d, door, k in together_ if a != k}
                assert_distributed(starts[:, [0, 1, 2, 5, 6, 7, 8]], expected)
    floor = reference.plane(task.floor)
    for lane in (0, lanes, 2 * lanes):
        size, (wall, door) = (5, 8, 16)[lane // lanes], ours[lane, 5:7]
        expected = np.zeros((16, 16), bool)
        expected[1 : size - 1, 1 : size - 1] = True
        expected[wall] = False
        expected[wall, door] = True
        np.testing.assert_array_equal(floor[lane], expected)


def starts_of(env):
    """Returns the state at the start of an episode in every lane."""
    return jax.device_get(reference.reset(env, jax.random.key(3)))[0].task


def with_other_sizes(spec, lanes, sizes, **options):
    """Returns starts in ``lanes`` lanes of the level's own size, and by size starts in 300 lanes of each other size."""
    size = np.concatenate([np.full(lanes, spec.make().max_size), np.repeat(sizes, 300)]).astype(np.int32)
    task = starts_of(spec.make(len(size), size=size, **options))
    starts = lanes + 300 * np.arange(len(sizes))
    own, *others = (jax.tree.map(lambda x, n=n: x[n], task) for n in np.split(np.arange(len(size)), starts))
    return own, dict(zip(sizes, others, strict=True))


def poses(task):
    """Returns x, y and direction, ``[B, 3]``."""
    return np.stack([task.agent.x, task.agent.y, task.agent.direction], axis=1)


def assert_distributed(rows, expected):
    """Asserts that the frequency of each row is as expected within 4.5 standard deviations, and no others occur."""
    assert sum(expected.values()) == pytest.approx(1)
    values, counts = np.unique(rows, axis=0, return_counts=True)
    found = {tuple(int(i) for i in v): n for v, n in zip(values, counts, strict=True)}
    assert found.keys() <= expected.keys()
    for value, probability in expected.items():
        mean = len(rows) * probability
        # For small counts the tails are heavier than those of a normal distribution.
        assert abs(found.get(value, 0) - mean) <= 4.5 * np.sqrt(mean) + 2, (value, found.get(value, 0), mean)
