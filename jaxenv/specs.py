"""Specs: the shape, dtype and bounds of one lane's observation, action or reward.

A spec is frozen and hashable, and its shape never includes the batch axis. Trees of specs (dicts, tuples, structs)
describe trees of arrays; a spec is a leaf. Comparisons ignore names.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv._names import missing_attribute
from jaxenv._structure import mismatch
from jaxenv.tree import Tree

_UNSET: Any = object()


@dataclasses.dataclass(frozen=True)
class Array:
    """An array of one shape and dtype, without bounds."""

    shape: tuple[int, ...]
    dtype: np.dtype
    name: str = dataclasses.field(default="", compare=False)

    def __init__(self, shape: Sequence[int], dtype: Any, name: str = ""):
        object.__setattr__(self, "shape", tuple(int(n) for n in shape))
        object.__setattr__(self, "dtype", np.dtype(dtype))
        object.__setattr__(self, "name", name)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def is_discrete(self) -> bool:
        return self.dtype.kind in "iub"

    @property
    def is_continuous(self) -> bool:
        return not self.is_discrete

    @property
    def is_bounded(self) -> bool:
        """Whether every element has a finite lower and upper bound."""
        return False

    def replace(self, shape: Any = _UNSET, dtype: Any = _UNSET, name: Any = _UNSET) -> "Array":
        """A copy with other attributes; those not given stay the same."""
        return Array(_or(shape, self.shape), _or(dtype, self.dtype), _or(name, self.name))

    def zeros(self, outer: tuple[int, ...] = ()) -> jax.Array:
        """Zeros with ``outer`` axes in front. Zero may lie outside the bounds."""
        return jnp.zeros(tuple(outer) + self.shape, self.dtype)

    def ones(self, outer: tuple[int, ...] = ()) -> jax.Array:
        """Ones with ``outer`` axes in front."""
        return jnp.ones(tuple(outer) + self.shape, self.dtype)

    def batched(self, outer: int | tuple[int, ...]) -> "Array":
        """The spec of a batch: ``outer`` axes in front of the shape."""
        return self.replace(shape=_axes(outer) + self.shape)

    def contains(self, value: Any) -> bool:
        """Whether one concrete array has this shape and dtype and lies within the bounds, if there are any."""
        return self._fault(value) is None

    def validate(self, value: Any) -> None:
        """Raises a ``ValueError`` naming spec and value unless ``value`` fits.

        For a tracer only shape and dtype are checked.
        """
        validate(self, value)

    def sample(self, key: Any, outer: tuple[int, ...] = ()) -> jax.Array:
        """Random values ``[*key.shape, *outer, *shape]``, always finite.

        Bounded elements are uniform (integers with both ends), unbounded ones standard normal, half-bounded ones
        exponential from their bound. ``key`` is a stream or a typed JAX key.
        """
        return _sample(self, random.stream(key), tuple(outer))

    def __repr__(self) -> str:
        name = f", name={self.name!r}" if self.name else ""
        return f"Array({self.shape}, {self.dtype}{name})"

    def _fault(self, value: Any) -> str | None:
        if not hasattr(value, "shape") or not hasattr(value, "dtype"):
            return f"it is a {type(value).__name__}, not an array"
        if tuple(value.shape) != self.shape:
            return f"its shape is {tuple(value.shape)}"
        if value.dtype != self.dtype:
            return f"its dtype is {value.dtype}"
        return None


@dataclasses.dataclass(frozen=True, init=False)
class Bounded(Array):
    """An array whose elements lie within inclusive bounds. Bounds may be infinite; they broadcast to the shape.

    Raises:
        ValueError: if a bound does not broadcast, is NaN, does not fit the dtype, or a minimum exceeds its maximum.
    """

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            words = {"n": "spec.num_values", "low": "spec.minimum", "high": "spec.maximum"}
            return missing_attribute(self, name, words)

    _minimum: tuple = ()
    _maximum: tuple = ()

    def __init__(self, shape: Sequence[int], dtype: Any, minimum: Any, maximum: Any, name: str = ""):
        Array.__init__(self, shape, dtype, name)
        for attribute, bound in (("minimum", minimum), ("maximum", maximum)):
            object.__setattr__(self, f"_{attribute}", _freeze(self, attribute, bound))
        if np.any(self.minimum > self.maximum):
            raise ValueError(f"Bounded: minimum must not exceed maximum, got {minimum!r} and {maximum!r}")

    @property
    def minimum(self) -> np.ndarray:
        """Lower bounds in the spec's shape and dtype, read-only."""
        return self._bound(self._minimum)

    @property
    def maximum(self) -> np.ndarray:
        """Upper bounds in the spec's shape and dtype, read-only."""
        return self._bound(self._maximum)

    def _bound(self, frozen: tuple) -> np.ndarray:
        return np.broadcast_to(np.array(frozen, self.dtype).reshape(self.shape if len(frozen) != 1 else ()), self.shape)

    @property
    def is_bounded(self) -> bool:
        return bool(np.all(np.isfinite(self.minimum)) and np.all(np.isfinite(self.maximum)))

    @property
    def num_values(self) -> int:
        """The number of values that one element of a discrete spec can take.

        Raises:
            ValueError: if the spec is continuous or its elements differ in their number of values.
        """
        low, high = (bound.reshape(-1).tolist() for bound in (self.minimum, self.maximum))
        counts = {int(b) - int(a) + 1 for a, b in zip(low, high, strict=True)} if self.is_discrete else set()
        if len(counts) != 1:
            raise ValueError(f"num_values is defined for discrete specs of one range, got {self}")
        return counts.pop()

    def replace(  # type: ignore[override]
        self, shape=_UNSET, dtype=_UNSET, minimum=_UNSET, maximum=_UNSET, name=_UNSET
    ) -> "Bounded":
        """A copy with other attributes; those not given stay the same.

        A bound that is one number for all elements follows a new shape or dtype; other bounds must be given again.
        """
        return Bounded(
            _or(shape, self.shape),
            _or(dtype, self.dtype),
            _or(minimum, self._loose(self._minimum)),
            _or(maximum, self._loose(self._maximum)),
            _or(name, self.name),
        )

    def _loose(self, frozen: tuple) -> Any:
        return frozen[0] if len(frozen) == 1 else np.array(frozen, self.dtype).reshape(self.shape)

    def batched(self, outer: int | tuple[int, ...]) -> "Bounded":
        return self.replace(shape=_axes(outer) + self.shape)

    def finite_bounds(self) -> "Bounded":
        """The spec with infinite bounds replaced by the largest finite numbers of the dtype."""
        if self.is_discrete:
            return self
        limits = jnp.finfo(self.dtype)  # NumPy's finfo does not know bfloat16
        return self.replace(
            minimum=np.clip(self.minimum, limits.min, limits.max), maximum=np.clip(self.maximum, limits.min, limits.max)
        )

    def _fault(self, value: Any) -> str | None:
        fault = super()._fault(value)
        if fault is None and not isinstance(value, jax.core.Tracer | jax.ShapeDtypeStruct):
            array = np.asarray(value)
            outside = ~((array >= self.minimum) & (array <= self.maximum))  # NaN is outside
            if np.any(outside):
                where = tuple(int(i) for i in np.argwhere(outside)[0])
                fault = f"its element {where} is {array[where]}" if where else f"it is {array}"
        return fault

    def __repr__(self) -> str:
        name = f", name={self.name!r}" if self.name else ""
        low, high = (_digits(self._loose(b)) for b in (self._minimum, self._maximum))
        return f"Bounded({self.shape}, {self.dtype}, {low}, {high}{name})"


