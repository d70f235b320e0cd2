"""Evaluates a policy on whole episodes, the same number in every lane, so that short ones are not favoured."""

import dataclasses
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv._util import xla
from jaxenv._util.checks import INT32_MAX, check_integer, is_integer, is_known_array, is_real
from jaxenv.core import _moments
from jaxenv.core._checks.given import lane_numbers
from jaxenv.core._moments import Sum
from jaxenv.core.environment import Environment, check_environment
from jaxenv.rollout._iteration import chosen, while_loop
from jaxenv.rollout._policy import Policy, PolicyLoop
from jaxenv.rollout.statistic import LARGEST, Statistic

_WITHOUT_LIMIT = 100_000  # steps of an episode that no time limit ends


@tree.struct
class Evaluation:
    """N whole episodes, sorted by lane.

    Episodes are independent, also within a lane: each has its own random numbers, and no state crosses episodes unless
    the environment carries it over. Plain averages over them are therefore sound.

    Attributes:
        returns: float32 ``[N]`` (or ``[N, R]``), the sum of the rewards after FIRST. Episodes of a lane are adjacent:
            ``returns.reshape(B, -1)`` has a row per lane. NaN for an episode that ``max_steps`` cut off.
        lengths: int32 ``[N]``, the number of steps; -1 for an episode that was cut off.
        terminated: bool ``[N]``, whether the episode terminated; False if it was truncated or cut off.
        finished: bool ``[N]``; False for an episode that ``max_steps`` cut off or that was not reached.
        abnormal: bool ``[N]``, whether the episode ended on a row marked ``env_info["abnormal"]``, set by
            `GuardNonFinite` or by the task itself; False if the environment has no such entry.
    """

    returns: jax.Array
    lengths: jax.Array
    terminated: jax.Array
    finished: jax.Array
    abnormal: jax.Array

    def summary(
        self, key: jax.Array | None = None, *, num_resamples: int = 10_000, level: float = 0.95
    ) -> dict[str, Any]:
        """Returns statistics of the finished episodes: scalars, or ``[R]`` for returns of a vector reward.

        Episodes that ``max_steps`` cut off count only as ``unfinished``. They are the long ones. If there are any,
        raise ``max_steps`` or give the environment a time limit. Episodes that ended on an abnormal row count only as
        ``abnormal``, as in `jaxenv.rollout.Metrics`. All episodes must come from one call, not from several under
        ``jax.vmap``.

        Args:
            key: typed key ``()`` of the bootstrap; without one there is no interval.
            num_resamples: number of times that the episodes are resampled with replacement.
            level: the fraction of the resampled means inside the interval, in (0, 1).

        Returns:
            ``episodes``, ``terminated``, ``truncated``, ``abnormal``, ``unfinished``, int32; ``return_mean``,
            ``return_std`` (of the population), ``return_max``, ``return_min``; ``return_standard_error`` of the mean;
            with a key ``return_low`` and ``return_high``, the percentile bootstrap interval of the mean (Efron 1979,
            doi:10.1214/aos/1176344552); ``length_mean``. All but the counts are a `Statistic`: ``float(x)``
            or `to_host` reads one, as NaN or ``None`` without an episode (standard error and interval: with fewer than
            two). Inside compiled code it has ``value`` and ``valid``.

        >>> returns = np.array([1, 2, 3, 6], np.float32)
        >>> ended = np.array([True, True, False, True])
        >>> lengths, all_, none = returns.astype(np.int32), np.ones(4, bool), np.zeros(4, bool)
        >>> found = Evaluation(returns, lengths, ended, all_, none).summary(jax.random.key(0))
        >>> float(found["return_mean"]), round(float(found["return_standard_error"]), 3), int(found["truncated"])
        (3.0, 1.08, 1)
        """
        check_integer("Evaluation", "num_resamples", num_resamples, 1)
        if not (is_real(level) and 0 < level < 1):
            raise ValueError(f"Evaluation: level must be in (0, 1), got {level!r}")
        returns, finished = jnp.asarray(self.returns), jnp.asarray(self.finished)
        if finished.ndim != 1:
            fault = f"summary takes the episodes [N] of one call, got finished of shape {finished.shape}"
            raise ValueError(f"Evaluation: {fault}: use jax.vmap(Evaluation.summary)")
        valid = finished & ~self.abnormal
        terminated = valid & self.terminated
        number = _count(valid)
        moments = _moments.from_batch(returns, valid)

        def if_at_least(minimum: Any, x: Any) -> Any:
            return Statistic.where(number >= minimum, x)

        counted = tree.expand(valid, returns.ndim)
        standard_error = jnp.sqrt(moments.variance / jnp.maximum(number - 1, 1).astype(jnp.float32))
        summary = {
            "episodes": number,
            "terminated": _count(terminated),
            "truncated": _count(valid & ~terminated),
            "abnormal": _count(finished & ~valid),
            "unfinished": _count(~finished),
            "return_mean": if_at_least(1, moments.mean),
            "return_std": if_at_least(1, jnp.sqrt(moments.variance)),
            "return_max": if_at_least(1, jnp.max(jnp.where(counted, returns, -LARGEST), axis=0)),
            "return_min": if_at_least(1, jnp.min(jnp.where(counted, returns, LARGEST), axis=0)),
            "return_standard_error": if_at_least(2, standard_error),
            "length_mean": if_at_least(
                1, _moments.from_batch(jnp.asarray(self.lengths).astype(jnp.float32), valid).mean
            ),
        }
        if key is not None:
            random.check_one("summary", key)
            centred = jnp.where(counted, returns - moments.mean[None], np.float32(0))
            means = _resampled_means(key, centred, valid, number, num_resamples)
            for name, quantile in (("return_low", (1 - level) / 2), ("return_high", (1 + level) / 2)):
                summary[name] = if_at_least(2, moments.mean + jnp.quantile(means, np.float32(quantile), axis=0))
        return summary


