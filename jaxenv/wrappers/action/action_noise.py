"""Add noise to continuous actions."""

from typing import Any, ClassVar

import jax
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.core import LaneWrapper, TimeStep
from jaxenv.random import Stream
from jaxenv.tree import Tree
from jaxenv.wrappers.action.clip_action import clip_continuous


class ActionNoise(LaneWrapper):
    """Adds ``draw[t] + past_weight * draw[t - 1]`` to continuous actions and clips them to their bounds.

    Draws are normal with mean 0 and standard deviation ``sigma``, independent for every element and step. The noise of
    consecutive steps is therefore correlated (Swamy et al. 2022, arXiv:2202.01312). At the first step of an episode,
    ``draw[-1]`` is one more draw. Discrete leaves pass through. Owns ``prev_action``: the agent's action, without the
    noise.

    Args:
        env: an environment with at least one continuous leaf in its action.
        sigma: standard deviation of a draw, in units of the action: one number, or one per lane.
        past_weight: weight of the previous draw, at least 0; with 0 the noise of every step is independent.

    >>> import jaxenv
    >>> env = ActionNoise(jaxenv.spec("Pendulum-v1").make(), 0.1)
    >>> env.action_spec()
    Bounded((1,), float32, -2.0, 2.0, name='action')
    """

    sigma: Any = tree.leaf(low=0)
    past_weight: Any = tree.leaf(default=1.0, low=0)

    owns: ClassVar[frozenset[str]] = frozenset({"prev_action"})
    in_evaluation = "kept"
    noop_kwargs = {"sigma": np.float32(0)}

    def check(self) -> None:
        spec = self.env.action_spec()
        if not any(s.is_continuous for s in jax.tree.leaves(spec)):
            raise ValueError(f"ActionNoise: the action must have a continuous leaf, got {spec}")

    def init(self, timestep: TimeStep, stream: Stream) -> Tree:
        return self._draw(stream)

    def before(self, own: Tree, action: Tree, stream: Stream) -> tuple[Tree, Tree]:
        drawn, spec = self._draw(stream), self.action_spec()
        noisy = iter(zip(drawn, own, strict=True))

        def disturbed(s: specs.Bounded, a: jax.Array) -> jax.Array:
            if s.is_discrete:
                return a
            now, past = next(noisy)
            return a + (now + tree.expand(self.past_weight, a.ndim) * past).astype(a.dtype)

        return drawn, clip_continuous(spec, jax.tree.map(disturbed, spec, action))

    def _draw(self, stream: random.Stream) -> list[jax.Array]:
        """Draws once for every continuous leaf: a list of float32 ``[B, *shape]``."""
        shapes = [s.shape for s in jax.tree.leaves(self.action_spec()) if s.is_continuous]
        normal = [random.normal(random.fold_in(stream, i), shape) for i, shape in enumerate(shapes)]
        return [tree.expand(self.sigma, x.ndim) * x for x in normal]
