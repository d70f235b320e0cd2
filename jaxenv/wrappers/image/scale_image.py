"""Scale the bytes of images to floats."""

from typing import Any, ClassVar

import jax
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import LeafObservationWrapper, check_order


class ScaleImage(LeafObservationWrapper):
    """Maps uint8 0 .. 255 affinely onto float32 ``minimum`` .. ``maximum``.

    With ``fields=None`` every uint8 leaf of any shape is mapped; shapes do not change. Owns ``observation``; maps
    ``env_info["final_observation"]`` in the same way.

    Args:
        env: an environment with at least one uint8 leaf.
        minimum: result for 0.
        maximum: result for 255, above ``minimum``.
        fields: dotted paths of the leaves to map.

    >>> from jaxenv import testing
    >>> env = ScaleImage(testing.random_environment(specs.Bounded((2,), np.uint8, 0, 51), specs.discrete(2)), 0, 5)
    >>> env.observation_spec()
    Bounded((2,), float32, 0.0, 1.0)
    """

    minimum: float = tree.static(default=-1.0, above=-np.inf, below=np.inf)
    maximum: float = tree.static(default=1.0, above=-np.inf, below=np.inf)

    in_evaluation = "kept"
    kind: ClassVar[str] = "a uint8 array"

    def check(self) -> None:
        check_order("ScaleImage", "minimum", self.minimum, "maximum", self.maximum, strict=True)
        super().check()

    def applies(self, spec: specs.Array) -> bool:
        return spec.dtype == np.uint8

    def map_leaf(self, x: jax.Array, spec: specs.Array) -> jax.Array:
        return scaled(x, spec, self.minimum, self.maximum)

    def map_spec(self, spec: specs.Array) -> specs.Array:
        return scaled_spec(spec, self.minimum, self.maximum)


def scaled(x: jax.Array, spec: specs.Array, minimum: float, maximum: float) -> jax.Array:
    """Scales bytes ``[B, ...]`` that fit ``spec`` to float32: 0 becomes ``minimum`` and 255 ``maximum``."""
    return specs.fit(scaled_spec(spec, minimum, maximum), _affine(x, minimum, maximum))


def scaled_spec(spec: specs.Array, minimum: float, maximum: float) -> specs.Bounded:
    """Returns the spec of one lane's bytes after `scaled`."""
    low, high = (np.clip(_affine(bound, minimum, maximum), minimum, maximum) for bound in specs.bounds(spec))
    return specs.Bounded(spec.shape, np.float32, low, high, spec.name)


def _affine(x: Any, minimum: float, maximum: float) -> Any:
    return x.astype(np.float32) * np.float32((maximum - minimum) / 255) + np.float32(minimum)
