"""Compiled programs and other results that environments of one structure share.

JAX keeps the programs of a function as long as the function lives, and with them the structures of its arguments: the
static fields of environments and everything that their functions capture. Here each structure has separate functions,
which take the leaves of an environment. They are freed with the last environment of the structure, unless an equal
structure can be made again, for example by a second call of ``make``: the newest such structures are kept.
"""

import collections
import contextlib
import contextvars
import functools
import io
import pickle
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar

import jax.core

T = TypeVar("T")

# The attributes in which an environment caches its programs and its leaves.
CACHES = ("_programs", "_leaves", "_facts")

# How many structures are kept without an environment, with and without compiled programs, which take megabytes.
_MAX_STRUCTURES = {True: 32, False: 256}
# The number of results that a structure keeps.
_MAX_RESULTS = 256
# The largest static fields of a structure that is kept without an environment, in bytes of their pickle.
_LARGEST_FIELDS = 2**16


class Programs:
    """The programs and results that environments of one tree structure share."""

    def __init__(self, structure: Any):
        self.structure = structure
        self._results: collections.OrderedDict[Hashable, Any] = collections.OrderedDict()
        self._inside: set[Programs] = set()
        self._stays: bool | None = None  # whether an equal structure can be made again, once it is known
        self._is_compiled = False

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Programs) and self.structure == other.structure)

    def __hash__(self) -> int:
        return hash(self.structure)

    def __reduce__(self) -> Any:
        return type(None), ()  # a copy in another process finds the programs there

    def __deepcopy__(self, memo: dict[str, Any]) -> "Programs":
        return self

    def result(self, key: Hashable, make: Callable[[], T]) -> T:
        """Returns the result of ``make``, which is called once for equal keys; the newest results are kept."""
        if (found := self._results.get(key, self)) is not self:
            return found
        with owning(self):
            found = make()
        with _lock:
            self._results[key] = found
            if len(self._results) > _MAX_RESULTS:
                self._results.popitem(last=False)
        return found

    def jitted(self, function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        """Jits ``function(env, ...)`` as a function of the leaves of ``env`` in its place.

        The function belongs to a module or a class, so that it holds no environment. The options of ``jax.jit`` are the
        same at every call.
        """
        return self._results.get(function) or self.compiled(function, lambda: self._jitted(function, options))

    def _jitted(self, function: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
        structure, own = self.structure, weakref.ref(self)

        def on_leaves(leaves: list[Any], *args: Any, **kwargs: Any) -> Any:
            with owning(own()):
                return function(jax.tree.unflatten(structure, leaves), *args, **kwargs)

        on_leaves.__name__ = on_leaves.__qualname__ = getattr(function, "__name__", "on_leaves")
        return jax.jit(on_leaves, **options)

    def keep(self) -> None:
        """Keeps the programs without an environment until newer ones replace them, if an equal one can be made."""
        if self._stays is None:
            self._stays = can_be_made_again(self.structure)
        if self._stays:
            newest = _newest[self._is_compiled]
            with _lock:
                newest[self] = None
                newest.move_to_end(self)
                if len(newest) > _MAX_STRUCTURES[self._is_compiled]:
                    newest.popitem(last=False)

    def compiled(self, key: Hashable, make: Callable[[], T]) -> T:
        """Acts as `result`, for compiled programs."""
        if not self._is_compiled:
            with _lock:
                stays = _newest[False].pop(self, self) is None
            self._is_compiled = True
            if stays:
                self.keep()
        return self.result(key, make)


_lock = threading.RLock()
_all: "weakref.WeakKeyDictionary[Programs, weakref.ref[Programs]]" = weakref.WeakKeyDictionary()
_newest: "dict[bool, collections.OrderedDict[Programs, None]]" = {
    compiled: collections.OrderedDict() for compiled in _MAX_STRUCTURES
}
_owner: "contextvars.ContextVar[Programs | None]" = contextvars.ContextVar("owner", default=None)


def programs_of(env: Any) -> Programs:
    """Returns the programs of an environment, which holds them; environments of equal structure share them."""
    if (own := env.__dict__.get("_programs")) is None:
        new = Programs(jax.tree.structure(env))
        with _lock:
            known = _all.get(new)
            own = None if known is None else known()
            if own is None:
                own, _all[new] = new, weakref.ref(new)
        object.__setattr__(env, "_programs", own)
        if not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(env)):
            own.keep()
    if (owner := _owner.get()) is not None and owner is not own:
        owner._inside.add(own)
    return own


def forget(env: Any) -> None:
    """Frees the programs of an environment that is closed, unless others hold them."""
    env.__dict__.pop("_programs", None)


@contextlib.contextmanager
def owning(programs: Programs | None) -> Iterator[None]:
    """Opens a context in which these keep the programs of other environments, such as the layers of a stack."""
    token = _owner.set(programs)
    try:
        yield
    finally:
        _owner.reset(token)


def jitted(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Jits a module-level function whose first argument is an environment, once per structure of it."""

    @functools.wraps(function)
    def call(env: Any, *args: Any, **kwargs: Any) -> Any:
        return programs_of(env).jitted(function, **options)(jax.tree.flatten(env)[0], *args, **kwargs)

    return call


def eval_shape(function: Callable[..., Any], env: Any, *args: Any) -> Any:
    """Evaluates ``jax.eval_shape`` of ``function(env, *args)`` without leaving the environment in JAX's caches."""
    leaves: list[Any]
    structure: Any
    leaves, structure = jax.tree.flatten(env)
    return jax.eval_shape(lambda leaves, *args: function(jax.tree.unflatten(structure, leaves), *args), leaves, *args)


def equations(jaxpr: Any) -> Iterator[Any]:
    """Yields all equations of a jaxpr and of the jaxprs nested in it."""
    for equation in jaxpr.eqns:
        yield equation
        for value in jax.tree.leaves(list(equation.params.values()), is_leaf=_is_jaxpr):
            if _is_jaxpr(value):
                yield from equations(value)


def _is_jaxpr(value: Any) -> bool:
    return hasattr(value, "eqns")


def can_be_made_again(structure: Any) -> bool:
    """Returns whether a later structure can equal this one: its static fields compare by value, not by identity.

    Module-level functions and classes are values; closures, lambdas and objects that only equal themselves are not.
    """
    try:
        return _is_made_again(structure)
    except Exception:  # objects may run their own code
        return False


@functools.lru_cache(maxsize=_MAX_STRUCTURES[False])
def _is_made_again(structure: Any) -> bool:
    """Returns True or raises, so that the cache never keeps a structure that cannot be made again."""
    fields = list(_fields(structure))
    pickle.Pickler(file := _Limited()).dump(fields)
    if pickle.loads(file.getvalue()) != fields:
        raise ValueError("a copy differs")
    return True


class _Limited(io.BytesIO):
    """A file that grows no larger than `_LARGEST_FIELDS`."""

    def write(self, data: Any, /) -> int:
        if self.tell() + len(data) > _LARGEST_FIELDS:
            raise ValueError("too large")
        return super().write(data)


def _fields(structure: Any) -> Iterator[Any]:
    """Yields what the nodes of a structure hold besides children: classes, keys of dicts and static fields."""
    if (data := structure.node_data()) is not None:
        yield data
    for child in structure.children():
        yield from _fields(child)
