"""Wrappers that change the structure, shapes or dtypes of observations."""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import LeafObservationWrapper, Leafwise, ObservationWrapper, clip
from jaxenv.tree import Tree


class Floats(Leafwise):
    """Maps the leaves of a floating dtype."""

    kind: ClassVar[str] = "an array of floats"

    def applies(self, spec: Any) -> bool:
        return spec.is_continuous


class DtypeObservation(LeafObservationWrapper):
    """Casts observations to another dtype. Bounds are cast like the values, and shapes do not change.

    Casting floats to integers truncates towards zero; casting to bool gives ``x != 0``. Owns ``observation``.

    Args:
        dtype: a dtype that JAX has enabled, for example ``"float32"`` or ``np.float32``. The bounds of each leaf must
            fit it: unbounded floats fit no integer dtype.
        fields: dotted paths of the leaves to cast; all by default.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.DtypeObservation(jaxenv.testing.Chain(length=5), "float32")
    >>> env.observation_spec()
    Bounded((), float32, 0.0, 4.0, name='observation')
    """

    dtype: Any = tree.static()

    in_evaluation = "kept"

    def convert(self) -> dict[str, Any]:
        try:
            dtype = jnp.dtype(self.dtype)
        except TypeError:
            raise ValueError(f"DtypeObservation: dtype must be a dtype, got {self.dtype!r}") from None
        supported = any(jnp.issubdtype(dtype, kind) for kind in (jnp.bool_, jnp.integer, jnp.floating))
        if not supported or jax.dtypes.canonicalize_dtype(dtype) != dtype:
            raise ValueError(f"DtypeObservation: dtype must be a numeric dtype that JAX has enabled, got {dtype}")
        return {"dtype": dtype.name}

    def fault(self, spec: specs.Array) -> str | None:
        dtype = jnp.dtype(self.dtype)
        if dtype.kind == "b" or dtype == spec.dtype:
            return None
        limits = jnp.iinfo(dtype) if jnp.issubdtype(dtype, jnp.integer) else jnp.finfo(dtype)
        ends = np.array(specs.bounds(spec), np.float64)
        fits = (ends >= float(limits.min)) & (ends <= float(limits.max))
        if jnp.issubdtype(dtype, jnp.floating):
            fits |= np.isinf(ends)
        return None if np.all(fits) else f"have bounds that fit {dtype}"

    def map_leaf(self, x: jax.Array, spec: specs.Array) -> jax.Array:
        dtype = jnp.dtype(self.dtype)
        if dtype.kind == "b":
            return x != np.zeros((), x.dtype)
        cast = jax.lax.convert_element_type(x, dtype)
        if spec.is_continuous and jnp.issubdtype(dtype, jnp.integer):  # platforms cast NaN differently
            low, high = specs.bounds(self.map_spec(spec))
            cast = clip(cast, specs.aligned(low, x.ndim), specs.aligned(high, x.ndim))
        return cast

    def map_spec(self, spec: specs.Array) -> specs.Array:
        dtype = jnp.dtype(self.dtype)
        if dtype == spec.dtype:
            return spec
        if dtype.kind == "b" or (spec.is_continuous and not isinstance(spec, specs.Bounded)):
            return specs.Array(spec.shape, dtype, spec.name)
        low, high = (bound.astype(dtype) for bound in specs.bounds(spec))
        return specs.Bounded(spec.shape, dtype, low, high, spec.name)


