"""Delay observations."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from jaxenv import specs, tree
from jaxenv.core import LaneWrapper, TimeStep
from jaxenv.random import Stream
from jaxenv.tree import Tree
from jaxenv.wrappers.observation.frame_stack import filled, pushed


class DelayObservation(LaneWrapper):
    """Shows the observation of ``delay`` steps ago.

    The first ``delay`` rows of an episode show, element by element, the valid value closest to zero. Reward and step
    type are not delayed, so the last ``delay`` observations of an episode are never shown. The state holds the delayed
    observations, ``[B, delay, ...]``. Owns ``observation``.

    Args:
        env: any environment without a ``same_step`` ``AutoReset``.
        delay: number of steps, at least 0.

    >>> import jax, jaxenv, numpy as np
    >>> env = jaxenv.wrappers.DelayObservation(jaxenv.testing.Chain(num_envs=1), 1)
    >>> state, timestep = env.step(env.reset(jax.random.key(0))[0], np.array([1]))
    >>> timestep.observation.tolist(), env.step(state, np.array([1]))[1].observation.tolist()
    ([0], [1])
    """

    delay: int = tree.static(default=1, low=0)

    owns: ClassVar[frozenset[str]] = frozenset({"observation"})
    in_evaluation = "kept"
    keeps_specs: ClassVar[frozenset[str]] = frozenset({"observation"})
    noop_kwargs: ClassVar[dict[str, Any]] = {"delay": 0}

    def init(self, timestep: TimeStep, stream: Stream) -> Tree:
        if self.delay == 0:
            return ()

        def fill(spec: specs.Array, x: jax.Array) -> jax.Array:
            return filled(jnp.broadcast_to(specs.aligned(specs.nearest_zero(spec), x.ndim), x.shape), self.delay)

        return jax.tree.map(fill, self.env.observation_spec(), timestep.observation)

    def after(self, own: Tree, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        if self.delay == 0:
            return own, timestep
        row = dataclasses.replace(timestep, observation=jax.tree.map(lambda queue: queue[:, 0], own))
        return jax.tree.map(pushed, own, timestep.observation), row
