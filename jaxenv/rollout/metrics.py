"""Metrics of a rollout: per-lane sums inside the compiled loop, reduced and named only when they are read.

Rows are added to a `MetricsState`, whose lanes are reduced to `Totals`; these can be merged over chunks and shards, and
become named metrics. FIRST rows are not steps, and an episode whose start was seen counts at its LAST row, in every
auto-reset mode.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util import xla
from jaxenv._util.checks import check_kind
from jaxenv._util.xla import unshare
from jaxenv.core import _moments
from jaxenv.core._compiled import compiled_once
from jaxenv.core._moments import Count, Moments, sum_axis0
from jaxenv.core.timestep import TimeStep, check_timestep
from jaxenv.rollout._episode import Episode, check_names, selected
from jaxenv.rollout.statistic import LARGEST, Statistic
from jaxenv.tree._structure import mismatch


@tree.struct
class Totals:
    """The sums of a rollout: scalars, or ``[R]`` for a vector reward; with an axis ``[B]`` in a `MetricsState`.

    Each mean comes with its exact count, so that totals can be merged in any order.

    Attributes:
        rewards: moments of the rewards of all steps.
        returns_terminated: moments of the returns of terminated episodes.
        returns_truncated: moments of the returns of truncated episodes.
        return_max: the largest return, the smallest float32 without an episode.
        return_min: the smallest return, the largest float32 without an episode.
        lengths_terminated: moments of the lengths of terminated episodes.
        lengths_truncated: moments of the lengths of truncated episodes.
        abnormal: the number of episodes that ended on an abnormal row; nothing else counts them.
        discounted_starts: moments of the discounted returns of FIRST rows; ``()`` without gamma.
        discounted_means: moments of the episodes' mean discounted returns; ``()`` without gamma.
        entries: for each measured name of ``env_info`` the moments, or a tree of them.
    """

    rewards: Moments
    returns_terminated: Moments
    returns_truncated: Moments
    return_max: jax.Array
    return_min: jax.Array
    lengths_terminated: Moments
    lengths_truncated: Moments
    abnormal: Count
    discounted_starts: Any
    discounted_means: Any
    entries: dict[str, Any]

    def psum(self, axis_name: str) -> "Totals":
        """Returns the totals of all shards of a mesh axis, the same scalars on each."""
        collectives = jax.lax.psum, jax.lax.pmax, jax.lax.pmin
        return _pooled(self, *(functools.partial(collective, axis_name=axis_name) for collective in collectives))


@tree.struct
class MetricsState:
    """The state that `Metrics` carries through a loop, leaves ``[B, ...]``; no lane affects another.

    Attributes:
        episode: the unfinished episode of each lane.
        totals: the totals of each lane, over its steps and its finished episodes whose start was seen.
    """

    episode: Episode
    totals: Totals


@dataclasses.dataclass(frozen=True)
class Metrics:
    """Declares the metrics of a rollout. It is hashable: close over it, or pass it as a static argument.

    In ``same_step`` mode an entry that comes from `Task.state_info` describes the next episode on a LAST row, as
    the observation does, so its metric would miss the last state and include the next episode's first. Measure such
    entries in ``next_step`` mode, and name the others in ``env_info``.

    Attributes:
        gamma: the learner's discount rate in [0, 1]; without one there are no discounted metrics.
        env_info: names of ``env_info`` entries, with dotted paths below them, ``()`` for none. The value of an episode
            is the sum of the entry over its steps, with the suffix ``@step`` their mean, with ``@max`` their maximum;
            the metric is the mean over episodes. Values that are not finite are skipped, and an episode without a
            finite one does not count. A key of ``env_info`` may itself end in such a suffix. By default every integer
            and float entry with one number per lane is measured under its own name; flags, masks, other arrays, and
            the entries ``task_id``, ``params``, ``player`` and ``state`` are measured if they are named.

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
        object.__setattr__(self, "env_info", check_names(self.env_info))

    def init(self, timestep: TimeStep) -> MetricsState:
        """Returns the state before the first row.

        An episode that is in progress here is left out, because its return and length are not known. ``timestep`` is
        one row ``[B]``, or its shapes: the row before the first one to add, or that row itself. Only whether it is
        FIRST is read; shapes count as rows inside an episode.
        """
        row = _select(timestep, self.env_info)
        lanes = row.step_type.shape
        if len(lanes) != 1:
            raise ValueError(f"Metrics: init takes one row [B], got step_type of shape {lanes}")
        known = not isinstance(row.step_type, jax.ShapeDtypeStruct)
        is_whole = jnp.asarray(row.is_first()) if known else jnp.zeros(lanes, bool)
        state = unshare(_without_totals(Episode.zeros(row, self.gamma, is_whole)))  # so that it can be donated
        # Inside shard_map a loop carry must vary over the mesh from the start.
        return tree.vary_like(row.step_type, state) if isinstance(row.step_type, jax.Array) else state

    def update(self, state: MetricsState, timestep: TimeStep) -> MetricsState:
        """Adds one row ``[B]``, with the fields that are measured and the shapes of the row given to `init`."""
        return self.update_rows(state, jax.tree.map(lambda x: x[None], _select(timestep, self.env_info)))

    def update_rows(self, state: MetricsState, rows: TimeStep) -> MetricsState:
        """Adds rows ``[T, B]``, such as an unroll. Adding 50 at once is much cheaper than one by one."""
        self._check_origin("update", state, MetricsState)
        rows = _select(rows, tuple(state.totals.entries))
        _check_rows(state, rows)
        if not rows.step_type.shape[0]:
            return state
        return _with_rows(state, rows, self.gamma)

    def clear_finished(self, state: MetricsState) -> MetricsState:
        """Resets all sums and counts but keeps the unfinished episodes, leaves ``[B, ...]``."""
        check_kind("Metrics", "state", state, MetricsState)
        return tree.vary_like(state.episode.length, _without_totals(state.episode))

    def totals(self, state: MetricsState) -> Totals:
        """Reduces a state over its lanes ``[B]``."""
        self._check_origin("totals", state, MetricsState)
        return _pooled(state.totals, sum_axis0, lambda x: jnp.max(x, axis=0), lambda x: jnp.min(x, axis=0))

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
        returns = _moments.merge(totals.returns_terminated, totals.returns_truncated)
        lengths = _moments.merge(totals.lengths_terminated, totals.lengths_truncated)
        metrics: dict[str, Any] = {
            "steps": totals.rewards.count,
            "episodes": returns.count,
            "terminated": totals.returns_terminated.count,
            "truncated": totals.returns_truncated.count,
            "abnormal": totals.abnormal,
            "return_mean": _mean(returns),
            "return_std": _statistic(returns, jnp.sqrt(returns.variance)),
            "return_max": _statistic(returns, totals.return_max),
            "return_min": _statistic(returns, totals.return_min),
            "return_mean_terminated": _mean(totals.returns_terminated),
            "return_mean_truncated": _mean(totals.returns_truncated),
            "length_mean": _mean(lengths),
            "length_std": _statistic(lengths, jnp.sqrt(lengths.variance)),
            "length_mean_terminated": _mean(totals.lengths_terminated),
            "length_mean_truncated": _mean(totals.lengths_truncated),
            "reward_per_step": _mean(totals.rewards),
        }
        if self.gamma is not None:
            metrics["discounted_return_start"] = _mean(totals.discounted_starts)
            metrics["discounted_return"] = _mean(totals.discounted_means)
        for name in sorted(totals.entries) if self.env_info is None else self.env_info:
            unique = f"env_info.{name}" if name in metrics else name
            for path, moments in jax.tree_util.tree_leaves_with_path(totals.entries[name], is_leaf=_is_moments):
                below = tree.path_name(path)
                metrics[f"{unique}.{below}" if below else unique] = _mean(moments)
        return metrics

    def _check_origin(self, method: str, sums: Any, kind: type) -> None:
        """Raises a ``ValueError`` unless ``sums`` is a ``MetricsState`` or ``Totals`` of these metrics."""
        check_kind("Metrics", "totals" if kind is Totals else "state", sums, kind)
        found: Any = sums.totals if isinstance(sums, MetricsState) else sums
        discounted, entries = not isinstance(found.discounted_starts, tuple), sorted(found.entries)
        expected = entries if self.env_info is None else sorted(self.env_info)
        if (discounted, entries) != (self.gamma is not None, expected):
            origin = f"{'with a' if discounted else 'without'} gamma and with env_info {entries}"
            raise ValueError(f"Metrics: {method} got the {kind.__name__} of metrics {origin}, these are {self}")


