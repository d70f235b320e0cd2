"""Give observations another shape."""

import math
from typing import Any

from jaxenv import tree
from jaxenv._bounds import rearranged
from jaxenv._wrapper_bases import LeafObservationWrapper


class ReshapeObservation(LeafObservationWrapper):
    """Gives every leaf another shape with as many elements, in row-major order; bounds move along.

    As Gymnasium's wrapper. Owns ``observation``; ``env_info["final_observation"]`` is mapped alike.

    Args:
        env: an environment whose leaves (all of them, or those of ``fields``) have as many elements as ``shape``.
        shape: the new shape of one lane's leaf, without the lanes.
        fields: dotted paths of the leaves to map.

    Raises:
        ValueError: if ``shape`` is no tuple of whole numbers from 0, or a leaf has another number of elements.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.ReshapeObservation(jaxenv.spec("Pendulum-v1").make(), (3, 1))
    >>> env.observation_spec()
    Bounded((3, 1), float32, [[-1.0], [-1.0], [-8.0]], [[1.0], [1.0], [8.0]], name='observation')
    """

    shape: Any = tree.static()

    def check(self):
        if not (isinstance(self.shape, tuple) and all(type(n) is int and n >= 0 for n in self.shape)):
            raise ValueError(f"ReshapeObservation: shape must be a tuple of whole numbers from 0, got {self.shape!r}")
        super().check()

    def fault(self, spec):
        count = math.prod(self.shape)
        return None if spec.numel == count else f"have {count} elements to get shape {self.shape}"

    def map_leaf(self, x, spec):
        return x.reshape(x.shape[:1] + self.shape)

    def map_spec(self, spec):
        return rearranged(spec, lambda x: self.map_leaf(x, spec))
