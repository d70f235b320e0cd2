"""Whole episodes: an equal number from every lane, so that short ones are not favoured."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import _moments, tree
from jaxenv.environment import Environment
from jaxenv.rollout.checks import check_whole
from jaxenv.rollout.sums import over_lanes
from jaxenv.rollout.walk import Walk


@tree.struct
class Evaluation:
    """Episodes in the order lane 0 first: each ``[num_episodes]``.

    They are independent of each other, those of one lane too: each draws from its own numbers, and nothing is carried
    on where the environment itself does not. So they may be averaged as they stand.

    Attributes:
        returns: float32 ``[N]`` (or ``[N, R]``), sum of the rewards after FIRST.
        lengths: int32 ``[N]``, steps after FIRST.
        terminated: bool ``[N]``, whether the task ended the episode.
        finished: bool ``[N]``; False where ``max_steps`` cut the episode off, whose entries are then partial or 0.
        abnormal: bool ``[N]``, whether it ended on a row marked ``env_info["abnormal"]`` (`GuardNonFinite`), which no
            task and no limit ended; False where the environment marks none.
    """

    returns: jax.Array
    lengths: jax.Array
    terminated: jax.Array
    finished: jax.Array
    abnormal: jax.Array

    def summary(
        self, key: jax.Array | None = None, *, num_resamples: int = 10_000, level: float = 0.95
    ) -> dict[str, jax.Array]:
        """What the finished episodes come to, scalars (for a vector reward ``[R]`` where it is about returns).

        Episodes that ``max_steps`` cut off are left out of all but ``unfinished``; the long ones are, so if there are
        any, take more steps. Those that ended on an abnormal row count in ``abnormal`` and nowhere else, as in
        `jaxenv.rollout.Metrics`.

        Args:
            key: typed key ``()`` of the bootstrap; without one there is no interval.
            num_resamples: how often the episodes are drawn anew, with replacement.
            level: what share of the resamples' means the interval holds.

        Returns:
            ``episodes``, ``terminated``, ``truncated``, ``abnormal``, ``unfinished``, int32; ``return_mean``,
            ``return_std`` (of the population), ``return_max``, ``return_min``; ``return_standard_error`` of the mean;
            with a key ``return_low`` and ``return_high``, the bootstrap's percentile interval for the mean (Efron 1979,
            doi:10.1214/aos/1176344552); ``length_mean``. NaN where there is no episode, for standard error and
            interval where there are less than two.

        Raises:
            ValueError: for a level outside (0, 1), less than 1 resample, or episodes of several calls (``jax.vmap``).

        >>> returns = np.array([1, 2, 3, 6], np.float32)
        >>> ended = np.array([True, True, False, True])
        >>> lengths, all_, none = returns.astype(np.int32), np.ones(4, bool), np.zeros(4, bool)
        >>> found = Evaluation(returns, lengths, ended, all_, none).summary(jax.random.key(0))
        >>> float(found["return_mean"]), round(float(found["return_standard_error"]), 3), int(found["truncated"])
        (3.0, 1.08, 1)
        """
        check_whole("Evaluation", "num_resamples", num_resamples, 1)
        if not 0 < level < 1:
            raise ValueError(f"Evaluation: level must lie between 0 and 1, got {level}")
        returns, finished = jnp.asarray(self.returns), jnp.asarray(self.finished)
        if finished.ndim != 1:
            raise ValueError(
                f"Evaluation: figures are of the episodes [N] of one call, got finished of shape {finished.shape}: "
                "jax.vmap(Evaluation.summary) has them for each"
            )
        sound = finished & ~self.abnormal
        terminated = sound & self.terminated
        number = _number(sound)
        moments = _moments.of(returns, sound)
        several = number > 1

        def known(x, enough=number > 0):
            return jnp.where(enough, x, np.float32(np.nan))

        counted = tree.expand(sound, returns.ndim)
        spread = jnp.sqrt(moments.variance / jnp.maximum(number - 1, 1).astype(jnp.float32))
        figures = {
            "episodes": number,
            "terminated": _number(terminated),
            "truncated": _number(sound & ~terminated),
            "abnormal": _number(finished & ~sound),
            "unfinished": _number(~finished),
            "return_mean": known(moments.mean),
            "return_std": known(jnp.sqrt(moments.variance)),
            "return_max": known(jnp.max(jnp.where(counted, returns, np.float32(-np.inf)), axis=0)),
            "return_min": known(jnp.min(jnp.where(counted, returns, np.float32(np.inf)), axis=0)),
            "return_standard_error": known(spread, several),
            "length_mean": known(_moments.of(jnp.asarray(self.lengths).astype(jnp.float32), sound).mean),
        }
        if key is not None:
            means = _resampled_means(key, returns - moments.mean[None], sound, number, num_resamples)
            for name, place in (("return_low", (1 - level) / 2), ("return_high", (1 + level) / 2)):
                figures[name] = known(moments.mean + jnp.quantile(means, np.float32(place), axis=0), several)
        return figures


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
        max_steps: no lane is stepped more often, whatever happens; a whole number from 1.

    Raises:
        ValueError: if the environment has no ``AutoReset``, ``num_episodes`` is no positive multiple of the lanes, or
            there are keys for another number of lanes, or ``max_steps`` is no whole number from 1.
    """
    check_whole("evaluate", "max_steps", max_steps, 1)
    num_episodes = env.num_envs if num_episodes is None else num_episodes
    whole = isinstance(num_episodes, int | np.integer) and not isinstance(num_episodes, bool)
    if not whole or num_episodes < 1 or num_episodes % env.num_envs:
        raise ValueError(
            f"evaluate: num_episodes must be a positive multiple of num_envs = {env.num_envs}, got {num_episodes}"
        )
    if env.autoreset is None:
        raise ValueError(f"evaluate: {env} has no AutoReset, so its lanes would not go on to the next episode")
    state, timestep = env.reset(key)
    lanes, quota = env.num_envs, int(num_episodes) // env.num_envs
    if timestep.step_type.shape != (lanes,):
        raise ValueError(f"evaluate: {env} has {lanes} lanes, got {timestep.step_type.shape[0]} keys")
    walk = Walk.of("evaluate", env, policy, state, None, initial_memory, None)
    rows = (lanes, quota)
    record = Evaluation(
        jnp.zeros(rows + timestep.reward.shape[1:], jnp.float32),
        jnp.zeros(rows, jnp.int32),
        jnp.zeros(rows, bool),
        jnp.zeros(rows, bool),
        jnp.zeros(rows, bool),
    )
    lane = np.arange(lanes, dtype=np.int32)

    def unfinished(carry):
        *_, count, steps = carry
        return jnp.any(count < quota) & (steps < max_steps)

    def one_step(carry):
        *carry, record, count, steps = carry
        (state, timestep, memory), _ = walk.step(tuple(carry))
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
            abnormal=record.abnormal.at[lane, count].set(last & timestep.env_info.get("abnormal", False), mode="drop"),
        )
        return state, timestep, memory, record, count + last.astype(jnp.int32), steps + 1

    start = (state, timestep, walk.memory, record, jnp.zeros(lanes, jnp.int32), np.int32(0))
    record = jax.lax.while_loop(unfinished, one_step, start)[3]
    return jax.tree.map(lambda x: x.reshape(num_episodes, *x.shape[2:]), record)


def _number(mask: jax.Array) -> jax.Array:
    """How many of ``bool[N]`` are True, int32 whatever the width of numbers."""
    return over_lanes(mask.astype(jnp.int32))


def _resampled_means(
    key: jax.Array, x: jax.Array, valid: jax.Array, number: jax.Array, num_resamples: int
) -> jax.Array:
    """Means of ``num_resamples`` draws of ``number`` valid rows with replacement, ``[num_resamples, ...]``."""
    at_once = 64  # what is in memory at a time: so many times the rows
    first = jnp.argsort(~valid, stable=True)  # the valid rows
    drawn = np.arange(x.shape[0], dtype=np.int32) < number
    share = tree.expand(drawn.astype(jnp.float32) / jnp.maximum(number, 1).astype(jnp.float32), x.ndim)

    def some(_, key):
        place = jax.random.randint(key, (at_once, x.shape[0]), 0, jnp.maximum(number, 1), jnp.int32)
        return None, jnp.sum(x[first[place]] * share[None], axis=1)

    keys = jax.random.split(key, -(-num_resamples // at_once))
    means = jax.lax.scan(some, None, keys)[1]
    return means.reshape(-1, *x.shape[1:])[:num_resamples]
