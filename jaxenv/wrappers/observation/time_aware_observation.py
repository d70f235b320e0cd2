"""Add the time to the observation."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import LaneWrapper, TimeStep
from jaxenv.random import Stream
from jaxenv.tree import Tree


class TimeAwareObservation(LaneWrapper):
    """Adds the number of steps since FIRST to the observation. Each lane counts its own steps, from 0 at FIRST.

    With ``flatten`` the observation is one float32 vector: all arrays in the order of the tree, then the time.
    Otherwise a dict gains the entry ``key``, a tuple or list gains an item, and any other observation becomes
    ``{"observation": ..., "time": ...}``. The time is int32 ``()``, or float32 if normalised, and stays at
    ``max_steps`` once it is reached. Owns ``observation``.

    Args:
        env: any environment without a ``same_step`` ``AutoReset``.
        max_steps: maximum length of an episode, if known: the bound of the time.
        normalize: show the time as a fraction of ``max_steps``, which must then be given.
        flatten: show one vector.
        key: name of the time in a dict.

    >>> import jax, jaxenv
    >>> env = jaxenv.wrappers.TimeAwareObservation(jaxenv.testing.Chain(num_envs=1), max_steps=500, normalize=True)
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> state, timestep = env.step(state, np.array([1]))
    >>> timestep.observation.round(3).tolist()
    [[1.0, 0.002...]]
    """

    max_steps: int | None = tree.static(default=None, low=1)
    normalize: bool = tree.static(default=False)
    flatten: bool = tree.static(default=True)
    key: str = tree.static(default="time")

    owns: ClassVar[frozenset[str]] = frozenset({"observation"})
    in_evaluation = "kept"

    def check(self) -> None:
        if self.normalize and self.max_steps is None:
            raise ValueError("TimeAwareObservation: normalize requires max_steps, got None")
        spec = self.env.observation_spec()
        if not self.flatten and self.key in (spec if isinstance(spec, dict) else ("observation",)):
            raise ValueError(f"TimeAwareObservation: key must be new to the observation, got {self.key!r} for {spec}")

    def observation_spec(self) -> Tree:
        spec = self.env.observation_spec()
        if self.normalize:
            time = specs.Bounded((), np.float32, 0, 1, self.key)
        else:
            longest = np.iinfo(np.int32).max if self.max_steps is None else self.max_steps
            time = specs.Bounded((), np.int32, 0, longest, self.key)
        if not self.flatten:
            return self._joined(spec, time)
        return specs.flattened((spec, time), one_hot=False, dtype=np.float32).replace(name="observation")

    def init(self, timestep: TimeStep, stream: Stream) -> Tree:
        return jnp.zeros_like(timestep.step_type)

    def after(self, own: Tree, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        time = own if self.max_steps is None else jnp.minimum(own, np.int32(self.max_steps))
        if self.normalize:
            time = time.astype(jnp.float32) / np.float32(self.max_steps)
        observation = timestep.observation
        if self.flatten:
            leaves = [x.reshape(x.shape[0], -1).astype(jnp.float32) for x in jax.tree.leaves((observation, time))]
            observation = jnp.concatenate(leaves, axis=-1)
        else:
            observation = self._joined(observation, time)
        return own + 1, dataclasses.replace(timestep, observation=observation)

    def _joined(self, observation: Tree, time: Any) -> Any:
        if isinstance(observation, dict):
            return {**observation, self.key: time}
        if isinstance(observation, list | tuple) and not hasattr(observation, "_fields"):
            return type(observation)([*observation, time])
        return {"observation": observation, self.key: time}
