"""Pytree dataclasses, masks over lanes, and dotted field paths.

Two kinds of class live in the trees of this library. A *struct* (states, time steps, params) is a frozen dataclass
whose fields are leaves or subtrees. An *environment* is one too, but its constructor checks and converts its
arguments, which unflattening must not do: JAX rebuilds trees with tracers, shapes and axis numbers for leaves.
"""

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np

Tree = Any
T = TypeVar("T")
C = TypeVar("C", bound=type)


def static(**kwargs) -> Any:
    """A dataclass field that is part of the tree's structure (hashable, compared by ``==``), not a leaf."""
    return dataclasses.field(metadata={"static": True}, **kwargs)


def leaf(*, rank: int = 0, dtype: Any = np.float32, **kwargs) -> Any:
    """A numeric field of an environment or of its params: unbatched ``rank`` axes, or exactly one more per lane."""
    return dataclasses.field(metadata={"rank": rank, "dtype": np.dtype(dtype)}, **kwargs)


def key_leaf(**kwargs) -> Any:
    """A field of an environment that holds one typed JAX key, or one per lane."""
    return dataclasses.field(metadata={"rank": 0, "dtype": None}, **kwargs)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(static, leaf, dataclasses.field))
def struct(cls: C) -> C:
    """Makes a class a frozen dataclass with identity equality and registers it as a pytree.

    Every field is a subtree unless it was declared by ``static()``.
    """
    frozen: Any = dataclasses.dataclass(frozen=True, eq=False)(cls)
    return jax.tree_util.register_dataclass(frozen)


def structure(tree: Tree) -> Any:
    """The tree's structure, as JAX compares it."""
    return jax.tree.structure(tree)


def flatten(tree: Tree) -> tuple[list[Any], Any]:
    """Leaves and structure; ``structure.unflatten(leaves)`` puts them together again."""
    return jax.tree.flatten(tree)


def flatten_with_path(tree: Tree) -> tuple[list[tuple[tuple, Any]], Any]:
    """Leaves with their key paths, and the structure."""
    return jax.tree_util.tree_flatten_with_path(tree)


def register_unchecked(cls: type) -> None:
    """Registers a dataclass as a pytree whose unflattening bypasses the constructor."""
    fields = dataclasses.fields(cls)
    children = tuple(f.name for f in fields if not f.metadata.get("static"))
    statics = tuple(f.name for f in fields if f.metadata.get("static"))
    keys = tuple(jax.tree_util.GetAttrKey(name) for name in children)

    def flatten(obj):
        return [getattr(obj, name) for name in children], tuple(getattr(obj, name) for name in statics)

    def flatten_with_keys(obj):
        values, aux = flatten(obj)
        return list(zip(keys, values, strict=True)), aux

    def unflatten(aux, values):
        obj: Any = object.__new__(cls)
        for name, value in zip(statics, aux, strict=True):
            object.__setattr__(obj, name, value)
        for name, value in zip(children, values, strict=True):
            object.__setattr__(obj, name, value)
        return obj

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)


class Static:
    """A tree with hashable leaves (specs, say) made hashable itself, so that it can be a static field."""

    def __init__(self, value: Tree):
        self._leaves, self._structure = flatten(value)

    @property
    def value(self) -> Tree:
        """The tree, built anew so that nobody can change this one."""
        return self._structure.unflatten(self._leaves)

    def __eq__(self, other) -> bool:
        return isinstance(other, Static) and (self._leaves, self._structure) == (other._leaves, other._structure)

    def __hash__(self) -> int:
        return hash((tuple(self._leaves), self._structure))

    def __repr__(self) -> str:
        return repr(self.value)


@struct
class Shared:
    """Marks a subtree that belongs to the whole batch: masking, gathering and scattering leave it alone."""

    value: Tree


def _is_shared(node) -> bool:
    return isinstance(node, Shared)


# --- masks over lanes ------------------------------------------------------------------------------------------------


def expand(mask: jax.Array, ndim: int) -> jax.Array:
    """Appends axes of length 1 to ``mask`` (``[B]``) until it has ``ndim`` axes, so that it selects whole rows."""
    return mask.reshape(mask.shape + (1,) * (ndim - mask.ndim))


def where(mask: jax.Array, new: T, old: T) -> T:
    """Takes ``new`` in the lanes of ``mask`` (``bool[B]``) and ``old`` in the others, leaf by leaf.

    A leaf that is the same array on both sides passes through untouched; a ``Shared`` subtree stays ``old``.
    """

    def select(b, a):
        if a is b or _is_shared(b):
            return b
        return jnp.where(expand(mask, jnp.ndim(b)), a, b)

    return jax.tree.map(select, old, new, is_leaf=_is_shared)


