"""Specs of one array."""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

import jax.core
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv._util import numeric
from jaxenv._util.checks import INT32_MAX, check_dtype, check_integer, check_text, described, is_integer
from jaxenv._util.names import missing_attribute

Outer: TypeAlias = int | tuple[int, ...]
X = TypeVar("X", np.ndarray, jax.Array)

_UNSET: Any = object()


@dataclasses.dataclass(frozen=True)
class Array:
    """An array of one shape and dtype, without bounds.

    ``dtype`` is bool, or a dtype of integers or real numbers. Methods that make arrays take ``outer``, further leading
    axes: one number or a tuple.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    name: str = dataclasses.field(default="", compare=False)

    def __init__(self, shape: Sequence[int], dtype: Any, name: str = ""):
        object.__setattr__(self, "shape", _lengths(type(self).__name__, "shape", shape))
        object.__setattr__(self, "dtype", check_dtype(type(self).__name__, "dtype", dtype))
        check_text(type(self).__name__, "name", name)
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
        """Returns a copy with other attributes; omitted ones stay the same."""
        return Array(_if_set(shape, self.shape), _if_set(dtype, self.dtype), _if_set(name, self.name))

    def zeros(self, outer: Outer = ()) -> jax.Array:
        """Returns zeros ``[*outer, *shape]``. Zero may lie outside the bounds."""
        return jnp.zeros(axes_of(outer) + self.shape, self.dtype)

    def batched(self, outer: Outer) -> Self:
        """Returns the spec of a batch, with ``outer`` axes in front of the shape."""
        return self.replace(shape=axes_of(outer) + self.shape)  # type: ignore[return-value]

    def contains(self, value: Any) -> bool:
        """Returns whether one concrete array has this shape and dtype and lies within any bounds."""
        return self._fault(value) is None

    def validate(self, value: Any) -> None:
        """Raises a ``ValueError`` naming spec and value unless ``value`` fits.

        For a tracer only shape and dtype are checked.
        """
        if fault := self._fault(value):
            raise ValueError(f"validate: value does not fit {self}: {fault}")

    def sample(self, key: Any, outer: Outer = ()) -> jax.Array:
        """Draws random values ``[*key.shape, *outer, *shape]``, always finite.

        Bounded elements are uniform (integers with both ends), unbounded ones standard normal, half-bounded ones
        exponential from their bound. ``key`` is a stream or a typed JAX key.
        """
        return _sample(self, random.stream(key), axes_of(outer))

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
    """An array whose elements lie within inclusive bounds, which may be infinite.

    Bounds must broadcast to the shape and fit the dtype, and no minimum may exceed its maximum.
    """

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return missing_attribute(self, name, r"\bspec\.")

    _minimum: tuple[Any, ...] = ()
    _maximum: tuple[Any, ...] = ()

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

    def _bound(self, frozen: tuple[Any, ...]) -> np.ndarray:
        return np.broadcast_to(np.array(frozen, self.dtype).reshape(self.shape if len(frozen) != 1 else ()), self.shape)

    @property
    def is_bounded(self) -> bool:
        return bool(np.all(np.isfinite(self.minimum)) and np.all(np.isfinite(self.maximum)))

    @property
    def num_values(self) -> int:
        """The number of values that an element of a discrete spec can take, which must be equal for all elements."""
        low, high = (bound.reshape(-1).tolist() for bound in (self.minimum, self.maximum))
        counts = {int(b) - int(a) + 1 for a, b in zip(low, high, strict=True)} if self.is_discrete else set()
        if len(counts) != 1:
            raise ValueError(f"num_values is defined for discrete specs of one range, got {self}")
        return counts.pop()

    def replace(  # type: ignore[override]
        self, shape: Any = _UNSET, dtype: Any = _UNSET, minimum: Any = _UNSET, maximum: Any = _UNSET, name: Any = _UNSET
    ) -> "Bounded":
        """Returns a copy with other attributes; omitted ones stay the same.

        A bound that is one number for all elements follows a new shape or dtype; other bounds must be given again.
        """
        return Bounded(
            _if_set(shape, self.shape),
            _if_set(dtype, self.dtype),
            _if_set(minimum, self._loose(self._minimum)),
            _if_set(maximum, self._loose(self._maximum)),
            _if_set(name, self.name),
        )

    def _loose(self, frozen: tuple[Any, ...]) -> Any:
        return frozen[0] if len(frozen) == 1 else np.array(frozen, self.dtype).reshape(self.shape)

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
    """Returns the spec of one integer in ``start`` .. ``start + n - 1``: ``Bounded((), int32, ...)``."""
    check_integer("discrete", "n", n, 1, INT32_MAX + 1)
    check_integer("discrete", "start", start, -INT32_MAX - 1)
    return Bounded((), np.int32, start, start + n - 1, name)


def bounds(spec: Array) -> tuple[np.ndarray, np.ndarray]:
    """Returns lower and upper bounds in the spec's shape and dtype; an unbounded spec has the limits of its dtype.

    The limits of a floating dtype are infinite.
    """
    if isinstance(spec, Bounded):
        return spec.minimum, spec.maximum
    low, high = widest(spec.dtype)
    return np.full(spec.shape, low, spec.dtype), np.full(spec.shape, high, spec.dtype)


def widest(dtype: np.dtype) -> tuple[Any, Any]:
    """Returns the widest bounds of a dtype: infinite, or the limits of its integers."""
    if dtype.kind == "b":
        return np.False_, np.True_
    if dtype.kind in "iu":
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    return dtype.type(-np.inf), dtype.type(np.inf)


def aligned(bound: X, ndim: int) -> X:
    """Puts axes of length 1 in front of one lane's bound, up to ``ndim``: ranks are never promoted implicitly."""
    return bound.reshape((1,) * (ndim - bound.ndim) + bound.shape)


