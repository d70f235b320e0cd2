"""Rules of ``vmap`` for functions of an environment: lanes and batches of lanes become one batch."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxenv._util.programs import programs_of
from jaxenv.core._declared import Declared, declared_leaves, map_declared
from jaxenv.core.environment import Environment
from jaxenv.core.timestep import TimeStep


def merging_batches(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives ``function(env, lanes, *values)`` a rule for ``vmap``: S batches of B lanes become one of S * B lanes.

    ``lanes`` is an array ``[B]``; the leaves of ``values`` and of the result lead with ``[B]``. JAX's own rule would
    turn ``cond`` into a selection between both branches, and would run a loop for all batches until the last one is
    done.

    Each structure of an environment gets a separate function, which is traced once per type of arguments. The given
    function must be module-level, so that it does not hold an environment.
    """

    def call(env: Environment, *values: Any) -> tuple[Any, TimeStep]:
        programs = programs_of(env)
        merging = programs.result((call, "batches"), lambda: merging_leaves(function, programs.structure))
        return merging(jax.tree.flatten(env)[0], *values)

    return call


def merging_leaves(function: Callable[..., Any], structure: Any) -> Callable[..., Any]:
    """Acts as `merging_batches` for environments of one structure, whose leaves take their place.

    The function is jitted, so that the constants of its program stay inside: JAX (0.10) turns constants of a function
    with a rule into arguments, and ``vmap`` of a ``cond`` around it would batch them, which the rule cannot know. Keep
    the result: each call of `merging_leaves` starts another cache of traces.
    """

    def unmerged(leaves: list[jax.Array], *values: Any) -> tuple[Any, ...]:
        return function(jax.tree.unflatten(structure, leaves), *values)

    on_leaves = jax.custom_batching.custom_vmap(jax.jit(unmerged))

    @on_leaves.def_vmap
    def merge(size: int, batched: Any, leaves: Any, *values: Any) -> Any:
        lanes = values[0].shape[-1]
        env, batched_env = jax.tree.unflatten(structure, leaves), jax.tree.unflatten(structure, batched[0])
        flags = declared_leaves(batched_env)
        is_batched = {flag.path: flag.value for flag in flags}
        if any(flag.value and flag.in_lanes is False for flag in flags):  # weights per batch fit no merged batch
            axes = jax.tree.map(lambda batched: 0 if batched else None, tuple(batched))
            out = jax.vmap(unmerged, in_axes=axes, axis_size=size)(leaves, *values)
            return out, jax.tree.map(lambda _: True, out)

        def merged(x: Any, batched: Any) -> Any:
            x = x if batched else jnp.broadcast_to(x, (size, *x.shape))
            return x.reshape(size * lanes, *x.shape[2:])

        def merged_leaf(d: Declared) -> Any:
            batched = is_batched[d.path]
            if not batched and not d.per_lane:
                return d.value
            one_per_batch = batched and not d.in_lanes and d.value.ndim == d.rank + 1
            return jnp.repeat(d.value, lanes, axis=0) if one_per_batch else merged(d.value, batched)

        values = jax.tree.map(merged, values, tuple(batched[1:]))
        out = on_leaves(jax.tree.flatten(map_declared(merged_leaf, env))[0], *values)
        out = jax.tree.map(lambda x: x.reshape(size, lanes, *x.shape[1:]), out)
        return out, jax.tree.map(lambda _: True, out)

    return on_leaves


def for_one_lane(function: Callable[..., Any]) -> Callable[..., Any]:
    """Calls ``function(env, lanes, *values)`` for one lane, without its axis; ``vmap`` over N lanes makes one call.

    The environment holds no values per lane, but ``vmap`` may run over its leaves as well. Derivatives are computed
    lane by lane, under JAX's own rule.
    """

    def call(env: Environment, *values: Any) -> Any:
        programs = programs_of(env)
        one_lane = programs.result((call, "lanes"), lambda: _one_lane(function, programs.structure))
        return one_lane(jax.tree.flatten(env)[0], *values)

    return call


def _one_lane(function: Callable[..., Any], structure: Any) -> Callable[..., Any]:
    batch = merging_leaves(function, structure)

    def on_leaves(leaves: Any, *values: Any) -> Any:
        return function(jax.tree.unflatten(structure, leaves), *values)

    def alone(function: Any, leaves: Any, *values: Any) -> Any:
        return jax.tree.map(lambda x: x[0], function(leaves, *jax.tree.map(lambda x: x[None], values)))

    @jax.custom_batching.custom_vmap
    def one(leaves: Any, *values: Any) -> Any:
        return alone(batch, leaves, *values)

    @one.def_vmap
    def together(size: int, batched: Any, leaves: Any, *values: Any) -> Any:
        def of_all_lanes(x: Any, batched: Any) -> Any:
            return x if batched else jnp.broadcast_to(x, (size, *x.shape))

        out = batch(leaves, *jax.tree.map(of_all_lanes, values, tuple(batched[1:])))
        return out, jax.tree.map(lambda _: True, out)

    @jax.custom_jvp
    def differentiable(leaves: Any, *values: Any) -> Any:
        return one(leaves, *values)

    @differentiable.defjvp
    def tangents_by_own_rules(primals: Any, tangents: Any) -> Any:
        # JAX has no reverse mode for functions with a rule for vmap, so derivatives use the code of one lane.
        _, out = jax.jvp(functools.partial(alone, on_leaves), primals, tangents)
        return one(*primals), out

    return differentiable
