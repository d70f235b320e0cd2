"""Trees of arrays as vectors, and back."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv._util.checks import check_array, check_arrays, check_bool, check_dtype
from jaxenv._util.numeric import clip
from jaxenv.specs._array import Array, Bounded, aligned, bounds, check_spec
from jaxenv.specs._trees import fit_fault
from jaxenv.tree import Tree


def flattened(spec: Tree, *, one_hot: bool = True, dtype: Any = None) -> Array:
    """Returns the spec of the vector that `flatten` makes: shape ``(n,)``, with the bounds of its elements.

    Args:
        spec: a spec or a tree of them.
        one_hot: whether a bounded integer of shape ``()`` with n values becomes a one-hot vector of n elements.
        dtype: the dtype of the vector, which the bounds must fit; by default the common dtype of all leaves, or float32
            if they differ.
    """
    check_spec("flattened", spec)
    check_bool("flattened", "one_hot", one_hot)
    leaves = jax.tree.leaves(spec)
    if not leaves:
        raise ValueError(f"flattened: spec must have at least one array, got {spec}")
    dtype, ends = _dtype("flattened", leaves, dtype), []
    for s in leaves:
        ends.append((np.zeros(s.num_values), np.ones(s.num_values)) if one_hot and _is_choice(s) else bounds(s))
    low, high = (np.concatenate([end[i].reshape(-1) for end in ends]) for i in (0, 1))
    name = spec.name if isinstance(spec, Array) else ""
    if not any(isinstance(s, Bounded) for s in leaves):
        return Array(low.shape, dtype, name)
    return Bounded(low.shape, dtype, low, high, name)


def flatten(spec: Tree, value: Tree, *, one_hot: bool = True, dtype: Any = None) -> jax.Array:
    """Flattens a tree of arrays ``[*outer, ...]`` to one vector ``[*outer, n]``.

    The leaves are in tree order (the entries of a dict are sorted by key, as in JAX), each in row-major order. Axes in
    front, such as lanes or time, stay. `unflatten` is the inverse. A float32 vector holds integers beyond 2**24 only
    approximately. ``one_hot`` and ``dtype`` have the same meaning as for `flattened`; a number out of bounds becomes
    zeros.

    >>> from jaxenv import specs
    >>> spec = {"arm": specs.discrete(3), "speed": specs.Array((2,), np.float32)}
    >>> value = {"arm": jnp.array([2, 0]), "speed": jnp.array([[0.5, 1.5], [2.5, 3.5]])}
    >>> flatten(spec, value).tolist()
    [[0.0, 0.0, 1.0, 0.5, 1.5], [1.0, 0.0, 0.0, 2.5, 3.5]]
    """
    check_spec("flatten", spec)
    check_arrays("flatten", "value", value)
    check_bool("flatten", "one_hot", one_hot)
    leaves, arrays = jax.tree.leaves(spec), jax.tree.leaves(value)
    axes = len(jnp.shape(arrays[0])) - leaves[0].ndim if len(arrays) == len(leaves) > 0 else 0
    outer = jnp.shape(arrays[0])[:axes] if axes > 0 else ()
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)), value)
    if (fault := fit_fault(spec, shapes, outer)) is not None:
        raise ValueError(f"flatten: {fault}")
    dtype, parts = _dtype("flatten", leaves, dtype), []
    for s, x in zip(leaves, arrays, strict=True):
        if one_hot and _is_choice(s):
            values = np.arange(s.num_values, dtype=s.dtype) + s.minimum
            x = x[..., None] == aligned(values, x.ndim + 1)
        parts.append(jax.lax.convert_element_type(x.reshape(*outer, -1), dtype))
    return jnp.concatenate(parts, axis=-1)


def unflatten(spec: Tree, vector: jax.Array, *, one_hot: bool = True) -> Tree:
    """Restores the tree of arrays ``[*outer, ...]`` from a vector ``[*outer, n]`` that `flatten` returned.

    Elements are cast to the dtype of their leaf. One-hot elements become the value of the largest one; other elements
    of a discrete leaf are rounded to the nearest integer within its bounds if the vector holds floats.

    >>> from jaxenv import specs
    >>> spec = {"arm": specs.discrete(3), "speed": specs.Array((2,), np.float32)}
    >>> jax.tree.map(lambda x: x.tolist(), unflatten(spec, jnp.array([0.0, 0.0, 1.0, 0.5, 1.5])))
    {'arm': 2, 'speed': [0.5, 1.5]}
    """
    check_spec("unflatten", spec)
    check_array("unflatten", "vector", vector)
    check_bool("unflatten", "one_hot", one_hot)
    leaves, structure = jax.tree.flatten(spec)
    sizes = [s.num_values if one_hot and _is_choice(s) else s.numel for s in leaves]
    if jnp.shape(vector)[-1:] != (sum(sizes),):
        raise ValueError(f"unflatten: vector must have {sum(sizes)} elements, got shape {jnp.shape(vector)}")
    parts = jnp.split(vector, np.cumsum(sizes)[:-1], axis=-1)
    return jax.tree.unflatten(structure, [_leaf(s, x, one_hot) for s, x in zip(leaves, parts, strict=True)])


def _leaf(spec: Array, part: jax.Array, one_hot: bool) -> jax.Array:
    """Reshapes and casts the elements ``[*outer, n]`` of one leaf."""
    if one_hot and _is_choice(spec):
        return jnp.argmax(part, axis=-1).astype(spec.dtype) + aligned(bounds(spec)[0], part.ndim - 1)
    part = part.reshape(*part.shape[:-1], *spec.shape)
    if spec.is_discrete and jnp.issubdtype(part.dtype, jnp.floating):
        part = clip(jnp.round(part), *(aligned(bound, part.ndim) for bound in bounds(spec)))
    return part.astype(spec.dtype)


def _is_choice(spec: Array) -> bool:
    """Returns whether a spec is one bounded integer; raises a ``ValueError`` for more values than a vector can hold."""
    if not (isinstance(spec, Bounded) and spec.shape == () and spec.dtype.kind in "iu"):
        return False
    if spec.num_values > _MOST_VALUES:
        got = f"a one-hot vector of {spec} would have {spec.num_values} elements"
        raise ValueError(f"flatten: {got}, pass one_hot=False")
    return True


_MOST_VALUES = 2**24


def _dtype(owner: str, leaves: list[Array], dtype: Any) -> np.dtype:
    if dtype is not None:
        return check_dtype(owner, "dtype", dtype)
    dtypes = {s.dtype for s in leaves}
    return dtypes.pop() if len(dtypes) == 1 else np.dtype(np.float32)