def discrete(n: int, start: int = 0, name: str = "") -> Bounded:
    """The spec of one integer in ``start`` .. ``start + n - 1``: ``Bounded((), int32, ...)``."""
    if n < 1:
        raise ValueError(f"discrete: n must be at least 1, got {n}")
    return Bounded((), np.int32, start, start + n - 1, name)


def aligned(bound: np.ndarray, ndim: int) -> np.ndarray:
    """A bound of one lane with axes of length 1 in front, up to ``ndim``: ranks are never promoted implicitly."""
    return bound.reshape((1,) * (ndim - bound.ndim) + bound.shape)


def _digits(bound: Any) -> Any:
    """A bound as nested lists of numbers with the digits of its own dtype: 4.8, not 4.800000190734863."""
    if not isinstance(bound, np.ndarray) or bound.dtype.kind not in "fV":
        return bound.tolist() if isinstance(bound, np.ndarray) else bound
    return np.array([float(str(x)) for x in bound.reshape(-1)]).reshape(bound.shape).tolist()


def _or(value: Any, default: Any) -> Any:
    return default if value is _UNSET else value


def _axes(outer: int | tuple[int, ...]) -> tuple[int, ...]:
    return (outer,) if isinstance(outer, int) else tuple(outer)


def _freeze(spec: Array, attribute: str, bound: Any) -> tuple:
    """Bounds as a hashable tuple: one number where all are equal, else one per element."""
    exact = np.asarray(bound)
    try:
        array = np.broadcast_to(exact, spec.shape)
    except ValueError:
        raise ValueError(f"Bounded: {attribute} of shape {exact.shape} does not broadcast to {spec.shape}") from None
    if np.any(np.isnan(array.astype(np.float64))):
        raise ValueError(f"Bounded: {attribute} must not be NaN, got {bound!r}")
    with np.errstate(over="ignore", invalid="ignore"):
        cast = array.astype(spec.dtype)
    if spec.is_discrete and np.any(cast != array):
        raise ValueError(f"Bounded: {attribute} must fit {spec.dtype}, got {bound!r}")
    # A bound beyond the range of the dtype would silently become infinite.
    if spec.is_continuous and np.any(np.isinf(cast) & np.isfinite(array)):
        raise ValueError(f"Bounded: {attribute} must fit {spec.dtype}, got {bound!r}")
    values = tuple(cast.reshape(-1).tolist())
    return values[:1] if len(set(values)) == 1 else values


