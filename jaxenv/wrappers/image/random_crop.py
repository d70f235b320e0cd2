"""Crop images to a window that moves between episodes."""

import itertools
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.core import LaneWrapper, Leafwise, TimeStep
from jaxenv.random import Stream
from jaxenv.tree import Tree


class RandomCrop(Leafwise, LaneWrapper):
    """Crops images ``[H, W, C]`` to a window at a position that each lane draws at the start of an episode.

    All positions are equally likely. Leaves of other ranks pass through. Starting an episode costs one block of random
    numbers per lane, and one more for each further image unless ``shared``. Owns ``observation``.

    Args:
        env: an environment with at least one image, a leaf with three axes, and without a ``same_step`` ``AutoReset``.
        width: number of columns, at least 1.
        height: number of rows, at least 1.
        shared: use the same position for all images, as a fraction of the possible range where sizes differ.
        fields: dotted paths of the images to crop; all by default.

    >>> import jaxenv
    >>> env = RandomCrop(jaxenv.spec("Breakout-MinAtar").make(), width=8, height=8)
    >>> env.observation_spec().shape
    (8, 8, 4)
    """

    width: int = tree.static(low=1)
    height: int = tree.static(low=1)
    shared: bool = tree.static(default=True)

    in_evaluation = "kept"
    kind: ClassVar[str] = "an image with three axes"

    def applies(self, spec: specs.Array) -> bool:
        return spec.ndim == 3

    def fault(self, spec: specs.Array) -> str | None:
        if self.height <= spec.shape[0] and self.width <= spec.shape[1]:
            return None
        return f"have {self.height} rows and {self.width} columns"

    def init(self, timestep: TimeStep, stream: Stream) -> Tree:
        marks = jax.tree.leaves(self._marks())
        draws = 1 if self.shared else sum(marks)
        # Two words per position, uint32 [B], as fractions of the possible range.
        return tuple(random.separate_bits(random.fold_in(stream, i) if i else stream, 2) for i in range(draws))

    def after(self, own: Tree, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        words = itertools.repeat(own[0]) if self.shared else iter(own)
        observation = specs.map_marked(self._marks(), lambda x: self._crop(x, next(words)), timestep.observation)
        return own, tree.rebuild(timestep, observation=observation)

    def _crop(self, x: jax.Array, words: tuple[jax.Array, ...]) -> jax.Array:
        places = (x.shape[1] - self.height + 1, x.shape[2] - self.width + 1)
        first = [
            random.high_product(word, jnp.uint32(n)).astype(jnp.int32) for word, n in zip(words, places, strict=True)
        ]
        # One slice per lane is twice as fast as one index per pixel.
        slices = jax.lax.GatherDimensionNumbers(
            offset_dims=(1, 2, 3),
            collapsed_slice_dims=(),
            start_index_map=(1, 2),
            operand_batching_dims=(0,),
            start_indices_batching_dims=(0,),
        )
        return jax.lax.gather(
            x, jnp.stack(first, axis=-1), slices, (1, self.height, self.width, x.shape[3]), mode="clip"
        )

    def map_spec(self, spec: specs.Array) -> specs.Array:
        shape = (self.height, self.width, spec.shape[2])
        if not isinstance(spec, specs.Bounded):
            return spec.replace(shape=shape)
        # The bounds of a pixel cover all pixels that it may show, over all positions of the window.
        low, high = spec.minimum, spec.maximum
        for axis in (0, 1):  # one axis at a time: all positions at once are thousands per pixel
            places = spec.shape[axis] - shape[axis] + 1
            low = np.lib.stride_tricks.sliding_window_view(low, places, axis=axis).min(-1)
            high = np.lib.stride_tricks.sliding_window_view(high, places, axis=axis).max(-1)
        return spec.replace(shape=shape, minimum=low, maximum=high)
