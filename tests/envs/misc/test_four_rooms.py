"""FourRooms compared with its exact transition table, and with gymnax's, given the slips of its moves.

The authors of the paper published no code, so gymnax is a cross-check, not the original.
"""

import functools

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.envs.misc.four_rooms import FREE_CELLS, MAP, WALLS, State, transition_table
from tests.envs.misc import gymnax_rollouts
from tests.envs.misc.gymnax_draws import LANES, assert_counts_fit, follow_peer, spaces
from tests.parity import certify
from tests.pictures import rendered

ID = "FourRooms-misc"
STEPS = 150
CELLS = len(FREE_CELLS)
GOAL = FREE_CELLS.tolist().index([8, 9])
START = FREE_CELLS.tolist().index([4, 1])


def number(row, column):
    """The index of a cell in ``FREE_CELLS``; fails for a wall."""
    table = np.full((13, 13), -1)
    table[tuple(FREE_CELLS.T)] = np.arange(CELLS)
    found = table[row, column]
    assert np.all(found >= 0), "a wall was entered"
    return found


def state_of(cells, goals):
    (row, column), (goal_row, goal_column) = FREE_CELLS[cells].T, FREE_CELLS[goals].T
    return State(*(np.ascontiguousarray(x) for x in (row, column, goal_row, goal_column)))


# --- the map ---------------------------------------------------------------------------------------------------------


def test_the_map_has_four_rooms_joined_by_four_hallways():
    assert WALLS.shape == (13, 13)
    assert CELLS == 104
    hallways = [(3, 6), (6, 2), (7, 9), (10, 6)]
    rooms = ~WALLS
    for row, column in hallways:
        assert rooms[row, column]
        rooms[row, column] = False
    # The cells reachable from one cell of each room without hallways.
    sizes = []
    for start in [(1, 1), (1, 7), (7, 1), (8, 7)]:
        reached, front = set(), [start]
        while front:
            row, column = front.pop()
            if rooms[row, column] and (row, column) not in reached:
                reached.add((row, column))
                front += [(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)]
        sizes.append(len(reached))
    assert sizes == [25, 30, 25, 20]
    assert sum(sizes) + len(hallways) == CELLS


def test_the_map_equals_gymnaxs():
    np.testing.assert_array_equal(gymnax_rollouts.peer(ID).occupied_map, WALLS)
    assert MAP.count("\n") == 12


# --- compared with gymnax --------------------------------------------------------------------------------------------


def direction_taken(key, params):
    """gymnax's draws: whether a random action replaces the given one, and that action, which may be the same."""
    key_random, key_action = jax.random.split(key)
    any_action = jax.random.uniform(key_random, ()) < params.fail_prob * 4 / 3
    return any_action, jax.random.randint(key_action, (), 0, 4)


@pytest.mark.parametrize("fail_prob", [1 / 3, 0.0, 0.7], ids=["as in the paper", "no slips", "frequent slips"])
def test_one_step_and_whole_episodes_equal_gymnax_given_its_slips(fail_prob):
    rng = np.random.default_rng(0)
    cells, goals = np.arange(LANES) % CELLS, rng.integers(0, CELLS, LANES)
    cells[-200:] = goals[-200:]  # states past the end of an episode
    actions = rng.integers(0, 4, (STEPS, LANES)).astype(np.int32)
    fields = {"pos": FREE_CELLS[cells], "goal": FREE_CELLS[goals], "time": np.zeros(LANES, np.int32)}
    (slips, other), state, observation, reward, terminated = follow_peer(
        ID, fields, actions, direction_taken, fail_prob=fail_prob
    )
    env = gymnax_rollouts.bare(ID, LANES, fail_prob=0.0)
    taken = np.where(slips, other, actions).astype(np.int32)
    ours, shown, paid, ended = gymnax_rollouts.follow(env, state_of(cells, goals), taken)
    np.testing.assert_array_equal(np.stack([ours.row, ours.column], axis=-1), state.pos)
    np.testing.assert_array_equal(shown, observation)
    assert shown.dtype == np.float32
    np.testing.assert_array_equal(paid, reward)
    np.testing.assert_array_equal(ended, terminated)
    finished = terminated.any(axis=0)
    assert finished.sum() > 500
    certify(ID, "gymnax", states=LANES)
    certify(ID, "gymnax", episodes=finished.sum(), steps=(np.argmax(terminated, axis=0) + 1)[finished].sum())


