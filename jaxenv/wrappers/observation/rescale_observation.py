"""Rescale bounded observations to other bounds."""

from typing import Any, ClassVar

import jax
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import LeafObservationWrapper, check_interval


class RescaleObservation(LeafObservationWrapper):
    """Maps observations elementwise and affinely from their bounds onto [minimum, maximum].

    The result is clipped, so that rounding errors cannot exceed the bounds. With ``fields=None`` every floating-point
    leaf is mapped; cast integers by `DtypeObservation` first. Owns ``observation``; maps
    ``env_info["final_observation"]`` in the same way.

    Args:
        env: an environment whose floating-point observations have finite bounds.
        minimum: new lower bound: a number, or a nested tuple that broadcasts to the leaf.
        maximum: new upper bound, above ``minimum`` everywhere.
        fields: dotted paths of the leaves to map.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.RescaleObservation(jaxenv.spec("Pendulum-v1").make(), 0, 1)
    >>> env.observation_spec()
    Bounded((3,), float32, 0.0, 1.0, name='observation')
    >>> env.observation(np.array([[-1.0, 0.0, 8.0]], np.float32)).tolist()
    [[0.0, 0.5, 1.0]]
    """

    minimum: Any = tree.static(default=-1.0)
    maximum: Any = tree.static(default=1.0)

    in_evaluation = "kept"
    kind: ClassVar[str] = "an array of floats"

    def check(self) -> None:
        check_interval("RescaleObservation", "minimum", self.minimum, "maximum", self.maximum)
        super().check()

    def applies(self, spec: Any) -> bool:
        return spec.is_continuous

    def fault(self, spec: Any) -> str | None:
        if not (spec.is_bounded and np.all(spec.minimum < spec.maximum)):
            return "have finite bounds, the lower below the upper"
        try:
            np.broadcast_to(self.minimum, spec.shape), np.broadcast_to(self.maximum, spec.shape)
        except ValueError:
            return f"have a shape that minimum {self.minimum!r} and maximum {self.maximum!r} broadcast to"
        return None

    def map_leaf(self, x: jax.Array, spec: Any) -> jax.Array:
        low, high = spec.minimum.astype(np.float64), spec.maximum.astype(np.float64)
        scale = (np.asarray(self.maximum) - np.asarray(self.minimum)) / (high - low)
        scale, low, minimum = (
            specs.aligned(np.broadcast_to(c, spec.shape).astype(spec.dtype), x.ndim) for c in (scale, low, self.minimum)
        )
        # Subtracting the bound first avoids cancellation between large products.
        return specs.fit(self.map_spec(spec), (x - low) * scale + minimum)

    def map_spec(self, spec: Any) -> specs.Array:
        return spec.replace(minimum=self.minimum, maximum=self.maximum)
