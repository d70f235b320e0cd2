"""Finds the random draws of a traced program, what they depend on, and how they are used."""

from collections import Counter
from typing import Any, NamedTuple

from jax.extend.core import Literal

_RANDOM = ("random_bits", "threefry2x32", "rng_bit_generator", "random_gamma")
# Where a constant is a matrix, a filter or a table.
_LINEAR = ("dot_general", "conv_general_dilated", "gather", "dynamic_slice")
_NONE: frozenset[int] = frozenset()


class Value(NamedTuple):
    """What a value depends on: the inputs of the program by number, a hash of all that computes it, constant draws."""

    inputs: frozenset[int]
    computation: int
    drawn: frozenset[int] = _NONE  # computations of draws from constants


class Draws(NamedTuple):
    """How often a program draws each `Value`, and the draws from constants that are more than a matrix or a table."""

    counts: Counter[Value]
    noise: frozenset[int]


_CONSTANT = Value(_NONE, 0)  # computed outside of the program


def draws(jaxpr: Any, given: list[Value] | None = None) -> Draws:
    """Finds the draws of a program, and of all programs in it; equal draws of constants are one `Value`."""
    values = [Value(frozenset([i]), i) for i in range(len(jaxpr.invars))] if given is None else given
    known, found, noise = dict(zip(jaxpr.invars, values, strict=True)), Counter[Value](), _NONE

    def read_of(variables: Any) -> list[Value]:
        return [Value(_NONE, hash(str(v))) if isinstance(v, Literal) else known.get(v, _CONSTANT) for v in variables]

    for eqn in jaxpr.eqns:
        read, name = read_of(eqn.invars), eqn.primitive.name
        params = [x for value in eqn.params.values() for x in (value if isinstance(value, tuple | list) else [value])]
        inner = [getattr(x, "jaxpr", x) for x in params if hasattr(x, "eqns")]
        text = str([x for x in params if not (hasattr(x, "eqns") or callable(x))])
        inputs, drawn = (
            frozenset[int]().union(*sets)
            for sets in zip(*((x.inputs, x.drawn) for x in [*read, _CONSTANT]), strict=True)
        )
        made = Value(inputs, hash((name, text, *(x.computation for x in read))), drawn)
        if name in _RANDOM:
            found[made] += 1
            made = made if inputs else made._replace(drawn=drawn | {made.computation})
        elif inputs and not inner and name not in _LINEAR:
            noise = noise.union(*(x.drawn for x in read if not x.inputs))
        for program in inner:
            first = len(read) - len(program.invars)  # `cond` reads the number of a branch before its inputs
            same = name in ("pjit", "jit", "cond") and first >= 0
            counts, inside = draws(program, read[first:] if same else [made] * len(program.invars))
            found, noise = found + counts, noise | inside
            made = made._replace(drawn=made.drawn | {x.computation for x in counts if not x.inputs})
        known.update({v: made._replace(computation=hash((made, i))) for i, v in enumerate(eqn.outvars)})
    if given is None:  # what the program returns as it is
        noise = noise.union(*(x.drawn for x in read_of(jaxpr.outvars) if not x.inputs))
    return Draws(found, noise)
