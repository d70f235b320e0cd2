"""Replace random pixels of images by noise."""

from typing import Any, ClassVar

import jax

from jaxenv import random, tree
from jaxenv.random import Stream
from jaxenv.wrappers.image._image_noise import ImageNoise, show_noise


class AddWhiteNoise(ImageNoise):
    """Replaces each pixel of uint8 images ``[H, W, C]`` by noise with a given probability, on every row.

    Noise is uniform from 0 to 255, independently per pixel, channel, row and lane, and does not enter the task's state.
    A row costs one random word per pixel, and another word for every four bytes of noise: an image of 84 by 84 pixels
    with three channels costs 12,348 words per lane, or 8,820 with grey noise. Other leaves pass through. Owns
    ``observation``.

    Args:
        env: an environment with at least one uint8 image and without a ``same_step`` ``AutoReset``.
        probability: probability of replacing a pixel: one number, or one per lane.
        grayscale: the channels of a pixel show the same noise.
        fields: dotted paths of the images; all by default.

    >>> import jax, jaxenv
    >>> inside = jaxenv.spec("BouncingSquares-v0").make()
    >>> image, noisy = (e.reset(jax.random.key(0))[1].observation for e in (inside, AddWhiteNoise(inside, 0.25)))
    >>> bool(0.2 < (image != noisy).any(axis=-1).mean() < 0.3)
    True
    """

    probability: Any = tree.leaf(low=0, high=1)
    grayscale: bool = tree.static(default=False)

    in_evaluation = "kept"
    noop_kwargs: ClassVar[dict[str, Any]] = {"probability": 0.0}

    def with_noise(self, image: jax.Array, stream: Stream) -> jax.Array:
        replaced = random.bernoulli(random.fold_in(stream, "pixels"), image.shape[1:3], self.probability)
        return show_noise(image, replaced, stream, self.grayscale)
