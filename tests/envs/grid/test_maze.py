"""Mazes have no reference implementation, so the tests search, count and play them."""

import functools
from collections import deque

import jax
import numpy as np
import pytest

import jaxenv
from tests.envs.grid import reference

HEADINGS = ((1, 0), (0, 1), (-1, 0), (0, -1))
SIZES = (5, 7, 9, 11, 13)
LANES = 3000


@functools.cache
def mazes():
    """Returns environment, start states, sizes, loop probabilities and floors; one lane in twelve has loops."""
    size = np.array(SIZES, np.int32)[np.arange(LANES) % len(SIZES)]
    loops = np.select([np.arange(LANES) % 24 == 0, np.arange(LANES) % 24 == 12], [1, 0.5], 0).astype(np.float32)
    limit = 4 * size**2
    env = jaxenv.make("Maze-13x13-v0", LANES, size=size, loops=loops, max_episode_steps=limit, autoreset=None)
    state, _ = reference.reset(env, jax.random.key(5))
    return env, state, size, loops, reference.plane(jax.device_get(state.task.floor))


def distances(floor, start):
    """Returns the cells that can be reached from ``start``, with their distance."""
    distance, queue = {start: 0}, deque([start])
    while queue:
        x, y = queue.popleft()
        for dx, dy in HEADINGS:
            after = (x + dx, y + dy)
            if floor[after] and after not in distance:
                distance[after] = distance[x, y] + 1
                queue.append(after)
    return distance


def test_every_two_rooms_are_connected_by_exactly_one_path():
    _, state, size, loops, floors = mazes()
    agents, goals = np.stack([state.task.agent.x, state.task.agent.y], 1), reference.coordinates(state.task.goal)
    for lane in range(0, LANES, 7):
        rooms = (size[lane] - 1) // 2
        cells = distances(floors[lane], (1, 1))
        assert len(cells) == floors[lane].sum(), "some cells cannot be reached"
        if loops[lane] == 0:  # connected, with one passage fewer than rooms: a tree
            assert len(cells) == 2 * rooms**2 - 1
        inside = floors[lane][: size[lane], : size[lane]]
        assert inside.sum() == floors[lane].sum()
        assert inside[1::2, 1::2].all()
        assert not inside[::2, ::2].any()
        assert tuple(agents[lane]) in cells
        assert tuple(goals[lane]) in cells


def test_walls_between_rooms_open_with_the_probability_of_loops():
    _, _, size, loops, floors = mazes()
    edges = (size - 3) * (size - 1) // 2
    rooms = (size - 1) // 2
    passages = np.sum(floors, axis=(1, 2)) - rooms**2
    assert np.array_equal(passages[loops == 1], edges[loops == 1])
    closed = edges - (rooms**2 - 1)
    opened = (passages - (rooms**2 - 1))[loops == 0.5].sum()
    total = closed[loops == 0.5].sum()
    assert abs(opened - total / 2) <= 4.5 * np.sqrt(total / 4)


def test_trees_have_the_distribution_of_randomized_kruskal():
    _, _, size, loops, floors = mazes()
    # For 2 by 2 rooms there are four trees: each lacks one of four passages, with equal probability.
    small = floors[(size == 5) & (loops == 0)]
    missing = np.stack([~small[:, 2, 1], ~small[:, 2, 3], ~small[:, 1, 2], ~small[:, 3, 2]], axis=1)
    assert np.all(missing.sum(axis=1) == 1)
    assert_counts(missing.sum(axis=0), np.full(4, len(small) / 4))
    # For 3 by 3 rooms there are 192 trees, whose frequencies are compared with those of Kruskal's algorithm.
    three = floors[(size == 7) & (loops == 0)]
    rng, edges = np.random.default_rng(0), edges_of(3)
    sample = np.array([kruskal(edges, rng.permutation(len(edges))) for _ in range(6000)])
    x, y = np.array([[a[i] + b[i] + 1 for a, b in edges] for i in (0, 1)])  # the cells between two rooms
    ratio = len(three) / len(sample)
    # Both sides are samples, so their variances add.
    assert_counts(statistics(edges, three[:, x, y]), statistics(edges, sample) * ratio, 1 + ratio)


def edges_of(n):
    right = [((x, y), (x + 1, y)) for x in range(n - 1) for y in range(n)]
    return right + [((x, y), (x, y + 1)) for x in range(n) for y in range(n - 1)]


def kruskal(edges, order):
    """Returns which edges are in the tree that takes them in this order unless they close a loop."""
    group = {}
    for a, b in edges:
        group.setdefault(a, a), group.setdefault(b, b)
    kept = np.zeros(len(edges), bool)
    for i in order:
        a, b = (group[node] for node in edges[i])
        if a != b:
            kept[i] = True
            group = {node: b if g == a else g for node, g in group.items()}
    return kept


def statistics(edges, kept):
    """Counts the trees that have each passage, and those in which each room has 1, 2, 3 or 4 passages."""
    nodes = sorted({node for edge in edges for node in edge})
    touches = np.array([[node in edge for node in nodes] for edge in edges])
    passages = kept.astype(int) @ touches.astype(int)
    return np.concatenate([np.sum(kept, axis=0), *(np.sum(passages == n, axis=0) for n in range(1, 5))])


def assert_counts(counts, expected, spread=1.0):
    assert np.all(np.abs(counts - expected) <= 4.5 * np.sqrt(spread * expected) + 2), (counts, expected)


def test_agent_and_goal_are_in_two_uniformly_random_rooms():
    _, state, size, _, _ = mazes()
    lanes = size == 7
    start = np.stack([state.task.agent.x, state.task.agent.y], 1)[lanes]
    goal = reference.coordinates(state.task.goal)[lanes]
    pairs, counts = np.unique(np.concatenate([start, goal], axis=1), axis=0, return_counts=True)
    assert np.all(pairs % 2 == 1)
    assert len(pairs) == 72
    assert_counts(counts, lanes.sum() / 72)
    assert_counts(np.bincount(np.asarray(state.task.agent.direction)), np.full(4, LANES / 4))


def test_following_the_shortest_path_reaches_the_goal_with_the_expected_reward():
    env, state, size, _, floors = mazes()
    lanes = 200
    task = jax.device_get(state.task)
    starts = np.stack([task.agent.x, task.agent.y, task.agent.direction], axis=1)
    plans = [
        shortest_path(floors[i], starts[i].tolist(), tuple(reference.coordinates(task.goal[i]))) for i in range(lanes)
    ]
    longest = max(map(len, plans))
    actions = np.full((longest, LANES), 6, np.int32)
    for lane, plan in enumerate(plans):
        actions[: len(plan), lane] = plan
    rows = jax.device_get(reference.replay(env, state, actions))
    for lane, plan in enumerate(plans):
        last = len(plan) - 1
        assert rows.terminated[: last + 1, lane].tolist() == [False] * last + [True]
        expected = 1 - 0.9 * len(plan) / (4 * size[lane] ** 2)
        assert rows.reward[: last + 1, lane] == pytest.approx([0] * last + [expected], abs=1e-6)


def shortest_path(floor, start, goal):
    """Returns the actions of the shortest path, turns included."""
    x, y, heading = start
    distance, plan = distances(floor, goal), []
    while (x, y) != goal:
        nearer = min(range(4), key=lambda d: distance.get((x + HEADINGS[d][0], y + HEADINGS[d][1]), np.inf))
        plan += [[], [1], [1, 1], [0]][(nearer - heading) % 4] + [2]
        x, y, heading = x + HEADINGS[nearer][0], y + HEADINGS[nearer][1], nearer
    return plan
