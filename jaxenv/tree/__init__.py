"""Pytree dataclasses, masks over lanes, and dotted field paths.

Two kinds of class are pytrees here. A *struct* (states, TimeSteps, params) is a frozen dataclass whose fields are
leaves or subtrees. An *environment* is one too, but its constructor checks and converts its arguments. Unflattening
must bypass that constructor, since JAX rebuilds trees with tracers, shapes and axis numbers as leaves.
"""

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv._util import xla
from jaxenv._util.checks import Range, check_arrays, check_dtype, check_integer, check_names, check_text, described
from jaxenv._util.names import missing_attribute
from jaxenv.tree import _export

__all__ = [
    "Grouped", "Shared", "Static", "Tree", "child_names", "detach", "expand",
    "gather", "get_field", "is_shared", "key_leaf", "lanes_leaf", "leaf", "number_dtype", "path_name",
    "rebuild", "register_unchecked", "select_fields", "set_field", "shared_leaf", "static", "strong", "struct",
    "structure", "vary_like", "where", "zeros",
]  # fmt: skip

Tree: TypeAlias = Any
T = TypeVar("T")
C = TypeVar("C", bound=type)


def static(
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    doc: str = "",
    **kwargs: Any,
) -> Any:
    """Declares a dataclass field that is part of the tree's structure (hashable, compared by ``==``), not a leaf.

    The arguments have the same meaning as for `leaf`. An environment checks numbers against the range.
    """
    check_text("tree.static", "doc", doc)
    return dataclasses.field(metadata={"static": True, "range": Range(low, high, above, below), "doc": doc}, **kwargs)


def leaf(
    *,
    rank: int = 0,
    dtype: Any = None,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    doc: str = "",
    **kwargs: Any,
) -> Any:
    """Declares a numeric field of an environment or its params, with its range and unit.

    An environment checks concrete values against the range, in every lane. Traced values are not checked.

    Args:
        rank: number of axes of the value; one more means one value per lane.
        dtype: dtype of the value; by default int32 or bool if ``default`` is one, else float32.
        unit: unit of the value; ``describe`` shows it.
        low: the smallest value that is accepted.
        high: the largest one.
        above: a bound that values must exceed, in place of ``low``.
        below: a bound that values must stay below, in place of ``high``.
        doc: a description, which ``jaxenv show`` prints.
        **kwargs: arguments of ``dataclasses.field``, such as ``default``.

    >>> @struct
    ... class Params:
    ...     gravity: float = leaf(default=9.8, unit="m/s^2")
    ...     mass: float = leaf(default=1.0, unit="kg", above=0)
    """
    check_integer("tree.leaf", "rank", rank, 0)
    check_text("tree.leaf", "unit", unit)
    check_text("tree.leaf", "doc", doc)
    dtype = (
        number_dtype(kwargs.get("default")) or np.float32 if dtype is None else check_dtype("tree.leaf", "dtype", dtype)
    )
    metadata = {
        "rank": rank,
        "dtype": np.dtype(dtype),
        "unit": unit,
        "range": Range(low, high, above, below),
        "doc": doc,
    }
    return dataclasses.field(metadata=metadata, **kwargs)


def number_dtype(value: Any) -> np.dtype | None:
    """Returns the dtype that stores a Python or NumPy number: bool, int32 or float32; ``None`` for anything else."""
    if isinstance(value, bool | np.bool_):
        return np.dtype(np.bool_)
    if isinstance(value, int | np.integer):
        return np.dtype(np.int32)
    return np.dtype(np.float32) if isinstance(value, float | np.floating) else None


def key_leaf(**kwargs: Any) -> Any:
    """Declares a field of an environment that holds one typed JAX key, or one per lane."""
    return dataclasses.field(metadata={"rank": 0, "dtype": None}, **kwargs)


def lanes_leaf(**kwargs: Any) -> Any:
    """Declares a field of an environment that holds ``None``, or a tree of arrays that all lead with ``[B]``."""
    return dataclasses.field(metadata={"lanes": True}, **kwargs)


