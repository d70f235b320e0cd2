"""Policies: functions from a TimeStep and a stream to an action."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

from jaxenv import specs, tree
from jaxenv._structure import mismatch
from jaxenv.environment import Environment
from jaxenv.random import Stream, Words, note_on_streams
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


def check_environment(owner: str, env: Any) -> None:
    """Raises a ``ValueError`` unless ``env`` is an environment."""
    if not isinstance(env, Environment):
        raise ValueError(f"{owner}: env must be an environment, got {env!r}")


def check_policy(owner: str, policy: Any, recurrent: bool) -> None:
    """Raises a ``ValueError`` unless ``policy`` can be called with a timestep, a stream and, if recurrent, a memory."""
    arguments = ["timestep", "stream", "memory"] if recurrent else ["timestep", "stream"]
    rule = f"{owner}: policy must be a function of ({', '.join(arguments)})"
    rule += "" if recurrent else ", or of (timestep, stream, memory) with initial_memory"
    if not callable(policy):
        raise ValueError(f"{rule}, got {policy!r}")
    try:
        signature = inspect.signature(policy)
    except (TypeError, ValueError):  # some callables have none
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        name = getattr(policy, "__name__", type(policy).__name__)
        raise ValueError(f"{rule}, got {name} of ({', '.join(signature.parameters)})") from None


def act(policy: Callable, timestep: TimeStep, stream: Stream, memory: Any, recurrent: bool) -> PolicyStep:
    """Calls a policy with or without memory and returns a `PolicyStep` either way."""
    try:
        out = policy(timestep, stream, memory) if recurrent else policy(timestep, stream)
    except TypeError as error:
        note_on_streams(error)
        raise
    if not isinstance(out, PolicyStep):
        out = PolicyStep(out)
    if (fault := mismatch(memory, out.memory, "memory")) is not None:
        raise ValueError(f"policy: {fault}, as in initial_memory: return PolicyStep(action, memory)")
    return dataclasses.replace(out, memory=tree.strong(out.memory))
