"""Shapes of what an environment returns, traced once for all environments of one structure."""

from collections.abc import Callable, Iterator
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv._util.programs import programs_of
from jaxenv.core.starts import Starts
from jaxenv.tree import Tree


def chain(env: Any) -> Iterator[Any]:
    """Yields the layers of a stack, outermost first and the task last."""
    task = env.unwrapped
    while env is not task:
        yield env
        env = env.env
    yield task


def shapes_of(what: Literal["rows", "levels"], env: Any, num_lanes: int) -> Tree:
    """Returns the shapes of the first states and rows, or of the levels, of ``num_lanes`` lanes; nothing is computed.

    The result is cached for environments of one structure and equal shapes of their leaves. An error of an author
    passes through these functions, so they are few.
    """
    leaves = tuple(jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)) for x in jax.tree.flatten(env)[0])
    programs = programs_of(env)

    def of_leaves(leaves: Any, starts: Starts) -> Tree:
        env = programs.structure.unflatten(leaves)
        return env.begin(starts) if what == "rows" else env.levels().sample(starts)

    def make() -> Tree:
        bound: Callable[..., Tree] = of_leaves
        # The mesh axes over which layers sum their statistics: outside of shard_map they are bound to nothing.
        for name in {getattr(layer, "axis_name", None) for layer in chain(env)} - {None}:
            bound = jax.vmap(bound, in_axes=None, out_axes=None, axis_name=name, axis_size=1)
        word, number = (jax.ShapeDtypeStruct((num_lanes,), dtype) for dtype in (np.uint32, np.int32))
        starts: Any = Starts((word, word), number, number)  # type: ignore[arg-type]
        return jax.eval_shape(bound, leaves, starts)

    return programs.result((what, leaves, num_lanes, jax.config.read("jax_enable_x64")), make)
