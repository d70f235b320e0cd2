"""Add noise to observations."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from jaxenv import random, specs, tree
from jaxenv.core import LaneWrapper, TimeStep
from jaxenv.random import Stream
from jaxenv.tree import Tree


class NoisyObservation(LaneWrapper):
    """Adds Gaussian noise of standard deviation ``scale`` to the float parts of the observation, on every row.

    The noise of each row is independent and does not enter the task's state. Each number costs one random word. The
    noise reaches 5.4 standard deviations, so the specs of noisy parts have no bounds. Owns ``observation``.

    Args:
        env: any environment without a ``same_step`` ``AutoReset``.
        scale: standard deviation in units of the observation, at least 0: one number, or one per lane.
        fields: dotted paths of the parts, each of float arrays; ``None`` for all float arrays.

    >>> import jaxenv
    >>> jaxenv.wrappers.NoisyObservation(jaxenv.spec("Pendulum-v1").make(), 0.1).observation_spec()
    Array((3,), float32, name='observation')
    """

    scale: Any = tree.leaf(default=0.1, low=0)
    fields: Any = tree.static(default=None)

    owns: ClassVar[frozenset[str]] = frozenset({"observation"})
    in_evaluation = "kept"
    noop_kwargs: ClassVar[dict[str, Any]] = {"scale": 0.0}

    def check(self) -> None:
        self._marks(self.env.observation_spec())

    def _marks(self, observation: Tree) -> Tree:
        return specs.select_floats("NoisyObservation", observation, self.fields)

    def observation_spec(self) -> Tree:
        spec = self.env.observation_spec()
        return specs.map_marked(self._marks(spec), lambda s: specs.Array(s.shape, s.dtype, s.name), spec)

    def after(self, own: Tree, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        numbers, structure = tree.flatten(timestep.observation)
        noisy = jax.tree.leaves(self._marks(timestep.observation))

        def add(i: int, x: jax.Array) -> jax.Array:
            noise = random.normal(random.fold_in(stream, i), x.shape[1:]) * tree.expand(jnp.asarray(self.scale), x.ndim)
            return x + noise.astype(x.dtype)

        shown = [add(i, x) if add_noise else x for i, (x, add_noise) in enumerate(zip(numbers, noisy, strict=True))]
        return own, dataclasses.replace(timestep, observation=structure.unflatten(shown))
