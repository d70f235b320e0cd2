"""Clip observations."""

from typing import Any, ClassVar

import jax
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import LeafObservationWrapper, check_numbers, clip


class ClipObservation(LeafObservationWrapper):
    """Clips numbers in the observation, and their bounds in the spec. NaN passes through, and shapes and dtypes do
    not change.

    With ``fields=None`` every leaf except bools is clipped. Owns ``observation``; maps
    ``env_info["final_observation"]`` in the same way.

    Args:
        env: an environment with numbers in its observation.
        minimum: lower limit, may be infinite: a number, or a nested tuple that broadcasts to the leaf.
        maximum: upper limit, at least ``minimum``.
        fields: dotted paths of the leaves to clip.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.ClipObservation(jaxenv.spec("Pendulum-v1").make(), -2, 5)
    >>> env.observation_spec()
    Bounded((3,), float32, [-1.0, -1.0, -2.0], [1.0, 1.0, 5.0], name='observation')
    """

    minimum: Any = tree.static(default=-np.inf)
    maximum: Any = tree.static(default=np.inf)

    in_evaluation = "kept"
    kind: ClassVar[str] = "an array of numbers"
    noop_kwargs: ClassVar = {"minimum": -np.inf, "maximum": np.inf}

    def check(self) -> None:
        check_numbers("ClipObservation", "minimum", self.minimum)
        check_numbers("ClipObservation", "maximum", self.maximum)
        low, high = np.asarray(self.minimum), np.asarray(self.maximum)
        if not np.all(low <= high):
            rule = "minimum must not exceed maximum"
            raise ValueError(f"ClipObservation: {rule}, got {self.minimum!r} and {self.maximum!r}")
        super().check()

    def applies(self, spec: specs.Array) -> bool:
        return spec.dtype.kind != "b"

    def fault(self, spec: specs.Array) -> str | None:
        try:
            low, high = self._limits(spec)
        except ValueError:
            return f"have a shape that minimum {self.minimum!r} and maximum {self.maximum!r} broadcast to"
        return None if np.all(low <= high) else f"have a value between {self.minimum!r} and {self.maximum!r}"

    def _limits(self, spec: specs.Array) -> tuple[np.ndarray, np.ndarray]:
        """Returns the limits, rounded inwards to values of the leaf's dtype."""
        low, high = (
            np.broadcast_to(np.asarray(limit, np.float64), spec.shape) for limit in (self.minimum, self.maximum)
        )
        if spec.is_continuous:
            return low, high
        least, greatest = np.iinfo(spec.dtype).min, np.iinfo(spec.dtype).max
        return np.maximum(np.ceil(low), least), np.minimum(np.floor(high), greatest)

    def map_leaf(self, x: jax.Array, spec: specs.Array) -> jax.Array:
        return clip(x, *(specs.aligned(limit.astype(spec.dtype), x.ndim) for limit in self._limits(spec)))

    def map_spec(self, spec: specs.Array) -> specs.Array:
        low, high = (limit.astype(spec.dtype) for limit in self._limits(spec))
        least, greatest = (np.clip(bound, low, high) for bound in specs.bounds(spec))
        return specs.Bounded(spec.shape, spec.dtype, least, greatest, spec.name)
