"""AMaze compared with jaxued and minimax, as recorded by ``make_amaze.py``.

Every number is compared exactly, but for rewards: both sides round three times, to float32. Levels are drawn from other
random numbers, so their distributions are compared.
"""

import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import tree
from jaxenv.core.task import TaskState
from jaxenv.envs.grid import amaze
from jaxenv.envs.grid.amaze import AMaze
from jaxenv.random import Clock
from tests.draws import chi_square, draw, lanes
from tests.errors import like
from tests.parity import certify
from tests.pictures import rendered

ID = "AMaze-13x13-v0"
ORIGINALS = ("jaxued 0.0.2", "minimax 0.2.0")
HEADINGS = ((1, 0), (0, 1), (-1, 0), (0, -1))
WALL, EMPTY, GOAL = (2, 5, 0), (1, 0, 0), (8, 1, 0)


@functools.cache
def recorded():
    with np.load(pathlib.Path(__file__).parent / "amaze.npz") as data:
        data = dict(data)
    assert (str(data["jaxued"]), str(data["minimax"])) == ("0.0.2", "0.2.0")
    return data


def level_of(prefix):
    """The recorded levels of a prefix."""
    names = ("wall_map", "goal_pos", "agent_pos", "agent_dir")
    fields = [recorded()[f"{prefix}_{name}"] for name in names]
    return AMaze.Level(*(x if x.dtype == bool else x.astype(np.int32) for x in fields))


@jax.jit
def begin(env, level):
    """The state of the task at the start of an episode in each level."""
    task = env.initial_in(lanes(len(level.agent_dir)), level)
    word, number = jnp.zeros_like(task.step, jnp.uint32), task.step
    return TaskState(Clock((word, word), number, number, number), task)


@jax.jit
def step(env, state, action):
    return env.step(state, action)[1]


@jax.jit
def play(env, start, limit, actions):
    """Rows ``[T, B]`` of episodes that restart in their level at the goal and after ``limit`` steps."""

    def one(state, action):
        state, row = env.step(state, action)
        ended = row.terminated | (state.clock.step >= limit)
        return tree.where(ended, start, state), (row, ended)

    return jax.lax.scan(one, start, actions)[1]


def assert_rows_equal(row, data, prefix):
    """Compares rows with recorded ones; returns the largest error of a reward."""
    np.testing.assert_array_equal(row.observation["image"], data[f"{prefix}_image"])
    np.testing.assert_array_equal(row.observation["direction"], data[f"{prefix}_direction"])
    np.testing.assert_array_equal(row.terminated, data[f"{prefix}_reward"] > 0)
    error = np.abs(row.reward - data[f"{prefix}_reward"]).max()
    assert error <= 1e-6
    return error


# --- steps -----------------------------------------------------------------------------------------------------------


def test_one_step_from_every_pose_equals_both_libraries():
    data, level, env = recorded(), level_of("pose"), AMaze()
    env.check_level(level)
    row = jax.device_get(step(env, begin(env, level), data["pose_action"].astype(np.int32)))
    error = assert_rows_equal(row, data, "pose")
    np.testing.assert_array_equal(row.terminated, data["pose_done"])
    for original in ORIGINALS:
        certify(ID, original, states=len(level.agent_dir), tolerance=1e-6, error=error)


def test_whole_episodes_equal_both_libraries():
    data, level, env = recorded(), level_of("level"), AMaze()
    start = begin(env, level)
    first = jax.device_get(jax.jit(lambda env, state: env.observe(state))(env, start.task))
    np.testing.assert_array_equal(first["image"], data["first_image"])
    np.testing.assert_array_equal(first["direction"], data["first_direction"])
    row, ended = jax.device_get(play(env, start, np.int32(250), data["actions"].astype(np.int32)))
    error = assert_rows_equal(row, data, "step")
    np.testing.assert_array_equal(ended, data["step_done"])
    assert row.terminated.sum() > 150
    # The steps after the last end of a lane belong to no whole episode.
    whole = np.flip(np.logical_or.accumulate(np.flip(ended, axis=0), axis=0), axis=0)
    for original in ORIGINALS:
        certify(ID, original, episodes=ended.sum(), steps=whole.sum(), tolerance=1e-6, error=error)