class FilterObservation(ObservationWrapper):
    """Keeps some entries of a dict, some items of a tuple or some elements of a vector, with their bounds.

    Items and elements keep the order in which ``keys`` names them. Owns ``observation``.

    Args:
        env: an environment whose observation is a dict, a tuple, a struct or one array with one axis.
        keys: the parts to keep: keys of a dict; numbers of items or elements, negative ones counting from the end; or
            dotted paths such as ``"robot.camera"``, which leave ``()`` for dropped items inside a tuple or struct.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.FilterObservation(jaxenv.spec("Pendulum-v1").make(), (0, -1))
    >>> env.observation_spec()
    Bounded((2,), float32, [-1.0, -8.0], [1.0, 8.0], name='observation')
    """

    keys: Any = tree.static()

    in_evaluation = "kept"

    def check(self) -> None:
        spec, paths = self.env.observation_spec(), self._paths()
        if not paths:
            raise ValueError(f"FilterObservation: keys must name at least one part, got {self.keys!r}")
        if len(set(paths)) < len(paths):
            raise ValueError(f"FilterObservation: keys must not repeat a part, got {self.keys!r}")
        if specs.is_spec(spec) and spec.ndim != 1:
            raise ValueError(f"FilterObservation: observation must be a tree or an array with one axis, got {spec}")
        # Paths are checked on a tree of placeholders, since they must not reach the attributes of a spec. A dict of its
        # element numbers represents a vector.
        names = dict.fromkeys(range(spec.shape[0])) if specs.is_spec(spec) else jax.tree.map(lambda _: 0, spec)
        try:
            tree.select_fields(names, paths)
        except ValueError as unknown:
            raise ValueError(f"FilterObservation: {unknown}") from None

    def observation(self, observation: Tree) -> Tree:
        return self._kept(observation, lambda x, numbers: x[:, numbers])

    def observation_spec(self) -> Tree:
        return self._kept(self.env.observation_spec(), lambda s, numbers: specs.rearranged(s, lambda x: x[:, numbers]))

    def _paths(self) -> list[str]:
        """Returns the keys as dotted paths, with numbers counted from 0."""
        keys, spec = self.keys if isinstance(self.keys, tuple) else (self.keys,), self.env.observation_spec()
        sizes = spec.shape if specs.is_spec(spec) else (len(spec),) if isinstance(spec, list | tuple) else ()
        count = sizes[0] if sizes else 0  # of the elements or items, from which negative numbers count
        return [str(key % count) if type(key) is int and -count <= key < count else str(key) for key in keys]

    def _kept(self, node: Tree, elements: Callable[..., Any]) -> Tree:
        paths = self._paths()
        if specs.is_spec(self.env.observation_spec()):
            return elements(node, np.array(paths, np.int32))
        chosen = tree.select_fields(node, paths)
        if isinstance(node, list | tuple) and not hasattr(node, "_fields"):
            # A filtered tuple holds only the named items, in the order of their names.
            return type(node)(chosen[i] for i in dict.fromkeys(int(path.split(".")[0]) for path in paths))
        return chosen


class FlattenObservation(ObservationWrapper):
    """Concatenates all leaves of the observation, each in row-major order, to one vector with their bounds.

    Entries of a dict are in the order of their sorted keys, as in JAX; parts in ``fields`` keep the given order. The
    vector has the common dtype of all leaves, or float32 if they differ. Owns ``observation``.

    Args:
        fields: dotted paths of the parts in the vector: ``("observation", "desired_goal")`` joins a state and its goal.
            Other parts are dropped. All by default.
        one_hot: encode a bounded integer of shape ``()`` with n values as a one-hot vector; ``False`` uses the number
            itself.

    >>> import jaxenv, numpy as np
    >>> env = jaxenv.wrappers.FlattenObservation(jaxenv.testing.Chain(length=3))
    >>> env.observation_spec()
    Bounded((3,), int32, 0, 1, name='observation')
    >>> env.observation(np.array([2, 0], np.int32)).tolist()
    [[0, 0, 1], [1, 0, 0]]
    """

    fields: Any = tree.static(default=None)
    one_hot: bool = tree.static(default=True)

    in_evaluation = "kept"

    def check(self) -> None:
        specs.select("FlattenObservation", self.env.observation_spec(), self.fields)

    def _parts(self, observation: Tree) -> list[Any]:
        """Returns the leaves of the vector, in its order."""
        paths = specs.field_paths("FlattenObservation", self.fields)
        return [leaf for path in paths for leaf in jax.tree.leaves(tree.get_field(observation, path))]

    def observation(self, observation: Tree) -> Tree:
        parts, own = (tuple(self._parts(x)) for x in (self.env.observation_spec(), observation))
        return specs.flatten(parts, own, one_hot=self.one_hot)

    def observation_spec(self) -> Tree:
        inner = self.env.observation_spec()
        spec = specs.flattened(tuple(self._parts(inner)), one_hot=self.one_hot)
        return spec.replace(name=inner.name if specs.is_spec(inner) else "observation")


