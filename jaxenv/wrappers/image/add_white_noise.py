"""Replace random pixels of images by noise, and the base of wrappers that do."""

import abc
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.core import LaneWrapper, Leafwise, TimeStep
from jaxenv.random import Stream
from jaxenv.tree import Tree


class ImageNoise(Leafwise, LaneWrapper):
    """Shows noise in place of some pixels of uint8 images ``[H, W, C]``, on every row.

    Subclasses implement ``with_noise``.
    """

    kind: ClassVar[str] = "a uint8 image with three axes"

    @abc.abstractmethod
    def with_noise(self, image: jax.Array, stream: Stream) -> jax.Array:
        """Puts noise in some pixels of every lane's image, uint8 ``[B, H, W, C]``."""

    def applies(self, spec: specs.Array) -> bool:
        return spec.ndim == 3 and spec.dtype == np.uint8

    def map_spec(self, spec: specs.Array) -> specs.Array:
        return specs.Bounded(spec.shape, np.uint8, 0, 255, spec.name)

    def after(self, own: Tree, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        leaves, structure = tree.flatten(timestep.observation)
        marks = jax.tree.leaves(self._marks())
        noisy = [
            self.with_noise(x, random.fold_in(stream, i)) if mark else x
            for i, (x, mark) in enumerate(zip(leaves, marks, strict=True))
        ]
        return own, tree.rebuild(timestep, observation=structure.unflatten(noisy))


def show_noise(image: jax.Array, replaced: jax.Array, stream: Stream, grayscale: bool) -> jax.Array:
    """Replaces the pixels ``replaced``, bool ``[B, H, W]``, by uniform bytes; equal channels if ``grayscale``."""
    lanes, height, width, channels = image.shape
    count = height * width * (1 if grayscale else channels)
    # Four bytes from each random word.
    words = random.bits(random.fold_in(stream, "noise"), ((count + 3) // 4,))
    four = jnp.right_shift(words[..., None], np.arange(0, 32, 8, dtype=np.uint32)[None, None])
    noise = (four & np.uint32(255)).astype(jnp.uint8).reshape(lanes, -1)[:, :count]
    return jnp.where(replaced[..., None], noise.reshape(lanes, height, width, -1), image)


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
