"""Wrappers that move, cut or resize pixels."""

import itertools
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.core import LaneWrapper, LeafObservationWrapper, Leafwise, TimeStep
from jaxenv.random import Stream
from jaxenv.tree import Tree


class Images(Leafwise):
    """Maps the leaves with three axes. Leaves of other ranks pass through."""

    kind: ClassVar[str] = "an image with three axes"

    def applies(self, spec: specs.Array) -> bool:
        return spec.ndim == 3


class ChannelFirst(Images, LeafObservationWrapper):
    """Transposes images ``[H, W, C]`` to ``[C, H, W]``. Leaves of other ranks pass through.

    Other image wrappers expect ``[H, W, C]`` and go inside. Owns ``observation``.

    Args:
        env: an environment with at least one leaf with three axes.
        fields: dotted paths of the leaves to transpose; all with three axes by default.

    >>> import jaxenv
    >>> env = jaxenv.spec("Breakout-MinAtar").make()
    >>> env.observation_spec().shape, ChannelFirst(env).observation_spec().shape
    ((10, 10, 4), (4, 10, 10))
    """

    in_evaluation = "kept"

    def map_leaf(self, x: jax.Array, spec: specs.Array) -> jax.Array:
        return x.transpose(0, 3, 1, 2)

    def map_spec(self, spec: specs.Array) -> specs.Array:
        return specs.rearranged(spec, lambda x: self.map_leaf(x, spec))


class CropObservation(Images, LeafObservationWrapper):
    """Crops images ``[H, W, C]`` to rows ``y .. y + height - 1`` and columns ``x .. x + width - 1``.

    Leaves of other ranks pass through. Owns ``observation``.

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

    def fault(self, spec: specs.Array) -> str | None:
        rows, columns = self.y + self.height, self.x + self.width
        return None if rows <= spec.shape[0] and columns <= spec.shape[1] else f"have {rows} rows and {columns} columns"

    def map_leaf(self, x: jax.Array, spec: specs.Array) -> jax.Array:
        return x[:, self.y : self.y + self.height, self.x : self.x + self.width]

    def map_spec(self, spec: specs.Array) -> specs.Array:
        return specs.rearranged(spec, lambda x: self.map_leaf(x, spec))


class FlipObservation(Images, LaneWrapper):
    """Mirrors images ``[H, W, C]`` vertically, horizontally or both, drawn per lane at the start of each episode.

    All images of a lane are mirrored in the same way. A probability of 1 always mirrors. Leaves of other ranks pass
    through. A start costs one block of random numbers per lane. Owns ``observation``.

    Args:
        env: an environment with at least one image, a leaf with three axes, and without a ``same_step`` ``AutoReset``.
        vertical: probability of exchanging top and bottom: one number, or one per lane.
        horizontal: probability of exchanging left and right.
        fields: dotted paths of the images to mirror; all by default.

    >>> import jax, jaxenv
    >>> inside = jaxenv.spec("Breakout-MinAtar").make()
    >>> env = FlipObservation(inside, vertical=0.0, horizontal=1.0)
    >>> image, mirrored = (e.reset(jax.random.key(0))[1].observation for e in (inside, env))
    >>> bool((mirrored == image[:, :, ::-1]).all())
    True
    """

    vertical: float = tree.leaf(default=0.5, low=0, high=1)
    horizontal: float = tree.leaf(default=0.5, low=0, high=1)

    in_evaluation = "kept"
    noop_kwargs: ClassVar = {"vertical": 0.0, "horizontal": 0.0}

    def init(self, timestep: TimeStep, stream: Stream) -> Tree:
        up, left = (random.unit(word) for word in random.separate_bits(stream, 2))
        return up < self.vertical, left < self.horizontal  # bool [B] both

    def after(self, own: Tree, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        def flip(x: jax.Array) -> jax.Array:
            x = jnp.where(tree.expand(own[0], x.ndim), x[:, ::-1], x)
            return jnp.where(tree.expand(own[1], x.ndim), x[:, :, ::-1], x)

        return own, tree.rebuild(timestep, observation=specs.map_marked(self._marks(), flip, timestep.observation))

    def map_spec(self, spec: specs.Array) -> specs.Array:
        if not isinstance(spec, specs.Bounded):
            return spec
        low, high = spec.minimum, spec.maximum
        for axis in (0, 1):  # both orientations are possible; the spec does not depend on probabilities
            low, high = np.minimum(low, np.flip(low, axis)), np.maximum(high, np.flip(high, axis))
        return spec.replace(minimum=low, maximum=high)


class RandomCrop(Images, LaneWrapper):
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

    def fault(self, spec: specs.Array) -> str | None:
        if self.height <= spec.shape[0] and self.width <= spec.shape[1]:
            return None
        return f"have {self.height} rows and {self.width} columns"

    def init(self, timestep: TimeStep, stream: Stream) -> Tree:
        draws = 1 if self.shared else sum(jax.tree.leaves(self._marks()))
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


class ResizeObservation(LeafObservationWrapper):
    """Resizes images ``[H, W, C]`` by linear interpolation, with antialiasing when they shrink.

    Pixels equal ``jax.image.resize``; integers are rounded to the nearest. Leaves of other ranks pass through. Owns
    ``observation``.

    Args:
        env: an environment with at least one image: a numeric leaf with three axes.
        shape: new height and width.
        fields: dotted paths of the images to resize; all by default.

    >>> import jaxenv
    >>> inside = jaxenv.wrappers.DtypeObservation(jaxenv.spec("Breakout-MinAtar").make(), "float32")
    >>> ResizeObservation(inside, (20, 20)).observation_spec().shape
    (20, 20, 4)
    """

    shape: Any = tree.static()

    in_evaluation = "kept"
    kind: ClassVar[str] = "a numeric image with three axes"

    def check(self) -> None:
        whole = isinstance(self.shape, tuple) and len(self.shape) == 2 and all(type(n) is int for n in self.shape)
        if not whole or min(self.shape) < 1:
            raise ValueError(f"ResizeObservation: shape must be two positive integers, got {self.shape!r}")
        super().check()

    def applies(self, spec: specs.Array) -> bool:
        return spec.ndim == 3 and spec.dtype.kind != "b"

    def map_leaf(self, x: jax.Array, spec: specs.Array) -> jax.Array:
        if self.shape == spec.shape[:2]:
            return x
        numbers = x if spec.is_continuous else x.astype(jnp.float32)
        # jax.image.resize, but always in float32.
        scale = np.array(self.shape, np.float32) / np.array(spec.shape[:2], np.float32)
        shape, offset = (x.shape[0], *self.shape, x.shape[3]), np.zeros(2, np.float32)
        resized = jax.image.scale_and_translate(numbers, shape, (1, 2), scale, offset, "linear", antialias=True)
        return specs.fit(self.map_spec(spec), resized)

    def map_spec(self, spec: specs.Array) -> specs.Array:
        shape = (*self.shape, spec.shape[2])
        if not isinstance(spec, specs.Bounded) or self.shape == spec.shape[:2]:
            return spec.replace(shape=shape)
        # A weighted mean of pixels is within the extreme bounds of their channel.
        return spec.replace(shape=shape, minimum=spec.minimum.min((0, 1)), maximum=spec.maximum.max((0, 1)))