def shared_leaf(**kwargs: Any) -> Any:
    """Declares a field of an environment that holds ``None``, or a tree of arrays that all lanes share: weights."""
    return dataclasses.field(metadata={"lanes": False}, **kwargs)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(static, leaf, dataclasses.field))
def struct(cls: C) -> C:
    """Makes a class a frozen dataclass with identity equality and registers it as a pytree.

    Every field is a subtree unless it is declared with ``static()``. Functions of such trees can be exported by
    ``jax.export``.
    """
    if not isinstance(cls, type):
        raise ValueError(f"tree.struct: cls must be a class, got {described(cls)}")
    frozen: Any = dataclasses.dataclass(frozen=True, eq=False)(cls)
    if not hasattr(frozen, "__getattr__"):
        frozen.__getattr__ = missing_attribute
    _register_export(frozen)
    return jax.tree_util.register_dataclass(frozen)


def structure(tree: Tree) -> Any:
    """Returns the structure of a tree, for comparison: ``jax.tree.structure``, whose type has no ``==`` for mypy."""
    return jax.tree.structure(tree)


def register_unchecked(cls: type) -> None:
    """Registers a dataclass as a pytree whose unflattening bypasses the constructor."""
    children, statics, unflatten = _register_export(cls)
    keys = tuple(jax.tree_util.GetAttrKey(name) for name in children)

    def flatten(obj: Any) -> tuple[list[Any], tuple[Any, ...]]:
        return [getattr(obj, name) for name in children], tuple(getattr(obj, name) for name in statics)

    def flatten_with_keys(obj: Any) -> tuple[Any, ...]:
        values, aux = flatten(obj)
        return list(zip(keys, values, strict=True)), aux

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)


def _register_export(cls: type) -> tuple[tuple[str, ...], tuple[str, ...], Callable[[Any, Any], Any]]:
    """Registers a dataclass for ``jax.export``.

    Returns the names of its children and of its static fields, and how to build one from static values and children.
    """
    fields = dataclasses.fields(cls)
    children = tuple(f.name for f in fields if not f.metadata.get("static"))
    statics = tuple(f.name for f in fields if f.metadata.get("static"))

    def build(aux: tuple[Any, ...], values: Any) -> Any:
        obj: Any = object.__new__(cls)
        for name, value in zip(statics, aux, strict=True):
            object.__setattr__(obj, name, value)
        for name, value in zip(children, values, strict=True):
            object.__setattr__(obj, name, value)
        return obj

    _export.register(cls, statics, build)
    return children, statics, build


class Static:
    """A hashable wrapper around a tree with hashable leaves (such as specs), for use as a static field."""

    def __init__(self, value: Tree):
        self._leaves, self._structure = jax.tree.flatten(value)

    @property
    def value(self) -> Tree:
        """A new copy of the tree, so that callers cannot change this one."""
        return jax.tree.unflatten(self._structure, self._leaves)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and (self._leaves, self._structure) == (other._leaves, other._structure)

    def __hash__(self) -> int:
        return hash((tuple(self._leaves), self._structure))

    def __repr__(self) -> str:
        return repr(self.value)


@struct
class Shared:
    """Marks a subtree that the whole batch shares: masking, gathering and scattering skip it."""

    value: Tree


@struct
class Grouped(Shared):
    """Marks a subtree whose arrays lead with groups of neighbouring lanes, such as the agents of one game.

    A mask over lanes cannot select them. Over a mesh they are sharded as the lanes are.
    """


def is_shared(node: Any) -> bool:
    """Returns whether a node of a tree is `Shared` (or `Grouped`)."""
    return isinstance(node, Shared)


# --- masks over lanes ------------------------------------------------------------------------------------------------


def expand(mask: Any, ndim: int) -> jax.Array:
    """Appends axes of length 1 to ``mask`` (``[B]``) up to ``ndim`` axes, so that it broadcasts over each lane."""
    return mask.reshape(mask.shape + (1,) * (ndim - mask.ndim))