def merge_totals(a: Totals, b: Totals) -> Totals:
    """Merges the totals of two chunks of a rollout, or of two sets of lanes: scalars, or ``[R]``."""
    check_kind("merge_totals", "a", a, Totals)
    check_kind("merge_totals", "b", b, Totals)
    if (fault := mismatch(a, b, "b")) is not None:
        raise ValueError(f"merge_totals: {fault}, as in a")
    return _combined(a, b, _moments.merge)


def _combined(a: Totals, b: Any, combine: Callable[..., Moments]) -> Totals:
    """Merges totals. In place of moments ``b`` may have other values, which ``combine`` adds to moments of ``a``."""
    return dataclasses.replace(
        jax.tree.map(lambda x, y: combine(x, y) if _is_moments(x) else x, a, b, is_leaf=_is_moments),
        return_max=jnp.maximum(a.return_max, b.return_max),
        return_min=jnp.minimum(a.return_min, b.return_min),
        abnormal=a.abnormal + b.abnormal,
    )


def _pooled(
    totals: Totals, total: Callable[..., Any], largest: Callable[..., Any], smallest: Callable[..., Any]
) -> Totals:
    return dataclasses.replace(
        jax.tree.map(lambda x: _moments.pool(x, total) if _is_moments(x) else x, totals, is_leaf=_is_moments),
        return_max=largest(totals.return_max),
        return_min=smallest(totals.return_min),
        abnormal=totals.abnormal.sum_over(total),
    )


