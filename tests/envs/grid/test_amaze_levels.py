"""Levels of AMaze: their distribution and that of their edits, as recorded of jaxued and minimax, and their text."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import random, tree
from jaxenv.envs.grid import amaze
from jaxenv.envs.grid.amaze import AMaze
from tests.draws import chi_square, draw, lanes
from tests.envs.grid.amaze_reference import ID, expected_view, level_of, recorded
from tests.errors import like

HEADINGS = ((1, 0), (0, 1), (-1, 0), (0, -1))


# --- levels ----------------------------------------------------------------------------------------------------------


def counted(level):
    """As ``counts`` of ``make_amaze.py``."""
    walls = level.wall_map
    cells = [np.bincount(p @ np.array([1, 13]), minlength=169) for p in (level.agent_pos, level.goal_pos)]
    return np.stack([walls.sum(0).reshape(-1), *cells, np.bincount(walls.sum((1, 2)), minlength=169)])


def assert_same_distribution(ours, theirs):
    """Two samples of counts of equal size, by a chi-square statistic of their differences."""
    total = ours + theirs
    kept = total >= 20
    degrees = kept.sum() - 1
    statistic = np.sum((ours[kept] - theirs[kept]) ** 2 / total[kept])
    assert abs(statistic - degrees) < 5 * np.sqrt(2 * degrees)


@pytest.mark.parametrize(("distinct", "name"), [(False, "draws"), (True, "draws_distinct")], ids=["jaxued", "minimax"])
def test_levels_have_the_distribution_of_the_original(distinct, name):
    env = AMaze(distinct_walls=distinct)
    level = draw(env.sample_level)
    env.check_level(level)
    ours = counted(level)
    theirs = recorded()[name]
    for cells, expected in zip(ours[:3], theirs[:3], strict=True):
        assert_same_distribution(cells, expected)
    if distinct:
        np.testing.assert_array_equal(ours[3], theirs[3])  # all levels have 60 walls
    else:
        assert_same_distribution(ours[3], theirs[3])
    assert abs(chi_square(np.bincount(level.agent_dir))) < 4


@pytest.mark.parametrize("options", [{}, {"distinct_walls": True}, {"vary_num_walls": True}], ids=str)
def test_levels_without_walls_are_free(options):
    env = AMaze(num_walls=0, **options)
    level = draw(env.sample_level, 50)
    env.check_level(level)
    assert not level.wall_map.any()


def test_a_varying_number_of_walls_is_uniform_with_both_ends():
    env = AMaze(num_walls=9, vary_num_walls=True, distinct_walls=True)
    level = draw(env.sample_level)
    counts = np.bincount(level.wall_map.sum((1, 2)))
    assert len(counts) == 10
    assert abs(chi_square(counts)) < 4


def test_episodes_start_in_the_level_that_is_sampled_or_given():
    env = jaxenv.make(ID, 12)
    level = jaxenv.sample_level(env, jax.random.key(3))
    state, row = env.reset(jax.random.key(3))
    for x, y in zip(*map(jax.tree.leaves, ((state, row), env.reset(jax.random.key(3), level=level))), strict=True):
        np.testing.assert_array_equal(x, y)
    names, level = amaze.held_out()
    state, row = env.with_level(level).reset(jax.random.key(4))
    task = state.inner.task
    np.testing.assert_array_equal(np.stack([task.agent.x, task.agent.y], axis=1), level.agent_pos)
    np.testing.assert_array_equal(np.stack([task.goal & 31, task.goal >> 5], axis=1), level.goal_pos)
    np.testing.assert_array_equal(row.observation["direction"], level.agent_dir)
    seen = [expected_view(level, lane) for lane in range(len(names))]
    np.testing.assert_array_equal(row.observation["image"], seen)


def test_edits_have_the_distribution_of_minimax():
    env = AMaze()
    before = jax.tree.map(lambda x: np.repeat(x, 20_000, axis=0), level_of("edited"))
    after = draw(lambda stream: env.mutate_level(before, stream))
    env.check_level(after)
    flips = np.sum(after.wall_map != before.wall_map, axis=0).reshape(-1)
    goals = np.bincount(after.goal_pos @ np.array([1, 13]), minlength=169)
    for mine, theirs in zip((flips, goals), recorded()["edits"], strict=True):
        assert_same_distribution(mine, theirs)
        np.testing.assert_array_equal(mine > 0, theirs > 0)
    np.testing.assert_array_equal(after.agent_pos, before.agent_pos)
    np.testing.assert_array_equal(after.agent_dir, before.agent_dir)


def test_many_edits_keep_levels_valid():
    env, level = AMaze(), level_of("level")
    start = jax.tree.map(jnp.asarray, level)

    def one(level, number):
        return env.mutate_level(level, random.fold_in(lanes(100), number)), None

    edited = jax.device_get(jax.jit(lambda level: jax.lax.scan(one, level, jnp.arange(60))[0])(start))
    env.check_level(edited)
    assert np.any(edited.goal_pos != level.goal_pos, axis=1).mean() > 0.9
    assert np.any(edited.wall_map != level.wall_map, axis=(1, 2)).mean() > 0.9


def test_a_goal_that_moves_never_stays_where_it_is():
    # There is one free cell to move to: a third of the edits move the goal there, a third flip one of seven cells.
    env, number = AMaze(size=3, num_walls=0), 3000
    level = jax.tree.map(lambda x: np.repeat(x, number, axis=0), amaze.parse_levels(">##\n###\nG#.", 3))
    edited = jax.device_get(jax.jit(lambda level: env.mutate_level(level, lanes(number)))(level))
    moved = np.any(edited.goal_pos != level.goal_pos, axis=1)
    assert np.all(edited.goal_pos[moved] == [2, 2])
    assert abs(moved.mean() - 1 / 3) < 0.04  # more than four standard deviations
    flipped = np.any(edited.wall_map != level.wall_map, axis=(1, 2))
    assert not np.any(moved & flipped)
    assert abs(flipped.mean() - 1 / 3) < 0.04


def test_a_goal_without_another_free_cell_stays():
    env = AMaze(size=2, num_walls=0)
    level = jax.tree.map(lambda x: np.repeat(x, 50, axis=0), amaze.parse_levels(">#\n#G", 2))
    edited = jax.device_get(jax.jit(lambda level: env.mutate_level(level, lanes(50)))(level))
    np.testing.assert_array_equal(edited.goal_pos, level.goal_pos)
    assert np.any(edited.wall_map != level.wall_map, axis=(1, 2)).mean() > 0.1


# --- text ------------------------------------------------------------------------------------------------------------


def test_levels_become_text_and_back():
    level = level_of("level")
    texts = amaze.format_levels(level)
    jax.tree.map(np.testing.assert_array_equal, amaze.parse_levels(texts), level)
    padded = amaze.parse_levels("..\nG<", 3)
    assert amaze.format_levels(padded) == ["..#\nG<#\n###"]
    assert padded.goal_pos.tolist() == [[0, 1]]
    assert (padded.agent_pos.tolist(), padded.agent_dir.tolist()) == ([[1, 1]], [2])


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["G>", "G.\n.x"], "parse_levels: text 1, line 2, column 2 must be one of # . G > v < ^, got 'x'"),
        ("G.>\n..", "parse_levels: text 0, line 2 ...got 2: '..'"),
        ("G.>\nG..", "parse_levels: text 0, line 2, column 1 ...second goal ...line 1, column 1, got 'G'"),
        ("G.>\n..v", "parse_levels: text 0, line 2, column 3 ...second agent ...line 1, column 3, got 'v'"),
        ("..>", "parse_levels: text 0 ...one goal, G, got none"),
        ("..G", "parse_levels: text 0 ...one agent, > v < ^, got none"),
        ("G>" + 12 * ".", "parse_levels: text 0, line 1 ...at most 13, got 14"),
        ("G\n>" + 12 * "\n.", "parse_levels: text 0 ...1 to 13 lines, got 14"),
        ("", "parse_levels: text 0 ...got 0"),
        ([], "parse_levels: texts ...got []"),
        (3, "parse_levels: texts ...got 3"),
        (["G>", 3], "parse_levels: texts ...got ['G>', 3]"),
        (b"G>", "parse_levels: texts ...got b'G>'"),
    ],
)
def test_a_text_that_is_not_a_maze_raises(texts, message):
    with pytest.raises(ValueError, match=like(message)):
        amaze.parse_levels(texts)


def solvable(level, lane):
    walls, front, reached = level.wall_map[lane], [tuple(level.agent_pos[lane])], set()
    while front:
        x, y = front.pop()
        if (x, y) in reached or not (0 <= x < len(walls) and 0 <= y < len(walls)) or walls[y, x]:
            continue
        reached.add((x, y))
        front += [(x + dx, y + dy) for dx, dy in HEADINGS]
    return tuple(level.goal_pos[lane]) in reached


@pytest.mark.parametrize(("size", "count"), [(13, 12), (19, 13), (5, 2)])
def test_the_held_out_mazes_that_fit_are_valid_and_have_a_way_to_the_goal(size, count):
    names, level = amaze.held_out(size)
    assert len(set(names)) == len(names) == len(level.agent_dir) == count
    AMaze(size=size, num_walls=0).check_level(level)
    assert all(solvable(level, lane) for lane in range(count))


def test_the_held_out_mazes_are_those_of_both_libraries():
    names, level = amaze.held_out()
    ours = jax.tree.map(lambda x: x[:8], level)
    theirs = jax.tree.map(lambda x: x[-8:], level_of("level"))
    assert list(names[:8]) == recorded()["names"].tolist()
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)
    np.testing.assert_array_equal(level.wall_map[names.index("SmallCorridor")], recorded()["corridor"])
    names, level = amaze.held_out(19)
    np.testing.assert_array_equal(level.wall_map[names.index("LargeCorridor")], recorded()["large_corridor"])


def test_a_size_without_a_held_out_maze_raises():
    with pytest.raises(ValueError, match=like("held_out: size ...got 2")):
        amaze.held_out(2)


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"goal_pos": [[13, 0]]}, "level: goal_pos must be x and y in 0 .. 12, got [13, 0] in lane 0"),
        ({"agent_pos": [[-1, 0]]}, "level: agent_pos must be x and y in 0 .. 12, got [-1, 0] in lane 0"),
        ({"goal_pos": [[3, 0]]}, "level: goal_pos must be a cell without a wall, got [3, 0] in lane 0"),
        ({"agent_pos": [[3, 0]]}, "level: agent_pos must be a cell without a wall, got [3, 0] in lane 0"),
        ({"agent_pos": [[2, 0]]}, "level: goal_pos must be another cell than agent_pos, got [2, 0] in lane 0"),
        ({"agent_dir": [4]}, "level: agent_dir must be in 0 .. 3, got 4 in lane 0"),
    ],
)
def test_a_level_that_cannot_be_played_raises(change, message):
    level = amaze.parse_levels(">.G#")
    level = tree.rebuild(level, **{name: np.array(value, np.int32) for name, value in change.items()})
    with pytest.raises(ValueError, match=like(message)):
        AMaze(name=ID).check_level(level)
