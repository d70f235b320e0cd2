"""Entries of ``env_info``: which ones have an axis of agents, and how they combine over several steps."""

import operator
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp

from jaxenv import tree
from jaxenv.core.environment import Environment
from jaxenv.core.multitask import Multitask
from jaxenv.core.task import Task
from jaxenv.core.wrapper import Wrapper, layers
from jaxenv.tree import Tree

# Flags of the contract about a transition: one of several steps sets them.
FLAGS = frozenset({"abnormal", "agent_terminated", "time_limit_reached"})


def marks_of_agents(env: Environment, env_info: dict[str, Tree]) -> dict[str, Tree]:
    """Marks the arrays of ``env_info`` that have axes ``[B, A]`` of lanes and agents; the others have ``[B]``.

    These are the entries of a task whose agents act at once, and those that wrappers declare in ``agent_entries``.
    """
    paths = _agent_paths(env) if env.num_agents > 1 and not env.turns else frozenset()

    def is_marked(path: tuple[Any, ...], _: Any) -> bool:
        name = tree.path_name(path)
        return any(f"{name}.".startswith(f"{of_agents}.") for of_agents in paths)

    return jax.tree_util.tree_map_with_path(is_marked, env_info)


def _agent_paths(env: Environment) -> frozenset[str]:
    found = frozenset[str]().union(*(layer.agent_entries for layer in layers(env) if isinstance(layer, Wrapper)))
    if isinstance(env.unwrapped, Multitask):  # its tasks may have wrappers, and equal specs
        return found | _agent_paths(env.unwrapped.envs[0])
    return found | env.unwrapped.env_info_spec().keys()


def check_agents_lead(owner: str, env: Environment) -> None:
    """Raises a ``ValueError`` unless observations and rewards of agents that act at once have an axis of agents."""
    for name, spec in (("observation", env.observation_spec()), ("reward", env.reward_spec())):
        wrong = [one for one in jax.tree.leaves(spec) if one.shape[:1] != (env.num_agents,)]
        if wrong or (name == "observation" and not env.facts.agents_lead):
            rule = f"every array of the {name} must lead with the {env.num_agents} agents of {env.unwrapped}"
            hint = "a wrapper that changes that goes outside AgentsAsLanes"
            raise ValueError(f"{owner}: {rule}, got {(wrong or [spec])[0]} of {env}: {hint}")


def combined_info(env: Environment, before: dict[str, Tree], after: dict[str, Tree]) -> dict[str, Tree]:
    """Combines the ``env_info`` of two steps that one action takes.

    Flags of the contract (``abnormal``, ``agent_terminated``, ``time_limit_reached``) are set if a step sets them.
    Entries that the task or a wrapper declares in ``summed_entries`` add up; flags among them are set if a step sets
    them. All other entries come from the last step.
    """
    combined = (FLAGS | _summed(env)) & after.keys()
    return {**after, **jax.tree.map(_sum, *({name: info[name] for name in combined} for info in (before, after)))}


def _sum(a: jax.Array, b: jax.Array) -> jax.Array:
    return operator.or_(a, b) if a.dtype == jnp.bool_ else a + b


def _summed(env: Environment) -> frozenset[str]:
    if isinstance(env, Multitask):
        return frozenset[str]().union(*map(_summed, env.envs))
    own = frozenset(env.summed_entries) if isinstance(env, Task | Wrapper) else frozenset[str]()
    return own | _summed(env.env) if isinstance(env, Wrapper) else own


def state_entries(env: Environment) -> frozenset[str]:
    """Returns the names of the entries that describe the state, and not the transition to it."""
    return frozenset(jax.eval_shape(env.env_info_of, env.start_shapes()[0]))


def check_combined(owner: str, env: Environment, names: Iterable[str]) -> None:
    """Raises a ``ValueError`` for an entry that ``owner`` reads, of which ``env`` shows the last of several steps."""
    if not env.facts.repeats:
        return
    for name in sorted(set(names) - FLAGS - _summed(env) - state_entries(env)):
        rule = f"a step of {env} is several of the task, and env_info[{name!r}] shows the last of them"
        hint = f"declare {name!r} in summed_entries of the task if it adds up, or put {owner} inside the repeats"
        raise ValueError(f"{owner}: {rule}: {hint}")
