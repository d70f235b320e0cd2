"""Discretise continuous observations."""

import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import LeafObservationWrapper


class DiscretizeObservation(LeafObservationWrapper):
    """Replaces continuous observations by bin numbers, for tabular agents. Bins are uniform between finite bounds.

    A bin includes its lower edge, up to rounding. Values outside the bounds belong to the first or the last bin, NaN to
    the first. With ``fields=None`` every floating-point leaf is mapped. Owns ``observation``; maps
    ``env_info["final_observation"]`` in the same way.

    Args:
        env: an environment whose floating-point observations have finite bounds.
        bins: number of bins per element: one number, or a nested tuple in the shape of the leaf.
        flatten: encode the whole leaf in one int32 whose most significant digit is the first element; ``False`` gives
            int32 in the shape of the leaf.
        fields: dotted paths of the leaves to map.

    Raises:
        ValueError: if ``bins`` is not an integer of at least 1, bounds are not finite and in order, or the total number
            of bins does not fit int32.

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
    kind: ClassVar[str] = "an array of floats"

    def check(self) -> None:
        bins = np.asarray(self.bins)
        if bins.dtype.kind not in "iu" or np.any(bins < 1):
            raise ValueError(f"DiscretizeObservation: bins must be integers of at least 1, got {self.bins!r}")
        super().check()

    def applies(self, spec: Any) -> bool:
        return spec.is_continuous

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
