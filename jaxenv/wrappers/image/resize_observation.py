"""Resize images."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import LeafObservationWrapper


class ResizeObservation(LeafObservationWrapper):
    """Resizes images ``[H, W, C]`` by linear interpolation, with antialiasing when they shrink.

    Pixels equal ``jax.image.resize``; integers are rounded to the nearest. Leaves of other ranks pass through. Owns
    ``observation``; maps ``env_info["final_observation"]`` in the same way.

    Args:
        env: an environment with at least one image: a numeric leaf with three axes.
        shape: new height and width.
        fields: dotted paths of the images to resize; all by default.

    >>> import jaxenv
    >>> inside = jaxenv.wrappers.DtypeObservation(jaxenv.spec("Breakout-MinAtar").make(), "float32")
    >>> ResizeObservation(inside, (20, 20)).observation_spec().shape
    (20, 20, 4)
    """

    shape: Any = tree.static()

    in_evaluation = "kept"
    kind: ClassVar[str] = "a numeric image with three axes"

    def check(self) -> None:
        whole = isinstance(self.shape, tuple) and len(self.shape) == 2 and all(type(n) is int for n in self.shape)
        if not whole or min(self.shape) < 1:
            raise ValueError(f"ResizeObservation: shape must be two positive integers, got {self.shape!r}")
        super().check()

    def applies(self, spec: specs.Array) -> bool:
        return spec.ndim == 3 and spec.dtype.kind != "b"

    def map_leaf(self, x: jax.Array, spec: specs.Array) -> jax.Array:
        if self.shape == spec.shape[:2]:
            return x
        numbers = x if spec.is_continuous else x.astype(jnp.float32)
        # jax.image.resize, but always in float32.
        scale = np.array(self.shape, np.float32) / np.array(spec.shape[:2], np.float32)
        shape, offset = (x.shape[0], *self.shape, x.shape[3]), np.zeros(2, np.float32)
        resized = jax.image.scale_and_translate(numbers, shape, (1, 2), scale, offset, "linear", antialias=True)
        return specs.fit(self.map_spec(spec), resized)

    def map_spec(self, spec: specs.Array) -> specs.Array:
        shape = (*self.shape, spec.shape[2])
        if not isinstance(spec, specs.Bounded) or self.shape == spec.shape[:2]:
            return spec.replace(shape=shape)
        # A weighted mean of pixels is within the extreme bounds of their channel.
        return spec.replace(shape=shape, minimum=spec.minimum.min((0, 1)), maximum=spec.maximum.max((0, 1)))
