"""Encode integers of observations as one-hot codes."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import LeafObservationWrapper


class OneHotObservation(LeafObservationWrapper):
    """Replaces integers by one-hot codes, for codes that are names and not numbers, such as the cells of a grid.

    An integer leaf ``[B, ...]`` becomes uint8 ``[B, ..., n]``. If ``num_values`` has a number for each entry of the
    last axis, the codes of that axis lie side by side: ``OneHotObservation(env, (11, 6, 3), fields="image")`` turns the
    view of MiniGrid, ``[B, 7, 7, 3]``, into ``[B, 7, 7, 20]``, as MiniGrid's ``OneHotPartialObsWrapper`` does. A value
    out of range has a code of zeros. Owns ``observation``; maps ``env_info["final_observation"]`` in the same way.

    Args:
        env: an environment whose observation has integer leaves.
        num_values: how many values there are, counted from 0: one number, or a tuple with one for each entry of the
            last axis. By default the values from its minimum to its maximum.
        fields: dotted paths of the leaves to map; by default all integer leaves.

    Raises:
        ValueError: if ``num_values`` is not an integer of at least 1, does not fit the last axis, or is not given for a
            leaf that has no bounds, or whose elements differ in their number of values.

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
