"""One step of a policy in an environment, as every loop in this package takes it."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax

from jaxenv import _xla, random, tree
from jaxenv.environment import Environment
from jaxenv.random import Words
from jaxenv.rollout.policy import act, policy_stream
from jaxenv.timestep import TimeStep


@tree.struct
class Experience:
    """Rows of a rollout, every leaf ``[T, B, ...]``; what was not asked for holds ``()``.

    Attributes:
        timestep: what the policy saw.
        action: what it did then. On a LAST row in ``next_step`` mode the environment ignores it.
        policy_info: what the policy returned as ``PolicyStep.info``.
    """

    timestep: Any = ()
    action: Any = ()
    policy_info: Any = ()


Carry = tuple[Any, TimeStep, Any]


@dataclasses.dataclass(frozen=True)
class Walk:
    """A policy in an environment.

    Attributes:
        env: the environment.
        policy: as in `jaxenv.unroll`.
        words: two ``uint32[B]``, the keys that the policy draws from.
        initial_memory: recurrent state at the start of an episode, ``()`` where there is none.
        memory: recurrent state to begin with.
    """

    env: Environment
    policy: Callable
    words: Words
    initial_memory: Any
    memory: Any

    @classmethod
    def of(
        cls, name: str, env: Environment, policy: Callable, state: Any, key: Any, initial_memory: Any, memory: Any
    ) -> "Walk":
        """Arguments as of `jaxenv.unroll`; ``name`` is the caller's, for errors."""
        recurrent = bool(jax.tree.leaves(initial_memory))
        if memory is not None and not recurrent:
            raise ValueError(f"{name}: memory is given without initial_memory, which lanes need when an episode starts")
        initial_memory = tree.strong(initial_memory)
        clock = env.clock(state)
        words = clock.key if key is None else random.lane_words(key, clock.env_id)
        memory = initial_memory if memory is None else tree.strong(memory)
        # Inside shard_map what a loop carries must vary over the mesh from its start.
        return cls(env, policy, words, *_xla.vary_like(clock.env_id, (initial_memory, memory)))

    def step(self, carry: Carry) -> tuple[Carry, Experience]:
        """From state, timestep and memory to the next ones; and the row between, leaves ``[B, ...]``."""
        state, timestep, memory = carry
        recurrent = bool(jax.tree.leaves(self.initial_memory))
        if recurrent:
            memory = tree.where(self.env.starts(timestep), self.initial_memory, memory)
        out = act(self.policy, timestep, policy_stream(self.env, state, self.words), memory, recurrent)
        row = Experience(timestep, out.action, out.info)
        state, timestep = self.env.step(state, out.action)
        return (state, timestep, _xla.vary_like(timestep.step_type, out.memory)), row