def test_the_registered_limit_and_options_are_those_of_the_recorded_episodes():
    env = jaxenv.make(ID, 3)
    assert env.unwrapped.time_limit == jaxenv.spec(ID).max_episode_steps == 250
    assert env.unwrapped.num_walls == 60


def test_the_time_limit_truncates_and_the_reward_follows_max_steps_and_time_penalty():
    level = amaze.parse_levels([">.G"] * 3)
    env = AMaze(num_envs=3).with_params(max_steps=np.array([250, 8, 8], np.int32), time_penalty=0.5)
    row, _ = play(
        env, begin(env, level), np.int32(250), np.array([[6], [2], [2]], np.int32) * np.ones((1, 3), np.int32)
    )
    np.testing.assert_allclose(row.reward[2], [1 - 0.5 * 3 / 250, 1 - 0.5 * 3 / 8, 1 - 0.5 * 3 / 8], rtol=1e-6)
    assert row.terminated[2].all()
    stack = jaxenv.make(ID, 2, max_steps=np.array([2, 3], np.int32), autoreset=None)
    state, row = stack.reset(jax.random.key(0))
    kinds = []
    for _ in range(3):
        state, row = stack.step(state, np.zeros(2, np.int32))
        kinds.append(np.asarray(row.truncated).tolist())
    assert kinds[1:] == [[True, False], [False, True]] or kinds[1:] == [[True, False], [True, True]]


# --- the view --------------------------------------------------------------------------------------------------------


def expected_view(level, lane):
    """The image of one lane, from a padded map that is turned, as in jaxued."""
    codes = np.where(level.wall_map[lane][..., None], np.array(WALL), np.array(EMPTY))
    codes[tuple(level.goal_pos[lane][::-1])] = GOAL
    padded = np.full((len(codes) + 8, len(codes) + 8, 3), WALL)
    padded[4:-4, 4:-4] = codes
    (x, y), direction = level.agent_pos[lane], level.agent_dir[lane]
    left, top = x + (4, 2, 0, 2)[direction], y + (2, 4, 2, 0)[direction]
    return np.rot90(padded[top : top + 5, left : left + 5], direction + 1).swapaxes(0, 1)


