"""Parity of the levels with objects with MiniGrid 3.2.0: single steps, whole episodes, and starts of episodes."""

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.envs.grid.crossing import Crossing
from tests.envs.grid import reference as plain
from tests.envs.grid.objects import reference, starts
from tests.parity import certify

# Levels whose objects are walls and lava; their states are those of `grid_world`.
CROSSINGS = tuple(id for id in jaxenv.ids() if "Crossing" in id)
OBSTACLES = tuple(id for id in jaxenv.ids() if "Dynamic-Obstacles" in id)
OTHERS = tuple(
    f"MiniGrid-{name}-v0"
    for name in (
        "Unlock",
        "UnlockPickup",
        "BlockedUnlockPickup",
        "Fetch-5x5-N2",
        "Fetch-8x8-N3",
        "GoToDoor-5x5",
        "GoToDoor-8x8",
        "GoToObject-6x6-N2",
        "PutNear-6x6-N2",
        "RedBlueDoors-6x6",
        "MemoryS7",
        "MemoryS13Random",
        "LockedRoom",
        "KeyCorridorS3R1",
        "KeyCorridorS3R3",
        "MultiRoom-N2-S4",
        "MultiRoom-N4-S5",
        "MultiRoom-N6",
        "ObstructedMaze-1Dl",
        "ObstructedMaze-1Dlh",
        "ObstructedMaze-1Dlhb",
        "ObstructedMaze-2Dlh",
    )
)


def made(id, lanes):
    return jaxenv.make(id, lanes, autoreset=None)


@pytest.mark.parametrize("id", [*CROSSINGS, *OTHERS])
def test_steps_and_whole_episodes_match_minigrid(id):
    data = reference.golden(id)
    lanes, played = len(data["action"]), len(data["episode_length"])
    assert jaxenv.spec(id).max_episode_steps == data["max_steps"]
    assert np.sum(data["reward"] > 0) >= 3
    assert np.sum(data["after_step"] >= data["max_steps"]) >= 5
    assert np.sum(data["episode_reward"].max(axis=1) > 0) >= 3
    if id in CROSSINGS:
        steps = {**data, "carrying": np.zeros(lanes, bool), "after_carrying": np.zeros(lanes, bool)}
        error = plain.assert_steps_match(made(id, lanes), steps)
        error = max(error, plain.assert_episodes_match(made(id, played), data))
    else:
        error = reference.assert_steps_match(made(id, lanes), data)
        error = max(error, reference.assert_episodes_match(made(id, played), data))
    certify(
        id,
        "minigrid 3.2.0",
        states=lanes,
        episodes=played,
        steps=int(np.sum(data["episode_length"])),
        tolerance=plain.TOLERANCE,
        error=error,
    )


@pytest.mark.parametrize("id", [*CROSSINGS, *OBSTACLES, *OTHERS])
def test_starts_are_distributed_as_in_minigrid(id):
    """Compares how often agent, walls and objects are where, next to what, and of which colour."""
    data = reference.golden(id)
    env = jaxenv.spec(id).make(int(np.sum(data["counts_pose"])))
    assert_starts_match(id, env, data, data["episode_grid"].shape[1:3])


def assert_starts_match(name, env, data, extent):
    """Asserts that as many starts as were counted look like those of MiniGrid.

    Args:
        name: used in messages.
        env: our environment, with a lane for every start.
        data: MiniGrid's counts and missions.
        extent: columns and rows of the grid.
    """
    theirs = {
        name.removeprefix("counts_"): n.astype(np.int64) for name, n in data.items() if name.startswith("counts_")
    }
    state, timestep = jax.device_get(plain.reset(env, jax.random.key(5)))
    task = state.task
    if isinstance(env, Crossing):
        grid = grids_of_crossings(task)
    else:
        grid, _, carrying = reference.grids(task, *extent)
        assert not np.any(carrying)
    agents = np.stack([task.agent.x, task.agent.y, task.agent.direction], axis=1)
    ours = starts.counts(agents, grid)
    if env.observe_mission:
        texts, number = np.unique(timestep.observation["mission"], axis=0, return_counts=True)
        found = {env.mission_text(tokens): n for tokens, n in zip(texts, number, strict=True)}
        recorded = [str(text).replace(",", "") for text in data["missions"]]
        assert sum(found.values()) == sum(theirs["missions"])
        # A rare mission may not occur on either side.
        every = sorted({*recorded, *found})
        ours["missions"] = np.array([found.get(text, 0) for text in every])
        theirs["missions"] = np.array([dict(zip(recorded, theirs["missions"], strict=True)).get(t, 0) for t in every])
    else:
        assert len(theirs.pop("missions")) == 1
        assert str(data["missions"][0]) == env.mission
    assert ours.keys() == theirs.keys()
    for what in ours:
        pairs = np.sum(ours[what]) / len(agents) if what.startswith("colours") else 1
        assert_alike(f"{name}: {what}", ours[what], theirs[what], pairs)


def grids_of_crossings(task):
    """Returns states of `grid_world` as MiniGrid's grids."""
    grid = np.where(plain.plane(task.floor)[..., None], [1, 0, 0], [2, 5, 0])
    if task.lava is not None:
        grid = np.where(plain.plane(task.lava)[..., None], [9, 0, 0], grid)
    goal = plain.coordinates(task.goal)
    grid[np.arange(len(grid)), goal[:, 0], goal[:, 1]] = [8, 1, 0]
    return grid


def assert_alike(name, ours, theirs, pairs=1):
    """Asserts that two arrays of counts agree within what chance allows.

    The difference of two counts of rare events has a standard deviation of at most the root of their sum. Pairs of
    objects in one start depend on each other, which makes the sum of squares larger than chi-square, but not twice as
    large. If ``pairs`` of colours in one start have a colour in common, as many doors and one key do, the variance of a
    count is up to that many times larger.
    """
    both, factor = ours + theirs, max(pairs, 1)
    wrong = np.abs(ours - theirs) > 4.5 * np.sqrt(both * factor) + 2
    assert not np.any(wrong), (name, np.flatnonzero(wrong), ours[wrong], theirs[wrong])
    frequent = both >= 10
    chi_square = np.sum((ours - theirs)[frequent] ** 2 / both[frequent])
    count = np.sum(frequent)
    limit = 1.5 * count + 6 * np.sqrt(2 * count * factor) + 4
    assert chi_square <= limit, (name, chi_square, limit, count)
