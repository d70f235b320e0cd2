"""Policies, functions from a TimeStep and a stream to an action, and the loop that steps one in an environment."""

import dataclasses
import inspect
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from jaxenv import specs, tree
from jaxenv._util.checks import check_arrays
from jaxenv.core._checks import given as _given
from jaxenv.core.environment import Environment, check_environment
from jaxenv.core.timestep import TimeStep
from jaxenv.random import KeyWords, Stream, check_typed
from jaxenv.rollout.experience import Experience
from jaxenv.tree import Tree
from jaxenv.tree._structure import type_mismatch


@tree.struct
class PolicyStep:
    """A possible result of a policy: an action with a memory or further outputs.

    Attributes:
        action: the batch of actions, ``[B, ...]``.
        memory: recurrent state for the next step, leaves ``[B, ...]``.
        info: a tree to store with the step, such as log-probabilities and values.
    """

    action: Tree
    memory: Tree = ()
    info: Tree = ()


class Policy(Protocol):
    """Chooses the actions of all lanes: ``policy(timestep, stream)``, or ``policy(timestep, stream, memory)``.

    ``stream`` has one stream per lane. A policy returns the actions ``[B, ...]`` or a `PolicyStep`.
    """

    # To a type checker, ``*args: Any, **kwargs: Any`` are any further parameters: none, or a memory.
    def __call__(self, timestep: TimeStep, stream: Stream, /, *args: Any, **kwargs: Any) -> Tree: ...


def random_policy(env: Environment) -> Policy:
    """Returns a policy that samples actions ``[B, ...]``, or only the legal ones of ``env_info["action_mask"]``."""
    check_environment("random_policy", env)
    spec = env.action_spec()
    agents = () if env.num_agents == 1 or env.turns else (env.num_agents,)
    maskable = isinstance(spec, specs.Bounded) and spec.is_discrete and spec.shape == agents

    def policy(timestep: TimeStep, stream: Stream) -> Tree:
        mask = timestep.env_info.get("action_mask") if maskable else None
        return specs.sample(spec, stream, mask=mask)

    return policy


def policy_stream(env: Environment, state: Any, words: KeyWords | None = None) -> Stream:
    """Returns the stream that a policy draws from in a state of the environment, one per lane.

    Two salts separate it from the streams of the environment, which never draws the same numbers. ``words``, two
    ``uint32[B]``, replace the lanes' keys.
    """
    check_environment("policy_stream", env)
    with _given.explained("policy_stream", env, state):
        clock = env.clock(state)
    if words is not None:
        clock = dataclasses.replace(clock, key=words)
    return clock.stream("rollout", "policy")


def check_policy(owner: str, policy: Any, recurrent: bool) -> None:
    """Raises a ``ValueError`` unless ``policy`` can be called with a timestep, a stream and, if recurrent, a memory."""
    with_memory = ["timestep", "stream", "memory"]
    arguments = with_memory if recurrent else with_memory[:2]
    rule = f"{owner}: policy must be a function of ({', '.join(arguments)})"
    rule += "" if recurrent else ", or of (timestep, stream, memory) with initial_memory"
    if not callable(policy):
        raise ValueError(f"{rule}, got {policy!r}")
    try:
        signature = inspect.signature(policy)
    except (TypeError, ValueError):  # some callables have none
        return
    if _takes(signature, arguments):
        return
    name = getattr(policy, "__name__", type(policy).__name__)
    hint = ": this policy takes a memory: pass initial_memory" if _takes(signature, with_memory) else ""
    raise ValueError(f"{rule}, got {name} of ({', '.join(signature.parameters)}){hint}")


def _takes(signature: inspect.Signature, arguments: list[str]) -> bool:
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


def act(policy: Policy, timestep: TimeStep, stream: Stream, memory: Any, recurrent: bool) -> PolicyStep:
    """Calls a policy with or without memory and returns a `PolicyStep` either way."""
    out = policy(timestep, stream, memory) if recurrent else policy(timestep, stream)
    if not isinstance(out, PolicyStep):
        out = PolicyStep(out)
    new = tree.strong(out.memory)
    if (fault := memory_fault(memory, new)) is not None:
        raise ValueError(f"policy: {fault}: return PolicyStep(action, memory)")
    return dataclasses.replace(out, memory=new)


def memory_fault(initial_memory: Any, memory: Any) -> str | None:
    """Says where a memory differs from the initial one in structure, shape or dtype; ``None`` if it does not."""
    fault = type_mismatch(initial_memory, memory, "memory")
    return None if fault is None else f"{fault}, as in initial_memory"


Carry = tuple[Any, TimeStep, Any]


@dataclasses.dataclass(frozen=True)
class PolicyLoop:
    """The body of a loop that steps a policy in an environment; every loop of this package uses it."""

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
        if (fault := _given.start_fault(env, *start)) is not None:
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
        for path, x in jax.tree_util.tree_leaves_with_path(initial_memory, is_leaf=tree.is_shared):
            if not tree.is_shared(x) and jnp.shape(x)[:1] != clock.env_id.shape:
                rule = f"{tree.path_name(path, 'initial_memory')} must lead with the {clock.env_id.shape[0]} lanes"
                raise ValueError(f"{owner}: {rule}, got shape {jnp.shape(x)}")
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
