"""Checks of states and rows that are passed back to an environment.

``step`` is the innermost call of every loop, so it does not compare its state with what a reset returns. It fails in
one way or another if the state is a wrong one, and the reason is found only then. Loops check once, before they start.
"""

import reprlib
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._checks import INT32_MAX, Range, check_arrays
from jaxenv._structure import mismatch
from jaxenv.random import note_on_streams
from jaxenv.timestep import TimeStep
from jaxenv.tree import Tree

if TYPE_CHECKING:
    from jaxenv.environment import Environment


class explained:
    """A context for a call with a state: if the call fails and the state is a wrong one, the error says so.

    A class, since ``step`` enters it on every call: a generator would cost three times as much.

    Args:
        call: the name of the function or method, with which the error starts.
        env: the environment.
        start: a state, or a state and its timestep; nothing if the call takes neither.
        arguments: the other arguments of the call, which must be trees of arrays.
    """

    __slots__ = ("_arguments", "_call", "_env", "_start")

    def __init__(self, call: str, env: "Environment", *start: Tree, **arguments: Tree):
        self._call, self._env, self._start, self._arguments = call, env, start, arguments

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: type[Any] | None, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, Exception):
            if self._start and (fault := start_fault(self._env, *self._start)) is not None:
                raise ValueError(f"{self._call}: {fault}") from None
            note_on_streams(error)
            for name, value in self._arguments.items():
                check_arrays(self._call, name, value)


def start_fault(env: "Environment", *start: Tree) -> str | None:
    """The rule that a state, or a state and its timestep, break in ``env``; ``None`` if they break none."""
    try:
        expected = env.start_shapes()
    except Exception:  # the environment has an error of its own, which its own methods raise
        return None
    if (fault := difference(env, expected, *start)) is not None:
        return fault
    try:
        env.check_lanes(env.clock(start[0]).env_id.shape[0])
    except ValueError as error:
        return str(error)
    return None


def difference(env: "Environment", expected: tuple[Tree, TimeStep], *start: Tree) -> str | None:
    """The rule that a state, or a state and its timestep, break, given those that ``env`` makes, or their shapes."""
    lanes = None
    for name, own, given in zip(("state", "timestep"), expected, start, strict=False):
        if (found := mismatch(own, given, name)) is not None:
            return f"{found}: pass the {name} that {env} returned"
        for where, shape, x in _leaves(name, own, given):
            if jnp.shape(x) == shape.shape[1:]:
                rule = f"{where} must lead with the lanes, got shape {jnp.shape(x)}"
                return f"{env} takes whole batches, without vmap: {rule}"
            if (jnp.shape(x)[1:], jnp.result_type(x)) != (shape.shape[1:], shape.dtype):
                kind = f"{shape.dtype}[{', '.join(['lanes', *map(str, shape.shape[1:])])}]"
                found = f"{jnp.result_type(x)}{list(jnp.shape(x))}"
                return f"{where} must be {kind}, got {found}: pass the {name} that {env} returned"
            lanes = lanes or jnp.shape(x)[0]
            if jnp.shape(x)[0] != lanes:
                return f"{where} must have {lanes} lanes, as the other arrays, got {jnp.shape(x)[0]}"
    return None


def _leaves(name: str, own: Tree, given: Tree) -> Iterator[tuple[str, Any, Any]]:
    """Name, expected and given leaf of every array with lanes, in two trees of one structure."""
    nodes = (jax.tree_util.tree_leaves_with_path(t, is_leaf=tree.is_shared) for t in (own, given))
    for (path, shape), (_, x) in zip(*nodes, strict=True):
        if not tree.is_shared(shape):
            yield f"{name}.{tree.path_name(path)}".rstrip("."), shape, x


def lane_numbers(env_id: Any) -> jax.Array:
    """The numbers of lanes as int32 ``[B]``; raises a ``ValueError`` for anything else. Traced values are not read."""
    if not isinstance(env_id, jax.core.Tracer):
        values = np.asarray(env_id)
        if values.dtype.kind not in "iu":
            hint = ": params belong to the environment, env.with_params(...)" if is_dataclass(env_id) else ""
            raise ValueError(f"reset: env_id must be integers, got {reprlib.repr(env_id)}{hint}")
        Range(low=0, high=INT32_MAX).check("reset", "env_id", values, values.ndim)
        if len(np.unique(values)) < values.size:
            raise ValueError(f"reset: env_id must name each lane once, got {values.tolist()}")
    lanes = jnp.asarray(env_id)
    if lanes.ndim != 1 or not jnp.issubdtype(lanes.dtype, jnp.integer):
        raise ValueError(f"reset: env_id must be integers [B], got {lanes.dtype}{list(lanes.shape)}")
    return lanes.astype(jnp.int32)