# --- compared with the exact table -----------------------------------------------------------------------------------


def test_the_transition_table_matches_the_paper():
    table = transition_table()
    np.testing.assert_allclose(table.sum(axis=-1), 1, atol=1e-12)
    left, corner, hallway = (FREE_CELLS.tolist().index(cell) for cell in ([1, 1], [11, 11], [6, 2]))
    # The upper left corner has walls above and to the left.
    np.testing.assert_allclose(table[left, 0, left], 2 / 3 + 1 / 9)
    np.testing.assert_allclose(table[left, 1, left], 2 / 9)
    np.testing.assert_allclose(table[left, 1, left + 1], 2 / 3)
    np.testing.assert_allclose(table[corner, 3, corner], 2 / 9)
    # A vertical hallway has walls on both sides.
    np.testing.assert_allclose(np.sort(table[hallway, 2])[-3:], [1 / 9, 2 / 9, 2 / 3])
    assert np.count_nonzero(transition_table(0.0)) == CELLS * 4


def planned(table):
    """The shortest path to the goal by value iteration: an action and an expected number of steps for each cell."""
    steps = np.zeros(CELLS)
    for _ in range(500):
        after = 1 + table @ steps
        after[GOAL] = 0
        steps = after.min(axis=1)
    return after.argmin(axis=1), steps


@functools.partial(jax.jit, static_argnums=3)
def _play(env, key, policy, steps):
    def one(state, _):
        action = policy[state.task.row, state.task.column]
        state, timestep = env.step(state, action)
        return state, (action, state.task.row, state.task.column, timestep.terminated)

    state, _ = env.reset(key)
    return jax.lax.scan(one, state, length=steps)[1]


@pytest.mark.parametrize("fail_prob", [1 / 3, 0.9])
def test_slips_and_the_time_to_the_goal_match_the_table(fail_prob):
    # At 0.9 the intended direction is the least likely, which gymnax does not support.
    lanes, steps = 10_000, 120
    table = transition_table(fail_prob)
    action, expected_steps = planned(transition_table(1 / 3))
    policy = np.zeros((13, 13), np.int32)
    policy[tuple(FREE_CELLS.T)] = action
    env = gymnax_rollouts.bare(ID, lanes, fail_prob=fail_prob)
    done, row, column, terminated = jax.device_get(_play(env, jax.random.key(4), policy, steps))
    np.testing.assert_array_equal(terminated, (row == 8) & (column == 9))
    cells = np.concatenate([np.full((1, lanes), START), number(row, column)])
    np.testing.assert_array_equal(done, action[cells[:-1]])

    # The frequency of every transition.
    counts, visits = np.zeros((CELLS, CELLS)), np.bincount(cells[:-1].reshape(-1), minlength=CELLS)
    np.add.at(counts, (cells[:-1].reshape(-1), cells[1:].reshape(-1)), 1)
    assert_counts_fit(counts, visits[:, None] * table[np.arange(CELLS), action], "steps")

    # The distribution of the arrival time at the goal, computed from the table with an absorbing goal.
    chain = table[np.arange(CELLS), action]
    chain[GOAL] = np.eye(CELLS)[GOAL]
    distribution, arrived = np.eye(CELLS)[START], []
    for _ in range(steps):
        distribution = distribution @ chain
        arrived.append(distribution[GOAL])
    ever = np.logical_or.accumulate(terminated, axis=0)
    assert_counts_fit(ever.sum(axis=1), lanes * np.array(arrived), "arrivals")
    if fail_prob == 1 / 3:
        assert ever[-1].mean() > 0.99
        mean = steps - ever.sum(axis=0) + 1
        assert abs(mean.mean() - expected_steps[START]) < 4.5 * mean.std() / np.sqrt(lanes) + 0.05


