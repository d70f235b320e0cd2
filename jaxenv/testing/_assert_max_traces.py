"""Count how often a function is traced, and name the argument that caused another trace."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias, TypeVar, overload

import jax

from jaxenv._util.checks import check_integer

F = TypeVar("F", bound=Callable[..., Any])


class _Array(NamedTuple):
    """The type of an array argument."""

    shape: tuple[int, ...]
    dtype: Any
    weak_type: bool

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}" + (" (weak type)" if self.weak_type else "")


class _Static(NamedTuple):
    """A value that is part of the compiled code: a static argument or field."""

    value: Any

    def __str__(self) -> str:
        return f"{self.value!r}"


class _Node(NamedTuple):
    """A container in an argument, with its metadata."""

    kind: type
    metadata: Any = None

    def __str__(self) -> str:
        name = "None" if self.kind is type(None) else self.kind.__name__
        return name if self.metadata is None else f"{name}({self.metadata!r})"


# JAX traces a function again if this changes: one entry per node of the arguments, by path.
_Signature: TypeAlias = dict[str, _Array | _Static | _Node]


@overload
def assert_max_traces(fn: F, n: int = 1) -> F: ...
@overload
def assert_max_traces(fn: None = None, n: int = 1) -> Callable[[F], F]: ...
def assert_max_traces(fn: Any = None, n: int = 1) -> Any:
    """Wraps a function so that tracing it more than ``n`` times raises an error that names the changed arguments.

    It works as a decorator and as a function, and belongs inside the transformation: pass its result to ``jax.jit``.
    A call with a tracer among its arguments counts as a trace, a call with only arrays does not.

    Each wrapped function has its own count, so nothing needs to be cleared between tests. A function that is wrapped
    again in every iteration of a loop starts from zero each time.

    Args:
        fn: a plain function or method; without it, the call returns a decorator.
        n: number of traces allowed, at least 0. Each batch size, for example, needs one.

    Returns:
        A function that behaves like ``fn``.

    Raises:
        ValueError: if ``n`` is negative, or ``fn`` is not a function or was already compiled with ``jax.jit``.
        AssertionError: from the wrapped function, on trace ``n + 1``: the path of every argument that differs from the
            most similar earlier trace, with its shape, dtype, weak type, static value or structure before and now.

    >>> import jax, jax.numpy as jnp
    >>> step = jax.jit(assert_max_traces(lambda state, action: state + action, 1))
    >>> _ = step(jnp.zeros(2), jnp.ones(2))
    >>> try:
    ...     step(jnp.zeros(2), 1.0)
    ... except AssertionError as error:
    ...     print(error)
    <lambda> was traced 2 times, 1 allowed. Compared with trace 1:
      action: shape, weak type: float32[2] before, float32[] (weak type) now
    """
    check_integer("assert_max_traces", "n", n, 0)
    if fn is None:
        return functools.partial(assert_max_traces, n=n)
    if not callable(fn):
        raise ValueError(f"assert_max_traces: fn must be a function, got {fn!r}: write assert_max_traces(n={fn!r})")
    if isinstance(fn, jax.stages.Wrapped):
        raise ValueError("assert_max_traces: fn is already jitted: write jax.jit(assert_max_traces(fn))")
    traces: list[_Signature] = []

    @functools.wraps(fn)
    def counted(*args: Any, **kwargs: Any) -> Any:
        if any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves((args, kwargs))):
            now = _signature(fn, args, kwargs)
            if len(traces) >= n:
                raise AssertionError(_report(_name(fn), n, traces, now))
            traces.append(now)
        return fn(*args, **kwargs)

    return counted


# --- signatures -------------------------------------------------------------------------------------------------------


def _signature(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Signature:
    entries: _Signature = {}
    for name, value in _named(fn, args, kwargs):
        entries.update(_entries(name, value))
    # JAX also traces again when a positional argument becomes a keyword argument.
    entries["arguments passed by keyword"] = _Static(tuple(sorted(kwargs)))
    return entries


def _named(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    """Returns the arguments with the names of the function's parameters."""
    try:
        bound = inspect.signature(fn).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):  # a builtin, or a wrong call, which raises its own error
        return [*((f"argument {i}", x) for i, x in enumerate(args)), *kwargs.items()]
    return list(bound.items())


