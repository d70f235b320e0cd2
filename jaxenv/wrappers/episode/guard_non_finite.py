"""Truncate episodes whose numbers stop being finite."""

import dataclasses
import functools
from typing import ClassVar

import jax
import jax.numpy as jnp

from jaxenv import tree
from jaxenv.core import Facts, Starts, Task, TimeStep, Wrapper, end_abnormal, finite, layers
from jaxenv.tree import Tree
from jaxenv.wrappers.episode.fixed_reset_key import FixedResetKey


class GuardNonFinite(Wrapper):
    """Truncates the episode of a lane whose state, observation or reward becomes NaN or infinite.

    The row is LAST with discount 1, even if the task terminated, with reward 0, the observation of the state before the
    step, and ``env_info["abnormal"]`` (bool ``[B]``) set; non-finite entries of ``env_info`` become 0. The task keeps
    its state from before the step. The lane then restarts like any other. Learners mask out abnormal rows. Rows that
    the task itself reports as ``abnormal`` stay so (see `jaxenv.Transition`). Owns ``step_type``, ``reward``,
    ``discount``, ``observation`` and ``env_info``, on abnormal rows only.

    Raises:
        ValueError: if ``env`` has wrappers other than `FixedResetKey`, or if it is a `Multitask` whose tasks have
            wrappers that show more than the state.

    >>> import jax, jaxenv
    >>> env = GuardNonFinite(jaxenv.spec("Pendulum-v1").make())
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> state, timestep = env.step(state, jnp.full((1, 1), 1.0))
    >>> timestep.env_info["abnormal"].tolist()
    [False]
    """

    owns: ClassVar[frozenset[str]] = frozenset({"step_type", "reward", "discount", "observation", "env_info"})
    in_evaluation = "kept"
    place = "task"
    keeps_specs: ClassVar[frozenset[str]] = frozenset({"observation", "reward"})

    def check(self) -> None:
        inside = layers(self.env)[:-1]
        if wrong := [type(layer).__name__ for layer in inside if not isinstance(layer, FixedResetKey)]:
            raise ValueError(f"GuardNonFinite: put it innermost, inside {wrong[0]}")
        if not self.env.observes_state:  # the observation of the previous state must be reproducible
            raise ValueError(f"GuardNonFinite: put it inside the tasks of {self.env}, which show more than their state")

    def facts_of(self, inner: Facts) -> Facts:
        return inner  # an observation of the state stays one

    @property
    def _observes_finite(self) -> bool:
        return isinstance(self.unwrapped, Task) and self.unwrapped.finite_observation

    def observation_of(self, state: Tree) -> Tree:
        observation = self.env.observation_of(state)
        return observation if self._observes_finite else finite(observation)

    def begin(self, starts: Starts, previous: Tree = None) -> tuple[Tree, TimeStep]:
        state, timestep = super().begin(starts, previous)
        env_info = {"abnormal": jnp.zeros(starts.env_id.shape, bool), **timestep.env_info}
        return state, dataclasses.replace(timestep, env_info=env_info)

    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        new, timestep = self.env.proceed(state, action)
        # Checking a large observation costs more than the rest of the guard, so tasks may declare theirs finite.
        shown = () if self._observes_finite else timestep.observation
        abnormal = ~_finite_lanes((new, shown, timestep.reward))
        kept = tree.rebuild(tree.where(abnormal, state, new), clock=self.env.clock(new))
        env_info = {**finite(timestep.env_info), **self.env.env_info_of(kept)}
        env_info["abnormal"] = abnormal | env_info.get("abnormal", False)
        row = end_abnormal(abnormal, timestep)
        return kept, dataclasses.replace(row, observation=self.observation_of(kept), env_info=env_info)


def _finite_lanes(values: Tree) -> jax.Array:
    """Returns the lanes in which every float of a tree of arrays ``[B, ...]`` is finite, bool ``[B]``."""
    floats = [x for x in jax.tree.leaves(values) if jnp.issubdtype(x.dtype, jnp.inexact)]
    rows = [jnp.all(jnp.isfinite(x), axis=tuple(range(1, x.ndim))) for x in floats]
    return functools.reduce(jnp.logical_and, rows)