def _sample(spec: Array, stream: random.Stream, outer: tuple[int, ...]) -> jax.Array:
    shape = outer + spec.shape
    if not isinstance(spec, Bounded):
        if spec.dtype.kind == "b":
            return random.bernoulli(stream, shape)
        if spec.is_discrete:
            # An unbounded integer has no natural distribution: every bit pattern is equally likely.
            return random.bits(stream, shape).astype(spec.dtype)
        return random.normal(stream, shape).astype(spec.dtype)
    words = random.bits(stream, shape)
    low, high = aligned(spec.minimum, words.ndim), aligned(spec.maximum, words.ndim)
    if spec.dtype.kind == "b":
        return ((words >> np.uint32(31)).astype(bool) | low) & high
    if spec.is_discrete:
        word = np.uint32 if spec.dtype.kind == "u" else np.int32
        if np.any(low < np.iinfo(word).min) or np.any(high > np.iinfo(word).max):
            raise ValueError(f"sample: the bounds must fit {np.dtype(word)}, got {spec}")
        low, high = low.astype(np.int64), high.astype(np.int64)
        # Arithmetic modulo 2**32 is exact for every int32 or uint32 range; a span of 0 means the whole range.
        span = ((high - low + 1) & 0xFFFFFFFF).astype(np.uint32)
        offset = jnp.where(span == 0, words, random.high_product(words, span))
        return (offset + (low & 0xFFFFFFFF).astype(np.uint32)).astype(word).astype(spec.dtype)
    return _sample_floats(stream, words, low.astype(np.float32), high.astype(np.float32)).astype(spec.dtype)


def _sample_floats(stream: random.Stream, words: jax.Array, low: np.ndarray, high: np.ndarray) -> jax.Array:
    below, above = np.isfinite(low), np.isfinite(high)
    finite_low, finite_high = (np.where(np.isfinite(b), b, 0).astype(np.float32) for b in (low, high))
    u = random.unit(words)
    # Not low + u * (high - low): the difference of two finite bounds may overflow.
    sample: Any = finite_low * (1 - u) + finite_high * u
    if not np.all(below & above):
        tail = -jnp.log1p(-u)
        sample = jnp.where(below & ~above, finite_low + tail, sample)
        sample = jnp.where(~below & above, finite_high - tail, sample)
        normal = random.normal(stream, words.shape[len(stream.shape) :])
        sample = jnp.where(~below & ~above, normal, sample)
    return jnp.clip(sample, low, high)


# --- trees of specs --------------------------------------------------------------------------------------------------


def is_spec(node: Any) -> bool:
    """Whether a node of a tree is a spec."""
    return isinstance(node, Array)


def sample(spec: Tree, key: Any, outer: tuple[int, ...] = (), mask: Any = None) -> Tree:
    """Random values for a tree of specs; every leaf draws from its own stream.

    Args:
        spec: a spec or a tree of them.
        key: a stream (values lead with ``[B]``) or a typed JAX key.
        outer: axes between those of the key and those of the spec.
        mask: bool ``[..., n]`` for a single discrete spec of shape ``()`` with n values: only marked values are drawn,
            and the minimum where none is marked.
    """
    stream = random.stream(key)
    if mask is not None:
        return _sample_masked(spec, stream, outer, mask)
    leaves, structure = tree.flatten(spec)
    if len(leaves) == 1:
        return structure.unflatten([leaves[0].sample(stream, outer)])
    return structure.unflatten([s.sample(random.fold_in(stream, i), outer) for i, s in enumerate(leaves)])


