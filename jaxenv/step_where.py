"""Step some lanes of a batch."""

import jax

from jaxenv import _state_checks, tree
from jaxenv._checks import check_arrays, check_mask
from jaxenv._wrapper_bases import BatchWrapper
from jaxenv.environment import Environment, check_environment
from jaxenv.timestep import TimeStep
from jaxenv.tree import Tree
from jaxenv.wrapper import layers


def step_where(
    env: Environment, state: Tree, timestep: TimeStep, action: Tree, mask: jax.Array
) -> tuple[Tree, TimeStep]:
    """Steps the lanes of ``mask`` and returns the whole batch; the other lanes keep their state and their row.

    The clock of a lane counts only the steps that it takes, so its episodes do not depend on the steps on which it
    waits. A waiting lane repeats its last row, which metrics, replay and losses must leave out by ``mask``. Every lane
    is computed, whether it waits or not: a step costs what ``env.step`` costs.

    Args:
        env: any environment whose wrappers with batch state are frozen.
        state: the current state.
        timestep: the TimeStep that belongs to it.
        action: an action for every lane, as for ``env.step``; those of waiting lanes are ignored.
        mask: bool ``[B]``, the lanes to step.

    Raises:
        ValueError: at trace time, if ``mask`` is not bool ``[B]``, if action or timestep do not fit, if a wrapper would
            learn from the rows of waiting lanes, or if the lanes are in an engine outside JAX, which steps all of them.

    >>> import jax.numpy as jnp, jaxenv
    >>> env = jaxenv.testing.Chain(num_envs=2)
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> state, timestep = step_where(env, state, timestep, jnp.array([1, 1]), jnp.array([True, False]))
    >>> timestep.observation.tolist(), timestep.step_type.tolist()
    ([1, 0], [1, 0])
    """
    check_environment("step_where", env)
    check_arrays("step_where", "mask", mask)
    if env.unwrapped._is_outside_jax:
        raise ValueError(f"step_where: {env} cannot let lanes wait: one engine outside JAX steps all of them")
    with _state_checks.explained("step_where", env, state):
        check_mask("step_where", mask, env.clock(state).env_id.shape[0])
    for level in layers(env):
        if isinstance(level, BatchWrapper) and not level.frozen:
            raise ValueError(
                f"step_where: {type(level).__name__} would learn from the rows of waiting lanes: build it with "
                "frozen=True, or the stack by make(mode='eval')"
            )
    stepped = env._step_lanes(state, action, mask)
    if (fault := _state_checks.difference(env, stepped, state, timestep)) is not None:
        raise ValueError(f"step_where: {fault}")
    return tree.where(mask, stepped, (state, timestep))
