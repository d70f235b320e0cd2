"""Mirror images at random, for whole episodes."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.core import LaneWrapper, Leafwise, TimeStep
from jaxenv.random import Stream
from jaxenv.tree import Tree


class FlipObservation(Leafwise, LaneWrapper):
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
    kind: ClassVar[str] = "an image with three axes"
    noop_kwargs: ClassVar = {"vertical": 0.0, "horizontal": 0.0}

    def applies(self, spec: specs.Array) -> bool:
        return spec.ndim == 3

    def init(self, timestep: TimeStep, stream: Stream) -> Tree:
        up, left = (random.unit(word) for word in random.separate_bits(stream, 2))
        return up < self.vertical, left < self.horizontal  # bool [B] both

    def after(self, own: Tree, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        def flip(x: jax.Array) -> jax.Array:
            x = jnp.where(tree.expand(own[0], x.ndim), x[:, ::-1], x)
            return jnp.where(tree.expand(own[1], x.ndim), x[:, :, ::-1], x)

        observation = specs.map_marked(self._marks(), flip, timestep.observation)
        return own, tree.rebuild(timestep, observation=observation)

    def map_spec(self, spec: specs.Array) -> specs.Array:
        if not isinstance(spec, specs.Bounded):
            return spec
        low, high = spec.minimum, spec.maximum
        for axis in (0, 1):  # both orientations are possible; the spec does not depend on probabilities
            low, high = np.minimum(low, np.flip(low, axis)), np.maximum(high, np.flip(high, axis))
        return spec.replace(minimum=low, maximum=high)
