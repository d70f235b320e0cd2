"""Measures the metrics of a rollout."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from jaxenv import tree
from jaxenv._util import xla
from jaxenv._util.checks import check_kind
from jaxenv.core._compiled import compiled_once
from jaxenv.core._count import Count
from jaxenv.core._moments import Moments
from jaxenv.core._sum import sum_axis0
from jaxenv.core.timestep import TimeStep, check_timestep
from jaxenv.rollout.metrics import _env_info
from jaxenv.rollout.metrics._episode import Episode
from jaxenv.rollout.metrics._sums import max_axis0, min_axis0, pool_means
from jaxenv.rollout.metrics.metrics_state import MetricsState
from jaxenv.rollout.metrics.totals import Totals, is_moments
from jaxenv.rollout.statistic import Statistic


@dataclasses.dataclass(frozen=True)
class Metrics:
    """Declares the metrics of a rollout. It is hashable: close over it, or pass it as a static argument.

    In ``same_step`` mode an entry that comes from `Task.state_info` describes the next episode on a LAST row, as
    the observation does, so its metric would miss the last state and include the next episode's first. Measure such
    entries in ``next_step`` mode. In ``same_step`` mode only named entries are measured; by default `ChunkedRollout`
    names the entries that do not come from `Task.state_info`.

    Attributes:
        gamma: the learner's discount rate in [0, 1]; without one there are no discounted metrics.
        env_info: names of ``env_info`` entries, with dotted paths below them, ``()`` for none. The value of an episode
            is the sum of the entry over its steps, with the suffix ``@step`` their mean, with ``@max`` their maximum;
            the metric is the mean over episodes. Values that are not finite are skipped, and an episode without a
            finite one does not count. A key of ``env_info`` may itself end in such a suffix. By default every integer
            and float entry with one number per lane is measured under its own name; flags, masks, other arrays, and
            the entries ``task_id``, ``params``, ``player`` and ``state`` are measured if they are named.

    Raises:
        ValueError: if gamma is out of range, or names repeat, are empty or end in another suffix.

    >>> import jax, jaxenv
    >>> env = jaxenv.wrappers.AutoReset(jaxenv.testing.count_to_two(num_envs=2))
    >>> metrics = Metrics(gamma=0.5)
    >>> @jax.jit
    ... def play(key):
    ...     state, timestep = env.reset(key)
    ...     _, rows = jaxenv.unroll(env, jaxenv.rollout.random_policy(env), state, timestep, 8)
    ...     measured = metrics.update_rows(metrics.init(timestep), rows.timestep)
    ...     return metrics.compute(metrics.totals(measured))
    >>> found = jaxenv.rollout.to_host(play(jax.random.key(0)))
    >>> found["steps"], found["episodes"], found["length_mean"], found["discounted_return_start"]
    (10, 4, 2.0, 0.5)
    """

    gamma: float | None = None
    env_info: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.gamma is not None:
            if isinstance(self.gamma, str) or not jnp.isscalar(self.gamma) or not 0 <= self.gamma <= 1:
                raise ValueError(f"Metrics: gamma must be in [0, 1], got {self.gamma!r}")
            object.__setattr__(self, "gamma", float(self.gamma))  # arrays are not hashable
        object.__setattr__(self, "env_info", _env_info.check_names(self.env_info))

    def init(self, timestep: TimeStep) -> MetricsState:
        """Returns the state before the first row.

        An episode that is in progress here is left out, because its return and length are not known.

        Args:
            timestep: one row ``[B]``, or its shapes: the row before the first one to add, or that row itself. Only
                whether it is FIRST is read; shapes count as rows inside an episode.

        Raises:
            ValueError: if the row lacks a field that is measured, or has other axes than ``[B]``.
        """
        row = self.select(timestep)
        lanes = row.step_type.shape
        if len(lanes) != 1:
            raise ValueError(f"Metrics: init takes one row [B], got step_type of shape {lanes}")
        known = not isinstance(row.step_type, jax.ShapeDtypeStruct)
        is_whole = jnp.asarray(row.is_first()) if known else jnp.zeros(lanes, bool)
        state = MetricsState.empty(Episode.zeros(row, self.gamma, is_whole))
        # Inside shard_map a loop carry must vary over the mesh from the start.
        return tree.vary_like(row.step_type, state) if isinstance(row.step_type, jax.Array) else state

    def update(self, state: MetricsState, timestep: TimeStep) -> MetricsState:
        """Adds one row ``[B]``.

        Raises:
            ValueError: if the row lacks a field that is measured, or has other shapes than the row given to `init`.
        """
        return self.update_rows(state, jax.tree.map(lambda x: x[None], self.select(timestep)))

    def update_rows(self, state: MetricsState, rows: TimeStep) -> MetricsState:
        """Adds rows ``[T, B]``, such as an unroll. Adding 50 at once is much cheaper than one by one."""
        self._check_origin("update", state, MetricsState)
        rows = _select(rows, tuple(state.entries))
        self._check_rows(state, rows)
        if not rows.step_type.shape[0]:
            return state
        # Only the unfinished episodes are updated row by row; sums over finished ones are updated once for all rows.
        episode, episodes = _follow(state.episode, rows, self.gamma)
        return self._add_finished(dataclasses.replace(state, episode=episode), episodes, rows)

    def clear_finished(self, state: MetricsState) -> MetricsState:
        """Resets all sums and counts but keeps the unfinished episodes, leaves ``[B, ...]``."""
        check_kind("Metrics", "state", state, MetricsState)
        return tree.vary_like(state.episode.length, MetricsState.empty(state.episode))

    def totals(self, state: MetricsState) -> Totals:
        """Reduces a state over its lanes ``[B]``."""
        self._check_origin("totals", state, MetricsState)
        terminated, truncated = state.terminated, state.truncated
        returns, returns_terminated, returns_truncated = state.returns.pool_lanes(terminated, truncated)
        lengths, lengths_terminated, lengths_truncated = state.lengths.pool_lanes(terminated, truncated)

        def discounted(total: Any) -> Any:
            return () if self.gamma is None else pool_means(total, terminated + truncated)

        return Totals(
            rewards=pool_means(state.rewards, state.steps),
            returns=returns,
            returns_terminated=returns_terminated,
            returns_truncated=returns_truncated,
            return_max=jnp.max(state.return_max, axis=0),
            return_min=jnp.min(state.return_min, axis=0),
            lengths=lengths,
            lengths_terminated=lengths_terminated,
            lengths_truncated=lengths_truncated,
            abnormal=Count.sum(state.abnormal, sum_axis0),
            discounted_starts=discounted(state.discounted_starts),
            discounted_means=discounted(state.discounted_means),
            entries=jax.tree.map(lambda count, total: pool_means(total, count), state.entry_counts, state.entries),
        )

    def compute(self, totals: Totals) -> dict[str, Any]:
        """Returns the metrics by name: scalars, or ``[R]`` for a vector reward.

        ``x.value``, ``float(x)`` or `to_host` reads a `Statistic`, as NaN or ``None`` without data. Inside compiled
        code ``value`` is 0 without data, where ``valid`` is False.

        - ``steps``, ``episodes``, ``terminated``, ``truncated``, ``abnormal``: counts; an episode counts at its LAST
          row if its start was seen.
        - ``reward_per_step``: the mean over all steps, including unfinished episodes.
        - ``return_mean``, ``return_std`` (of the population), ``return_max``, ``return_min``: of finished episodes;
          ``return_mean_terminated`` and ``return_mean_truncated`` by ending.
        - ``length_mean``, ``length_std``, ``length_mean_terminated``, ``length_mean_truncated``: their lengths.
        - ``discounted_return_start``, with a gamma: the mean discounted return of FIRST rows.
        - ``discounted_return``, with a gamma: the discounted return averaged over the rows of each episode, then over
          episodes.
        - the names of ``env_info`` entries; an entry with the name of another metric is called ``env_info.NAME``.

        In discounted returns, gamma is multiplied by the discounts of the rows, and rewards after a truncation count as
        0.
        """
        self._check_origin("compute", totals, Totals)
        metrics: dict[str, Any] = {
            "steps": totals.rewards.count,
            "episodes": totals.returns.count,
            "terminated": totals.returns_terminated.count,
            "truncated": totals.returns_truncated.count,
            "abnormal": totals.abnormal,
            "return_mean": _mean(totals.returns),
            "return_std": _statistic(totals.returns, jnp.sqrt(totals.returns.variance)),
            "return_max": _statistic(totals.returns, totals.return_max),
            "return_min": _statistic(totals.returns, totals.return_min),
            "return_mean_terminated": _mean(totals.returns_terminated),
            "return_mean_truncated": _mean(totals.returns_truncated),
            "length_mean": _mean(totals.lengths),
            "length_std": _statistic(totals.lengths, jnp.sqrt(totals.lengths.variance)),
            "length_mean_terminated": _mean(totals.lengths_terminated),
            "length_mean_truncated": _mean(totals.lengths_truncated),
            "reward_per_step": _mean(totals.rewards),
        }
        if self.gamma is not None:
            metrics["discounted_return_start"] = _mean(totals.discounted_starts)
            metrics["discounted_return"] = _mean(totals.discounted_means)
        for name in sorted(totals.entries) if self.env_info is None else self.env_info:
            unique = f"env_info.{name}" if name in metrics else name
            for path, moments in jax.tree_util.tree_leaves_with_path(totals.entries[name], is_leaf=is_moments):
                below = tree.path_name(path)
                metrics[f"{unique}.{below}" if below else unique] = _mean(moments)
        return metrics

    def select(self, timestep: TimeStep) -> TimeStep:
        """Returns rows ``[B]`` or ``[T, B]`` with only the fields that are measured, all that `update_rows` needs."""
        return _select(timestep, self.env_info)

    def _add_finished(self, state: MetricsState, episodes: Episode, rows: TimeStep) -> MetricsState:
        """Adds the steps and the ended episodes of rows ``[T, B]``; ``episodes`` are the episodes after each row."""
        moved, last = ~rows.is_first(), rows.is_last()
        abnormal = last & rows.env_info["abnormal"] if "abnormal" in rows.env_info else jnp.zeros_like(last)
        counted = episodes.is_whole & ~abnormal
        terminated, truncated = rows.terminated & counted, rows.truncated & counted
        ended = terminated | truncated
        first = (state.terminated | state.truncated) == 0
        entries = episodes.values()
        valid = jax.tree.map(lambda count: tree.expand(ended, count.ndim) & (count > 0), episodes.entry_counts)
        starts = means = ()
        if self.gamma is not None:
            total = episodes.discounted.total
            length = jnp.maximum(episodes.length, 1).astype(jnp.float32)
            starts = state.discounted_starts.add_rows(episodes.discounted.start, ended)
            means = state.discounted_means.add_rows(total / tree.expand(length, total.ndim), ended)
        return MetricsState(
            episode=state.episode,
            steps=state.steps + _count_rows(moved),
            rewards=state.rewards.add_rows(rows.reward, moved),
            terminated=state.terminated + _count_rows(terminated),
            truncated=state.truncated + _count_rows(truncated),
            abnormal=state.abnormal + _count_rows(abnormal),
            returns=state.returns.add(episodes.return_.value, terminated, truncated, first),
            return_max=jnp.maximum(state.return_max, max_axis0(episodes.return_.value, ended)),
            return_min=jnp.minimum(state.return_min, min_axis0(episodes.return_.value, ended)),
            lengths=state.lengths.add(episodes.length.astype(jnp.float32), terminated, truncated, first),
            discounted_starts=starts,
            discounted_means=means,
            entries=jax.tree.map(lambda x, mask, total: total.add_rows(x, mask), entries, valid, state.entries),
            entry_counts=jax.tree.map(lambda count, mask: count + _count_rows(mask), state.entry_counts, valid),
        )

    def _check_rows(self, state: MetricsState, rows: TimeStep) -> None:
        episode = state.episode
        reward = rows.reward.shape[1:]
        if reward != episode.return_.value.shape:
            raise ValueError(f"Metrics: the reward has shape {reward}, in the state {episode.return_.value.shape}")
        for name, counts in episode.entry_counts.items():
            given = jax.tree.map(lambda x: jnp.shape(x)[1:], rows.env_info[name])
            expected = jax.tree.map(lambda x: x.shape, counts)
            if given != expected:
                raise ValueError(f"Metrics: env_info {name!r} has shape {given}, in the state {expected}")

    def _check_origin(self, method: str, sums: Any, kind: type) -> None:
        """Raises a ``ValueError`` unless ``sums`` is a ``MetricsState`` or ``Totals`` of these metrics."""
        check_kind("Metrics", "totals" if kind is Totals else "state", sums, kind)
        found: Any = sums
        discounted, entries = not isinstance(found.discounted_starts, tuple), sorted(found.entries)
        expected = entries if self.env_info is None else sorted(self.env_info)
        if (discounted, entries) != (self.gamma is not None, expected):
            origin = f"{'with a' if discounted else 'without'} gamma and with env_info {entries}"
            raise ValueError(f"Metrics: {method} got the {kind.__name__} of metrics {origin}, these are {self}")


def _select(timestep: TimeStep, names: tuple[str, ...] | None) -> TimeStep:
    check_timestep("Metrics", "rows", timestep)
    for name in ("step_type", "reward", "discount"):
        if isinstance(getattr(timestep, name), tuple):
            raise ValueError(f"Metrics: the rows have no {name}, keep it in unroll(fields=...)")
    env_info = _env_info.select(timestep.env_info, names, len(timestep.step_type.shape))
    return TimeStep(timestep.step_type, timestep.reward, timestep.discount, env_info=env_info)


def _count_rows(mask: jax.Array) -> jax.Array:
    return sum_axis0(mask.astype(jnp.uint32))


def _mean(moments: Moments) -> Statistic:
    return _statistic(moments, moments.mean)


def _statistic(moments: Moments, x: jax.Array) -> Statistic:
    return Statistic.where(~moments.count.is_zero(), x)


@functools.partial(compiled_once, static_argnums=2)
def _follow(episode: Episode, rows: TimeStep, gamma: float | None) -> tuple[Episode, Episode]:
    """Returns the unfinished episode of each lane ``[B]`` after the rows ``[T, B]``, and after each of them."""
    first = jax.tree.map(lambda x: x[0], rows)
    fresh = Episode.zeros(first, gamma, tree.vary_like(first.step_type, jnp.ones(first.step_type.shape, bool)))

    def one_row(episode: Episode, row: TimeStep) -> tuple[Episode, Episode]:
        # An episode that a FIRST row cuts short, without a LAST row before it, is not counted.
        episode = tree.where(row.is_first(), fresh, episode).add(row, gamma)
        return tree.where(row.is_last(), fresh, episode), episode

    return xla.scan_elementwise(one_row, episode, rows)
