"""Recorded episodes as rows."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._checks import check_array, check_arrays, is_concrete
from jaxenv.rollout import Experience
from jaxenv.timestep import StepType, TimeStep


def from_episode(
    observation: Any, action: Any, reward: Any, *, terminated: Any = True, policy_info: Any = ()
) -> Experience:
    """Makes whole recorded episodes, such as demonstrations, into the rows of an unroll: leaves ``[T + 1, B, ...]``.

    The rows go from FIRST to LAST and hold step type, reward, discount and observation, as those of
    ``unroll(fields=["step_type", "reward", "discount", "observation", "action"])`` do: a replay buffer takes both. The
    LAST row has an action of zeros, which nothing reads.

    Args:
        observation: leaves ``[T + 1, B, ...]``, the first observation and the one after each action.
        action: leaves ``[T, B, ...]``.
        reward: ``[T, B]`` or ``[T, B, R]``, of each action.
        terminated: whether the task ended the episodes: one bool, or bool ``[B]``. False for an episode that was cut
            off, whose last value bootstraps.
        policy_info: leaves ``[T, B, ...]``; zeros on the LAST row.

    Raises:
        ValueError: for an episode without a step, a leaf that does not lead with the same steps and lanes, or NaN
            outside of traces.

    >>> rows = from_episode(np.array([[7], [8], [9]]), np.array([[1], [2]]), np.array([[0.5], [1.5]]))
    >>> rows.timestep.step_type[:, 0].tolist(), rows.timestep.reward[:, 0].tolist(), rows.action[:, 0].tolist()
    ([0, 1, 2], [0.0, 0.5, 1.5], [1, 2, 0])
    """
    check_array("from_episode", "reward", reward)
    check_array("from_episode", "terminated", terminated)
    for name, x in (("observation", observation), ("action", action), ("reward", reward)):
        if not jax.tree.leaves(x):
            raise ValueError(f"from_episode: {name} must hold at least one array, got {x!r}")
        _check_numbers(name, x)
    _check_numbers("policy_info", policy_info)
    reward = jnp.asarray(reward, jnp.float32)
    if reward.ndim < 2 or reward.shape[0] < 1:
        raise ValueError(f"from_episode: reward must be [T, B] or [T, B, R] of at least 1 step, got {reward.shape}")
    steps, lanes = reward.shape[:2]
    for name, x, length in (("observation", observation, steps + 1), ("action", action, steps)):
        _check_leads(name, x, (length, lanes))
    _check_leads("policy_info", policy_info, (steps, lanes))
    ended = jnp.asarray(terminated)
    if ended.dtype != jnp.bool_ or ended.shape not in ((), (lanes,)):
        raise ValueError(
            f"from_episode: terminated must be bool or bool[{lanes}], got {ended.dtype}{list(ended.shape)}"
        )
    kinds = np.full(steps + 1, StepType.MID, np.int32)
    kinds[0], kinds[-1] = StepType.FIRST, StepType.LAST
    unset: Any = ()
    timestep = TimeStep(
        step_type=jnp.broadcast_to(jnp.asarray(kinds)[:, None], (steps + 1, lanes)),
        reward=jnp.concatenate([jnp.zeros_like(reward[:1]), reward]),
        discount=jnp.ones((steps + 1, lanes), jnp.float32).at[-1].set(jnp.where(ended, np.float32(0), np.float32(1))),
        observation=jax.tree.map(jnp.asarray, observation),
        env_info=unset,
    )
    action, policy_info = jax.tree.map(_with_zeros, (action, policy_info))
    return Experience(timestep, action, policy_info)


def _with_zeros(x: Any) -> jax.Array:
    x = jnp.asarray(x)
    return jnp.concatenate([x, jnp.zeros_like(x[:1])])


def _check_numbers(name: str, x: Any) -> None:
    """Raises a ``ValueError`` for a leaf that holds no numbers, and for NaN, which a learner would spread."""
    check_arrays("from_episode", name, x)
    for path, leaf in tree.flatten_with_path(x)[0]:
        if is_concrete(leaf) and np.any(np.isnan(np.asarray(leaf, np.float64))):
            leaf_name = ".".join(filter(None, (name, tree.path_name(path))))
            first = tuple(np.argwhere(np.isnan(np.asarray(leaf, np.float64)))[0].tolist())
            raise ValueError(f"from_episode: {leaf_name} must not be NaN, got nan at {first}")


def _check_leads(name: str, x: Any, axes: tuple[int, int]) -> None:
    for path, leaf in tree.flatten_with_path(x)[0]:
        if jnp.shape(leaf)[:2] != axes:
            leaf_name = ".".join(filter(None, (name, tree.path_name(path))))
            raise ValueError(f"from_episode: {leaf_name} must lead with {list(axes)}, got shape {jnp.shape(leaf)}")
