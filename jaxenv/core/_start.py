"""Where the next episodes of some lanes start, and checks of the levels and states that a caller gives for it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import check_arrays, is_concrete
from jaxenv._util.programs import programs_of
from jaxenv.core import _checks
from jaxenv.tree import Tree
from jaxenv.tree._structure import mismatch

if TYPE_CHECKING:
    from jaxenv.core.environment import Environment

E = TypeVar("E", bound="Environment")


@tree.struct
class Start:
    """Where episodes start in the lanes ``given``, bool ``[B]``, and the other lanes in new levels; ``None`` for all.

    ``place`` leads with ``[B]``: levels, or what `Environment._start_of` keeps of a state if ``in_state``.
    """

    place: Tree
    given: jax.Array | None = None
    in_state: bool = tree.static(default=False)

    def or_else(self, other: Callable[[], Tree]) -> Tree:
        """Returns the given places, and in the other lanes those that ``other`` computes."""
        return self.place if self.given is None else tree.where(self.given, self.place, other())

    @property
    def num_lanes(self) -> int:
        return int(jnp.shape(jax.tree.leaves(self.place)[0])[0])


def started(call: str, env: E, lanes: int, level: Tree, from_state: Tree) -> E:
    """Returns the environment whose ``lanes`` episodes start in ``level`` or ``from_state``, if one is given."""
    if level is not None and from_state is not None:
        raise ValueError(f"{call}: pass level or from_state, one of the two")
    if level is None and from_state is None:
        return env
    start = of_states(call, env, from_state) if level is None else of_levels(call, env, level)
    if start.num_lanes != lanes:
        name = "from_state" if level is None else "level"
        raise ValueError(f"{call}: {name} must hold {lanes} lanes, as the batch, got {start.num_lanes}")
    return env._with_start(start)


def of_levels(call: str, env: "Environment", level: Tree) -> Start:
    """Returns starts in ``level``, for all lanes; raises a ``ValueError`` if it is not a level of ``env``."""
    level = _checked(call, env, "level", level, level_shapes(env))
    if all(map(is_concrete, jax.tree.leaves(level))):
        env._check_level(level)
    return Start(level)


def of_states(call: str, env: "Environment", state: Tree) -> Start:
    """Returns starts in the states of ``env``, for all lanes; raises a ``ValueError`` for states of another stack."""
    if (fault := _checks.start_fault(env, state)) is not None:
        raise ValueError(f"{call}: from_state: {fault}")
    return Start(tree.detach(env._start_of(state)), in_state=True)


def level_shapes(env: "Environment") -> Tree:
    """Returns the shapes of the levels that the environment samples, for `spec_lanes` lanes; nothing is computed."""
    word, number = (jax.ShapeDtypeStruct((env.spec_lanes,), dtype) for dtype in (np.uint32, np.int32))
    leaves, structure = tree.flatten(env)
    shapes = tuple(jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)) for x in leaves)

    def new(leaves: Any, *clock: Any) -> Tree:
        return structure.unflatten(leaves)._new_level(*clock)

    key = ("level_shapes", shapes, env.spec_lanes)
    return programs_of(env).result(key, lambda: jax.eval_shape(new, shapes, (word, word), number, number))


def _checked(call: str, env: "Environment", name: str, given: Tree, expected: Tree) -> Tree:
    """Returns the arrays of ``given``; raises a ``ValueError`` unless they are like ``expected``, all with B lanes."""
    check_arrays(call, name, given)
    if (fault := mismatch(expected, given, name)) is not None:
        raise ValueError(f"{call}: {fault}: pass a level of {env}, as jaxenv.sample_level returns it")
    lanes = None
    for where, shape, x in _checks.leaves_with_names(name, expected, given):
        if jnp.ndim(x) == 0 or (jnp.shape(x)[1:], jnp.result_type(x)) != (shape.shape[1:], shape.dtype):
            kind = f"{shape.dtype}[{', '.join(['lanes', *map(str, shape.shape[1:])])}]"
            raise ValueError(f"{call}: {where} must be {kind}, got {jnp.result_type(x)}{list(jnp.shape(x))}")
        lanes = lanes or jnp.shape(x)[0]
        if jnp.shape(x)[0] != lanes:
            raise ValueError(f"{call}: {where} must have {lanes} lanes, as the other arrays, got {jnp.shape(x)[0]}")
        if is_concrete(x) and jnp.issubdtype(shape.dtype, jnp.floating) and not np.all(np.isfinite(np.asarray(x))):
            lane = int(np.argwhere(~np.isfinite(np.asarray(x)))[0][0])
            raise ValueError(f"{call}: {where} must be finite, in lane {lane} it is not")
    return jax.tree.map(jnp.asarray, given)
