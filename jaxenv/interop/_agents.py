"""What exports of games share: specs and values of one agent from those of all agents of a lane."""

from typing import Any

import jax

from jaxenv import specs
from jaxenv.core.environment import Environment
from jaxenv.tree import Tree


def specs_of_agents(owner: str, what: str, env: Environment, spec: Tree) -> dict[str, Tree]:
    """Returns the specs ``[...]`` of each agent from those of all, ``[A, ...]``; in a game of turns they are the same.

    Raises:
        ValueError: for an array that does not lead with the agents.
    """
    if env.turns:
        return dict.fromkeys(env.agent_names, spec)
    for one in jax.tree.leaves(spec):
        if one.shape[:1] != (env.num_agents,):
            raise ValueError(
                f"{owner}: every array of the {what} must lead with the {env.num_agents} agents, got {one}"
            )
    return {
        agent: jax.tree.map(lambda one, number=number: _of_agent(one, number), spec)
        for number, agent in enumerate(env.agent_names)
    }


def _of_agent(spec: specs.Array, number: int) -> specs.Array:
    if isinstance(spec, specs.Bounded):
        return spec.replace(shape=spec.shape[1:], minimum=spec.minimum[number], maximum=spec.maximum[number])
    return spec.replace(shape=spec.shape[1:])


def value_of_agent(values: Any, number: int, num_agents: int) -> Any:
    """Returns the part of one agent in arrays of a lane ``[A, ...]``; others hold for all agents."""
    return jax.tree.map(lambda x: x[number] if x.shape[:1] == (num_agents,) else x, values)