def rearranged(spec: Array, fn: Callable[[Any], Any]) -> Array:
    """Returns the spec of ``fn(x)`` for a function that moves or drops elements of a batch ``[B, ...]``.

    Bounds move with their elements, so ``fn`` must accept NumPy arrays.
    """
    if isinstance(spec, Bounded):
        low, high = fn(spec.minimum[None])[0], fn(spec.maximum[None])[0]
        return spec.replace(shape=low.shape, minimum=low, maximum=high)
    return spec.replace(shape=fn(np.broadcast_to(np.zeros((), spec.dtype), (1, *spec.shape))).shape[1:])


def fit(spec: Array, x: jax.Array) -> jax.Array:
    """Casts floats ``x`` (``[B, ...]``) to values of a spec: rounds them for an integer spec and clips to its bounds.

    Rounding errors may carry a value past a bound; clipping brings it back.
    """
    if spec.is_discrete:
        x = jnp.round(x)
    if isinstance(spec, Bounded):
        x = numeric.clip(x, *(_scalar_if_uniform(bound, x) for bound in (spec.minimum, spec.maximum)))
    return x.astype(spec.dtype)


def _scalar_if_uniform(bound: np.ndarray, x: jax.Array) -> np.ndarray:
    """Aligns a bound to ``x``, or returns a scalar if all its elements are equal.

    The scalar spares compiled code a constant of the size of an image.
    """
    bound = bound.astype(x.dtype)
    uniform = bound.size > 0 and np.all(bound == bound.reshape(-1)[0])
    return bound.reshape(-1)[0] if uniform else aligned(bound, x.ndim)


def nearest_zero(spec: Array) -> np.ndarray:
    """Returns the value closest to zero that fits a spec, element by element, in its shape and dtype."""
    zeros = np.zeros(spec.shape, spec.dtype)
    if not isinstance(spec, Bounded):
        return zeros
    return np.minimum(np.maximum(spec.minimum, zeros), spec.maximum)


def _digits(bound: Any) -> Any:
    """Converts a bound to nested lists of numbers with the digits of its own dtype: 4.8, not 4.800000190734863."""
    if not isinstance(bound, np.ndarray) or bound.dtype.kind not in "fV":
        return bound.tolist() if isinstance(bound, np.ndarray) else bound
    return np.array([float(str(x)) for x in bound.reshape(-1)]).reshape(bound.shape).tolist()


def _if_set(value: Any, default: Any) -> Any:
    return default if value is _UNSET else value


def axes_of(outer: Outer, owner: str = "spec") -> tuple[int, ...]:
    return _lengths(owner, "outer", [outer] if _is_length(outer) else outer)


def check_spec(owner: str, spec: Any, name: str = "spec") -> None:
    """Raises a ``ValueError`` unless ``spec`` is a spec or a tree of specs."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(spec, is_leaf=lambda node: node is None):
        if not isinstance(leaf, Array):
            where = tree.path_name(path, name)
            raise ValueError(f"{owner}: {where} must be a spec or a tree of specs, got {described(leaf)}")


def _is_length(n: Any) -> bool:
    return is_integer(n) or jax.export.is_symbolic_dim(n)  # an exported function may have a symbolic number of lanes


def _lengths(owner: str, name: str, lengths: Any) -> tuple[int, ...]:
    """Returns lengths of axes as a tuple; raises a ``ValueError`` unless they are integers of at least 0."""
    shape: tuple[Any, ...] = (None,)
    with contextlib.suppress(TypeError):
        shape = tuple(lengths)
    if isinstance(lengths, str) or not all(_is_length(n) and n >= 0 for n in shape):
        traced = any(isinstance(n, jax.Array | jax.ShapeDtypeStruct) for n in shape)
        hint = ": declare a length that is a field of a task by jaxenv.tree.static()" if traced else ""
        raise ValueError(f"{owner}: {name} must be a tuple of integers of at least 0, got {lengths!r}{hint}")
    return tuple(int(n) if is_integer(n) else n for n in shape)


def _freeze(spec: Array, attribute: str, bound: Any) -> tuple[Any, ...]:
    """Converts bounds to a hashable tuple: one number where all are equal, else one per element."""
    exact = np.asarray(bound)
    kinds = (jnp.bool_, jnp.integer) if spec.dtype.kind == "b" else (jnp.integer, jnp.floating)
    if not any(jnp.issubdtype(exact.dtype, kind) for kind in kinds):
        raise ValueError(f"Bounded: {attribute} must be a number or an array of numbers, got {bound!r}")
    try:
        array = np.broadcast_to(exact, spec.shape)
    except ValueError:
        raise ValueError(f"Bounded: {attribute} of shape {exact.shape} does not broadcast to {spec.shape}") from None
    if np.any(np.isnan(array.astype(np.float64))):
        raise ValueError(f"Bounded: {attribute} must not be NaN, got {bound!r}")
    with np.errstate(over="ignore", invalid="ignore"):
        cast = array.astype(spec.dtype)
    # A bound beyond the range of a floating dtype would silently become infinite.
    if np.any(cast != array if spec.is_discrete else np.isinf(cast) & np.isfinite(array)):
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
    # Bounds of float64 may lie beyond the range of float32, and between two of its numbers.
    sample = _sample_floats(stream, words, *map(_to_float32, (low, high))).astype(spec.dtype)
    return sample if spec.dtype == np.float32 else jnp.clip(sample, low, high)


def _to_float32(bound: np.ndarray) -> np.ndarray:
    """Casts a bound to float32; a finite one stays finite."""
    largest = np.finfo(np.float32).max
    return np.where(np.isfinite(bound), np.clip(bound, -largest, largest), bound).astype(np.float32)


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
