"""What exports of games share: specs and values of one agent from those of all agents of a lane."""

from typing import Any

import jax

from jaxenv import specs
from jaxenv.core.entries import check_agents_lead, marks_of_agents
from jaxenv.core.environment import Environment
from jaxenv.tree import Tree


def specs_of_agents(owner: str, what: str, env: Environment, spec: Tree) -> dict[str, Tree]:
    """Returns the specs ``[...]`` of each agent from all agents' ``[A, ...]``; in a game of turns both are the same."""
    if env.turns:
        return dict.fromkeys(env.agent_names, spec)
    if what == "observation":
        check_agents_lead(owner, env)
    return {
        agent: jax.tree.map(lambda one, number=number: _of_agent(one, number), spec)
        for number, agent in enumerate(env.agent_names)
    }


def _of_agent(spec: specs.Array, number: int) -> specs.Array:
    if isinstance(spec, specs.Bounded):
        return spec.replace(shape=spec.shape[1:], minimum=spec.minimum[number], maximum=spec.maximum[number])
    return spec.replace(shape=spec.shape[1:])


def info_of_agent(env: Environment, info: dict[str, Tree], number: int) -> dict[str, Any]:
    """Returns the ``env_info`` of one agent from a lane's, whose entries lead with the agents or are shared."""
    marks = marks_of_agents(env, info)
    return jax.tree.map(lambda of_agents, x: x[number] if of_agents else x, marks, info)
