"""Crop images to a fixed window."""

from typing import ClassVar

import jax

from jaxenv import specs, tree
from jaxenv.core import LeafObservationWrapper


class CropObservation(LeafObservationWrapper):
    """Crops images ``[H, W, C]`` to rows ``y .. y + height - 1`` and columns ``x .. x + width - 1``.

    Leaves of other ranks pass through. Owns ``observation``; maps ``env_info["final_observation"]`` in the same way.

    Args:
        env: an environment with at least one image: a leaf with three axes.
        x: the first column, at least 0.
        y: the first row, at least 0.
        width: number of columns, at least 1.
        height: number of rows, at least 1.
        fields: dotted paths of the images to crop; all by default.

    >>> import jaxenv
    >>> env = CropObservation(jaxenv.spec("Breakout-MinAtar").make(), x=0, y=5, width=10, height=5)
    >>> env.observation_spec().shape
    (5, 10, 4)
    """

    x: int = tree.static(low=0)
    y: int = tree.static(low=0)
    width: int = tree.static(low=1)
    height: int = tree.static(low=1)

    in_evaluation = "kept"
    kind: ClassVar[str] = "an image with three axes"

    def applies(self, spec: specs.Array) -> bool:
        return spec.ndim == 3

    def fault(self, spec: specs.Array) -> str | None:
        rows, columns = self.y + self.height, self.x + self.width
        return None if rows <= spec.shape[0] and columns <= spec.shape[1] else f"have {rows} rows and {columns} columns"

    def map_leaf(self, x: jax.Array, spec: specs.Array) -> jax.Array:
        return x[:, self.y : self.y + self.height, self.x : self.x + self.width]

    def map_spec(self, spec: specs.Array) -> specs.Array:
        return specs.rearranged(spec, lambda x: self.map_leaf(x, spec))
