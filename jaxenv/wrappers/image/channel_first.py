"""Move the channels of images to the front."""

from typing import ClassVar

import jax

from jaxenv import specs
from jaxenv.core import LeafObservationWrapper


class ChannelFirst(LeafObservationWrapper):
    """Transposes images ``[H, W, C]`` to ``[C, H, W]``. Leaves of other ranks pass through.

    Other image wrappers expect ``[H, W, C]`` and go inside. Owns ``observation``; maps
    ``env_info["final_observation"]`` in the same way.

    Args:
        env: an environment with at least one leaf with three axes.
        fields: dotted paths of the leaves to transpose; all with three axes by default.

    >>> import jaxenv
    >>> env = jaxenv.spec("Breakout-MinAtar").make()
    >>> env.observation_spec().shape, ChannelFirst(env).observation_spec().shape
    ((10, 10, 4), (4, 10, 10))
    """

    in_evaluation = "kept"
    kind: ClassVar[str] = "an image with three axes"

    def applies(self, spec: specs.Array) -> bool:
        return spec.ndim == 3

    def map_leaf(self, x: jax.Array, spec: specs.Array) -> jax.Array:
        return x.transpose(0, 3, 1, 2)

    def map_spec(self, spec: specs.Array) -> specs.Array:
        return specs.rearranged(spec, lambda x: self.map_leaf(x, spec))
