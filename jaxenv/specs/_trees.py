"""Functions of trees of specs."""

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
    leaves, structure = tree.flatten(spec)
    if len(leaves) == 1:
        return structure.unflatten([leaves[0].sample(stream, outer)])
    return structure.unflatten([s.sample(random.fold_in(stream, i), outer) for i, s in enumerate(leaves)])


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
    """Raises a ``ValueError`` naming leaf, spec and value unless the tree ``value`` fits ``spec``.

    Args:
        spec: a spec or a tree of them.
        value: the tree of arrays. Bounds are checked on concrete arrays only.
        outer: leading axes of every leaf, for example ``num_envs``.
    """
    check_fit("validate", spec, value, axes_of(outer, "validate"))


def check_fit(owner: str, spec: Tree, value: Tree, outer: tuple[int, ...]) -> None:
    """Does what `validate` does, for the function ``owner``."""
    check_spec(owner, spec)
    if (fault := fit_fault(spec, value, outer)) is not None:
        raise ValueError(f"{owner}: {fault}")


def fit_fault(spec: Tree, value: Tree, outer: tuple[int, ...] = ()) -> str | None:
    """Describes the first leaf of ``value`` that does not fit ``spec``; ``None`` if all fit."""
    leaf_specs = tree.flatten_with_path(spec)[0]
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
    axes_of(outer, "contains")
    try:
        validate(spec, value, outer)
    except ValueError:
        return False
    return True


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
