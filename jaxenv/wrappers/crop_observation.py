"""Cut the same window out of every image."""

from typing import ClassVar

from jaxenv import tree
from jaxenv._bounds import rearranged
from jaxenv._wrapper_bases import LeafObservationWrapper


class CropObservation(LeafObservationWrapper):
    """Keeps rows ``y .. y + height - 1`` and columns ``x .. x + width - 1`` of images ``[H, W, C]``.

    As ALF's ``FrameCrop``. Leaves of other ranks stay. Owns ``observation``; ``env_info["final_observation"]`` is
    mapped alike.

    Args:
        env: an environment with at least one image: a leaf with three axes.
        x: the first column, from 0.
        y: the first row, from 0.
        width: how many columns, at least 1.
        height: how many rows, at least 1.
        fields: dotted paths of the images to crop; all by default.

    Raises:
        ValueError: for a negative corner or an empty window, or one that an image does not hold.
    """

    x: int = tree.static()
    y: int = tree.static()
    width: int = tree.static()
    height: int = tree.static()

    kind: ClassVar[str] = "an image with three axes"

    def check(self):
        for name, least in (("x", 0), ("y", 0), ("width", 1), ("height", 1)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise ValueError(f"CropObservation: {name} must be a whole number from {least}, got {value!r}")
        super().check()

    def applies(self, spec):
        return spec.ndim == 3

    def fault(self, spec):
        rows, columns = self.y + self.height, self.x + self.width
        return None if rows <= spec.shape[0] and columns <= spec.shape[1] else f"have {rows} rows and {columns} columns"

    def map_leaf(self, x, spec):
        return x[:, self.y : self.y + self.height, self.x : self.x + self.width]

    def map_spec(self, spec):
        return rearranged(spec, lambda x: self.map_leaf(x, spec))
