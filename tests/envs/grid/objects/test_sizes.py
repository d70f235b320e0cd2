"""The sizes of MiniGrid's levels that have no id here, as the documentation lists them: time limits and starts."""

import ast
import pathlib
import re

import numpy as np
import pytest

import jaxenv
from tests.envs.grid.objects import reference
from tests.envs.grid.objects.test_levels import assert_starts_match

PAGE = pathlib.Path(__file__).parents[4] / "docs/catalogue/grid.md"
# MiniGrid's id: the id here, options and time limit.
SIZES = {
    theirs: (ours, {name: ast.literal_eval(value) for name, value in re.findall(r"(\w+)=(\w+)", options)}, int(limit))
    for theirs, ours, options, limit in re.findall(
        r"^\| `([^`]*)` \| `([^`]*)` \| `([^`]*)` \| (\d+) \|$", PAGE.read_text(), re.MULTILINE
    )
}
QUICK = ("MiniGrid-LavaCrossingS11N5-v0", "MiniGrid-PutNear-8x8-N3-v0", "MiniGrid-KeyCorridorS3R2-v0")


def recorded(id):
    """Returns the arrays of one of MiniGrid's ids."""
    data = reference.golden("sizes")
    return {name.removeprefix(f"{id} "): value for name, value in data.items() if name.startswith(f"{id} ")}


def test_every_recorded_size_is_documented_with_its_time_limit():
    ids = {name.split()[0] for name in reference.golden("sizes") if name.startswith("MiniGrid-")}
    assert SIZES.keys() == ids
    for theirs, (ours, options, limit) in SIZES.items():
        env = jaxenv.make(ours, max_episode_steps=limit, **options).unwrapped
        data = recorded(theirs)
        assert (env.extent, limit) == (tuple(data["shape"]), data["max_steps"]), theirs
        assert env.max_steps == limit, theirs


@pytest.mark.parametrize("id", [id if id in QUICK else pytest.param(id, marks=pytest.mark.thorough) for id in SIZES])
def test_starts_of_other_sizes_are_distributed_as_in_minigrid(id):
    data, (ours, options, _) = recorded(id), SIZES[id]
    env = jaxenv.spec(ours).make(int(np.sum(data["counts_pose"])), **options)
    assert_starts_match(id, env, data, data["shape"])
