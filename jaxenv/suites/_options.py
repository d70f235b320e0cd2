"""Keywords of ``load("suite:id", ...)``: arguments of a suite's constructors in hashable form, and params."""

import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv._util.checks import check_text
from jaxenv._util.library import import_library
from jaxenv._util.names import did_you_mean, unknown_keyword
from jaxenv._util.source import install_command
from jaxenv.core._declared import check_option
from jaxenv.tree._typed_keys import is_key
from jaxenv.wrappers.stack._make import OPTIONS


def library(extra: str, module: str = "") -> Callable[[], Any]:
    """Returns a function that imports the library of an extra on first use; the module is named like the extra."""
    return lambda: import_library(module or extra, install_command(extra))


def check_known(suite: str, id: str, known: Iterable[str]) -> None:
    """Raises a ``ValueError`` for an unknown id, naming the closest ones."""
    known = list(known)
    if id not in known:
        every = f"the ids are {', '.join(sorted(known))}"
        check_text(suite, "name", id)
        raise ValueError(f"{suite}: no environment {id!r}, {did_you_mean(id, known, otherwise=every)}")


def arguments_of(function: Callable[..., Any]) -> tuple[dict[str, Any], bool]:
    """Returns the named parameters of a function with their defaults, and whether it takes arbitrary keywords."""
    parameters = inspect.signature(function).parameters.values()
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return {p.name: p.default for p in named}, any(p.kind is p.VAR_KEYWORD for p in parameters)


def checked_option(owner: str, name: str, value: Any, default: Any) -> Any:
    """Checks a constructor argument against the type of its default; returns it in hashable form."""
    frozen = freeze(value)
    try:
        hash(frozen)
    except TypeError:
        raise ValueError(f"{owner}: {name} must be hashable, an array or a list, got {value!r}") from None
    return check_option(owner, name, frozen, default)


def check_unknown(owner: str, given: Iterable[str], params: Iterable[str], constructor: Iterable[str]) -> None:
    """Raises a ``ValueError`` for a keyword that is neither a param nor a constructor argument."""
    groups = {"params": list(params), "constructor arguments": list(constructor), "options of make": OPTIONS}
    for name in given:
        if name not in groups["params"] and name not in groups["constructor arguments"]:
            raise ValueError(unknown_keyword(owner, name, groups))


@contextlib.contextmanager
def reporting(owner: str, options: Mapping[str, Any]) -> Iterator[None]:
    """Turns errors of a suite's code into a ``ValueError`` that shows the options."""
    try:
        yield
    except Exception as error:
        if isinstance(error, ImportError) or str(error).startswith(f"{owner}: "):  # a missing library, or our error
            raise
        suite, given = owner.partition(":")[0], f"rejects {dict(options)}" if options else "cannot make it"
        raise ValueError(f"{owner}: {suite} {given}: {error or type(error).__name__}") from error


@dataclasses.dataclass(frozen=True)
class _FrozenKey:
    words: tuple[int, ...]
    implementation: str


def freeze(value: Any) -> Any:
    """Converts a constructor argument to hashable form."""
    if is_key(value):
        return _FrozenKey(tuple(np.asarray(jax.random.key_data(value)).tolist()), str(jax.random.key_impl(value)))
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        value = np.asarray(value).tolist()
    return tuple(freeze(item) for item in value) if isinstance(value, list | tuple) else value


def thaw(value: Any) -> Any:
    """Restores an argument that was frozen; lists and arrays come back as tuples."""
    if not isinstance(value, _FrozenKey):
        return value
    return jax.random.wrap_key_data(jnp.array(value.words, jnp.uint32), impl=value.implementation)