@pytest.mark.parametrize("size", [2, 4, 12, 13, 19, 24])
def test_mazes_of_other_sizes_are_seen_as_in_a_padded_map(size):
    env = AMaze(size=size, num_walls=size * size // 3, num_envs=60)
    level = jax.device_get(jax.jit(lambda env: env.sample_level(lanes(60)))(env))
    env.check_level(level)
    shown = jax.device_get(jax.jit(lambda env, state: env.observe(state))(env, begin(env, level).task))
    np.testing.assert_array_equal(shown["image"], [expected_view(level, lane) for lane in range(60)])
    # All agents walk against walls and edges without passing them.
    actions = np.random.default_rng(size).integers(0, 3, (40, 60)).astype(np.int32)
    visited = jax.device_get(walked(env, begin(env, level), actions))
    inside = (visited >= 0) & (visited < size)
    assert inside.all()
    assert not level.wall_map[np.arange(60)[None], visited[..., 1], visited[..., 0]].any()


@jax.jit
def walked(env, state, actions):
    def one(state, action):
        state, _ = env.step(state, action)
        return state, jnp.stack([state.task.agent.x, state.task.agent.y], axis=-1)

    return jax.lax.scan(one, state, actions)[1]


def test_normalized_images_are_divided_by_10_and_stay_in_the_spec():
    level = level_of("level")
    plain, scaled = AMaze(), AMaze(normalize_obs=True)
    images = [jax.jit(lambda env: env.observe(begin(env, level).task)["image"])(env) for env in (plain, scaled)]
    np.testing.assert_array_equal(images[1], np.asarray(images[0]).astype(np.float32) / np.float32(10))
    spec = scaled.observation_spec()["image"]
    assert (spec.dtype, float(np.max(spec.maximum))) == (np.float32, pytest.approx(0.8))
    assert np.max(images[1]) <= np.max(spec.maximum)


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


def test_a_varying_number_of_walls_is_uniform_with_both_ends():
    env = AMaze(num_walls=9, vary_num_walls=True, distinct_walls=True)
    level = draw(env.sample_level)
    counts = np.bincount(level.wall_map.sum((1, 2)))
    assert len(counts) == 10
    assert abs(chi_square(counts)) < 4


def test_an_episode_starts_in_the_level_of_its_stream():
    env = AMaze(num_envs=8)
    state, row = jax.jit(env.reset)(jax.random.key(3))
    level = jax.jit(lambda env, stream: env.sample_level(stream))(env, state.clock.stream())
    np.testing.assert_array_equal(state.task.agent.x, level.agent_pos[:, 0])
    np.testing.assert_array_equal(state.task.agent.y, level.agent_pos[:, 1])
    np.testing.assert_array_equal(row.observation["direction"], level.agent_dir)
    for lane, text in enumerate(amaze.format_levels(level)):
        cells = np.array([list(row) for row in text.split()])
        floor = (np.asarray(state.task.floor)[lane][:, None] >> np.arange(13, dtype=np.uint32)[None]) & 1 == 1
        np.testing.assert_array_equal(cells == "#", ~floor)


def test_edits_have_the_distribution_of_minimax():
    one = AMaze(num_edits=1)
    before = jax.tree.map(lambda x: np.repeat(x, 20_000, axis=0), level_of("edited"))
    after = draw(lambda stream: one.mutate_level(before, stream))
    one.check_level(after)
    flips = np.sum(after.wall_map != before.wall_map, axis=0).reshape(-1)
    goals = np.bincount(after.goal_pos @ np.array([1, 13]), minlength=169)
    for mine, theirs in zip((flips, goals), recorded()["edits"], strict=True):
        assert_same_distribution(mine, theirs)
        np.testing.assert_array_equal(mine > 0, theirs > 0)
    np.testing.assert_array_equal(after.agent_pos, before.agent_pos)
    np.testing.assert_array_equal(after.agent_dir, before.agent_dir)


def test_many_edits_keep_levels_valid_and_none_keep_them_as_they_are():
    env = AMaze(num_edits=40)
    level = level_of("level")
    edited = jax.device_get(jax.jit(lambda env, level: env.mutate_level(level, lanes(100)))(env, level))
    env.check_level(edited)
    assert np.any(edited.goal_pos != level.goal_pos, axis=1).mean() > 0.9
    same = jax.device_get(jax.jit(lambda env, level: env.mutate_level(level, lanes(100)))(AMaze(num_edits=0), level))
    jax.tree.map(np.testing.assert_array_equal, same, level)


def test_a_goal_without_another_free_cell_stays():
    env = AMaze(size=2, num_walls=0, num_edits=1)
    level = jax.tree.map(lambda x: np.repeat(x, 50, axis=0), amaze.parse_levels(">#\n#G", 2))
    edited = jax.device_get(jax.jit(lambda env, level: env.mutate_level(level, lanes(50)))(env, level))
    np.testing.assert_array_equal(edited.goal_pos, level.goal_pos)


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
        ([], "parse_levels: texts ...got none"),
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


# --- errors and the picture ------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 25}, "AMaze-13x13-v0: size ...got 25"),
        ({"size": 1}, "AMaze-13x13-v0: size ...got 1"),
        ({"num_walls": 168}, "AMaze-13x13-v0: num_walls ...got 168"),
        ({"num_edits": -1}, "AMaze-13x13-v0: num_edits ...got -1"),
        ({"max_steps": 0}, "AMaze-13x13-v0: max_steps ...got 0"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises(ValueError, match=like(message)):
        jaxenv.make(ID, 1, **options)


def test_a_size_without_a_held_out_maze_raises():
    with pytest.raises(ValueError, match=like("held_out: size ...got 2")):
        amaze.held_out(2)


def test_the_picture_shows_walls_the_goal_and_the_agent():
    env = AMaze()
    level = jax.tree.map(lambda x: x[:1], amaze.held_out()[1])
    image = rendered(env, begin(env, level), 13 * 8).reshape(13, 8, 13, 8, 3).astype(int)
    red, green, _ = np.moveaxis(image[:, 4, :, 6], -1, 0)  # to the right of the middle of each cell
    goal, agent = green > red + 40, red > green + 40
    assert np.argwhere(goal).tolist() == [level.goal_pos[0, ::-1].tolist()]
    assert np.argwhere(agent).tolist() == [level.agent_pos[0, ::-1].tolist()]
    walls = (red > 95) & ~goal & ~agent
    np.testing.assert_array_equal(walls, level.wall_map[0])
