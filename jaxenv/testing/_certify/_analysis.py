"""What traced programs draw, and what spaces and specs of every API declare, read by their attributes."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import Literal

from jaxenv._util.programs import equations
from jaxenv.testing.report import line_of

_RANDOM = ("random_bits", "threefry2x32", "rng_bit_generator", "random_gamma")
# Where a constant is a matrix, a filter or a table.
_LINEAR = ("dot_general", "conv_general_dilated", "gather", "dynamic_slice")
_NONE: frozenset[Any] = frozenset()


class Value(NamedTuple):
    """What a value depends on: the inputs of the program by number, a hash of all that computes it, constant draws."""

    inputs: frozenset[int]
    computation: int
    drawn: frozenset[tuple[int, str]] = _NONE  # computations of draws from constants, and the author's lines


class Draws(NamedTuple):
    """How often a program draws each `Value`, the draws from constants that are no mere table, and its results."""

    counts: Counter[Value]
    noise: frozenset[tuple[int, str]]
    results: list[Value]


def draws(jaxpr: Any, given: list[Value] | None = None, caller: str = "") -> Draws:
    """Finds the draws of a program, and of all programs in it; equal draws of constants are one `Value`.

    ``caller`` is the author's line that calls the program: the operations of a function of JAX do not know it.
    """
    values = [Value(frozenset([i]), i) for i in range(len(jaxpr.invars))] if given is None else given
    known, found, noise = dict(zip(jaxpr.invars, values, strict=True)), Counter[Value](), _NONE

    def read_of(variables: Any) -> list[Value]:
        outside = Value(_NONE, 0)  # a constant that was computed before
        return [Value(_NONE, hash(str(v))) if isinstance(v, Literal) else known.get(v, outside) for v in variables]

    for eqn in jaxpr.eqns:
        read, name = read_of(eqn.invars), eqn.primitive.name
        params = [x for value in eqn.params.values() for x in (value if isinstance(value, tuple | list) else [value])]
        programs = [getattr(x, "jaxpr", x) for x in params if hasattr(x, "eqns")]
        made = _joined(read, name, str([x for x in params if not (hasattr(x, "eqns") or callable(x))]))
        if name in _RANDOM:
            found[made._replace(drawn=_NONE)] += 1
            made = made if made.inputs else made._replace(drawn=made.drawn | {(made.computation, _line(eqn) or caller)})
        elif made.inputs and not programs and name not in _LINEAR:
            noise |= _fixed(read)
        results = [_joined([made], i) for i in range(len(eqn.outvars))]
        if programs and (made.drawn or any(e.primitive.name in _RANDOM for x in programs for e in equations(x))):
            inside, results = _inside(eqn, programs, read, results, _line(eqn) or caller)
            found, noise = sum((one.counts for one in inside), found), noise.union(*(one.noise for one in inside))
        known.update(zip(eqn.outvars, results, strict=True))
    results = read_of(jaxpr.outvars)
    return Draws(found, noise | _fixed(results) if given is None else noise, results)


def _inside(
    eqn: Any, programs: list[Any], read: list[Value], results: list[Value], caller: str
) -> tuple[list[Draws], list[Value]]:
    """Finds draws in the programs of an equation, and what its results depend on: ``results`` if that is unclear."""
    params = eqn.params
    if eqn.primitive.name == "cond":
        branches = [draws(program, read[1:], caller) for program in programs]
        if read[0].inputs:
            branches = [one._replace(noise=one.noise | _fixed(one.results)) for one in branches]
        return branches, [_joined([read[0], *x]) for x in zip(*(one.results for one in branches), strict=True)]
    if eqn.primitive.name == "scan":
        # Rows lose an axis inside; JAX 0.12 no longer has the numbers of constants and of what is carried.
        last = sum(v.aval.shape == x.aval.shape for v, x in zip(eqn.invars, programs[0].invars, strict=True))
        first = last - sum(v.aval.shape == x.aval.shape for v, x in zip(eqn.outvars, programs[0].outvars, strict=True))
        body, carry = _repeated(programs[0], read[:first], read[first:last], read[last:], caller)
        return [body], [*carry, *body.results[len(carry) :]]
    if eqn.primitive.name == "while":
        first, last = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        body, carry = _repeated(params["body_jaxpr"].jaxpr, read[first:last], read[last:], [], caller)
        return [body, draws(params["cond_jaxpr"].jaxpr, [*read[:first], *carry], caller)], carry
    if [(len(x.invars), len(x.outvars)) for x in programs] == [(len(read), len(results))]:
        called = draws(programs[0], read, caller)
        return [called], called.results
    return [draws(x, [_joined(read)] * len(x.invars), caller) for x in programs], results


def _repeated(
    body: Any, consts: list[Value], carry: list[Value], rows: list[Value], caller: str
) -> tuple[Draws, list[Value]]:
    """Finds the draws of a loop, and what it carries after any number of rounds."""
    carry = [_joined([x], "carry") for x in carry]
    while True:
        inside = draws(body, [*consts, *carry, *rows], caller)
        found = zip(carry, inside.results, strict=False)
        wider = [x._replace(inputs=x.inputs | y.inputs, drawn=x.drawn | y.drawn) for x, y in found]
        if wider == carry:
            return inside, carry
        carry = wider


def _line(eqn: Any) -> str:
    found = eqn.source_info.traceback
    return line_of(found.as_python_traceback()) if found else ""


def _joined(values: list[Value], *how: Any) -> Value:
    inputs, drawn = _NONE.union(*(x.inputs for x in values)), _NONE.union(*(x.drawn for x in values))
    return Value(inputs, hash((how, *(x.computation for x in values))), drawn)


def _fixed(values: list[Value]) -> frozenset[tuple[int, str]]:
    """Returns the draws from constants among values that depend on no input."""
    return _NONE.union(*(x.drawn for x in values if not x.inputs))


def violations(space: Any, values: Any, on_host: bool, name: str) -> Iterator[tuple[str, str, Any]]:
    """Yields what a space declares, what values ``[T, B, ...]`` are, and where (``bool[T, B]``, or True), by leaf.

    Unless the environment runs ``on_host``, dtypes of 64 bits mean what JAX makes of them.
    """
    if children := _children(space):
        for key, child in children.items():
            try:
                by_name = hasattr(values, "_fields") or not isinstance(values, Mapping | tuple | list)
                value = getattr(values, key) if by_name else values[key]
            except (AttributeError, KeyError, IndexError):
                yield f"an entry {key} of {name}, as its space says", "none", True
                continue
            yield from violations(child, value, on_host, f"{name}.{key}")
        return
    if not hasattr(values, "dtype"):
        yield f"{name} to be an array, as its space says", type(values).__name__, True
        return
    # Brax states a number as the shape and Pgx a tuple; neither states a dtype.
    stated = getattr(space, "shape", space) or ()
    if isinstance(stated, int) and stated is not space:
        yield f"a tuple as the shape of the space of {name}", repr(stated), True
        return
    shape = (stated,) if isinstance(stated, int) else tuple(stated)
    if values.shape[2:] != shape:
        yield f"shape {shape} of {name}, as its space says", f"shape {values.shape[2:]}", True
        return
    if (declared := getattr(space, "dtype", None)) is not None:
        declared = np.dtype(declared) if on_host else jax.dtypes.canonicalize_dtype(declared)
        if values.dtype != declared:
            yield f"dtype {declared} of {name}, as its space says", f"dtype {values.dtype}", True
    for word, bound, sign in zip(("at least", "at most"), _bounds(space), (1, -1), strict=True):
        if bound is None:
            continue
        bound = np.broadcast_to(np.asarray(bound, np.float64), shape)
        slack = 1e-5 * np.maximum(1, np.abs(bound)) if values.dtype.kind == "f" else 0
        outside = sign * values.astype(np.float64) < sign * bound - slack
        if outside.any():
            at = tuple(map(int, np.argwhere(outside)[0]))
            expected = f"{name}{list(at[2:]) or ''} {word} {bound[at[2:]]:g}, as its space says"
            yield expected, str(values[at]), outside.reshape(*values.shape[:2], -1).any(-1)


def _children(space: Any) -> dict[Any, Any]:
    children = space if isinstance(space, Mapping) else getattr(space, "spaces", None) or getattr(space, "_specs", None)
    return dict(children if isinstance(children, Mapping) else enumerate(children or ()))


def ragged(space: Any) -> str:
    """Returns the class of a space of Gymnasium whose values differ in shape or dtype, or ``""`` without one."""
    name = type(space).__name__
    if name in ("Sequence", "Text", "Graph", "OneOf"):
        return name
    return next(filter(None, map(ragged, _children(space).values())), "")


def _bounds(space: Any) -> tuple[Any, Any]:
    if type(space).__name__ == "MultiBinary":  # whose n is the shape
        return 0, 1
    for name in ("num_values", "nvec", "n", "num_categories"):
        if hasattr(space, name):
            low = getattr(space, "start", 0)
            return low, low + np.asarray(getattr(space, name)) - 1
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    return getattr(space, "minimum", low), getattr(space, "maximum", high)
