"""Scale the bytes of images to floats."""

from typing import ClassVar

import numpy as np

from jaxenv import specs, tree
from jaxenv.wrappers.leaf_observation import LeafObservationWrapper, bounds, fit


class ScaleImage(LeafObservationWrapper):
    """Maps uint8 0 .. 255 affinely onto float32 ``minimum`` .. ``maximum``, as ALF's ``ImageScaleTransformer``.

    With ``fields=None`` every uint8 leaf is mapped, whatever its shape, which stays. Owns ``observation``;
    ``env_info["final_observation"]`` is mapped alike.

    Args:
        env: an environment with at least one uint8 leaf.
        minimum: what 0 becomes.
        maximum: what 255 becomes, above ``minimum``.
        fields: dotted paths of the leaves to map.

    Raises:
        ValueError: if ``minimum`` and ``maximum`` are not finite and in order, or a named leaf is not uint8.
    """

    minimum: float = tree.static(default=-1.0)
    maximum: float = tree.static(default=1.0)

    kind: ClassVar[str] = "a uint8 array"

    def check(self):
        if not (np.isfinite(self.minimum) and np.isfinite(self.maximum) and self.minimum < self.maximum):
            raise ValueError(
                f"ScaleImage: minimum must lie below maximum, both finite, got {self.minimum!r} and {self.maximum!r}"
            )
        super().check()

    def applies(self, spec):
        return spec.dtype == np.uint8

    def map_leaf(self, x, spec):
        return fit(self.map_spec(spec), self._scaled(x))

    def map_spec(self, spec):
        low, high = (np.clip(self._scaled(bound), self.minimum, self.maximum) for bound in bounds(spec))
        return specs.Bounded(spec.shape, np.float32, low, high, spec.name)

    def _scaled(self, x):
        step = np.float32((self.maximum - self.minimum) / 255)
        return x.astype(np.float32) * step + np.float32(self.minimum)
