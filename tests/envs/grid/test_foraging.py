"""Level-based foraging compared with lbforaging, as recorded by ``make_foraging.py``; every number is compared exactly.

The original computes rewards in float64; rounded to float32 they are those of a division in float32.
"""

import functools
import pathlib

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.envs.grid.foraging import Foraging, State, Things
from tests.draws import N, chi_square, draw
from tests.envs.grid.make_foraging import DRAWS, EPISODES, GAMES, counts
from tests.parity import certify

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
    drawn = np.moveaxis([x for part in (state.agents, state.foods) for x in zip(*part_of(part), strict=True)], -1, 0)
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


def part_of(things):
    return things.rows, things.columns, things.levels
