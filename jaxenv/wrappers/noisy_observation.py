"""Add noise to what the agent sees."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv._checks import is_concrete
from jaxenv._fields import select_floats
from jaxenv._wrapper_bases import LaneWrapper


class NoisyObservation(LaneWrapper):
    """Adds Gaussian noise of standard deviation ``scale`` to the float parts of the observation, on every row.

    The task's state has no part in it: the noise of one row is independent of the next one's. Each number costs one
    random word. The noise reaches 5.4 standard deviations, so the parts that it is added to lose their bounds.

    Owns ``observation``.

    Args:
        env: any environment; in ``same_step`` streams one without ``AutoReset``.
        scale: standard deviation in the units of the observation, at least 0: one number, or one per lane.
        fields: dotted paths of the parts, each with a float array; ``None`` for all float arrays.

    Raises:
        ValueError: if ``scale`` is negative, or there is no float array.

    >>> import jaxenv
    >>> jaxenv.wrappers.NoisyObservation(jaxenv.spec("Pendulum-v1").make(), 0.1).observation_spec()
    Array((3,), float32, name='observation')
    """

    scale: Any = tree.leaf(default=np.float32(0.1))
    fields: Any = tree.static(default=None)

    owns: ClassVar[frozenset[str]] = frozenset({"observation"})
    noop_kwargs: ClassVar[dict[str, Any]] = {"scale": 0.0}

    def check(self):
        if is_concrete(self.scale) and np.any(np.asarray(self.scale) < 0):
            raise ValueError(f"NoisyObservation: scale must be at least 0, got {self.scale}")
        self._chosen(self.env.observation_spec())

    def _chosen(self, observation):
        return select_floats("NoisyObservation", observation, self.fields)

    def observation_spec(self):
        spec = self.env.observation_spec()
        return jax.tree.map(
            lambda noisy, s: specs.Array(s.shape, s.dtype, s.name) if noisy else s, self._chosen(spec), spec
        )

    def init(self, timestep, stream):
        return ()

    def after(self, own, timestep, stream):
        numbers, structure = tree.flatten(timestep.observation)
        noisy = jax.tree.leaves(self._chosen(timestep.observation))

        def add(i, x):
            noise = random.normal(random.fold_in(stream, i), x.shape[1:]) * tree.expand(jnp.asarray(self.scale), x.ndim)
            return x + noise.astype(x.dtype)

        shown = [add(i, x) if add_noise else x for i, (x, add_noise) in enumerate(zip(numbers, noisy, strict=True))]
        return own, dataclasses.replace(timestep, observation=structure.unflatten(shown))
