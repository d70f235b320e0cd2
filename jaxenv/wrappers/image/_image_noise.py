"""Noise in images of bytes, and the base of the wrappers that add it."""

import abc
from typing import ClassVar

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

    def init(self, timestep: TimeStep, stream: Stream) -> Tree:
        return ()

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
