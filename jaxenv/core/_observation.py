"""Shared code of observation wrappers: mapping both observations of a row, and checking the result."""

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp

from jaxenv import tree
from jaxenv._util.checks import check_callable
from jaxenv.core.timestep import TimeStep, check_timestep
from jaxenv.tree import Tree
from jaxenv.tree._structure import is_array


def map_observation(fn: Callable[[Tree], Tree], timestep: TimeStep) -> TimeStep:
    """Applies ``fn`` to the observation and to ``env_info["final_observation"]``, which only ``same_step`` mode has.

    Args:
        fn: maps an observation ``[B, ...]``, or its specs.
        timestep: rows ``[B]``, or their specs.
    """
    check_callable("map_observation", "fn", fn)
    check_timestep("map_observation", "timestep", timestep)
    env_info = timestep.env_info
    if "final_observation" in env_info:
        env_info = {**env_info, "final_observation": fn(env_info["final_observation"])}
    return dataclasses.replace(timestep, observation=fn(timestep.observation), env_info=env_info)


def checked_observation(owner: str, observation: Tree, num_lanes: int) -> Tree:
    """Returns the observation of ``owner``; raises a ``ValueError`` unless its leaves are arrays of all lanes."""
    leaves = tree.flatten_with_path(observation)[0]
    if not leaves:
        raise ValueError(f"{owner} must return an array or a tree of arrays, got {observation!r}")
    for path, x in leaves:
        name = tree.path_name(path) or "the observation"
        if not is_array(x):
            raise ValueError(f"{owner} must return arrays, got {x!r} for {name}")
        if jnp.shape(x)[:1] != (num_lanes,):
            rule = f"must return arrays that lead with the {num_lanes} lanes"
            raise ValueError(f"{owner} {rule}, got shape {jnp.shape(x)} for {name}")
    return observation