def _sample_masked(spec: Tree, stream: random.Stream, outer: tuple[int, ...], mask: Any) -> jax.Array:
    if not (isinstance(spec, Bounded) and spec.is_discrete and spec.shape == () and not outer):
        raise ValueError(
            f"sample: mask needs a single discrete spec of shape () and no outer axes, got {spec}, {outer}"
        )
    if jnp.shape(mask)[-1:] != (spec.num_values,):
        raise ValueError(f"sample: mask has shape {jnp.shape(mask)}, the spec has {spec.num_values} values: {spec}")
    return random.categorical(stream, mask).astype(spec.dtype) + spec.minimum


def validate(spec: Tree, value: Tree, outer: int | tuple[int, ...] = ()) -> None:
    """Raises a ``ValueError`` naming leaf, spec and value unless the tree ``value`` fits ``spec``.

    Args:
        spec: a spec or a tree of them.
        value: the tree of arrays. Bounds are checked on concrete arrays only.
        outer: leading axes of every leaf, for example ``num_envs``.
    """
    leaf_specs = tree.flatten_with_path(spec)[0]
    if (fault := mismatch(spec, value, "value")) is not None:
        raise ValueError(f"{fault}, as in the spec")
    for (path, leaf_spec), leaf in zip(leaf_specs, jax.tree.leaves(value), strict=True):
        leaf_spec = leaf_spec.batched(outer) if outer != () else leaf_spec
        fault = leaf_spec._fault(leaf)
        if fault is not None:
            raise ValueError(f"{tree.path_name(path) or 'value'} does not fit {leaf_spec}: {fault}")


def contains(spec: Tree, value: Tree, outer: int | tuple[int, ...] = ()) -> bool:
    """Whether a tree of concrete arrays fits a tree of specs."""
    try:
        validate(spec, value, outer)
    except ValueError:
        return False
    return True


def zeros(spec: Tree, outer: tuple[int, ...] = ()) -> Tree:
    """Zeros for a tree of specs, with ``outer`` axes in front."""
    return jax.tree.map(lambda s: s.zeros(outer), spec)


def batched(spec: Tree, outer: int | tuple[int, ...]) -> Tree:
    """A tree of specs with ``outer`` axes in front of every shape."""
    return jax.tree.map(lambda s: s.batched(outer), spec)


def unbatched(spec: Tree, axes: int = 1) -> Tree:
    """A tree of specs (or shapes) without its first ``axes`` axes, and without bounds."""
    return jax.tree.map(lambda s: Array(s.shape[axes:], s.dtype, getattr(s, "name", "")), spec)


def from_array(value: Tree, from_dim: int = 0) -> Tree:
    """The specs of a tree of arrays without their first ``from_dim`` axes."""
    return jax.tree.map(lambda x: Array(jnp.shape(x)[from_dim:], jnp.result_type(x)), value)


def stack(specs: Sequence[Bounded]) -> Bounded:
    """One spec ``[n, ...]`` for n specs of equal shape and dtype whose bounds may differ."""
    if not specs:
        raise ValueError("stack: at least one spec is needed")
    first = specs[0]
    for spec in specs:
        if not isinstance(spec, Bounded):
            raise ValueError(f"stack: specs must be bounded, got {spec}")
        if (spec.shape, spec.dtype) != (first.shape, first.dtype):
            raise ValueError(f"stack: specs must agree in shape and dtype, got {first} and {spec}")
    low, high = ([getattr(s, bound) for s in specs] for bound in ("minimum", "maximum"))
    return Bounded((len(specs), *first.shape), first.dtype, np.stack(low), np.stack(high), first.name)


def require_equal(a: Tree, b: Tree, what: str = "specs") -> None:
    """Raises a ``ValueError`` naming the first leaf in which two trees of specs differ; names are ignored."""
    if (fault := mismatch(a, b, "the second")) is not None:
        raise ValueError(f"{what} differ in structure: {fault}")
    for (path, x), y in zip(jax.tree_util.tree_leaves_with_path(a), jax.tree.leaves(b), strict=True):
        if x != y:
            raise ValueError(f"{what} differ at {tree.path_name(path) or 'the only leaf'}: {x} and {y}")