def _entries(path: str, node: Any) -> Iterator[tuple[str, _Array | _Static | _Node]]:
    children = jax.tree_util.tree_flatten_with_path(node, is_leaf=lambda x: x is not node)[0]
    if len(children) == 1 and children[0][0] == ():
        yield path, _leaf(node)
        return
    names = [jax.tree_util.keystr(key, simple=True) for key, _ in children]
    if dataclasses.is_dataclass(node) and all(isinstance(key[0], jax.tree_util.GetAttrKey) for key, _ in children):
        yield path, _Node(type(node))
        for field in dataclasses.fields(node):
            if field.name not in names:
                yield f"{path}.{field.name}", _Static(getattr(node, field.name, None))
    else:
        yield path, _Node(type(node), _metadata(node))
    for name, (_, child) in zip(names, children, strict=True):
        yield from _entries(f"{path}.{name}", child)


def _leaf(x: Any) -> _Array | _Static:
    if not hasattr(x, "shape") or not hasattr(x, "dtype"):
        return _Static(x)
    return _Array(tuple(x.shape), x.dtype, bool(getattr(jax.typeof(x), "weak_type", False)))


def _metadata(node: Any) -> Any:
    """Returns the metadata of a custom container; None for built-in containers, whose keys are part of the paths."""
    if node is None or isinstance(node, dict | list | tuple):
        return None
    structure: Any = jax.tree.structure(node, is_leaf=lambda x: x is not node)
    return structure.node_data()[1]


# --- the error message ------------------------------------------------------------------------------------------------


def _report(name: str, n: int, traces: list[_Signature], now: _Signature) -> str:
    head = f"{name} was traced {n + 1} times, {n} allowed."
    if not traces:
        return head
    differences = [list(_differences(earlier, now)) for earlier in traces]
    closest = min(range(len(traces)), key=lambda i: len(differences[i]))
    lines = differences[closest] or [
        "no argument differs: jax.jit was called again on the same function (for example in a loop), its caches were "
        "cleared, a JAX configuration option changed, or arrays have another device or sharding"
    ]
    return "\n  ".join([f"{head} Compared with trace {closest + 1}:", *lines])


def _differences(before: _Signature, now: _Signature) -> Iterator[str]:
    changed: list[str] = []
    for path in dict.fromkeys([*before, *now]):
        if any(path.startswith(f"{parent}.") for parent in changed):
            continue  # the changed container already explains it
        a, b = before.get(path), now.get(path)
        if a is None or b is None:
            yield f"{path}: structure: {_or_missing(a)} before, {_or_missing(b)} now"
            changed.append(path)
        elif not _same(a, b):
            yield f"{path}: {_what_changed(a, b)}: {a} before, {b} now"
            if isinstance(a, _Node) or isinstance(b, _Node):
                changed.append(path)


def _same(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    # JAX also compares the types of static values: 1 differs from True.
    return all(type(x) is type(y) and x == y for x, y in zip(a, b, strict=True))


def _what_changed(a: Any, b: Any) -> str:
    if isinstance(a, _Array) and isinstance(b, _Array):
        names = {"shape": "shape", "dtype": "dtype", "weak_type": "weak type"}
        return ", ".join(text for name, text in names.items() if getattr(a, name) != getattr(b, name))
    return "static value" if isinstance(a, _Static) and isinstance(b, _Static) else "structure"


def _or_missing(entry: Any) -> str:
    return "nothing" if entry is None else str(entry)


def _name(fn: Any) -> str:
    """Returns the name of a function; a method's name includes its owner: ``<CartPole-v1>.step``."""
    name = getattr(fn, "__name__", repr(fn))
    return f"{fn.__self__!r}.{name}" if inspect.ismethod(fn) else name
