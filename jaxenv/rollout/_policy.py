"""Policies: functions from a TimeStep and a stream to an action."""

import dataclasses
from collections.abc import Callable
from typing import Any

from jaxenv import specs, tree
from jaxenv.environment import Environment
from jaxenv.random import Stream, Words
from jaxenv.timestep import TimeStep


@tree.struct
class PolicyStep:
    """What a policy may return instead of a bare action.

    Attributes:
        action: the batch of actions, ``[B, ...]``.
        memory: recurrent state for the next step, leaves ``[B, ...]``.
        info: a tree to store with the step, such as log-probabilities and values.
    """

    action: Any
    memory: Any = ()
    info: Any = ()


def random_policy(env: Environment) -> Callable[[TimeStep, Stream], Any]:
    """A policy that samples the action spec, restricted to legal actions if there is an ``env_info["action_mask"]``.

    Returns:
        A function ``policy(timestep, stream)``, with a stream per lane, that returns the actions ``[B, ...]``.
    """
    spec = env.action_spec()
    maskable = isinstance(spec, specs.Bounded) and spec.is_discrete and spec.shape == ()

    def policy(timestep: TimeStep, stream: Stream) -> Any:
        mask = timestep.env_info.get("action_mask") if maskable else None
        return specs.sample(spec, stream, mask=mask)

    return policy


def policy_stream(env: Environment, state: Any, words: Words | None = None) -> Stream:
    """The stream that a policy draws from in a state, one per lane.

    Two salts separate it from the streams of the environment, which never draws the same numbers.

    Args:
        env: the environment.
        state: its state.
        words: two ``uint32[B]`` in place of the lanes' own keys.
    """
    clock = env.clock(state)
    if words is not None:
        clock = dataclasses.replace(clock, key=words)
    return clock.stream("rollout", "policy")


def act(policy: Callable, timestep: TimeStep, stream: Stream, memory: Any, recurrent: bool) -> PolicyStep:
    """Calls a policy with or without memory and returns a `PolicyStep` either way."""
    out = policy(timestep, stream, memory) if recurrent else policy(timestep, stream)
    if not isinstance(out, PolicyStep):
        out = PolicyStep(out)
    if tree.structure(out.memory) != tree.structure(memory):
        raise ValueError(
            f"policy: memory must keep the structure {tree.structure(memory)} of initial_memory, "
            f"got {tree.structure(out.memory)}: return PolicyStep(action, memory)"
        )
    return dataclasses.replace(out, memory=tree.strong(out.memory))