# --- starts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("drawn", [("pos",), ("goal",), ("pos", "goal")], ids=" and ".join)
def test_drawn_starts_and_goals_are_uniform_over_the_free_cells_and_distinct(drawn):
    lanes = 20_000
    env = gymnax_rollouts.bare(ID, 1, resample_init_pos="pos" in drawn, resample_goal_pos="goal" in drawn)
    found = gymnax_rollouts.starts(env, lanes)
    position, goal = number(found.row, found.column), number(found.goal_row, found.goal_column)
    assert np.all(position != goal)
    apart = np.ones((CELLS, CELLS)) - np.eye(CELLS)
    if "pos" not in drawn:
        apart[np.arange(CELLS) != START] = 0
    if "goal" not in drawn:
        apart[:, np.arange(CELLS) != GOAL] = 0
    expected = lanes * apart / apart.sum()
    assert_counts_fit(np.bincount(position, minlength=CELLS), expected.sum(axis=1), "positions")
    assert_counts_fit(np.bincount(goal, minlength=CELLS), expected.sum(axis=0), "goals")
    if len(drawn) == 2:
        assert abs(np.corrcoef(position, goal)[0, 1] + 1 / (CELLS - 1)) < 4.5 / np.sqrt(lanes)


def test_episodes_start_at_the_fixed_cells_which_may_differ_by_lane():
    goals = FREE_CELLS[[3, 50, 103]]
    found = gymnax_rollouts.starts(gymnax_rollouts.bare(ID, 3).with_params(goal_fixed=goals), 3)
    np.testing.assert_array_equal(np.stack([found.goal_row, found.goal_column], axis=-1), goals)
    assert (found.row.tolist(), found.column.tolist()) == ([4] * 3, [1] * 3)


# --- observations, specs and errors ----------------------------------------------------------------------------------


def test_visual_observations_show_walls_agent_and_goal():
    env = gymnax_rollouts.bare(ID, CELLS, use_visual_obs=True)
    goals = (np.arange(CELLS) + 1) % CELLS
    shown = np.asarray(jax.jit(lambda env, state: env.observe(state))(env, state_of(np.arange(CELLS), goals)))
    assert shown.dtype == np.float32
    assert shown.shape == (CELLS, *env.observation_spec().shape)
    np.testing.assert_array_equal(shown[..., 0], np.broadcast_to(WALLS, (CELLS, 13, 13)))
    for channel, cells in ((1, np.arange(CELLS)), (2, goals)):
        np.testing.assert_array_equal(np.argwhere(shown[..., channel])[:, 1:], FREE_CELLS[cells])


def test_specs_have_the_shapes_and_bounds_of_gymnaxs_spaces():
    shape, dtype, (low, high), num_actions, limit = spaces(ID)
    env = gymnax_rollouts.bare(ID)
    spec = env.observation_spec()
    assert (spec.shape, spec.dtype) == (shape, dtype)
    np.testing.assert_array_equal([spec.minimum, spec.maximum], [low, high])
    assert env.action_spec().num_values == num_actions
    assert jaxenv.spec(ID).max_episode_steps == limit


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fail_prob": 1.5}, r"FourRooms-misc: fail_prob .*got 1.5"),
        ({"goal_fixed": (6, 6)}, r"FourRooms-misc: goal_fixed .*got \[6, 6\]"),
        ({"pos_fixed": (3, 13)}, "FourRooms-misc: pos_fixed must"),
        ({"pos_fixed": (8, 9)}, r"FourRooms-misc: goal_fixed and pos_fixed .*got \[8, 9\] for both"),
        ({"pos_fixed": (1, 2, 3)}, "FourRooms-misc: pos_fixed must"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises(ValueError, match=message):
        gymnax_rollouts.bare(ID, **options)


def test_a_transition_table_with_an_invalid_probability_raises():
    with pytest.raises(ValueError, match=r"transition_table: fail_prob .*got 2.0"):
        transition_table(2.0)


def test_the_picture_shows_walls_the_goal_and_the_agent():
    env = jaxenv.make(ID, 1)
    image = rendered(env, env.reset(jax.random.key(0))[0], 13 * 8).astype(int)
    red, green, _ = np.moveaxis(image.reshape(13, 8, 13, 8, 3)[:, 4, :, 6], -1, 0)
    goal, agent = green > red + 40, red > green + 40
    assert np.argwhere(goal).tolist() == [[8, 9]]
    assert np.argwhere(agent).tolist() == [[4, 1]]
    np.testing.assert_array_equal((red > 80) & ~goal & ~agent, WALLS)
