"""Convert colour images to greyscale."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import LeafObservationWrapper

# ITU-R BT.709 luma, rounded: the weights of red, green and blue.
_WEIGHTS = (0.2125, 0.7154, 0.0721)


class GrayscaleObservation(LeafObservationWrapper):
    """Converts RGB images ``[H, W, 3]`` to greyscale: 0.2125 red + 0.7154 green + 0.0721 blue.

    Integers are rounded to the nearest. Leaves of other ranks pass through. Owns ``observation``; maps
    ``env_info["final_observation"]`` in the same way.

    Args:
        env: an environment with at least one image: a numeric leaf with three axes, the last of length 3.
        keep_dim: return ``[H, W, 1]``, which other image wrappers accept; ``False`` returns ``[H, W]``.
        fields: dotted paths of the images to convert; all by default.
    """

    keep_dim: bool = tree.static(default=False)

    in_evaluation = "kept"
    kind: ClassVar[str] = "a numeric image with three axes"

    def applies(self, spec: specs.Array) -> bool:
        return spec.ndim == 3 and spec.dtype.kind != "b"

    def fault(self, spec: specs.Array) -> str | None:
        return None if spec.shape[2] == 3 else "have 3 channels"

    def map_leaf(self, x: jax.Array, spec: specs.Array) -> jax.Array:
        return specs.fit(self.map_spec(spec), self._grey(x if spec.is_continuous else x.astype(jnp.float32)))

    def map_spec(self, spec: specs.Array) -> specs.Array:
        if not isinstance(spec, specs.Bounded):
            return spec.replace(shape=self._grey(np.broadcast_to(np.float32(0), spec.shape)).shape)
        low, high = (self._grey(bound.astype(np.float64)) for bound in (spec.minimum, spec.maximum))
        if spec.is_discrete:
            low, high = np.round(low), np.round(high)
        return specs.Bounded(low.shape, spec.dtype, low, high, spec.name)

    def _grey(self, x: Any) -> Any:
        red, green, blue = (x[..., i] * np.asarray(weight, x.dtype) for i, weight in enumerate(_WEIGHTS))
        grey = red + green + blue
        return grey[..., None] if self.keep_dim else grey
