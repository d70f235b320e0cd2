"""Level-based foraging compared with lbforaging, as recorded by ``make_foraging.py``; every number is compared exactly.

The original computes rewards in float64; rounded to float32 they are those of a division in float32.
"""

import functools
import pathlib

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.canvas import BLUE, ORANGE, RED
from jaxenv.envs.grid.foraging import Foraging, State, Things
from tests.draws import N, chi_square, draw
from tests.envs.grid.make_foraging import DRAWS, EPISODES, GAMES, counts
from tests.parity import certify
from tests.pictures import cells, picture, shows

LIMIT = 50
IDS = {name: f"Foraging-{name}-v3" for name in GAMES if f"Foraging-{name}-v3" in jaxenv.ids()}
STAY, UP, DOWN, LEFT, RIGHT, LOAD = range(6)


@functools.cache
def recorded(game):
    with np.load(pathlib.Path(__file__).parent / "foraging.npz") as data:
        assert str(data["lbforaging"]) == "2.0.0"
        return {k.removeprefix(f"{game}_"): data[k] for k in data if k.startswith(f"{game}_")}


def stack(game, num_envs):
    """The stack of an id as it is registered, or of other settings."""
    id, settings = (IDS[game], {}) if game in IDS else (IDS["10x10-3p-3f"], GAMES[game])
    return jaxenv.make(id, num_envs, autoreset=None, **settings)


def field(agents, foods):
    """A start, from rows, columns and levels of agents and of food: ``[B, n, 3]``, or ``[n, 3]`` for one lane."""
    agents, foods = (np.array(x, np.int32).reshape(-1, *np.shape(x)[-2:]) for x in (agents, foods))
    parts = (Things(*(tuple(x[:, :, k].T) for k in range(3))) for x in (agents, foods))
    return State(*parts, foods[:, :, 2].sum(axis=1))


@jax.jit
def play(env, level, actions):
    """The first row and those of the steps ``[T, B, ...]``."""
    state, first = env.reset(jax.random.key(0), level=level)
    return first, jax.lax.scan(env.step, state, actions)


def played(env, agents, foods, *actions):
    """The state and the last row after these actions in one lane."""
    state, rows = play(env, field(agents, foods), np.array(actions, np.int32)[:, None])[1]
    return state.task, jax.tree.map(lambda x: x[-1, 0], rows)


# --- compared with lbforaging ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("game", GAMES)
def test_whole_episodes_equal_lbforaging(game):
    data, agents = recorded(game), GAMES[game]["agents"]
    steps, loaded = data["steps"].T.astype(np.int64)
    lane = np.repeat(np.arange(EPISODES), steps)
    time = np.concatenate([np.arange(n) for n in steps])
    actions = np.zeros((LIMIT, EPISODES, agents), np.int32)
    actions[time, lane] = data["actions"].T
    start = data["start"]
    env = stack(game, EPISODES)
    first, (_, rows) = jax.device_get(play(env, field(start[:, :agents], start[:, agents:]), actions))

    np.testing.assert_array_equal(first.observation, data["first_observation"])
    np.testing.assert_array_equal(first.env_info["action_mask"], data["first_mask"])
    reward = np.zeros((len(time), agents))
    reward[data["paid"]] = data["reward"].T
    np.testing.assert_array_equal(rows.observation[time, lane], np.moveaxis(data["observation"], -1, 0))
    np.testing.assert_array_equal(rows.env_info["action_mask"][time, lane], np.moveaxis(data["mask"], -1, 0))
    np.testing.assert_array_equal(rows.reward[time, lane], reward.astype(np.float32))
    ends = time + 1 == steps[lane]
    np.testing.assert_array_equal(rows.terminated[time, lane], ends)
    np.testing.assert_array_equal(rows.env_info["time_limit_reached"][time, lane], time + 1 == LIMIT)
    assert (loaded | (steps == LIMIT)).all()
    assert not rows.truncated[time, lane].any()
    if game in IDS:
        certify(IDS[game], "lbforaging 2.0.0", episodes=EPISODES, steps=len(time))


@pytest.mark.parametrize("game", GAMES)
def test_starts_have_the_distribution_of_lbforaging(game):
    settings = {k: v for k, v in GAMES[game].items() if k != "penalty"}
    state, data = draw(Foraging(**settings).initial), recorded(game)
    drawn = np.moveaxis([x for part in (state.agents, state.foods) for x in part.each()], -1, 0)
    ours = counts(drawn, settings["agents"], settings["size"])
    assert N == DRAWS
    for name, numbers in ours.items():
        theirs = data[f"drawn_{name}"]
        often = numbers + theirs > 20
        assert abs(chi_square(2 * numbers[often], (numbers + theirs)[often])) < 5, name
        assert (numbers + theirs)[~often].sum() < 0.01 * N
    cells = drawn[..., 0] * settings["size"] + drawn[..., 1]
    np.testing.assert_array_equal(state.total, drawn[:, settings["agents"] :, 2].sum(axis=1))
    placed = drawn[:, settings["agents"] :, 2] > 0
    foods = np.where(placed, cells[:, settings["agents"] :], settings["size"] ** 2)
    assert (np.diff(foods, axis=1) >= 0).all()


# --- rules -----------------------------------------------------------------------------------------------------------

FAR = [[6, 6, 1]]  # food that nobody reaches


def small(**settings):
    return Foraging(**{"agents": 2, "foods": 1, **settings})


