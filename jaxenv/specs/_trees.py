"""Functions of trees of specs, and of their leaves at dotted paths."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxenv import random, tree
from jaxenv._util.checks import check_arrays, check_integer, check_text, described
from jaxenv.specs._array import Array, Bounded, Outer, axes_of, check_spec
from jaxenv.tree import Tree
from jaxenv.tree._structure import mismatch


def is_spec(node: Any) -> bool:
    """Returns whether a node of a tree is a spec."""
    return isinstance(node, Array)


def sample(spec: Tree, key: Any, outer: Outer = (), mask: Any = None) -> Tree:
    """Draws random values for a tree of specs; every leaf draws from its own stream.

    Args:
        spec: a spec or a tree of them.
        key: a stream (values lead with ``[B]``) or a typed JAX key.
        outer: axes between the axes of the key and of the spec.
        mask: bool ``[..., n]`` for a single discrete spec of shape ``()`` with n values: only marked values are drawn,
            and the minimum where none is marked. ``[..., A, n]`` for shape ``(A,)``, a mask for each of A agents.
    """
    check_spec("sample", spec)
    if not isinstance(key, random.Stream):
        random.check_typed(key, "sample: key")
    stream = random.stream(key)
    if mask is not None:
        return _sample_masked(spec, stream, outer, mask)
    leaves, structure = jax.tree.flatten(spec)
    if len(leaves) == 1:
        return jax.tree.unflatten(structure, [leaves[0].sample(stream, outer)])
    return jax.tree.unflatten(structure, [s.sample(random.fold_in(stream, i), outer) for i, s in enumerate(leaves)])


def _sample_masked(spec: Tree, stream: random.Stream, outer: Outer, mask: Any) -> jax.Array:
    if not (isinstance(spec, Bounded) and spec.is_discrete and len(spec.shape) < 2 and outer == ()):
        rule = "mask needs a single discrete spec of shape () or (A,) and no outer axes"
        raise ValueError(f"sample: {rule}, got {spec}, {outer}")
    if jnp.shape(mask)[len(stream.shape) :] != (*spec.shape, spec.num_values):
        raise ValueError(f"sample: mask has shape {jnp.shape(mask)}, the spec has {spec.num_values} values: {spec}")
    if spec.shape == ():
        value = random.categorical(stream, weights=mask)
    else:
        agents = range(spec.shape[0])
        drawn = [random.categorical(random.fold_in(stream, i), weights=mask[..., i, :]) for i in agents]
        value = jnp.stack(drawn, axis=-1)
    return value.astype(spec.dtype) + jnp.broadcast_to(spec.minimum, value.shape)


def validate(spec: Tree, value: Tree, outer: Outer = ()) -> None:
    """Raises a ``ValueError`` naming leaf, spec and value unless a tree of arrays ``[*outer, *shape]`` fits ``spec``.

    Bounds are checked on concrete arrays only.
    """
    check_spec("validate", spec)
    if (fault := fit_fault(spec, value, axes_of(outer, "validate"))) is not None:
        raise ValueError(f"validate: {fault}")


def fit_fault(spec: Tree, value: Tree, outer: tuple[int, ...] = ()) -> str | None:
    """Describes the first leaf of ``value`` that does not fit ``spec``; ``None`` if all fit."""
    leaf_specs = jax.tree.flatten_with_path(spec)[0]
    if (fault := mismatch(spec, value, "value")) is not None:
        return f"{fault}, as in the spec"
    for (path, leaf_spec), leaf in zip(leaf_specs, jax.tree.leaves(value), strict=True):
        leaf_spec = leaf_spec.batched(outer) if outer != () else leaf_spec
        if (fault := leaf_spec._fault(leaf)) is not None:
            return f"{tree.path_name(path) or 'value'} does not fit {leaf_spec}: {fault}"
    return None


def contains(spec: Tree, value: Tree, outer: Outer = ()) -> bool:
    """Returns whether a tree of concrete arrays fits a tree of specs."""
    check_spec("contains", spec)
    axes = axes_of(outer, "contains")
    try:
        return fit_fault(spec, value, axes) is None
    except ValueError:  # keys that JAX cannot sort
        return False


def zeros(spec: Tree, outer: Outer = ()) -> Tree:
    """Returns zeros ``[*outer, *shape]`` for a tree of specs."""
    check_spec("zeros", spec)
    return jax.tree.map(lambda s: s.zeros(outer), spec)


def batched(spec: Tree, outer: Outer) -> Tree:
    """Puts ``outer`` axes in front of every shape in a tree of specs."""
    check_spec("batched", spec)
    return jax.tree.map(lambda s: s.batched(outer), spec)


def unbatched(spec: Tree, axes: int = 1) -> Tree:
    """Drops the first ``axes`` axes, and the bounds, of a tree of specs or shapes."""
    for s in jax.tree.leaves(spec):
        if not (hasattr(s, "shape") and hasattr(s, "dtype")):
            raise ValueError(f"unbatched: spec must be a tree of specs or shapes, got {described(s)}")
        check_integer("unbatched", "axes", axes, 0, len(s.shape))
    return jax.tree.map(lambda s: Array(s.shape[axes:], s.dtype, getattr(s, "name", "")), spec)


def mapped_spec(fn: Callable[[Any], Any], spec: Tree, lanes: int) -> Tree:
    """Returns the specs of ``fn(x)`` for a batch ``x`` that fits ``spec``: shapes and dtypes without bounds."""
    batch = jax.tree.map(lambda s: jax.ShapeDtypeStruct((lanes, *s.shape), s.dtype), spec)
    return unbatched(jax.eval_shape(fn, batch))


def from_array(value: Tree, from_dim: int = 0) -> Tree:
    """Returns the specs of a tree of arrays without their first ``from_dim`` axes."""
    check_arrays("from_array", "value", value)
    for x in jax.tree.leaves(value):
        check_integer("from_array", "from_dim", from_dim, 0, jnp.ndim(x))
    return jax.tree.map(lambda x: Array(jnp.shape(x)[from_dim:], jnp.result_type(x)), value)


def require_equal(a: Tree, b: Tree, what: str = "specs") -> None:
    """Raises a ``ValueError`` naming the first leaf in which two trees of specs differ; names are ignored."""
    check_text("require_equal", "what", what)
    for name, spec in (("a", a), ("b", b)):
        check_spec("require_equal", spec, name)
    if (fault := mismatch(a, b, "the second")) is not None:
        raise ValueError(f"{what} differ in structure: {fault}")
    for (path, x), y in zip(jax.tree_util.tree_leaves_with_path(a), jax.tree.leaves(b), strict=True):
        if x != y:
            raise ValueError(f"{what} differ at {tree.path_name(path) or 'the only leaf'}: {x} and {y}")


# --- the `fields` argument of wrappers and transformers: dotted paths ------------------------------------------------


def field_paths(owner: str, fields: Any) -> tuple[str, ...]:
    """Returns the dotted paths in ``fields``: one path, several, or ``None`` for the whole tree (``("",)``)."""
    if fields is None:
        return ("",)
    paths = (fields,) if isinstance(fields, str) else fields
    if not isinstance(paths, list | tuple) or not all(isinstance(path, str) for path in paths):
        raise ValueError(f"{owner}: fields must be None, a dotted path or a sequence of dotted paths, got {fields!r}")
    if not paths:
        raise ValueError(f"{owner}: fields must name at least one part, got {fields!r}")
    return tuple(paths)


def select(
    owner: str, values: Tree, fields: Any, kind: str = "an array", applies: Callable[[Any], bool] = lambda leaf: True
) -> Tree:
    """Marks the leaves that ``fields`` selects: bools in the structure of ``values``.

    ``None`` selects every leaf that ``applies`` accepts. A path selects one leaf or all leaves of a subtree, and
    ``applies`` must accept each of them.

    Args:
        owner: class name that error messages start with.
        values: arrays, ``jax.ShapeDtypeStruct`` or specs.
        fields: see `field_paths`.
        kind: a noun phrase for the leaves that ``applies`` accepts, used in error messages.
        applies: whether a leaf is of the ``kind``.
    """
    leaves, structure = jax.tree.flatten_with_path(values)
    numbers = jax.tree.unflatten(structure, range(len(leaves)))
    marks = [False] * len(leaves)
    for path in field_paths(owner, fields):
        try:
            below = jax.tree.leaves(tree.get_field(numbers, path))
        except ValueError as unknown:
            raise ValueError(f"{owner}: {unknown}") from None
        if fields is None:
            below = [i for i in below if applies(leaves[i][1])]
        if not below:
            raise ValueError(f"{owner}: {path or 'observation'} must hold {kind}, got {_described(values)}")
        for i in below:
            key_path, leaf = leaves[i]
            if not applies(leaf):
                name = tree.path_name(key_path) or "observation"
                raise ValueError(f"{owner}: {name} must be {kind}, got {_described(leaf)}")
            marks[i] = True
    return jax.tree.unflatten(structure, marks)


def select_floats(owner: str, values: Tree, fields: Any) -> Tree:
    """Calls `select` for the leaves of a floating dtype."""
    return select(owner, values, fields, "an array of floats", lambda x: jnp.issubdtype(x.dtype, jnp.floating))


def map_marked(marks: Tree, fn: Callable[..., Any], *trees: Any, otherwise: Callable[..., Any] | None = None) -> Any:
    """Maps the leaves that `select` marks by ``fn``, and others by ``otherwise``; they stay by default."""
    other = otherwise or (lambda x, *_: x)
    return jax.tree.map(lambda mark, *xs: (fn if mark else other)(*xs), marks, *trees)


def _described(values: Tree) -> Any:
    """Keeps specs and replaces arrays by specs of their whole shape, including the lanes."""
    return jax.tree.map(lambda x: x if is_spec(x) else Array(x.shape, x.dtype), values)
