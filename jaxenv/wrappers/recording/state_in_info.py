"""Show the state in ``env_info``."""

import dataclasses
from typing import ClassVar

from jaxenv.core import Starts, TimeStep, Wrapper, has_batch_state, unshare
from jaxenv.tree import Tree


class StateInInfo(Wrapper):
    """Adds ``env_info["state"]``, the state of the environment inside, for policies that plan with the true model.

    A policy steps ``wrapper.env`` from this state, leaves ``[B, ...]``. On a LAST row it is the state in which the
    episode ended. Rollouts would store it with every row: name other ``fields`` there. Owns ``env_info``.

    Args:
        env: any environment without ``AutoReset``, batch state and ``env_info["state"]``.

    >>> import jax, jax.numpy as jnp, jaxenv
    >>> env = jaxenv.wrappers.StateInInfo(jaxenv.testing.count_to_two())
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> _, ahead = env.env.step(timestep.env_info["state"], jnp.zeros(1, jnp.int32))
    >>> ahead.observation.tolist()
    [1]
    """

    owns: ClassVar[frozenset[str]] = frozenset({"env_info"})
    in_evaluation = "kept"

    def check(self) -> None:
        if self.autoreset is not None or has_batch_state(self.env):
            rule = "AutoReset and state of the whole batch must stand outside"
            raise ValueError(f"StateInInfo: {rule}, got {self.env!r}")
        if "state" in self.env.env_info_spec():
            raise ValueError(f"StateInInfo: env must not have an env_info['state'], {self.env!r} has one")

    def begin(self, starts: Starts, previous: Tree = None) -> tuple[Tree, TimeStep]:
        return self._shown(*super().begin(starts, previous))

    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        return self._shown(*self.env.proceed(state, action))

    def env_info_of(self, state: Tree) -> dict[str, Tree]:
        return {**self.env.env_info_of(state), "state": state}

    def _shown(self, state: Tree, timestep: TimeStep) -> tuple[Tree, TimeStep]:
        return unshare((state, dataclasses.replace(timestep, env_info={**timestep.env_info, "state": state})))
