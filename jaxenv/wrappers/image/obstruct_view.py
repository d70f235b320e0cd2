"""Cover random patches of images by noise."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv.random import Stream
from jaxenv.wrappers.image.add_white_noise import ImageNoise, show_noise


class ObstructView(ImageNoise):
    """Covers uint8 images ``[H, W, C]`` by square patches of noise at random places, on every row.

    There are ``int(ratio * H * W / width**2)`` patches, so that they would cover the fraction ``ratio`` of the pixels
    if they did not overlap and did not cross the border. Their centres are uniform over the pixels, with noise as in
    `AddWhiteNoise`; both are redrawn on every row and do not enter the task's state. A row costs one random word per
    patch and one for every four bytes of noise, a quarter of a word per pixel and channel. Other leaves pass through.
    Owns ``observation``.

    Args:
        env: an environment with at least one uint8 image and without a ``same_step`` ``AutoReset``.
        ratio: the total area of the patches relative to the image.
        width: the side of a patch in pixels, at least 1.
        grayscale: the channels of a pixel show the same noise.
        fields: dotted paths of the images; all by default.

    >>> import jax, jaxenv
    >>> inside = jaxenv.spec("BouncingSquares-v0").make()
    >>> image, covered = (e.reset(jax.random.key(0))[1].observation for e in (inside, ObstructView(inside, 0.25, 8)))
    >>> bool(0.1 < (image != covered).any(axis=-1).mean() < 0.25)
    True
    """

    ratio: float = tree.static(low=0, high=1)
    width: int = tree.static(low=1)
    grayscale: bool = tree.static(default=False)

    in_evaluation = "kept"
    noop_kwargs: ClassVar[dict[str, Any]] = {"ratio": 0.0}

    def with_noise(self, image: jax.Array, stream: Stream) -> jax.Array:
        height, width = image.shape[1:3]
        count = int(self.ratio * height * width / self.width**2)
        if not count:
            return image
        replaced = self._covered(random.fold_in(stream, "patches"), count, height, width)
        return show_noise(image, replaced, stream, self.grayscale)

    def _covered(self, stream: Stream, count: int, height: int, width: int) -> jax.Array:
        """Marks the pixels under ``count`` patches, bool ``[B, H, W]``."""
        centre = random.integers(stream, (count,), 0, height * width)
        rows = self._spans(centre // np.int32(width), height)
        columns = self._spans(centre % np.int32(width), width)
        # The number of patches over each pixel, as a product of matrices [H, count] and [count, W] per lane.
        return jnp.einsum("bph,bpw->bhw", rows, columns) > 0

    def _spans(self, centre: jax.Array, size: int) -> jax.Array:
        """Marks the rows or columns of each patch by 0 and 1, float32 ``[B, count, size]``."""
        first = centre[..., None] - np.int32(self.width // 2)
        at = jnp.arange(size, dtype=jnp.int32)[None, None]
        return ((at >= first) & (at < first + np.int32(self.width))).astype(jnp.float32)
