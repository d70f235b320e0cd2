"""Replace random pixels of images by noise."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv._wrapper_bases import LaneWrapper, Leafwise
from jaxenv.random import Stream


class AddWhiteNoise(Leafwise, LaneWrapper):
    """Replaces each pixel of uint8 images ``[H, W, C]`` by noise with a given probability, on every row.

    Noise is uniform from 0 to 255, independently per pixel, channel, row and lane, and does not enter the task's state.
    A row costs one random word per pixel, and another word for every four bytes of noise: an image of 84 by 84 pixels
    with three channels costs 12,348 words per lane, or 8,820 with grey noise. Other leaves pass through. Owns
    ``observation``.

    Args:
        env: an environment with at least one uint8 image and without a ``same_step`` ``AutoReset``.
        probability: of replacing a pixel: one number, or one per lane.
        grayscale: the channels of a pixel show the same noise.
        fields: dotted paths of the images; all by default.

    Raises:
        ValueError: if ``probability`` is not in [0, 1].

    >>> import jax, jaxenv
    >>> inside = jaxenv.spec("BouncingSquares-v0").make()
    >>> image, noisy = (e.reset(jax.random.key(0))[1].observation for e in (inside, AddWhiteNoise(inside, 0.25)))
    >>> bool(0.2 < (image != noisy).any(axis=-1).mean() < 0.3)
    True
    """

    probability: Any = tree.leaf(low=0, high=1)
    grayscale: bool = tree.static(default=False)

    kind: ClassVar[str] = "a uint8 image with three axes"
    noop_kwargs: ClassVar[dict[str, Any]] = {"probability": 0.0}

    def applies(self, spec):
        return is_byte_image(spec)

    def map_spec(self, spec):
        return noisy_spec(spec)

    def init(self, timestep, stream):
        return ()

    def after(self, own, timestep, stream):
        def corrupt(x, stream):
            replaced = random.bernoulli(random.fold_in(stream, "pixels"), x.shape[1:3], self.probability)
            return jnp.where(replaced[..., None], white_noise(stream, x.shape[1:], self.grayscale), x)

        observation = map_images(corrupt, self._marks(), timestep.observation, stream)
        return own, tree.rebuild(timestep, observation=observation)


# --- noise in images -------------------------------------------------------------------------------------------------


def is_byte_image(spec: specs.Array) -> bool:
    """Whether a leaf is an image ``[H, W, C]`` of bytes."""
    return spec.ndim == 3 and spec.dtype == np.uint8


def noisy_spec(spec: specs.Array) -> specs.Bounded:
    """The spec of an image any pixel of which may be noise."""
    return specs.Bounded(spec.shape, np.uint8, 0, 255, spec.name)


def map_images(function: Any, marks: Any, observation: Any, stream: Stream) -> Any:
    """Maps the marked leaves by ``function(leaf, stream)``, with a stream for each leaf."""
    leaves, structure = tree.flatten(observation)
    marked = jax.tree.leaves(marks)
    return structure.unflatten(
        function(x, random.fold_in(stream, i)) if mark else x
        for i, (x, mark) in enumerate(zip(leaves, marked, strict=True))
    )


def white_noise(stream: Stream, shape: tuple[int, int, int], grayscale: bool) -> jax.Array:
    """Uniform bytes ``[B, H, W, C]``, four from each random word; equal channels if ``grayscale``."""
    height, width, channels = shape
    count = height * width * (1 if grayscale else channels)
    words = random.bits(random.fold_in(stream, "noise"), ((count + 3) // 4,))
    four = jnp.right_shift(words[..., None], np.arange(0, 32, 8, dtype=np.uint32)[None, None])
    noise = (four & np.uint32(255)).astype(jnp.uint8).reshape(words.shape[0], -1)[:, :count]
    return jnp.broadcast_to(noise.reshape(words.shape[0], height, width, -1), (words.shape[0], *shape))