class ReshapeObservation(LeafObservationWrapper):
    """Reshapes leaves of the observation in row-major order. Bounds move with their elements. Owns ``observation``.

    Args:
        env: an environment whose leaves (all, or the ones in ``fields``) have as many elements as ``shape``.
        shape: the new shape of one lane's leaf.
        fields: dotted paths of the leaves to reshape.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.ReshapeObservation(jaxenv.spec("Pendulum-v1").make(), (3, 1))
    >>> env.observation_spec()
    Bounded((3, 1), float32, [[-1.0], [-1.0], [-8.0]], [[1.0], [1.0], [8.0]], name='observation')
    """

    shape: Any = tree.static()

    in_evaluation = "kept"

    def check(self) -> None:
        if not (isinstance(self.shape, tuple) and all(type(n) is int and n >= 0 for n in self.shape)):
            raise ValueError(f"ReshapeObservation: shape must be a tuple of non-negative integers, got {self.shape!r}")
        super().check()

    def fault(self, spec: specs.Array) -> str | None:
        count = math.prod(self.shape)
        return None if spec.numel == count else f"have {count} elements to get shape {self.shape}"

    def map_leaf(self, x: jax.Array, spec: specs.Array) -> jax.Array:
        return x.reshape(x.shape[:1] + self.shape)

    def map_spec(self, spec: specs.Array) -> specs.Array:
        return specs.rearranged(spec, lambda x: self.map_leaf(x, spec))


class OneHotObservation(LeafObservationWrapper):
    """Replaces integers by one-hot codes, for codes that are names and not numbers, such as the cells of a grid.

    An integer leaf ``[B, ...]`` becomes uint8 ``[B, ..., n]``. If ``num_values`` has a number for each entry of the
    last axis, the codes of that axis lie side by side: ``OneHotObservation(env, (11, 6, 3), fields="image")`` turns the
    view of MiniGrid, ``[B, 7, 7, 3]``, into ``[B, 7, 7, 20]``, as MiniGrid's ``OneHotPartialObsWrapper`` does. A value
    out of range has a code of zeros. Owns ``observation``.

    Args:
        env: an environment whose observation has integer leaves.
        num_values: how many values there are, counted from 0: one number, or a tuple with one for each entry of the
            last axis. By default the values from its minimum to its maximum, equally many for all elements.
        fields: dotted paths of the leaves to map; by default all integer leaves.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.OneHotObservation(jaxenv.spec("FrozenLake-v1").make())
    >>> env.observation_spec()
    Bounded((16,), uint8, 0, 1, name='observation')
    """

    num_values: Any = tree.static(default=None)

    in_evaluation = "kept"
    kind: ClassVar[str] = "an integer array"

    def check(self) -> None:
        numbers = np.asarray(1 if self.num_values is None else self.num_values)
        if numbers.dtype.kind not in "iu" or numbers.ndim > 1 or not numbers.size or np.any(numbers < 1):
            rule = "num_values must be an integer of at least 1, or a tuple of them"
            raise ValueError(f"OneHotObservation: {rule}, got {self.num_values!r}")
        super().check()

    def applies(self, spec: Any) -> bool:
        return spec.dtype.kind in "iu"

    def fault(self, spec: Any) -> str | None:
        if np.ndim(self.num_values) and spec.shape[-1:] != np.shape(self.num_values):
            return f"have a last axis as long as num_values, {len(self.num_values)}"
        if self.num_values is None and not (
            isinstance(spec, specs.Bounded) and np.ptp(spec.maximum.astype(np.int64) - spec.minimum) == 0
        ):
            return "have bounds of one range, unless num_values is given"
        return None

    def map_leaf(self, x: jax.Array, spec: Any) -> jax.Array:
        if np.ndim(self.num_values):
            return jnp.concatenate([_codes(x[..., i], n) for i, n in enumerate(self.num_values)], axis=-1)
        if self.num_values is None:
            # As int32, since a difference of two int8 may exceed them.
            lowest = specs.aligned(spec.minimum.astype(np.int32), x.ndim)
            return _codes(x.astype(np.int32) - lowest, spec.num_values)
        return _codes(x, self.num_values)

    def map_spec(self, spec: Any) -> specs.Array:
        outer = spec.shape[:-1] if np.ndim(self.num_values) else spec.shape
        width = spec.num_values if self.num_values is None else int(np.sum(self.num_values))
        return specs.Bounded((*outer, width), np.uint8, 0, 1, spec.name)


