"""Finds the random draws of a traced program, and what they depend on."""

from collections import Counter
from typing import Any, NamedTuple

from jax.extend.core import Literal

_RANDOM = ("random_bits", "threefry2x32", "rng_bit_generator", "random_gamma")


class Value(NamedTuple):
    """What a value depends on: the numbers of the inputs of the program, and a hash of all that computes it."""

    inputs: frozenset[int]
    computation: int


_NONE: frozenset[int] = frozenset()
_CONSTANT = Value(_NONE, 0)  # computed outside of the program


def draws(jaxpr: Any, given: list[Value] | None = None) -> Counter[Value]:
    """Counts the draws of a program, and of all programs in it; equal draws of constants are one `Value`."""
    values = [Value(frozenset([i]), i) for i in range(len(jaxpr.invars))] if given is None else given
    known, found = dict(zip(jaxpr.invars, values, strict=True)), Counter[Value]()
    for eqn in jaxpr.eqns:
        read = [Value(_NONE, hash(str(v))) if isinstance(v, Literal) else known.get(v, _CONSTANT) for v in eqn.invars]
        params = [x for value in eqn.params.values() for x in (value if isinstance(value, tuple | list) else [value])]
        inner = [getattr(x, "jaxpr", x) for x in params if hasattr(x, "eqns")]
        text = str([x for x in params if not (hasattr(x, "eqns") or callable(x))])
        inputs = _NONE.union(*(x.inputs for x in read))
        made = Value(inputs, hash((eqn.primitive.name, text, *(x.computation for x in read))))
        found.update([made] if eqn.primitive.name in _RANDOM else [])
        for program in inner:
            first = len(read) - len(program.invars)  # `cond` reads the number of a branch before its inputs
            same = eqn.primitive.name in ("pjit", "jit", "cond") and first >= 0
            found.update(draws(program, read[first:] if same else [made] * len(program.invars)))
        known.update({v: Value(inputs, hash((made, i))) for i, v in enumerate(eqn.outvars)})
    return found