def evaluate(
    env: Environment,
    policy: Policy,
    key: jax.Array,
    num_episodes: int | None = None,
    *,
    initial_memory: Any = (),
    max_steps: int | None = None,
    env_id: jax.Array | None = None,
) -> Evaluation:
    """Plays exactly ``num_episodes`` whole episodes, ``num_episodes / num_envs`` in every lane. It can be jitted.

    The first N episodes to end in a batch are the short ones. A quota per lane avoids that bias.

    Where the environment has a time limit, all episodes end. Without one, some may be cut off: they are NaN in
    ``returns``, and outside of ``jit`` a warning counts them.

    Inside ``jax.shard_map`` every shard passes the ``env_id`` of its lanes and plays until these have finished, without
    cross-device communication. Under plain ``jit`` over sharded keys all devices are asked after every step whether a
    lane still plays.

    Args:
        env: an environment with ``AutoReset``.
        policy: as in `jaxenv.unroll`.
        key: one typed key, or one per lane ``Key[B]``.
        num_episodes: a multiple of the number of lanes B; one per lane by default.
        initial_memory: recurrent state at the start of an episode, leaves ``[B, ...]``.
        max_steps: limit on the number of steps per lane, restarts included; an integer of at least 1. By default
            enough for all episodes of a lane, each up to the time limit, or up to 100,000 steps without one.
        env_id: int32 ``[B]``, the global numbers of the lanes, as in `Environment.reset`; all ``env.num_envs`` lanes by
            default.
    """
    check_environment("evaluate", env)
    if max_steps is not None:
        check_integer("evaluate", "max_steps", max_steps, 1)
    env_id = None if env_id is None else lane_numbers(env, env_id)
    name, lanes = ("num_envs", env.num_envs) if env_id is None else ("len(env_id)", env_id.shape[0])
    num_episodes = lanes if num_episodes is None else num_episodes
    if not is_integer(num_episodes) or num_episodes < 1 or num_episodes % lanes:
        raise ValueError(f"evaluate: num_episodes must be a positive multiple of {name} = {lanes}, got {num_episodes}")
    if env.autoreset is None:
        raise ValueError(f"evaluate: {env} has no AutoReset, so its lanes would not start another episode")
    state, timestep = env.reset(key, env_id)
    quota = int(num_episodes) // lanes
    if timestep.step_type.shape != (lanes,):
        raise ValueError(f"evaluate: {env} has {lanes} lanes, got {timestep.step_type.shape[0]} keys")
    loop = PolicyLoop.create("evaluate", env, policy, (state, timestep), None, initial_memory, None)

    kinds = (timestep.reward, jnp.float32), (timestep.step_type, jnp.int32), (timestep.step_type, bool)
    # The carry of a loop must be on the devices of the lanes from the start.
    zeros = tree.vary_like(timestep.step_type, [jnp.zeros(x.shape, dtype) for x, dtype in kinds])
    reward, count, flags = xla.sharded_like(loop.words[0], zeros)
    none = Sum(reward, reward)

    bound = _default_bound(env, quota) if max_steps is None else max_steps

    def per_episode(x: Any) -> Any:  # [B, quota, ...]
        return jnp.broadcast_to(x[:, None], (lanes, quota, *x.shape[1:]))

    record = Evaluation(per_episode(none.value), per_episode(count), *(per_episode(flags) for _ in range(3)))
    # Per lane, so that sharded lanes need no cross-device communication. Past its quota a lane writes out of bounds,
    # and the write is dropped.
    put = jax.vmap(lambda entries, i, x: entries.at[i].set(x, mode="drop"))
    add = jax.vmap(lambda entries, i, x: entries.at[i].add(x, mode="drop"))

    def unfinished(carry: Any) -> Any:
        *_, count, _ = carry
        return jnp.any(count < quota)

    def one_step(carry: Any, _: Any) -> Any:
        *carry, record, total, count, steps = carry
        (state, timestep, memory), _ = loop.step(tuple(carry))
        moved, last = ~timestep.is_first(), timestep.is_last()
        total = total.add(jnp.where(tree.expand(moved, timestep.reward.ndim), timestep.reward, np.float32(0)))
        row = total.value, moved, timestep.terminated, last, last & timestep.env_info.get("abnormal", False)
        returns, moved, terminated, last, abnormal = xla.sharded_like(loop.words[0], row)
        record = Evaluation(
            returns=put(record.returns, count, returns),
            lengths=add(record.lengths, count, moved.astype(jnp.int32)),
            terminated=put(record.terminated, count, terminated),
            finished=put(record.finished, count, last),
            abnormal=put(record.abnormal, count, abnormal),
        )
        total = tree.where(last, none, total)
        steps += 1
        count = jnp.where(steps < bound, count + last.astype(jnp.int32), np.int32(quota))
        return (state, timestep, memory, record, total, count, steps), None

    start = (state, timestep, loop.memory, record, none, count, np.int32(0))
    record = while_loop(unfinished, one_step, start, chosen("evaluate", None, one_step, start, lanes))[3]
    record = jax.tree.map(lambda x: x.reshape(num_episodes, *x.shape[2:]), record)
    cut = ~record.finished
    if is_known_array(cut) and cut.is_fully_addressable and (number := np.count_nonzero(cut)):
        limit = "max_steps" if max_steps is None else f"max_steps = {max_steps}"
        warnings.warn(
            f"evaluate: {number} of {num_episodes} episodes had not ended when {limit} steps of a lane were taken: "
            "their returns are NaN, their lengths -1; raise max_steps, or give the environment a time limit",
            stacklevel=2,
        )
    return dataclasses.replace(
        record,
        returns=jnp.where(tree.expand(cut, record.returns.ndim), np.float32(np.nan), record.returns),
        lengths=jnp.where(cut, np.int32(-1), record.lengths),
    )