def where(mask: jax.Array, new: T, old: T) -> T:
    """Takes ``new`` in the lanes of ``mask`` (``bool[B]``) and ``old`` in the others, leaf by leaf.

    A leaf that is the same array object on both sides passes through; a ``Shared`` subtree stays ``old``.
    """
    if not hasattr(mask, "reshape"):
        raise ValueError(f"tree.where: mask must be bool [B], got {described(mask)}")

    def select(b: Any, a: Any) -> Any:
        if isinstance(b, Grouped):
            raise ValueError
        if a is b or is_shared(b):
            return b
        return jnp.where(expand(mask, jnp.ndim(b)), a, b)

    try:
        return jax.tree.map(select, old, new, is_leaf=is_shared)
    except (TypeError, ValueError) as error:
        raise ValueError(f"tree.where: {_misfit(mask, new, old) or error}") from None


def _misfit(mask: jax.Array, new: Tree, old: Tree) -> str | None:
    """Explains why `where` cannot take lanes of these trees; ``None`` if structure and shapes fit."""
    check_arrays("tree.where", "new", new)
    check_arrays("tree.where", "old", old)
    if any(isinstance(node, Grouped) for node in jax.tree.leaves(old, is_leaf=is_shared)):
        return "old holds groups of lanes (tree.Grouped), such as games of several agents; a mask cannot divide them"
    if structure(new) != structure(old):
        return f"new must have the structure of old, {structure(old)}, got {structure(new)}"
    for (path, x), y in zip(jax.tree.flatten_with_path(old)[0], jax.tree.leaves(new), strict=True):
        shapes = [tuple(jnp.shape(mask)), tuple(jnp.shape(x)), tuple(jnp.shape(y))]
        if len({shape[:1] for shape in shapes}) > 1 or shapes[1] != shapes[2]:
            where = path_name(path, "new")
            return f"mask, old and {where} must fit, got shapes {shapes[0]}, {shapes[1]} and {shapes[2]}"
    return None


def vary_like(reference: jax.Array, values: T) -> T:
    """Marks constants ``[B, ...]`` as varying over the mesh axes that ``reference`` ``[B]`` varies over.

    Outside ``shard_map`` it is the identity. A loop carry made of constants needs it inside. ``Shared`` subtrees are
    left alone: all shards may hold the same statistics.
    """
    return xla.vary_like(reference, values, leaves_alone=is_shared)


def gather(tree: T, index: jax.Array) -> T:
    """Gathers lanes ``index`` (``int32[K]``, clamped to range) of every leaf; ``Shared`` subtrees pass through."""
    if not (hasattr(index, "dtype") and jnp.issubdtype(index.dtype, jnp.integer)):
        raise ValueError(f"tree.gather: index must be integers [K], got {described(index)}")
    check_arrays("tree.gather", "tree", tree)

    def lanes(x: Any) -> Any:
        if isinstance(x, Grouped):
            raise ValueError("tree.gather: tree holds groups of lanes (tree.Grouped), which lanes cannot leave")
        if is_shared(x):
            return x
        if not jnp.ndim(x):
            raise ValueError(f"tree.gather: tree must hold arrays [B, ...], got {described(x)}")
        return jnp.asarray(x).at[index].get(mode="clip")

    return jax.tree.map(lanes, tree, is_leaf=is_shared)


def zeros(shapes: Tree) -> Tree:
    """Returns zeros with the shapes and dtypes of a tree of arrays or ``ShapeDtypeStruct``."""
    return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)


def strong(tree: T) -> T:
    """Converts every leaf to an array without weak type, so that reset and step return the same types."""
    return jax.tree.map(lambda x: jax.lax.convert_element_type(x, jnp.result_type(x)), tree)


def detach(tree: T) -> T:
    """Stops gradients; leaves without a gradient stay the same objects."""
    return jax.tree.map(
        lambda x: jax.lax.stop_gradient(x) if jnp.issubdtype(jnp.result_type(x), jnp.inexact) else x, tree
    )


def rebuild(obj: T, **changes: Any) -> T:
    """Copies a dataclass with other field values, bypassing its constructor."""
    if unknown := changes.keys() - {f.name for f in dataclasses.fields(obj)}:  # type: ignore[arg-type]
        raise TypeError(f"{type(obj).__name__} has no field {sorted(unknown)[0]!r}")
    new = object.__new__(type(obj))
    for field in dataclasses.fields(obj):  # type: ignore[arg-type]
        object.__setattr__(new, field.name, changes.get(field.name, getattr(obj, field.name)))
    return new


