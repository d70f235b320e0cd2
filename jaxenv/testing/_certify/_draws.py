"""Counts the random draws of a traced program."""

from typing import Any

from jax.extend.core import Literal

_RANDOM = ("random_bits", "threefry2x32", "rng_bit_generator", "random_gamma")


def _inner(eqn: Any) -> list[Any]:
    values = [x for value in eqn.params.values() for x in (value if isinstance(value, tuple | list) else [value])]
    return [getattr(x, "jaxpr", x) for x in values if hasattr(x, "eqns")]


def draws(jaxpr: Any) -> int:
    found = sum(eqn.primitive.name in _RANDOM for eqn in jaxpr.eqns)
    return found + sum(draws(inner) for eqn in jaxpr.eqns for inner in _inner(eqn))


def constant_draws(jaxpr: Any, fed: list[bool] | None = None) -> int:
    """Counts the draws that depend on no argument; ``fed`` says which inputs do, by default all."""
    known, found = dict(zip(jaxpr.invars, fed or [True] * len(jaxpr.invars), strict=True)), 0
    for eqn in jaxpr.eqns:
        inputs = [not isinstance(v, Literal) and known.get(v, False) for v in eqn.invars]
        found += eqn.primitive.name in _RANDOM and not any(inputs)
        for inner in _inner(eqn):
            called = eqn.primitive.name in ("pjit", "jit") and len(inner.invars) == len(inputs)
            found += constant_draws(inner, inputs if called else [any(inputs)] * len(inner.invars))
        known.update(dict.fromkeys(eqn.outvars, any(inputs)))
    return found