def _codes(x: jax.Array, num_values: int) -> jax.Array:
    """Encodes the values 0, 1, ... as one-hot codes ``[..., num_values]``."""
    dtype = np.result_type(x.dtype, np.min_scalar_type(num_values - 1))
    values = np.arange(num_values, dtype=dtype)[(None,) * x.ndim]
    return (x.astype(dtype)[..., None] == values).astype(jnp.uint8)


class DiscretizeObservation(Floats, LeafObservationWrapper):
    """Replaces continuous observations by bin numbers, for tabular agents. Bins are uniform between finite bounds.

    A bin includes its lower edge, up to rounding. Values outside the bounds belong to the first or the last bin, NaN to
    the first. With ``fields=None`` every floating-point leaf is mapped. Owns ``observation``.

    Args:
        env: an environment whose floating-point observations have finite bounds.
        bins: number of bins per element: one number, or a nested tuple in the shape of the leaf.
        flatten: encode the whole leaf in one int32, which the number of all bins must fit, whose most significant digit
            is the first element; ``False`` gives int32 in the shape of the leaf.
        fields: dotted paths of the leaves to map.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.DiscretizeObservation(jaxenv.spec("Pendulum-v1").make(), (4, 4, 10))
    >>> env.observation_spec()
    Bounded((), int32, 0, 159, name='observation')
    >>> env.observation(np.array([[-1.0, 0.0, 8.0]], np.float32)).tolist()  # bins 0, 2 and 9
    [29]
    """

    bins: Any = tree.static()
    flatten: bool = tree.static(default=True)

    in_evaluation = "kept"

    def check(self) -> None:
        bins = np.asarray(self.bins)
        if bins.dtype.kind not in "iu" or np.any(bins < 1):
            raise ValueError(f"DiscretizeObservation: bins must be integers of at least 1, got {self.bins!r}")
        super().check()

    def fault(self, spec: Any) -> str | None:
        if not (spec.is_bounded and np.all(spec.minimum < spec.maximum)):
            return "have finite bounds, the lower below the upper"
        if np.ndim(self.bins) and np.shape(self.bins) != spec.shape:
            return f"have the shape of bins, {np.shape(self.bins)}"
        if self.flatten and math.prod(self._bins(spec).reshape(-1).tolist()) > 2**31 - 1:
            return "have at most 2**31 - 1 bins in total to fit int32, unless flatten=False"
        return None

    def _bins(self, spec: Any) -> np.ndarray:
        return np.broadcast_to(np.asarray(self.bins, np.int32), spec.shape)

    def map_leaf(self, x: jax.Array, spec: Any) -> jax.Array:
        bins = self._bins(spec)
        low, high = spec.minimum.astype(np.float64), spec.maximum.astype(np.float64)
        # Half precision cannot count the bins.
        dtype = spec.dtype if spec.dtype.itemsize > 2 else np.dtype(np.float32)
        per_unit = (bins / (high - low)).astype(dtype)
        place = (x.astype(dtype) - specs.aligned(low.astype(dtype), x.ndim)) * specs.aligned(per_unit, x.ndim)
        last = specs.aligned(bins - 1, x.ndim)
        # Clip before the cast, which is undefined out of range, and after it, as float32 rounds numbers above 2**24.
        # NaN goes to the first bin.
        place = jnp.where(place > 0, jnp.minimum(place, last.astype(dtype)), np.zeros((), dtype))
        index = jnp.minimum(place.astype(jnp.int32), last)
        if not self.flatten:
            return index
        digits = bins.reshape(-1).astype(np.int64)
        weights = np.concatenate([np.cumprod(digits[::-1])[::-1][1:], [1]]).astype(np.int32)
        return jnp.sum(index.reshape(x.shape[0], -1) * weights[None], axis=-1, dtype=jnp.int32)

    def map_spec(self, spec: Any) -> specs.Array:
        bins = self._bins(spec)
        if self.flatten:
            return specs.discrete(math.prod(bins.reshape(-1).tolist()), name=spec.name)
        return specs.Bounded(spec.shape, np.int32, 0, bins - 1, spec.name)
