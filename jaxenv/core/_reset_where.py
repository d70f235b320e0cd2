"""Restart some lanes of a batch."""

import jax
import jax.numpy as jnp

from jaxenv import random, tree
from jaxenv._util.checks import check_mask
from jaxenv.core import _state_checks
from jaxenv.core._compiled import self_compiling
from jaxenv.core.environment import Environment, check_environment
from jaxenv.core.timestep import TimeStep
from jaxenv.tree import Tree


def reset_where(
    env: Environment, state: Tree, timestep: TimeStep, mask: jax.Array, key: jax.Array | None = None
) -> tuple[Tree, TimeStep]:
    """Restarts the lanes of ``mask`` and returns the whole batch; the other lanes are untouched.

    Args:
        env: any environment, in particular one without ``AutoReset``.
        state: the current state.
        timestep: the TimeStep that belongs to it.
        mask: bool ``[B]``, the lanes to restart.
        key: without it each lane continues with the next episode of its own stream. With one typed key or ``Key[B]``
            the restarted lanes get new keys and start at episode 0. Either way they keep what outlives an episode
            (`Task.carry`, statistics of the batch); only ``env.reset`` discards it.

    Raises:
        ValueError: at trace time, if ``mask`` is not bool ``[B]``, or another argument does not fit.
    """
    check_environment("reset_where", env)
    if key is not None:
        random.check_typed(key, "reset_where: key")
    with _state_checks.explained("reset_where", env, state, timestep=timestep, mask=mask):
        return _restarted(env, state, timestep, mask, key)


@self_compiling
def _restarted(
    env: Environment, state: Tree, timestep: TimeStep, mask: jax.Array, key: jax.Array | None
) -> tuple[Tree, TimeStep]:
    clock = env.clock(state)
    check_mask("reset_where", mask, clock.env_id.shape[0])
    keys = clock.key if key is None else env.lane_words(key, clock.env_id)
    episode = clock.episode + 1 if key is None else jnp.zeros_like(clock.episode)
    fresh = tree.detach(env.begin(keys, clock.env_id, episode, previous=state))
    if (fault := _state_checks.difference(env, fresh, state, timestep)) is not None:
        raise ValueError(f"reset_where: {fault}")
    return tree.where(mask, fresh, (state, timestep))
