"""Parity of the levels with objects with MiniGrid 3.2.0: single steps, whole episodes, and starts of episodes."""

import jax
import numpy as np
import pytest

import jaxenv
from tests.envs.grid import reference as plain
from tests.envs.grid.objects import reference, starts
from tests.parity import certify

IDS = ("MiniGrid-Unlock-v0",)


def made(id, lanes):
    return jaxenv.make(id, lanes, autoreset=None)


@pytest.mark.parametrize("id", IDS)
def test_steps_and_whole_episodes_match_minigrid(id):
    data = reference.golden(id)
    lanes, played = len(data["action"]), len(data["episode_length"])
    assert jaxenv.spec(id).max_episode_steps == data["max_steps"]
    assert np.sum(data["reward"] > 0) >= 5
    assert np.sum(data["after_step"] >= data["max_steps"]) >= 5
    assert np.sum(data["episode_reward"].max(axis=1) > 0) >= 3
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


@pytest.mark.parametrize("id", IDS)
def test_starts_are_distributed_as_in_minigrid(id):
    """Compares how often agent, walls and objects are where, next to what, and of which colour."""
    data = reference.golden(id)
    theirs = {
        name.removeprefix("counts_"): n.astype(np.int64) for name, n in data.items() if name.startswith("counts_")
    }
    env = jaxenv.spec(id).make(int(np.sum(theirs["pose"])))
    state, _ = jax.device_get(plain.reset(env, jax.random.key(5)))
    columns, rows = data["episode_grid"].shape[1:3]
    task = state.task
    grid, carrying = reference.grids(task, columns, rows)
    assert not np.any(carrying)
    agents = np.stack([task.agent.x, task.agent.y, task.agent.direction], axis=1)
    ours = starts.counts(agents, grid)
    assert [str(text) for text in data["missions"]] == [env.mission]
    del theirs["missions"]
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert_alike(f"{id}: {name}", ours[name], theirs[name])


def assert_alike(name, ours, theirs):
    """Asserts that two arrays of counts agree within what chance allows.

    The difference of two counts of rare events has a standard deviation of at most the root of their sum. Pairs of
    objects in one start depend on each other, which makes the sum of squares larger than chi-square, but not twice as
    large.
    """
    both = ours + theirs
    wrong = np.abs(ours - theirs) > 4.5 * np.sqrt(both) + 2
    assert not np.any(wrong), (name, np.flatnonzero(wrong), ours[wrong], theirs[wrong])
    frequent = both >= 10
    chi_square = np.sum((ours - theirs)[frequent] ** 2 / both[frequent])
    count = np.sum(frequent)
    assert chi_square <= 1.5 * count + 6 * np.sqrt(2 * count) + 4, (name, chi_square, count)
