"""Contain lanes whose numbers stop being finite."""

import dataclasses
import functools
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.environment import Wrapper, layers
from jaxenv.timestep import StepType


class GuardNonFinite(Wrapper):
    """Ends a lane whose state, observation or reward becomes NaN or infinite, as truncated, and marks the row.

    Such a row is LAST with discount 1 (also where the task ended), reward 0, the observation of the state before the
    step and ``env_info["abnormal"]`` (bool ``[B]``) set; entries that are not finite are 0. The lane is then restarted
    like any other, and a learner drops abnormal rows by mask. The state is neither copied nor frozen.

    Owns ``step_type``, ``reward``, ``discount``, ``observation`` and ``env_info``, on abnormal rows alone.

    Raises:
        ValueError: if anything but the environment itself stands inside: it guards the physics, so it is innermost.
    """

    owns: ClassVar[frozenset[str]] = frozenset({"step_type", "reward", "discount", "observation", "env_info"})

    def check(self):
        if wrong := [type(layer).__name__ for layer in layers(self.env) if getattr(layer, "owns", None)]:
            raise ValueError(f"GuardNonFinite: put it innermost, inside {wrong[0]}")

    def begin(self, keys, env_id, episode, previous=None):
        state, timestep = self.env.begin(keys, env_id, episode, previous)
        env_info = {**timestep.env_info, "abnormal": jnp.zeros(env_id.shape, bool)}
        return state, dataclasses.replace(timestep, env_info=env_info)

    def step(self, state, action):
        new, timestep = self.env.step(state, action)
        abnormal = ~_finite_lanes((new, timestep.observation, timestep.reward))
        before = self.env.observation_of(state)
        observation, env_info = jax.tree.map(
            lambda x: jnp.where(_widen(abnormal, x) & ~_isfinite(x), jnp.zeros_like(x), x),
            (tree.where(abnormal, before, timestep.observation), timestep.env_info),
        )
        return new, dataclasses.replace(
            timestep,
            step_type=jnp.where(abnormal, np.int32(StepType.LAST), timestep.step_type),
            reward=tree.where(abnormal, jnp.zeros_like(timestep.reward), timestep.reward),
            discount=jnp.where(abnormal, np.float32(1), timestep.discount),
            observation=observation,
            env_info={**env_info, "abnormal": abnormal},
        )


def _isfinite(x: jax.Array) -> jax.Array:
    return jnp.isfinite(x) if jnp.issubdtype(x.dtype, jnp.inexact) else jnp.ones(x.shape, bool)


def _widen(mask: jax.Array, x: jax.Array) -> jax.Array:
    return tree.expand(mask, x.ndim)


def _finite_lanes(values) -> jax.Array:
    """Lanes in which every float of a tree of ``[B, ...]`` arrays is finite, bool ``[B]``."""
    floats = [x for x in jax.tree.leaves(values) if jnp.issubdtype(x.dtype, jnp.inexact)]
    rows = [jnp.all(jnp.isfinite(x), axis=tuple(range(1, x.ndim))) for x in floats]
    return functools.reduce(jnp.logical_and, rows)