# --- dotted field paths ----------------------------------------------------------------------------------------------


def _child(node: Any, name: str, path: str) -> Any:
    names = list(child_names(node))
    if name not in names:
        raise ValueError(f"field {path!r}: no {name!r} here, the fields are {names}")
    if isinstance(node, Mapping):
        return node[_key(node, name)]
    if isinstance(node, list | tuple) and not hasattr(node, "_fields"):
        return node[int(name)]
    return getattr(node, name)


def _key(node: Mapping[str, Any], name: str) -> Any:
    """Returns the key of a mapping that a path writes as ``name``; keys need not be strings."""
    return name if name in node else next(k for k in node if str(k) == name)


def child_names(node: Any) -> Iterator[str]:
    """Yields the names of the direct children of a dict, tuple, list, namedtuple or struct."""
    if isinstance(node, Mapping):
        yield from (str(k) for k in node)
    elif hasattr(node, "_fields"):
        yield from node._fields
    elif isinstance(node, list | tuple):
        yield from (str(i) for i in range(len(node)))
    elif dataclasses.is_dataclass(node):
        yield from (f.name for f in dataclasses.fields(node) if not f.metadata.get("static"))


def get_field(tree: Tree, path: str) -> Tree:
    """Returns the subtree at a dotted path such as ``"observation.camera"``; ``""`` is the whole tree."""
    check_text("tree.get_field", "path", path)
    for name in path.split(".") if path else ():
        tree = _child(tree, name, path)
    return tree


def set_field(tree: T, path: str, value: Tree) -> T:
    """Copies ``tree`` with ``value`` at a dotted path; nothing is mutated."""
    check_text("tree.set_field", "path", path)
    return _with_value(tree, path.split(".") if path else [], path, value)


def _with_value(node: Any, names: list[str], path: str, value: Tree) -> Any:
    if not names:
        return value
    head, *rest = names
    new = _with_value(_child(node, head, path), rest, path, value)
    if isinstance(node, dict):
        changed = copy.copy(node)  # keeps the dict subclass, which is part of the tree's structure
        changed[_key(node, head)] = new
        return changed
    if isinstance(node, Mapping):
        return type(node)({**node, _key(node, head): new})  # type: ignore[call-arg]
    if hasattr(node, "_fields"):
        return node._replace(**{head: new})
    if isinstance(node, list | tuple):
        return type(node)(new if str(i) == head else x for i, x in enumerate(node))
    return dataclasses.replace(node, **{head: new})


def select_fields(tree: T, paths: Sequence[str]) -> T:
    """Reduces a tree to the subtrees at ``paths``: other fields become ``()``, other dict keys are dropped."""
    check_names("tree.select_fields", "paths", paths)
    return _select(tree, [p.split(".") if p else [] for p in paths], ", ".join(paths))


def _select(node: Any, paths: list[list[str]], what: str) -> Any:
    if [] in paths:
        return node
    below: dict[str, list[list[str]]] = {}
    for head, *rest in paths:
        below.setdefault(head, []).append(rest)
    chosen = {name: _select(_child(node, name, what), rest, what) for name, rest in below.items()}
    if isinstance(node, Mapping):
        return {_key(node, name): subtree for name, subtree in chosen.items()}
    if isinstance(node, list | tuple) and not hasattr(node, "_fields"):
        return type(node)(chosen.get(name, ()) for name in child_names(node))
    unset = dict.fromkeys(child_names(node), ())
    if hasattr(node, "_fields"):
        return node._replace(**{**unset, **chosen})
    return dataclasses.replace(node, **{**unset, **chosen})


def path_name(path: tuple[Any, ...], below: str = "") -> str:
    """Formats a key path from ``jax.tree_util`` as dotted text, ``observation.camera``, that starts with ``below``."""
    return ".".join(filter(None, (below, jax.tree_util.keystr(path, simple=True, separator="."))))


def __dir__() -> list[str]:
    return __all__
