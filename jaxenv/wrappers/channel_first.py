"""Put the channels of images first."""

from typing import ClassVar

from jaxenv._bounds import rearranged
from jaxenv._wrapper_bases import LeafObservationWrapper


class ChannelFirst(LeafObservationWrapper):
    """Turns images ``[H, W, C]`` into ``[C, H, W]``; leaves of other ranks stay, as in ALF's ``ImageChannelFirst``.

    Other image wrappers take ``[H, W, C]`` and go inside. Owns ``observation``; ``env_info["final_observation"]`` is
    mapped alike.

    Args:
        env: an environment with at least one leaf with three axes.
        fields: dotted paths of the leaves to map; all with three axes by default.

    Raises:
        ValueError: if there is none, or one that was named has another rank.
    """

    kind: ClassVar[str] = "an image with three axes"

    def applies(self, spec):
        return spec.ndim == 3

    def map_leaf(self, x, spec):
        return x.transpose(0, 3, 1, 2)

    def map_spec(self, spec):
        return rearranged(spec, lambda x: self.map_leaf(x, spec))
