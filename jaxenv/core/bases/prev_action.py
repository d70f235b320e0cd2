"""``prev_action`` on the rows that action-changing wrappers return."""

import dataclasses

import jax
import jax.numpy as jnp

from jaxenv import tree
from jaxenv.core._checks import actions as _actions
from jaxenv.core.timestep import TimeStep
from jaxenv.core.wrapper import Wrapper
from jaxenv.tree import Tree


def num_lanes(env: Wrapper, state: Tree) -> int:
    """Returns the number of lanes in a state."""
    return env.clock(state).env_id.shape[0]


def with_prev_action(env: Wrapper, timestep: TimeStep, given: Tree) -> TimeStep:
    """Puts the agent's action in ``prev_action``: non-finite numbers become 0, and FIRST rows hold zeros."""
    given = _actions.finite(given)
    if env.autoreset is not None:
        given = tree.where(timestep.is_first(), jax.tree.map(jnp.zeros_like, given), given)
    return dataclasses.replace(timestep, prev_action=given)
