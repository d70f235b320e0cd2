"""MetaMaze compared with a plain implementation of the authors' rules, and with gymnax's up to the first goal.

The original is the script of a paper with the maze inside its training loop. gymnax is a cross-check: it differs in the
possible positions of agent and goal, and in the end of an episode.
"""

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv import tree
from jaxenv.envs.misc.meta_maze import State
from tests.envs.misc import gymnax_rollouts
from tests.envs.misc.gymnax_draws import LANES, assert_counts_fit, follow_peer, spaces
from tests.parity import certify
from tests.pictures import rendered

ID = "MetaMaze-misc"
STEPS = 200
SMALL = {"maze_size": 7, "rf_size": 5, "normalize_time": True, "reward": 2.0, "punishment": -0.5, "t_max": 40.0}
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))


class Maze:
    """The rules for one lane, on a map with a margin of walls as wide as the agent's field of view."""

    def __init__(self, maze_size=9, rf_size=3, reward=10.0, punishment=0.0, normalize_time=False, t_max=200.0):
        self.reach, self.size = rf_size // 2, maze_size
        self.reward, self.punishment, self.normalize_time, self.t_max = reward, punishment, normalize_time, t_max
        inside = [
            [r % 2 == 1 and c % 2 == 1 and (r, c) != (maze_size // 2, maze_size // 2) for c in range(maze_size)]
            for r in range(maze_size)
        ]
        self.walls = np.pad(np.array(inside), self.reach, constant_values=True)

    @property
    def free(self):
        """The free cells, ``[N, 2]``, counted inside the outer walls."""
        return np.argwhere(~self.walls) - self.reach

    def look(self, row, column):
        return self.walls[row : row + 2 * self.reach + 1, column : column + 2 * self.reach + 1]

    def step(self, position, goal, action, time, elsewhere):
        """The next position, the observation, the reward, and whether the goal was reached."""
        target = position[0] + MOVES[action][0], position[1] + MOVES[action][1]
        reward = 0.0
        if self.walls[target[0] + self.reach, target[1] + self.reach]:
            reward += self.punishment
        else:
            position = target
        reached = position == goal
        if reached:
            reward += self.reward
            position = elsewhere
        time += 1
        shown_time = -1 + 2 * time / self.t_max if self.normalize_time else time
        last_action = [float(a == action) for a in range(4)]
        observation = [*self.look(*position).reshape(-1).astype(float), *last_action, reward, shown_time]
        return position, observation, reward, reached


def drawn(maze, lanes):
    """Random free cells for agents and goals, including equal ones, which never occur in an episode, and late times."""
    rng = np.random.default_rng(0)
    free = maze.free.astype(np.int32)
    (row, column), (goal_row, goal_column) = (free[rng.integers(0, len(free), lanes)].T.copy() for _ in range(2))
    goal_row[:50], goal_column[:50] = row[:50], column[:50]
    for lane in range(50, min(450, lanes)):  # next to the goal
        neighbour = row[lane] + MOVES[lane % 4][0], column[lane] + MOVES[lane % 4][1]
        if not maze.walls[neighbour[0] + maze.reach, neighbour[1] + maze.reach]:
            goal_row[lane], goal_column[lane] = neighbour
    last_reward = rng.normal(size=lanes).astype(np.float32)
    time = rng.integers(0, 300, lanes).astype(np.int32)
    state = State(row, column, goal_row, goal_column, rng.integers(0, 4, lanes).astype(np.int32), last_reward, time)
    return state, rng.integers(0, 4, (STEPS, lanes)).astype(np.int32)


def rollout(lanes, steps, **options):
    maze = Maze(**options)
    state, actions = drawn(maze, lanes)
    rows = gymnax_rollouts.follow(gymnax_rollouts.bare(ID, **options), state, actions[:steps])
    return maze, state, actions[:steps], rows


def assert_follows_rules(maze, start, actions, rows, lanes, steps):
    """Compares a rollout with the rules, given the positions after goals, which must be free and not the goal.

    Returns:
        The number of goals reached.
    """
    states, shown, paid, terminated = rows
    assert not terminated.any()
    free = {tuple(cell) for cell in maze.free.tolist()}
    positions, observations, rewards = np.zeros((steps, lanes, 2)), np.zeros((steps, lanes, shown.shape[-1])), []
    for lane in range(lanes):
        position = int(start.row[lane]), int(start.column[lane])
        goal = int(start.goal_row[lane]), int(start.goal_column[lane])
        for t in range(steps):
            ours = int(states.row[t, lane]), int(states.column[t, lane])
            time = int(start.time[lane]) + t
            position, observations[t, lane], reward, reached = maze.step(position, goal, actions[t, lane], time, ours)
            positions[t, lane] = position
            rewards.append(reward)
            assert not reached or (ours in free and ours != goal), f"lane {lane}, step {t}: put at {ours}"
    np.testing.assert_array_equal(states.row[:steps, :lanes], positions[..., 0])
    np.testing.assert_array_equal(states.column[:steps, :lanes], positions[..., 1])
    np.testing.assert_array_equal(paid[:steps, :lanes], np.reshape(rewards, (lanes, steps)).T)
    # The normalized time has one rounding of a number below 20.
    np.testing.assert_allclose(shown[:steps, :lanes], observations, rtol=0, atol=2e-6)
    return np.sum(np.array(rewards) >= maze.reward + min(maze.punishment, 0))


@pytest.fixture(scope="module")
def played():
    return rollout(LANES, STEPS)


def test_one_step_from_random_states_follows_the_rules(played):
    assert assert_follows_rules(*played, lanes=LANES, steps=1) > 100


def test_whole_episodes_follow_the_rules(played):
    assert assert_follows_rules(*played, lanes=20, steps=STEPS) > 20


@pytest.fixture(scope="module")
def played_small():
    return rollout(LANES, 60, **SMALL)


def test_a_smaller_maze_with_a_larger_view_and_punishment_follows_the_rules(played_small):
    # With 7 by 7 cells the centre would be a pillar.
    assert assert_follows_rules(*played_small, lanes=600, steps=5) > 100


def test_reaching_the_goal_moves_the_agent_to_a_uniform_other_free_cell(played, played_small):
    for maze, start, _, (states, _, paid, _) in (played, played_small):
        free = maze.free
        step, lane = np.nonzero(paid >= maze.reward + min(maze.punishment, 0))
        landed = np.stack([states.row[step, lane], states.column[step, lane]], axis=-1)
        goal = np.stack([start.goal_row[lane], start.goal_column[lane]], axis=-1)
        place, of_goal = (np.all(x[:, None] == free[None], axis=-1).argmax(axis=1) for x in (landed, goal))
        goals = np.bincount(of_goal, minlength=len(free))
        expected = (len(step) - goals) / (len(free) - 1)
        assert expected.min() > 15
        assert_counts_fit(np.bincount(place, minlength=len(free)), expected)


@pytest.mark.parametrize("options", [{}, {"maze_size": 7}], ids=["9", "7"])
def test_episodes_start_at_the_centre_with_a_uniform_goal_elsewhere(options):
    lanes, free, middle = 20_000, Maze(**options).free, options.get("maze_size", 9) // 2
    found = gymnax_rollouts.starts(gymnax_rollouts.bare(ID, **options), lanes)
    assert np.all((found.row == middle) & (found.column == middle))
    goal = np.stack([found.goal_row, found.goal_column], axis=-1)
    counts = np.all(goal[:, None] == free[None], axis=-1).sum(axis=0)
    assert counts.sum() == lanes
    elsewhere = np.any(free != middle, axis=-1)
    assert_counts_fit(counts, lanes * elsewhere / elsewhere.sum())
    for zeros in (found.time, found.last_reward, found.last_action):
        assert not zeros.any()


def nothing(key, params):
    return ()


def test_steps_equal_gymnax_until_the_goal_is_reached(played):
    maze, start, actions, (states, shown, paid, _) = played
    fields = {
        "last_action": start.last_action,
        "last_reward": start.last_reward,
        "pos": np.stack([start.row, start.column], axis=-1) + maze.reach,
        "goal": np.stack([start.goal_row, start.goal_column], axis=-1) + maze.reach,
        "time": start.time.astype(np.float32),
    }
    _, theirs, observation, reward, _ = follow_peer(ID, fields, actions, nothing)
    reached = np.logical_or.accumulate(paid >= maze.reward, axis=0)
    before = ~reached
    first = reached & ~np.roll(reached, 1, axis=0)
    first[0] = reached[0]
    assert before.mean() > 0.1
    ours = np.stack([states.row, states.column], axis=-1) + maze.reach
    np.testing.assert_array_equal(ours[before], theirs.pos[before])
    np.testing.assert_array_equal(shown[before], observation[before])
    # The step that reaches the goal has the same reward and observation except for the new position.
    np.testing.assert_array_equal(paid[before | first], reward[before | first])
    np.testing.assert_array_equal(shown[first][:, 9:], observation[first][:, 9:])
    certify(ID, "gymnax", states=LANES)


def test_specs_have_the_shapes_of_gymnaxs_spaces_and_correct_bounds(played):
    shape, dtype, _, num_actions, limit = spaces(ID)
    env = gymnax_rollouts.bare(ID)
    spec = env.observation_spec()
    assert (spec.shape, spec.dtype) == (shape, dtype)
    assert env.action_spec().num_values == num_actions
    assert jaxenv.spec(ID).max_episode_steps == limit
    shown = played[3][1].reshape(-1, *shape)
    assert np.all((shown >= spec.minimum[None]) & (shown <= spec.maximum[None]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"maze_size": 8}, r"MetaMaze-misc: maze_size .*got 8"),
        ({"maze_size": 1}, r"MetaMaze-misc: maze_size .*got 1"),
        ({"rf_size": 2}, r"MetaMaze-misc: rf_size .*got 2"),
        ({"t_max": 0.0}, r"MetaMaze-misc: t_max .*got 0.0"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises(ValueError, match=message):
        gymnax_rollouts.bare(ID, **options)


def test_the_picture_shows_pillars_the_hidden_goal_and_what_the_agent_sees():
    env = jaxenv.spec(ID).make(1)
    state = env.reset(jax.random.key(0))[0]
    row, column, goal_row, goal_column = (np.array([i], np.int32) for i in (2, 5, 7, 8))
    task = tree.rebuild(state.task, row=row, column=column, goal_row=goal_row, goal_column=goal_column)
    image = rendered(env, tree.rebuild(state, task=task), 11 * 8).reshape(11, 8, 11, 8, 3).astype(int)
    red, green, _ = np.moveaxis(image[:, 4, :, 0], -1, 0)  # near the left edge of each cell
    goal = green > red + 40
    assert np.argwhere(goal).tolist() == [[8, 9]]  # counted with the outer walls
    np.testing.assert_array_equal((red > 85) & ~goal, Maze().walls)
    floor = (red < 85) & ~goal
    rows, columns = np.indices(floor.shape)
    near = np.maximum(abs(rows - 3), abs(columns - 6)) <= 1
    np.testing.assert_array_equal(floor & (red > 50), floor & near)
