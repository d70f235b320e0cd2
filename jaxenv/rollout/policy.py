"""What acts: functions from a TimeStep and a stream to an action."""

import dataclasses
from collections.abc import Callable
from typing import Any

from jaxenv import specs, tree
from jaxenv.environment import Environment
from jaxenv.random import Stream, Words
from jaxenv.timestep import TimeStep


@tree.struct
class PolicyStep:
    """What a policy may return when an action alone is not enough.

    Attributes:
        action: the batch of actions, ``[B, ...]``.
        memory: recurrent state for the next step, leaves ``[B, ...]``.
        info: what to store with the step: log-probabilities, values.
    """

    action: Any
    memory: Any = ()
    info: Any = ()


def random_policy(env: Environment) -> Callable[[TimeStep, Stream], Any]:
    """A policy that samples the action spec, of legal actions only where ``env_info["action_mask"]`` marks them.

    Returns:
        A function of a TimeStep and a stream per lane.
    """
    spec = env.action_spec()
    single = isinstance(spec, specs.Bounded) and spec.is_discrete and spec.shape == ()

    def policy(timestep: TimeStep, stream: Stream) -> Any:
        mask = timestep.env_info.get("action_mask") if single else None
        return specs.sample(spec, stream, mask=mask)

    return policy


def policy_stream(env: Environment, state: Any, words: Words | None = None) -> Stream:
    """The numbers that a policy draws in a state: of the lanes' own keys, or of other ``words`` (two ``uint32[B]``).

    No environment can draw them too: two salts lie between them and the task's own stream.
    """
    clock = env.clock(state)
    if words is not None:
        clock = dataclasses.replace(clock, key=words)
    return clock.stream("rollout", "policy")


def act(policy: Callable, timestep: TimeStep, stream: Stream, memory: Any, recurrent: bool) -> PolicyStep:
    """Calls a policy in the way that fits it and gives the answer one form."""
    out = policy(timestep, stream, memory) if recurrent else policy(timestep, stream)
    if not isinstance(out, PolicyStep):
        out = PolicyStep(out)
    if tree.structure(out.memory) != tree.structure(memory):
        raise ValueError(
            f"policy: memory must keep the structure {tree.structure(memory)} of initial_memory, "
            f"got {tree.structure(out.memory)}: return PolicyStep(action, memory)"
        )
    return dataclasses.replace(out, memory=tree.strong(out.memory))
