"""Standardise observations by constants."""

from typing import Any, ClassVar

import jax
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import LeafObservationWrapper, check_numbers


class StandardizeObservation(LeafObservationWrapper):
    """Shows ``clip((x - mean) / std, -limit, limit)`` for constants that were measured beforehand.

    `NormalizeObservation` measures its statistics while lanes run. With ``fields=None`` every floating-point leaf is
    mapped. Owns ``observation``; maps ``env_info["final_observation"]`` in the same way.

    Args:
        env: an environment with floating-point observations.
        mean: a number, or a nested tuple or an array that broadcasts to the leaf.
        std: a number, nested tuple or array above 0.
        limit: limit on the magnitude of the result; may be infinite.
        fields: dotted paths of the leaves to map.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.StandardizeObservation(jaxenv.spec("Pendulum-v1").make(), (0, 0, 1), (1, 0.5, 2))
    >>> env.observation_spec()
    Bounded((3,), float32, [-1.0, -2.0, -3.0], [1.0, 2.0, 3.0], name='observation')
    >>> env.observation(np.array([[-1.0, 0.25, 2.0]], np.float32)).tolist()
    [[-1.0, 0.5, 0.5]]
    """

    mean: Any = tree.static(default=0.0)
    std: Any = tree.static(default=1.0)
    limit: float = tree.static(default=3.0, above=0)

    in_evaluation = "kept"
    kind: ClassVar[str] = "an array of floats"
    noop_kwargs: ClassVar = {"mean": 0.0, "std": 1.0, "limit": np.inf}

    def check(self) -> None:
        check_numbers("StandardizeObservation", "mean", self.mean)
        check_numbers("StandardizeObservation", "std", self.std)
        if not np.all(np.isfinite(self.mean)):
            raise ValueError(f"StandardizeObservation: mean must be finite, got {self.mean!r}")
        if not (np.all(np.isfinite(self.std)) and np.all(np.asarray(self.std) > 0)):
            raise ValueError(f"StandardizeObservation: std must be finite and above 0, got {self.std!r}")
        super().check()

    def applies(self, spec: Any) -> bool:
        return spec.is_continuous

    def fault(self, spec: Any) -> str | None:
        try:
            self._constants(spec)
        except ValueError:
            return f"have a shape that mean {self.mean!r} and std {self.std!r} broadcast to"
        return None

    def _constants(self, spec: Any) -> tuple[np.ndarray, ...]:
        return tuple(np.broadcast_to(np.asarray(c, spec.dtype), spec.shape) for c in (self.mean, self.std))

    def map_leaf(self, x: jax.Array, spec: Any) -> jax.Array:
        mean, std = (specs.aligned(c, x.ndim) for c in self._constants(spec))
        return specs.fit(self.map_spec(spec), (x - mean) / std)

    def map_spec(self, spec: Any) -> specs.Array:
        mean, std = self._constants(spec)
        with np.errstate(over="ignore"):  # overflow is clipped
            low, high = (np.clip((bound - mean) / std, -self.limit, self.limit) for bound in specs.bounds(spec))
        return specs.Bounded(spec.shape, spec.dtype, low, high, spec.name)
