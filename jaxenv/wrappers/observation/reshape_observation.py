"""Reshape observations."""

import math
from typing import Any

import jax

from jaxenv import specs, tree
from jaxenv.core import LeafObservationWrapper


class ReshapeObservation(LeafObservationWrapper):
    """Reshapes leaves of the observation in row-major order. Bounds move with their elements.

    Owns ``observation``; maps ``env_info["final_observation"]`` in the same way.

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
