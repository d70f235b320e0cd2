"""Whole episodes: an equal number from every lane, so that short ones are not favoured."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.environment import Environment
from jaxenv.rollout.policy import act, policy_stream


@tree.struct
class Evaluation:
    """Episodes in the order lane 0 first: each ``[num_episodes]``.

    Attributes:
        returns: float32 ``[N]`` (or ``[N, R]``), sum of the rewards after FIRST.
        lengths: int32 ``[N]``, steps after FIRST.
        terminated: bool ``[N]``, whether the task ended the episode.
        finished: bool ``[N]``; False where ``max_steps`` cut the episode off, whose entries are then partial or 0.
    """

    returns: jax.Array
    lengths: jax.Array
    terminated: jax.Array
    finished: jax.Array


def evaluate(
    env: Environment,
    policy: Callable,
    key: jax.Array,
    num_episodes: int | None = None,
    *,
    initial_memory: Any = (),
    max_steps: int = 100_000,
) -> Evaluation:
    """Plays exactly ``num_episodes`` whole episodes, ``num_episodes / num_envs`` in every lane. It can be jitted.

    The first N episodes to finish in a batch are the short ones; a quota per lane takes each lane's episodes as they
    come.

    Args:
        env: an environment with ``AutoReset``.
        policy: as in `unroll`.
        key: one typed key, or ``Key[num_envs]``.
        num_episodes: a multiple of ``env.num_envs``; one a lane by default.
        initial_memory: recurrent state at the start of an episode, leaves ``[B, ...]``.
        max_steps: no lane is stepped more often, whatever happens.

    Raises:
        ValueError: if the environment has no ``AutoReset``, ``num_episodes`` is no positive multiple of the lanes, or
            there are keys for another number of lanes.
    """
    num_episodes = env.num_envs if num_episodes is None else num_episodes
    if not isinstance(num_episodes, int | np.integer) or num_episodes < 1 or num_episodes % env.num_envs:
        raise ValueError(
            f"evaluate: num_episodes must be a positive multiple of num_envs = {env.num_envs}, got {num_episodes}"
        )
    if env.autoreset is None:
        raise ValueError(f"evaluate: {env} has no AutoReset, so its lanes would not go on to the next episode")
    recurrent = bool(jax.tree.leaves(initial_memory))
    initial_memory = tree.strong(initial_memory)
    state, timestep = env.reset(key)
    lanes, quota = env.num_envs, int(num_episodes) // env.num_envs
    if timestep.step_type.shape != (lanes,):
        raise ValueError(f"evaluate: {env} has {lanes} lanes, got {timestep.step_type.shape[0]} keys")
    rows = (lanes, quota)
    record = Evaluation(
        jnp.zeros(rows + timestep.reward.shape[1:], jnp.float32),
        jnp.zeros(rows, jnp.int32),
        jnp.zeros(rows, bool),
        jnp.zeros(rows, bool),
    )
    lane = np.arange(lanes, dtype=np.int32)

    def unfinished(carry):
        *_, count, steps = carry
        return jnp.any(count < quota) & (steps < max_steps)

    def one_step(carry):
        state, timestep, memory, record, count, steps = carry
        if recurrent:
            memory = tree.where(env.starts(timestep), initial_memory, memory)
        out = act(policy, timestep, policy_stream(env, state), memory, recurrent)
        state, timestep = env.step(state, out.action)
        # Rows past the quota have no place in the record: the index is out of range and the write is dropped.
        at = record.returns.at[lane, count]
        moved = ~timestep.is_first()
        reward = jnp.where(tree.expand(moved, timestep.reward.ndim), timestep.reward, np.float32(0))
        last = timestep.is_last()
        record = Evaluation(
            returns=at.add(reward, mode="drop"),
            lengths=record.lengths.at[lane, count].add(moved.astype(jnp.int32), mode="drop"),
            terminated=record.terminated.at[lane, count].set(timestep.terminated, mode="drop"),
            finished=record.finished.at[lane, count].set(last, mode="drop"),
        )
        return state, timestep, out.memory, record, count + last.astype(jnp.int32), steps + 1

    start = (state, timestep, initial_memory, record, jnp.zeros(lanes, jnp.int32), np.int32(0))
    record = jax.lax.while_loop(unfinished, one_step, start)[3]
    return jax.tree.map(lambda x: x.reshape(num_episodes, *x.shape[2:]), record)