def gather(tree: T, index: jax.Array) -> T:
    """Rows ``index`` (``int32[K]``, out-of-range entries clamped) of every leaf; ``Shared`` subtrees pass through."""

    def rows(x):
        return x if _is_shared(x) else jnp.asarray(x).at[index].get(mode="clip")

    return jax.tree.map(rows, tree, is_leaf=_is_shared)


def zeros(shapes: Tree) -> Tree:
    """Zeros in the shapes and dtypes of a tree of arrays or ``ShapeDtypeStruct``."""
    return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)


def strong(tree: T) -> T:
    """Turns every leaf into an array without weak type, so that reset and step give the same types."""
    return jax.tree.map(lambda x: jax.lax.convert_element_type(x, jnp.result_type(x)), tree)


def unshare(tree: T) -> T:
    """Copies leaves that occur twice, so that donating one part of the tree never deletes another."""
    seen: set[int] = set()

    def distinct(x):
        if id(x) in seen:
            x = jnp.copy(x)
        seen.add(id(x))
        return x

    return jax.tree.map(distinct, tree)


def detach(tree: T) -> T:
    """Stops gradients; leaves without a gradient keep their identity."""
    return jax.tree.map(
        lambda x: jax.lax.stop_gradient(x) if jnp.issubdtype(jnp.result_type(x), jnp.inexact) else x, tree
    )


# --- per-lane leaves of environments ---------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Declared:
    """What an environment declares of one of its numeric leaves."""

    path: str
    value: Any
    rank: int
    dtype: np.dtype | None  # None: typed keys

    @property
    def per_lane(self) -> bool:
        return np.ndim(self.value) == self.rank + 1


def _declaration(field: dataclasses.Field) -> tuple[int, np.dtype | None] | None:
    """Rank and dtype of a numeric field: as declared by ``leaf``, else those of its default."""
    if "rank" in field.metadata:
        return field.metadata["rank"], field.metadata["dtype"]
    default = field.default
    if isinstance(default, bool | np.bool_):
        return 0, np.dtype(np.bool_)
    if isinstance(default, int | np.integer):
        return 0, np.dtype(np.int32)
    if isinstance(default, float | np.floating):
        return 0, np.dtype(np.float32)
    return None


def map_declared(fn: Callable[[Declared], Any], obj: T, prefix: str = "") -> T:
    """Applies ``fn`` to every declared numeric leaf of an environment or params object and rebuilds the object."""
    changes = {}
    for field in dataclasses.fields(obj):  # type: ignore[arg-type]
        if field.metadata.get("static"):
            continue
        value, path = getattr(obj, field.name), prefix + field.name
        declared = _declaration(field)
        if declared is not None:
            changes[field.name] = fn(Declared(path, value, *declared))
        elif dataclasses.is_dataclass(value):
            changes[field.name] = map_declared(fn, value, path + ".")
        else:
            raise TypeError(
                f"{type(obj).__name__}: field {field.name!r} must be static(), leaf(), a number with a default, "
                f"or a struct of those, got {type(value).__name__}"
            )
    changes = {name: new for name, new in changes.items() if new is not getattr(obj, name)}
    return rebuild(obj, **changes) if changes else obj


def rebuild(obj: T, **changes) -> T:
    """A copy of a dataclass with other field values, made without running its constructor."""
    new = object.__new__(type(obj))
    for field in dataclasses.fields(obj):  # type: ignore[arg-type]
        object.__setattr__(new, field.name, changes.get(field.name, getattr(obj, field.name)))
    return new


def declared_leaves(obj: Any) -> list[Declared]:
    """Every declared numeric leaf of an environment, inner ones included."""
    found: list[Declared] = []

    def note(d: Declared):
        found.append(d)
        return d.value

    map_declared(note, obj)
    return found


def hashable(value: Any) -> Any:
    """Arrays and lists as nested tuples, so that they can be part of a tree's structure."""
    if isinstance(value, np.ndarray | jax.Array):
        value = np.asarray(value).tolist()
    return tuple(hashable(v) for v in value) if isinstance(value, list | tuple) else value


def option(owner: str, name: str, value: Any, default: Any) -> Any:
    """Checks a static argument against the type of its default: a number for a number, text for text."""
    kinds: Any = {bool: bool, int: int, float: int | float, str: str}.get(type(default))
    if isinstance(value, np.generic):
        value = value.item()
    if kinds is None or (isinstance(value, kinds) and isinstance(value, bool) == isinstance(default, bool)):
        return value
    if isinstance(default, float) and isinstance(value, tuple):  # bounds may be given element by element
        return value
    wanted = "a number" if isinstance(default, float) else f"of type {type(default).__name__}"
    raise ValueError(f"{owner}: {name} must be {wanted}, got {value!r}")