def _default_bound(env: Environment, quota: int) -> jax.Array:
    """Returns the number of steps in which a lane ends ``quota`` episodes, restarts included; int32 ``()``."""
    longest = jnp.asarray(env._longest_episode, jnp.int32)
    steps = jnp.max(jnp.where(longest == INT32_MAX, np.int32(_WITHOUT_LIMIT), longest))
    return jnp.where(steps >= INT32_MAX // quota, np.int32(INT32_MAX), quota * (steps + 1))


def _count(mask: jax.Array) -> jax.Array:
    """Counts the True entries of ``bool[N]``, int32, also where 64-bit types are enabled."""
    return jnp.sum(mask, axis=0, dtype=jnp.int32)


def _resampled_means(
    key: jax.Array, x: jax.Array, valid: jax.Array, number: jax.Array, num_resamples: int
) -> jax.Array:
    """Returns means of ``number`` valid episodes drawn with replacement, ``[num_resamples, ...]``."""
    batch_size = 64  # resamples in memory at a time
    order = jnp.argsort(~valid, stable=True)  # valid episodes first
    drawn = np.arange(x.shape[0], dtype=np.int32) < number
    weight = tree.expand(drawn.astype(jnp.float32) / jnp.maximum(number, 1).astype(jnp.float32), x.ndim)

    def resample(_: Any, key: jax.Array) -> Any:
        index = jax.random.randint(key, (batch_size, x.shape[0]), 0, jnp.maximum(number, 1), jnp.int32)
        return None, jnp.sum(x[order[index]] * weight[None], axis=1)

    keys = jax.random.split(key, -(-num_resamples // batch_size))
    means = jax.lax.scan(resample, None, keys)[1]
    return means.reshape(-1, *x.shape[1:])[:num_resamples]