AWAY = (0, 7)  # of an agent that stays
MOVES = [  # cells, actions, cells after them
    ([(2, 2), (2, 4), AWAY], (RIGHT, LEFT, STAY), [(2, 2), (2, 4), AWAY]),  # to one cell
    ([(2, 2), (2, 3), AWAY], (RIGHT, LEFT, STAY), [(2, 3), (2, 2), AWAY]),  # a swap
    ([(2, 2), (2, 3), AWAY], (RIGHT, STAY, STAY), [(2, 2), (2, 3), AWAY]),
    ([(2, 2), (2, 3), AWAY], (RIGHT, LOAD, STAY), [(2, 2), (2, 3), AWAY]),
    ([(2, 2), (2, 3), AWAY], (RIGHT, DOWN, STAY), [(2, 3), (3, 3), AWAY]),  # one after the other
    ([(2, 2), (2, 3), (2, 4)], (RIGHT, RIGHT, STAY), [(2, 3), (2, 3), (2, 4)]),  # shares a cell
    ([(2, 3), (2, 3), (2, 4)], (STAY, UP, LEFT), [(2, 3), (1, 3), (2, 4)]),
    ([(2, 3), (4, 3), (3, 4)], (DOWN, UP, LEFT), [(2, 3), (4, 3), (3, 4)]),
    ([(0, 0), (7, 7), AWAY], (UP, DOWN, STAY), [(0, 0), (7, 7), AWAY]),
    ([(0, 0), (7, 7), AWAY], (LEFT, RIGHT, STAY), [(0, 0), (7, 7), AWAY]),
    ([(0, 0), (7, 7), AWAY], (DOWN, UP, STAY), [(1, 0), (6, 7), AWAY]),
    ([(6, 5), (5, 6), AWAY], (RIGHT, DOWN, STAY), [(6, 5), (5, 6), AWAY]),  # to food
]


def test_agents_move_as_the_rules_say():
    at, actions, after = (np.array(x, np.int32) for x in zip(*MOVES, strict=True))
    agents = np.concatenate([at, np.ones((*at.shape[:2], 1), np.int32)], axis=2)
    env = small(agents=3, num_envs=len(at))
    _, (state, rows) = play(env, field(agents, [FAR] * len(at)), actions[None])
    np.testing.assert_array_equal(
        np.stack([state.task.agents.rows, state.task.agents.columns], axis=-1), after.swapaxes(0, 1)
    )
    assert not rows.reward.any()
    assert not rows.terminated.any()


def test_an_agent_that_another_one_blocks_can_follow_the_mask_and_stay():
    _, row = played(small(), [(2, 2, 1), (2, 3, 1)], FAR, (RIGHT, STAY))
    assert row.env_info["action_mask"].tolist() == [[True] * 5 + [False]] * 2


def test_penalties_differ_per_lane_and_only_loading_in_vain_costs_them():
    env = small(agents=3, num_envs=3).with_params(penalty=np.array([0, 0.5, 2], np.float32))
    agents = [[(6, 5, 1), (5, 6, 1), (0, 0, 2)]] * 3
    _, (_, rows) = play(env, field(agents, [[(6, 6, 3)]] * 3), np.full((1, 3, 3), LOAD, np.int32))
    assert rows.reward[0].tolist() == [[0, 0, 0], [-0.5, -0.5, 0], [-2, -2, 0]]
    assert not rows.terminated.any()


@pytest.mark.parametrize("normalize", [True, False])
def test_levels_divide_the_reward(normalize):
    env = small(agents=3, foods=2, normalize_reward=normalize)
    agents, foods = [(6, 5, 1), (5, 6, 2), (1, 1, 1)], [(3, 3, 3), (6, 6, 3)]
    state, row = played(env, agents, foods, (LOAD, LOAD, STAY))
    expected = [1 / 6, 1 / 3, 0] if normalize else [3, 6, 0]
    np.testing.assert_allclose(row.reward, expected, rtol=1e-6)
    assert [int(level[0]) for *_, level in state.foods.each()] == [3, 0]
    assert not row.terminated


def test_the_time_limit_is_a_termination():
    env = jaxenv.make(IDS["8x8-2p-2f-coop"], 2, max_episode_steps=3, autoreset=None)
    state, _ = env.reset(jax.random.key(0))
    _, rows = jax.lax.scan(env.step, state, np.zeros((3, 2, 2), np.int32))
    assert rows.terminated.tolist() == [[False] * 2] * 2 + [[True] * 2]
    assert not rows.truncated.any()


def test_food_in_the_largest_field_keeps_its_distance_and_edges_stay_free():
    state = draw(Foraging(size=28, agents=2, foods=12).initial)
    food = np.stack([np.stack(state.foods.rows), np.stack(state.foods.columns)], axis=-1)
    assert (np.stack(state.foods.levels) > 0).all()
    assert food.min() == 1
    assert food.max() == 26
    away = np.abs(food[:, None] - food[None])[np.triu_indices(12, 1)]
    assert (away.max(axis=-1) >= 2).all()
    assert (away.sum(axis=-1) >= 3).all()
    assert {(3, 0), (0, 3), (2, 1), (1, 2)} <= set(map(tuple, away.reshape(-1, 2).tolist()))


def test_the_picture_shows_agents_and_food_in_their_cells():
    env = small(size=5, num_envs=2)
    agents, foods = [[(0, 1, 1), (4, 4, 2)], [(2, 2, 2), (1, 0, 1)]], [[(3, 1, 2)], [(3, 3, 0)]]
    image = picture(env, field(agents, foods), 2, 100)
    for colour, expected in ((BLUE, [1, 12]), (ORANGE, [24, 5]), (RED, [16, None])):
        found = cells(shows(image, colour), 5, 5).reshape(2, -1)
        assert [np.flatnonzero(lane).tolist() for lane in found] == [[x] * (x is not None) for x in expected]
