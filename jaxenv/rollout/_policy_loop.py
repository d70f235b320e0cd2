"""Steps a policy in an environment; every loop of this package uses it."""

import dataclasses
from typing import Any

import jax

from jaxenv import tree
from jaxenv._util.checks import check_arrays
from jaxenv.core._checks.given import start_fault
from jaxenv.core.environment import Environment, check_environment
from jaxenv.core.timestep import TimeStep
from jaxenv.random import KeyWords, check_typed
from jaxenv.rollout._policy import Policy, act, check_memory, check_policy, memory_fault, policy_stream
from jaxenv.rollout.experience import Experience

Carry = tuple[Any, TimeStep, Any]


@dataclasses.dataclass(frozen=True)
class PolicyLoop:
    """The body of a loop that steps a policy in an environment."""

    env: Environment
    policy: Policy  # as in `jaxenv.unroll`
    words: KeyWords  # two uint32[B], the keys of the policy's random numbers
    initial_memory: Any  # recurrent state at the start of an episode; () for a policy without one
    memory: Any  # recurrent state at the start of the loop

    @classmethod
    def create(
        cls,
        owner: str,
        env: Environment,
        policy: Policy,
        start: tuple[Any, TimeStep],
        key: Any,
        initial_memory: Any,
        memory: Any,
    ) -> "PolicyLoop":
        """Takes the arguments of `jaxenv.unroll`; errors start with ``owner``, the name of the calling function."""
        check_environment(owner, env)
        state, _ = start
        if (fault := start_fault(env, *start)) is not None:
            raise ValueError(f"{owner}: {fault}")
        if memory is not None and not _is_recurrent(initial_memory):
            raise ValueError(f"{owner}: memory needs initial_memory, a lane's memory at the start of an episode")
        check_policy(owner, policy, _is_recurrent(initial_memory))
        for name, value in (("initial_memory", initial_memory), ("memory", memory)):
            check_arrays(owner, name, value)
        if key is not None:
            check_typed(key, f"{owner}: key")
        initial_memory = tree.strong(initial_memory)
        clock = env.clock(state)
        check_memory(owner, initial_memory, clock.env_id.shape)
        words = clock.key if key is None else env._lane_words(key, clock.env_id)
        memory = initial_memory if memory is None else tree.strong(memory)
        if (fault := memory_fault(initial_memory, memory)) is not None:
            raise ValueError(f"{owner}: {fault}")
        # Inside shard_map a loop carry must vary over the mesh from the start.
        return cls(env, policy, words, *tree.vary_like(clock.env_id, (initial_memory, memory)))

    def step(self, carry: Carry) -> tuple[Carry, Experience]:
        """Advances state, timestep and memory by one step; also returns the row acted on, leaves ``[B, ...]``."""
        state, timestep, memory = carry
        recurrent = _is_recurrent(self.initial_memory)
        if recurrent:
            memory = tree.where(self.env.episode_starts(timestep), self.initial_memory, memory)
        out = act(self.policy, timestep, policy_stream(self.env, state, self.words), memory, recurrent)
        row = Experience(timestep, out.action, out.info)
        state, timestep = self.env.step(state, out.action)
        return (state, timestep, tree.vary_like(timestep.step_type, out.memory)), row


def _is_recurrent(initial_memory: Any) -> bool:
    return bool(jax.tree.leaves(initial_memory))