def _is_moments(node: Any) -> bool:
    return isinstance(node, Moments)


def _select(timestep: TimeStep, names: tuple[str, ...] | None) -> TimeStep:
    check_timestep("Metrics", "rows", timestep)
    for name in ("step_type", "reward", "discount"):
        if isinstance(getattr(timestep, name), tuple):
            raise ValueError(f"Metrics: the rows have no {name}, keep it in unroll(fields=...)")
    env_info = selected(timestep.env_info, names, len(timestep.step_type.shape))
    return TimeStep(timestep.step_type, timestep.reward, timestep.discount, env_info=env_info)


def _check_rows(state: MetricsState, rows: TimeStep) -> None:
    reward, expected = rows.reward.shape[1:], state.episode.return_.value.shape
    if reward != expected:
        raise ValueError(f"Metrics: the reward has shape {reward}, in the state {expected}")
    for name, counts in state.episode.entry_counts.items():
        given = jax.tree.map(lambda x: jnp.shape(x)[1:], rows.env_info[name])
        expected = jax.tree.map(lambda x: x.shape, counts)
        if given != expected:
            raise ValueError(f"Metrics: env_info {name!r} has shape {given}, in the state {expected}")


def _without_totals(episode: Episode) -> MetricsState:
    """Returns the state with these unfinished episodes and nothing counted, as after a FIRST row."""
    first = jnp.zeros((1, *episode.length.shape), jnp.int32)
    row = TimeStep(first, jnp.zeros((1, *episode.return_.value.shape), jnp.float32), first, env_info={})
    samples = _samples(jax.tree.map(lambda x: x[None], episode), row)

    def moments_of(x: Any) -> Any:
        return _moments.from_batch(*x) if isinstance(x, _Samples) else x

    return MetricsState(episode, jax.tree.map(moments_of, samples, is_leaf=lambda x: isinstance(x, _Samples)))


