"""Wrappers that change the values of pixels, or show pixels instead of the observation."""

import abc
import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import check_size
from jaxenv.core import Facts, LaneWrapper, LeafObservationWrapper, Leafwise, Starts, TimeStep, Wrapper, check_order
from jaxenv.random import Stream
from jaxenv.tree import Tree

# ITU-R BT.709 luma, rounded: the weights of red, green and blue.
_WEIGHTS = (0.2125, 0.7154, 0.0721)


class GrayscaleObservation(LeafObservationWrapper):
    """Converts RGB images ``[H, W, 3]`` to greyscale: 0.2125 red + 0.7154 green + 0.0721 blue.

    Integers are rounded to the nearest. Leaves of other ranks pass through. Owns ``observation``.

    Args:
        env: an environment with at least one image: a numeric leaf with three axes, the last of length 3.
        keep_dim: return ``[H, W, 1]``, which other image wrappers accept; ``False`` returns ``[H, W]``.
        fields: dotted paths of the images to convert; all by default.
    """

    keep_dim: bool = tree.static(default=False)

    in_evaluation = "kept"
    kind: ClassVar[str] = "a numeric image with three axes"

    def applies(self, spec: specs.Array) -> bool:
        return spec.ndim == 3 and spec.dtype.kind != "b"

    def fault(self, spec: specs.Array) -> str | None:
        return None if spec.shape[2] == 3 else "have 3 channels"

    def map_leaf(self, x: jax.Array, spec: specs.Array) -> jax.Array:
        return specs.fit(self.map_spec(spec), self._grey(x if spec.is_continuous else x.astype(jnp.float32)))

    def map_spec(self, spec: specs.Array) -> specs.Array:
        if not isinstance(spec, specs.Bounded):
            return spec.replace(shape=self._grey(np.broadcast_to(np.float32(0), spec.shape)).shape)
        low, high = (self._grey(bound.astype(np.float64)) for bound in (spec.minimum, spec.maximum))
        if spec.is_discrete:
            low, high = np.round(low), np.round(high)
        return specs.Bounded(low.shape, spec.dtype, low, high, spec.name)

    def _grey(self, x: Any) -> Any:
        red, green, blue = (x[..., i] * np.asarray(weight, x.dtype) for i, weight in enumerate(_WEIGHTS))
        grey = red + green + blue
        return grey[..., None] if self.keep_dim else grey


class ScaleImage(LeafObservationWrapper):
    """Maps uint8 0 .. 255 affinely onto float32 ``minimum`` .. ``maximum``.

    With ``fields=None`` every uint8 leaf of any shape is mapped; shapes do not change. Owns ``observation``.

    Args:
        env: an environment with at least one uint8 leaf.
        minimum: result for 0.
        maximum: result for 255, above ``minimum``.
        fields: dotted paths of the leaves to map.

    >>> from jaxenv import testing
    >>> env = ScaleImage(testing.random_environment(specs.Bounded((2,), np.uint8, 0, 51), specs.discrete(2)), 0, 5)
    >>> env.observation_spec()
    Bounded((2,), float32, 0.0, 1.0)
    """

    minimum: float = tree.static(default=-1.0, above=-np.inf, below=np.inf)
    maximum: float = tree.static(default=1.0, above=-np.inf, below=np.inf)

    in_evaluation = "kept"
    kind: ClassVar[str] = "a uint8 array"

    def check(self) -> None:
        check_order("ScaleImage", "minimum", self.minimum, "maximum", self.maximum, strict=True)
        super().check()

    def applies(self, spec: specs.Array) -> bool:
        return spec.dtype == np.uint8

    def map_leaf(self, x: jax.Array, spec: specs.Array) -> jax.Array:
        return scaled(x, spec, self.minimum, self.maximum)

    def map_spec(self, spec: specs.Array) -> specs.Array:
        return scaled_spec(spec, self.minimum, self.maximum)


def scaled(x: jax.Array, spec: specs.Array, minimum: float, maximum: float) -> jax.Array:
    """Scales bytes ``[B, ...]`` that fit ``spec`` to float32: 0 becomes ``minimum`` and 255 ``maximum``."""
    return specs.fit(scaled_spec(spec, minimum, maximum), _affine(x, minimum, maximum))


def scaled_spec(spec: specs.Array, minimum: float, maximum: float) -> specs.Bounded:
    """Returns the spec of one lane's bytes after `scaled`."""
    low, high = (np.clip(_affine(bound, minimum, maximum), minimum, maximum) for bound in specs.bounds(spec))
    return specs.Bounded(spec.shape, np.float32, low, high, spec.name)


def _affine(x: Any, minimum: float, maximum: float) -> Any:
    return x.astype(np.float32) * np.float32((maximum - minimum) / 255) + np.float32(minimum)


class PixelObservation(Wrapper):
    """Observes the picture that ``env.render`` draws, uint8 ``[H, W, 3]``, in place of the observation.

    The picture is drawn inside ``jit``, for all lanes at once. Owns ``observation``.

    Args:
        env: an environment that has a picture, without a ``same_step`` ``AutoReset``.
        size: height and width in pixels, or one number for both.

    >>> import jax, jaxenv
    >>> env = jaxenv.make("CartPole-v1", num_envs=4, wrappers=[("PixelObservation", {"size": 64})])
    >>> env.reset(jax.random.key(0))[1].observation.shape
    (4, 64, 64, 3)
    """

    size: Any = tree.static(default=(84, 84))

    owns: ClassVar[frozenset[str]] = frozenset({"observation"})
    in_evaluation = "kept"

    def convert(self) -> dict[str, Any]:
        return {"size": check_size("PixelObservation", self.size)}

    def check(self) -> None:
        if self.autoreset == "same_step":
            fault = "a LAST row of a same_step AutoReset shows two episodes, the state only the new one"
            raise ValueError(f"PixelObservation: {fault}: put it inside AutoReset")

    def facts_of(self, inner: Facts) -> Facts:
        return dataclasses.replace(inner, observes_state=True, agents_lead=False)

    def observation_of(self, state: Tree) -> Tree:
        return self.env.picture_of(self.inner(state), self.size)

    def observation_spec(self) -> Tree:
        return specs.Bounded((*self.size, 3), np.uint8, 0, 255, "pixels")

    def begin(self, starts: Starts, previous: Tree = None) -> tuple[Tree, TimeStep]:
        state, timestep = super().begin(starts, previous)
        return state, tree.rebuild(timestep, observation=self.observation_of(state))

    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        state, timestep = self.env.proceed(state, action)
        return state, tree.rebuild(timestep, observation=self.observation_of(state))


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
        leaves, structure = jax.tree.flatten(timestep.observation)
        noisy = [
            self.with_noise(x, random.fold_in(stream, i)) if mark else x
            for i, (x, mark) in enumerate(zip(leaves, jax.tree.leaves(self._marks()), strict=True))
        ]
        return own, tree.rebuild(timestep, observation=jax.tree.unflatten(structure, noisy))


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
