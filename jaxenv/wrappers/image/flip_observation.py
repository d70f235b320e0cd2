"""Mirror images at random, for whole episodes."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.core import LaneWrapper, Leafwise, TimeStep
from jaxenv.random import Stream
from jaxenv.tree import Tree


@tree.struct
class Flipped:
    """The directions in which the images of this episode are mirrored, bool ``[B]``."""

    vertical: jax.Array
    horizontal: jax.Array


class FlipObservation(Leafwise, LaneWrapper):
    """Mirrors images ``[H, W, C]`` vertically, horizontally or both, drawn per lane at the start of each episode.

    All images of a lane are mirrored in the same way. A probability of 1 always mirrors. Leaves of other ranks pass
    through. A start costs one block of random numbers per lane. Owns ``observation``.

    Args:
        env: an environment with at least one image: a leaf with three axes.
        vertical: probability of exchanging top and bottom: one number, or one per lane.
        horizontal: probability of exchanging left and right.
        fields: dotted paths of the images to mirror; all by default.

    Raises:
        ValueError: if a probability is not in [0, 1], or if ``env`` restarts its lanes in ``same_step`` mode.

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
    kind: ClassVar[str] = "an image with three axes"
    noop_kwargs: ClassVar = {"vertical": 0.0, "horizontal": 0.0}

    def applies(self, spec: specs.Array) -> bool:
        return spec.ndim == 3

    def init(self, timestep: TimeStep, stream: Stream) -> Flipped:
        up, left = (random.unit(word) for word in random.separate_bits(stream, 2))
        return Flipped(up < self.vertical, left < self.horizontal)

    def after(self, own: Flipped, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        def flip(mark: bool, x: jax.Array) -> jax.Array:
            if not mark:
                return x
            x = jnp.where(tree.expand(own.vertical, x.ndim), x[:, ::-1], x)
            return jnp.where(tree.expand(own.horizontal, x.ndim), x[:, :, ::-1], x)

        observation = jax.tree.map(flip, self._marks(), timestep.observation)
        return own, tree.rebuild(timestep, observation=observation)

    def map_spec(self, spec: specs.Array) -> specs.Array:
        if not isinstance(spec, specs.Bounded):
            return spec
        low, high = spec.minimum, spec.maximum
        for axis in (0, 1):  # both orientations are possible; the spec does not depend on probabilities
            low, high = np.minimum(low, np.flip(low, axis)), np.maximum(high, np.flip(high, axis))
        return spec.replace(minimum=low, maximum=high)