class _Samples(NamedTuple):
    x: jax.Array  # [T, B, ...]
    counted: jax.Array  # bool [T, B, ...]


def _samples(episodes: Episode, rows: TimeStep) -> Any:
    """Returns the `Totals` of each lane over rows ``[T, B]`` with `_Samples` in place of moments.

    ``episodes`` are the unfinished ones after each row.
    """
    last = rows.is_last()
    abnormal = last & rows.env_info["abnormal"] if "abnormal" in rows.env_info else jnp.zeros_like(last)
    counted = episodes.is_whole & ~abnormal
    terminated, truncated = rows.terminated & counted, rows.truncated & counted
    ended = terminated | truncated
    returns, lengths = episodes.return_.value, episodes.length.astype(jnp.float32)
    starts: Any = ()
    means: Any = ()
    totals: Any = Totals  # with samples in place of moments
    if not isinstance(episodes.discounted, tuple):
        total = episodes.discounted.total
        starts = _Samples(episodes.discounted.start, ended)
        means = _Samples(total / tree.expand(jnp.maximum(lengths, np.float32(1)), total.ndim), ended)
    valid = jax.tree.map(lambda count: tree.expand(ended, count.ndim) & (count > 0), episodes.entry_counts)
    of_ended = tree.expand(ended, returns.ndim)
    return totals(
        rewards=_Samples(rows.reward, ~rows.is_first()),
        returns_terminated=_Samples(returns, terminated),
        returns_truncated=_Samples(returns, truncated),
        return_max=jnp.max(jnp.where(of_ended, returns, -LARGEST), axis=0),
        return_min=jnp.min(jnp.where(of_ended, returns, LARGEST), axis=0),
        lengths_terminated=_Samples(lengths, terminated),
        lengths_truncated=_Samples(lengths, truncated),
        abnormal=Count.from_array(sum_axis0(abnormal.astype(jnp.uint32))),
        discounted_starts=starts,
        discounted_means=means,
        entries=jax.tree.map(_Samples, episodes.values(), valid),
    )


def _mean(moments: Moments) -> Statistic:
    return _statistic(moments, moments.mean)


def _statistic(moments: Moments, x: jax.Array) -> Statistic:
    return Statistic.where(~moments.count.is_zero(), x)


@functools.partial(compiled_once, static_argnums=2)
def _with_rows(state: MetricsState, rows: TimeStep, gamma: float | None) -> MetricsState:
    """Adds rows ``[T, B]``: one by one to the unfinished episodes, and the finished ones at once to the totals."""
    first = jax.tree.map(lambda x: x[0], rows)
    fresh = Episode.zeros(first, gamma, tree.vary_like(first.step_type, jnp.ones(first.step_type.shape, bool)))

    def one_row(episode: Episode, row: TimeStep) -> tuple[Episode, Episode]:
        # An episode that a FIRST row cuts short, without a LAST row before it, is not counted.
        episode = tree.where(row.is_first(), fresh, episode).add(row, gamma)
        return tree.where(row.is_last(), fresh, episode), episode

    episode, episodes = xla.scan_elementwise(one_row, state.episode, rows)
    add = _add_row if rows.step_type.shape[0] == 1 else _add_rows
    return MetricsState(episode, _combined(state.totals, _samples(episodes, rows), add))


def _add_row(moments: Moments, samples: _Samples) -> Moments:
    return _moments.add_sample(moments, samples.x[0], samples.counted[0])


def _add_rows(moments: Moments, samples: _Samples) -> Moments:
    return _moments.update(moments, *samples)
