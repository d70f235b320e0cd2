"""Restart strategies, which `jaxenv.wrappers.AutoReset` describes. All of them agree in the lanes that restart."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util import xla
from jaxenv._util.checks import check_choice
from jaxenv.core._merging import merging_batches
from jaxenv.core.environment import Environment
from jaxenv.core.facts import ResetStrategy
from jaxenv.core.starts import next_episodes
from jaxenv.core.timestep import TimeStep
from jaxenv.random import Clock
from jaxenv.tree import Tree
from jaxenv.tree._structure import type_mismatch


class PerPlatform(dict[str, Any]):
    """A strategy per platform, hashable, so that it can be part of a tree's structure."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(sorted(self.items())))


def check_strategy(owner: str, strategy: Any) -> None:
    """Raises a ``ValueError`` unless ``strategy`` is a restart strategy, one per platform, or ``None``."""
    names = get_args(ResetStrategy)
    if not isinstance(strategy, Mapping):
        check_choice(owner, "reset_strategy", strategy, (*names, None))
    elif "default" not in strategy:
        raise ValueError(f"{owner}: reset_strategy per platform must have a 'default', got {dict(strategy)}")
    else:
        for platform, name in strategy.items():
            check_choice(owner, f"reset_strategy of {platform!r}", name, names)


def start_episodes(
    env: Environment, mask: jax.Array, state: Tree, timestep: TimeStep, strategy: ResetStrategy | Any, block: int
) -> tuple[Tree, TimeStep]:
    """Starts the next episode in the lanes of ``mask``: returns state and FIRST row, with placeholders in other lanes.

    ``mask`` is bool ``[B]``, ``state`` the one in which the lanes ended, leaves ``[B, ...]``, and ``timestep`` holds
    rows ``[B]`` of ``env``, for shapes and placeholders. ``begin`` and ``step`` of ``env`` must return the same tree.
    """
    # JAX refuses to gather lanes over the explicit axes of a mesh.
    compact = _select if xla.has_explicit_lanes(mask) else _merged_compact(block)
    strategies = {"select": _select, "cond": _merged_cond, "compact": compact}
    # Gradients stop at the start of an episode, and must not enter a branch or a loop of unknown length.
    arguments = tree.detach((env, mask, *tree.vary_like(mask, (state, timestep))))
    if isinstance(strategy, str):
        fresh = strategies[strategy](*arguments)
    else:
        leaves, structure = jax.tree.flatten(arguments[0])

        # A function of this call: JAX keeps its traces, and with them the environment, as long as it lives.
        def chosen(name: str) -> Callable[..., Any]:
            return lambda leaves, *rest: strategies[name](jax.tree.unflatten(structure, leaves), *rest)

        per_platform = {platform: chosen(name) for platform, name in strategy.items()}
        fresh = jax.lax.platform_dependent(leaves, *arguments[1:], **per_platform)
    for name, begun, stepped in zip(("state", "timestep"), fresh, (state, timestep), strict=True):
        if (fault := type_mismatch(begun, stepped, name)) is not None:
            raise ValueError(f"{env}: begin and step must return the same tree: in step, {fault}")
    return fresh


def restart_in_row(
    env: Environment, mask: jax.Array, state: Tree, timestep: TimeStep, strategy: ResetStrategy | Any, block: int
) -> tuple[Tree, TimeStep]:
    """Starts the next episode in the lanes of ``mask``, on the row of the step that ended the last one.

    The row keeps that step's transition, and shows the observation and the ``env_info`` of the state of the next
    episode. The arguments are as for `start_episodes`.
    """
    fresh, first = start_episodes(env, mask, state, timestep, strategy, block)
    names = env.env_info_of(state).keys()
    shown = tree.where(mask, *({name: row.env_info[name] for name in names} for row in (first, timestep)))
    inner = tree.where(mask, fresh, state)
    observation = observation_where(env, mask, inner, first, timestep)
    return inner, dataclasses.replace(timestep, observation=observation, env_info={**timestep.env_info, **shown})


def observation_where(env: Environment, mask: jax.Array, inner: Tree, first: TimeStep, timestep: TimeStep) -> Tree:
    """Returns the observation of ``first`` under the mask, else of ``timestep``; ``inner`` is the selected state."""
    if env.observes_state:  # Observing the selected state once is cheaper than selecting between observations.
        return env.observation_of(inner)
    return tree.where(mask, first.observation, timestep.observation)


def _select(env: Environment, mask: jax.Array, state: Tree, timestep: TimeStep) -> tuple[Any, TimeStep]:
    return tree.vary_like(mask, env.begin(next_episodes(env.clock(state)), state))


def _cond(env: Environment, mask: jax.Array, state: Tree, timestep: TimeStep) -> tuple[Tree, TimeStep]:
    def select(leaves: list[jax.Array], *rest: Any) -> tuple[Tree, TimeStep]:
        return _select(jax.tree.unflatten(structure, leaves), *rest)

    leaves, structure = jax.tree.flatten(env)
    return jax.lax.cond(jnp.any(mask), select, lambda leaves, mask, *current: current, leaves, mask, state, timestep)


def _compact(block: int, env: Environment, mask: jax.Array, state: Tree, timestep: TimeStep) -> tuple[Tree, TimeStep]:
    lanes = mask.shape[0]
    if isinstance(lanes, int):  # an exported program may leave the number of lanes open
        block = min(block, lanes)
    count = jnp.sum(mask, dtype=jnp.int32)
    slots = -(-lanes // block) * block

    def no_lanes(mask: jax.Array) -> jax.Array:
        return tree.vary_like(mask, jnp.full(slots, lanes, jnp.int32))

    def lanes_of_mask(mask: jax.Array) -> jax.Array:
        slot = jnp.where(mask, jnp.cumsum(mask, dtype=jnp.int32) - 1, jnp.asarray(slots, jnp.int32))
        numbers = jnp.arange(lanes, dtype=jnp.int32)
        return no_lanes(mask).at[slot].set(numbers, mode="drop", unique_indices=True)

    ended = jax.lax.cond(count > 0, lanes_of_mask, no_lanes, mask)

    def start_block(i: jax.Array, buffers: tuple[Tree, TimeStep]) -> tuple[Tree, TimeStep]:
        index = jax.lax.dynamic_slice(ended, (i * block,), (block,))
        previous = tree.gather(buffers[0], index)
        fresh = env.take(index).begin(next_episodes(env.clock(previous)), previous)
        return _scatter(buffers, fresh, index)

    blocks = (count + np.int32(block - 1)) // np.int32(block)
    return jax.lax.fori_loop(np.int32(0), blocks, start_block, (state, timestep))


# Made once, because each has a cache of its traces.
_merged_cond = merging_batches(_cond)


@functools.cache
def _merged_compact(block: int) -> Callable[..., Any]:
    return merging_batches(functools.partial(_compact, block))


def _scatter(buffers: Tree, values: Tree, index: jax.Array) -> Tree:
    """Writes ``values`` ``[K, ...]`` at the lanes ``index`` (int32 ``[K]``) and drops those with an index out of range.

    Keys and ids of lanes never change and are not written.
    """

    def write(buffer: Any, value: Any) -> Any:
        if isinstance(buffer, Clock):
            episode, step = write(buffer.episode, value.episode), write(buffer.step, value.step)
            return dataclasses.replace(buffer, episode=episode, step=step)
        return buffer.at[index].set(value, mode="drop")

    return jax.tree.map(write, buffers, values, is_leaf=lambda node: isinstance(node, Clock))
