"""Cut a window out of images, elsewhere in every episode."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv._wrapper_bases import LaneWrapper, Leafwise


@tree.struct
class Corner:
    """Where the window stands: two random words, uint32 ``[B]``, as fractions of the way down and to the right."""

    down: jax.Array
    right: jax.Array


class RandomCrop(Leafwise, LaneWrapper):
    """Cuts a window out of images ``[H, W, C]``, at a place that each lane draws at the start of an episode.

    Every place that holds the window is equally likely, the last one included (which ALF's
    ``EpisodicRandomFrameCrop`` never draws). Leaves of other ranks stay. Owns ``observation``; costs one block of
    random numbers a lane and episode, and one more for each further image that is not ``shared``.

    Args:
        env: an environment with at least one image: a leaf with three axes.
        width: how many columns to keep, at least 1.
        height: how many rows to keep, at least 1.
        shared: all images have their window in the same place (the same fraction of the way, where sizes differ).
        fields: dotted paths of the images to crop; all by default.

    Raises:
        ValueError: for an empty window or one that an image does not hold, or outside a ``same_step`` ``AutoReset``.
    """

    width: int = tree.static()
    height: int = tree.static()
    shared: bool = tree.static(default=True)

    kind: ClassVar[str] = "an image with three axes"

    def check(self):
        for name in ("width", "height"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ValueError(f"RandomCrop: {name} must be a whole number from 1, got {value!r}")
        super().check()

    def applies(self, spec):
        return spec.ndim == 3

    def fault(self, spec):
        if self.height <= spec.shape[0] and self.width <= spec.shape[1]:
            return None
        return f"have {self.height} rows and {self.width} columns"

    def init(self, timestep, stream):
        marks = jax.tree.leaves(self._marks())
        draws = 1 if self.shared else sum(marks)
        return tuple(Corner(*random.separate_bits(random.fold_in(stream, i) if i else stream, 2)) for i in range(draws))

    def after(self, own, timestep, stream):
        left = iter(own)
        shared = own[0]

        def crop(mark, x):
            return self._crop(x, shared if self.shared else next(left)) if mark else x

        observation = jax.tree.map(crop, self._marks(), timestep.observation)
        return own, tree.rebuild(timestep, observation=observation)

    def _crop(self, x, corner: Corner):
        words, places = (corner.down, corner.right), (x.shape[1] - self.height + 1, x.shape[2] - self.width + 1)
        first = [
            random.high_product(word, jnp.uint32(n)).astype(jnp.int32) for word, n in zip(words, places, strict=True)
        ]
        # One slice a lane: twice as fast as an index for every pixel.
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

    def map_spec(self, spec):
        shape = (self.height, self.width, spec.shape[2])
        if not isinstance(spec, specs.Bounded):
            return spec.replace(shape=shape)
        # What a place in the window may show: everything that lies under it, wherever the window stands.
        low, high = spec.minimum, spec.maximum
        for axis in (0, 1):  # one after the other: all places at once are thousands for each pixel
            places = spec.shape[axis] - shape[axis] + 1
            low = np.lib.stride_tricks.sliding_window_view(low, places, axis=axis).min(-1)
            high = np.lib.stride_tricks.sliding_window_view(high, places, axis=axis).max(-1)
        return spec.replace(shape=shape, minimum=low, maximum=high)