def is_concrete(value: Any) -> bool:
    """Whether the numbers in ``value`` can be looked at now (it is no tracer, shape or axis number stand-in)."""
    return isinstance(value, bool | int | float | np.generic | np.ndarray | list | tuple) or (
        isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer)
    )


def number(owner: str, declared: Declared) -> Any:
    """Checks a numeric argument and converts it to its declared dtype; tracers are cast, never looked at.

    Raises:
        ValueError: if it is text, not finite, fractional for an integer, or of a rank that is neither the declared
            one nor one more. The message names the owner, the argument and the value.
    """
    value, rank, dtype = declared.value, declared.rank, declared.dtype
    name = f"{owner}: {declared.path.split('.')[-1]}"
    if dtype is None:
        if not (isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)):
            raise ValueError(f"{name} must be a typed key from jax.random.key(seed), got {value!r}")
        return value
    if is_concrete(value):
        try:
            array = np.asarray(value)
            with np.errstate(over="ignore", invalid="ignore"):  # judged below
                exact = array.astype(dtype)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"{name} must be a number or an array of numbers, got {value!r}") from None
        if array.dtype.kind not in "biuf" and not jnp.issubdtype(array.dtype, jnp.floating):
            raise ValueError(f"{name} must be a number or an array of numbers, got {value!r}")
        if not (np.all(np.isfinite(array)) and np.all(np.isfinite(exact))):
            raise ValueError(f"{name} must be finite, got {value!r}")
        if dtype.kind in "iu" and (array.dtype.kind == "b" or np.any(exact != array)):
            raise ValueError(f"{name} must be {dtype.name}, got {value!r}")
        if dtype.kind == "b" and array.dtype.kind != "b":
            raise ValueError(f"{name} must be bool, got {value!r}")
        converted = jnp.asarray(value, dtype) if isinstance(value, jax.Array) else exact
        if isinstance(value, np.ndarray) and value.dtype == dtype:
            converted = value
    elif isinstance(value, jax.Array):
        converted = jax.lax.convert_element_type(value, dtype)
    else:
        raise ValueError(f"{name} must be a number or an array of numbers, got {value!r}")
    if converted.ndim not in (rank, rank + 1):
        raise ValueError(
            f"{name} must have {rank} axes, or {rank + 1} for one value per lane, got shape {converted.shape}"
        )
    return converted


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


def _key(node: Mapping, name: str) -> Any:
    """The key that is written ``name`` in a path: keys need not be text."""
    return name if name in node else next(k for k in node if str(k) == name)


def child_names(node: Any) -> Iterator[str]:
    """Names of the direct children of a dict, tuple, list, namedtuple or struct."""
    if isinstance(node, Mapping):
        yield from (str(k) for k in node)
    elif hasattr(node, "_fields"):
        yield from node._fields
    elif isinstance(node, list | tuple):
        yield from (str(i) for i in range(len(node)))
    elif dataclasses.is_dataclass(node):
        yield from (f.name for f in dataclasses.fields(node) if not f.metadata.get("static"))


def get_field(tree: Tree, path: str) -> Tree:
    """The subtree at a dotted path such as ``"observation.camera"``; ``""`` is the whole tree.

    Raises:
        ValueError: for a name that is not there, listing those that are.
    """
    for name in path.split(".") if path else ():
        tree = _child(tree, name, path)
    return tree


def set_field(tree: T, path: str, value: Tree) -> T:
    """A copy of ``tree`` with ``value`` at a dotted path; nothing is mutated."""
    return transform_field(tree, path, lambda _: value)


def transform_field(tree: T, path: str, fn: Callable[[Tree], Tree]) -> T:
    """A copy of ``tree`` with ``fn`` applied to the subtree at a dotted path."""
    return _transform(tree, path.split(".") if path else [], path, fn)


def _transform(node: Any, names: list[str], path: str, fn: Callable) -> Any:
    if not names:
        return fn(node)
    head, *rest = names
    new = _transform(_child(node, head, path), rest, path, fn)
    if isinstance(node, dict):
        changed = copy.copy(node)  # keeps the kind of dict, which is part of the tree's structure
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
    """The tree with nothing but the subtrees at ``paths``: other fields become ``()``, other dict keys go."""
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


def path_name(path: tuple) -> str:
    """A key path from ``jax.tree_util`` as dotted text: ``observation.camera``."""
    return jax.tree_util.keystr(path, simple=True, separator=".")
