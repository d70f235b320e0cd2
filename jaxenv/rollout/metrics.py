"""Figures of a rollout: a few additions per lane and step in the loop, and all else where it is asked for.

`Metrics` says what to measure. Its functions are pure: `Metrics.update` adds a row to the sums of each lane,
`Metrics.totals` adds up the lanes, `merge_totals` and `Totals.psum` add up chunks and shards, and `Metrics.compute`
says what it comes to. FIRST rows are no steps, and an episode counts where its LAST row stands, in every auto-reset
mode.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import _xla, tree
from jaxenv._moments import Moments
from jaxenv.rollout.checks import check_sums
from jaxenv.rollout.episodes import Discounted, Entry, Episode
from jaxenv.rollout.sums import Count, Lengths, Mean, Returns, Sum, count_of_lanes, over_rows
from jaxenv.rollout.totals import Extremes, Totals, count_of, is_total
from jaxenv.timestep import TimeStep


@tree.struct
class Finished:
    """Sums over steps and finished episodes, leaves ``[B, ...]``.

    Attributes:
        rewards: of every step, those of episodes under way too.
        terminated: uint32, how many episodes the task ended.
        truncated: how many something else ended.
        abnormal: how many ended on a row marked ``env_info["abnormal"]``; they count nowhere else.
        returns: of terminated and truncated episodes.
        lengths: likewise.
        starts: discounted returns of their first rows; ``()`` without gamma.
        averages: discounted returns, each episode's averaged over its rows; ``()`` without gamma.
        entries: for each name of ``Metrics.env_info`` a `Mean` or a tree of them.
    """

    rewards: Mean
    terminated: jax.Array
    truncated: jax.Array
    abnormal: jax.Array
    returns: Returns
    lengths: Lengths
    starts: Any
    averages: Any
    entries: tuple


@tree.struct
class MetricsState:
    """What `Metrics` carries through a loop: every leaf leads with ``[B]``, and no lane's number meets another's."""

    episode: Episode
    finished: Finished


@dataclasses.dataclass(frozen=True)
class Metrics:
    """What to measure of a rollout. Hashable, so that it may be closed over or be a static argument.

    Attributes:
        gamma: the learner's discount rate in [0, 1]; without one there are no discounted figures.
        env_info: names of ``env_info`` entries, with dotted paths below them. An episode's figure is the sum of the
            entry over its steps, with ``@step`` behind the name the mean over them, with ``@max`` their maximum, and is
            averaged over episodes. Values that are not finite are skipped, and an episode without a finite one does not
            count. A key of ``env_info`` may itself end in such a suffix, as in ALF. In ``same_step`` streams an entry
            that comes from `Environment.state_info` describes the next episode on a LAST row, like the observation:
            its figure lacks the last state and has the next episode's first. Measure such entries in ``next_step``.

    Raises:
        ValueError: for a gamma out of range, or names that repeat, are empty or end in another suffix.

    >>> import jax, jaxenv
    >>> env = jaxenv.wrappers.AutoReset(jaxenv.testing.mock_012(num_envs=2))
    >>> metrics = Metrics(gamma=0.5)
    >>> @jax.jit
    ... def play(key):
    ...     state, timestep = env.reset(key)
    ...     _, rows = jaxenv.unroll(env, jaxenv.rollout.random_policy(env), state, timestep, 8)
    ...     sums = metrics.update_rows(metrics.init(timestep), rows.timestep)
    ...     return metrics.compute(metrics.totals(sums))
    >>> figures = to_host(play(jax.random.key(0)))
    >>> figures["steps"], figures["episodes"], figures["length_mean"], figures["discounted_return_start"]
    (10, 4, 2.0, 0.5)
    """

    gamma: float | None = None
    env_info: tuple[str, ...] = ()

    def __post_init__(self):
        if self.gamma is not None:
            if isinstance(self.gamma, str) or not jnp.isscalar(self.gamma) or not 0 <= self.gamma <= 1:
                raise ValueError(f"Metrics: gamma must be in [0, 1], got {self.gamma!r}")
            object.__setattr__(self, "gamma", float(self.gamma))  # arrays are not hashable
        if isinstance(self.env_info, str):
            raise ValueError(f"Metrics: env_info must be a sequence of names, got the text {self.env_info!r}")
        object.__setattr__(self, "env_info", tuple(self.env_info))
        for name in self.env_info:
            path, *suffix = name.split("@") if isinstance(name, str) else ("",)
            if not path or suffix not in ([], ["step"], ["max"]):
                raise ValueError(f"Metrics: env_info names end in @step, @max or neither, got {name!r}")
            if self.env_info.count(name) > 1:
                raise ValueError(f"Metrics: env_info must not repeat a name, got {name!r} twice")

    def init(self, timestep: TimeStep) -> MetricsState:
        """The state before the first row.

        Args:
            timestep: one row ``[B]``, or its shapes; none of its values is counted.

        Raises:
            ValueError: if the row lacks a field that is measured, or is not one row of lanes.
        """
        row = self.measured(timestep)
        lanes = row.step_type.shape
        if len(lanes) != 1:
            raise ValueError(f"Metrics: init takes one row [B], got step_type of shape {lanes}")
        episode = self._begin(row)
        state = MetricsState(episode, _nothing(episode))
        # Inside shard_map what a loop carries must vary over the mesh from its start.
        return _xla.vary_like(row.step_type, state) if isinstance(row.step_type, jax.Array) else state

    def update(self, state: MetricsState, timestep: TimeStep) -> MetricsState:
        """Adds one row ``[B]`` to the sums of its lanes.

        Raises:
            ValueError: if the row lacks a field that is measured, or has other shapes than that of `init`.
        """
        return self._add(state, jax.tree.map(lambda x: x[None], self.measured(timestep)))

    def update_rows(self, state: MetricsState, rows: TimeStep) -> MetricsState:
        """Adds rows ``[T, B]``, those of an unroll say: some tens at once cost far less than one by one."""
        return self._add(state, self.measured(rows))

    def _add(self, state: MetricsState, rows: TimeStep) -> MetricsState:
        self._check(state, rows)
        if not rows.step_type.shape[0]:
            return state
        fresh = self._begin(jax.tree.map(lambda x: x[0], rows))

        def one_row(episode, row):
            # An episode that was broken off, so that no LAST row stands before the FIRST, counts nowhere.
            episode = self._step(tree.where(row.is_first(), fresh, episode), row)
            return tree.where(row.is_last(), fresh, episode), episode

        # Only the episodes under way go from row to row; the many sums are touched once for all rows.
        episode, so_far = jax.lax.scan(one_row, state.episode, rows)
        return MetricsState(episode, self._finish(state.finished, so_far, rows))

    def clear_finished(self, state: MetricsState) -> MetricsState:
        """Forgets all that is finished; the episodes under way, leaves ``[B, ...]``, go on."""
        return MetricsState(state.episode, _xla.vary_like(state.episode.length, _nothing(state.episode)))

    def totals(self, state: MetricsState) -> Totals:
        """Adds up the lanes ``[B]`` of a state."""
        check_sums(self, "totals", state, MetricsState)
        finished = state.finished
        terminated, truncated = finished.terminated, finished.truncated

        def of_episodes(total):
            return () if self.gamma is None else Mean(total, terminated + truncated).together()

        returns, returns_terminated, returns_truncated = finished.returns.together(terminated, truncated)
        lengths, lengths_terminated, lengths_truncated = finished.lengths.together(terminated, truncated)
        greatest, least = jnp.max(finished.returns.maximum, axis=0), jnp.min(finished.returns.minimum, axis=0)
        return Totals(
            rewards=finished.rewards.together(),
            returns=returns,
            returns_terminated=returns_terminated,
            returns_truncated=returns_truncated,
            return_extremes=Extremes(greatest, least),
            lengths=lengths,
            lengths_terminated=lengths_terminated,
            lengths_truncated=lengths_truncated,
            abnormal=count_of_lanes(finished.abnormal),
            starts=of_episodes(finished.starts),
            averages=of_episodes(finished.averages),
            entries=jax.tree.map(Mean.together, finished.entries, is_leaf=_is_mean),
        )

    def compute(self, totals: Totals) -> dict[str, Any]:
        """The figures by name: float32 scalars, or ``[R]`` for a vector reward; `Count` for those that count.

        ``steps``, ``episodes``, ``terminated``, ``truncated``, ``abnormal``; ``reward_per_step``, over all steps; of
        the finished episodes' returns ``return_mean``, ``return_std`` (of the population), ``return_max`` and
        ``return_min``, and by ending ``return_mean_terminated`` and ``return_mean_truncated``; of their lengths
        likewise, without extremes; with a gamma ``discounted_return_start``, of the episodes' first rows, and
        ``discounted_return``, the mean over all of an episode's rows, both averaged over episodes; and the entries of
        ``env_info`` by their names. Where there was nothing to average or compare: NaN.

        Discounted returns follow ALF's ``EpisodicStartAverageDiscountedReturnMetric`` and
        ``AverageDiscountedReturnMetric``, with the rows' own discount as a factor of gamma; they take the rewards after
        a time limit for 0.
        """
        check_sums(self, "compute", totals, Totals)
        figures: dict[str, Any] = {
            "steps": count_of(totals.rewards),
            "episodes": count_of(totals.returns),
            "terminated": count_of(totals.returns_terminated),
            "truncated": count_of(totals.returns_truncated),
            "abnormal": count_of(totals.abnormal),
            "return_mean": _mean(totals.returns),
            "return_std": _known(totals.returns, jnp.sqrt(totals.returns.variance)),
            "return_max": _known(totals.returns, totals.return_extremes.maximum),
            "return_min": _known(totals.returns, totals.return_extremes.minimum),
            "return_mean_terminated": _mean(totals.returns_terminated),
            "return_mean_truncated": _mean(totals.returns_truncated),
            "length_mean": _mean(totals.lengths),
            "length_std": _known(totals.lengths, jnp.sqrt(totals.lengths.variance)),
            "length_mean_terminated": _mean(totals.lengths_terminated),
            "length_mean_truncated": _mean(totals.lengths_truncated),
            "reward_per_step": _mean(totals.rewards),
        }
        if self.gamma is not None:
            figures["discounted_return_start"] = _mean(totals.starts)
            figures["discounted_return"] = _mean(totals.averages)
        for name, entry in zip(self.env_info, totals.entries, strict=True):
            for path, x in jax.tree_util.tree_leaves_with_path(entry, is_leaf=is_total):
                below = tree.path_name(path)
                figures[f"{name}.{below}" if below else name] = _mean(x)
        return figures

    def measured(self, timestep: TimeStep) -> TimeStep:
        """The row ``[B]`` with nothing but what is read of it, all that a loop needs to keep for `update_rows`."""
        for name in ("step_type", "reward", "discount"):
            if isinstance(getattr(timestep, name), tuple):
                raise ValueError(f"Metrics: the rows hold no {name}, keep it in unroll(fields=...)")
        given = timestep.env_info
        if isinstance(given, _Named):
            return timestep
        abnormal = given.get("abnormal", ()) if isinstance(given, dict) else ()
        named = _Named(tuple(_entry(given, name) for name in self.env_info), abnormal)
        return TimeStep(timestep.step_type, timestep.reward, timestep.discount, env_info=named)

    def _check(self, state: MetricsState, row: TimeStep) -> None:
        check_sums(self, "update", state, MetricsState)
        episode = state.episode
        if row.reward.shape[1:] != episode.return_.shape:
            raise ValueError(f"Metrics: the reward has shape {row.reward.shape[1:]}, the state {episode.return_.shape}")
        for name, x, entry in zip(self.env_info, row.env_info.entries, episode.entries, strict=True):
            given = jax.tree.map(lambda x: jnp.shape(x)[1:], x)
            held = jax.tree.map(lambda e: e.value.shape, entry, is_leaf=_is_entry)
            if given != held:
                raise ValueError(f"Metrics: env_info {name!r} has shape {given}, the state {held}")

    def _begin(self, row: TimeStep) -> Episode:
        """Episodes of no steps, for rows of these shapes."""
        lanes, reward = row.step_type.shape, row.reward.shape
        entries = (
            jax.tree.map(lambda x, name=name: Entry.zeros(x.shape, name.endswith("@max")), x)
            for name, x in zip(self.env_info, row.env_info.entries, strict=True)
        )
        return Episode(
            return_=jnp.zeros(reward, jnp.float32),
            length=jnp.zeros(lanes, jnp.int32),
            discounted=() if self.gamma is None else Discounted.zeros(lanes, reward),
            entries=tuple(entries),
        )

    def _step(self, episode: Episode, row: TimeStep) -> Episode:
        """The episodes with one row more; a FIRST row is no step."""
        moved = ~row.is_first()
        reward = jnp.where(tree.expand(moved, row.reward.ndim), row.reward, np.float32(0))
        discounted = episode.discounted
        if self.gamma is not None:
            discounted = discounted.add(row, reward, np.float32(self.gamma))
        entries = (
            jax.tree.map(
                lambda entry, x, name=name: entry.add(x, moved, name.endswith("@max")), entry, x, is_leaf=_is_entry
            )
            for name, entry, x in zip(self.env_info, episode.entries, row.env_info.entries, strict=True)
        )
        return Episode(episode.return_ + reward, episode.length + moved.astype(jnp.int32), discounted, tuple(entries))

    def _finish(self, finished: Finished, episode: Episode, row: TimeStep) -> Finished:
        """The sums with rows ``[T, B]`` more, after each of which ``episode`` holds the episodes so far."""
        abnormal = row.env_info.abnormal
        dropped = jnp.zeros_like(row.is_last()) if isinstance(abnormal, tuple) else row.is_last() & abnormal
        terminated, truncated = row.terminated & ~dropped, row.truncated & ~dropped
        ended = terminated | truncated
        starts = averages = ()
        if self.gamma is not None:
            of = episode.discounted
            length = jnp.maximum(episode.length, 1).astype(jnp.float32)
            average = of.all_rows / tree.expand(length, of.all_rows.ndim)
            starts = finished.starts.add(ended, of.start)
            averages = finished.averages.add(ended, average)

        def one_more(mean, entry, average):
            value = entry.value / jnp.maximum(entry.count, 1).astype(jnp.float32) if average else entry.value
            return mean.add(tree.expand(ended, value.ndim) & (entry.count > 0), value)

        entries = (
            jax.tree.map(functools.partial(one_more, average=name.endswith("@step")), mean, entry, is_leaf=_is_mean)
            for name, mean, entry in zip(self.env_info, finished.entries, episode.entries, strict=True)
        )
        moved = ~row.is_first()
        return Finished(
            rewards=finished.rewards.add(moved, row.reward),
            terminated=finished.terminated + over_rows(terminated.astype(jnp.uint32)),
            truncated=finished.truncated + over_rows(truncated.astype(jnp.uint32)),
            abnormal=finished.abnormal + over_rows(dropped.astype(jnp.uint32)),
            returns=finished.returns.add(episode.return_, terminated, truncated),
            lengths=finished.lengths.add(episode.length, terminated, truncated),
            starts=starts,
            averages=averages,
            entries=tuple(entries),
        )


def to_host(figures: Any) -> Any:
    """Figures of any shape as Python's own numbers and lists of them, brought over in one transfer; NaN is ``None``.

    >>> to_host({"steps": np.int32(3), "return_mean": np.array([0.5, np.nan])})
    {'steps': 3, 'return_mean': [0.5, None]}
    """
    structure: Any
    leaves, structure = jax.tree.flatten(jax.device_get(figures), is_leaf=_is_number)
    plain = structure.unflatten([None if x is None else _plain(np.asarray(x).tolist()) for x in leaves])
    # Trees sort the names of a dict.
    return {name: plain[name] for name in figures} if isinstance(figures, dict) else plain


@tree.struct
class _Named:
    """What `Metrics` reads of ``env_info``."""

    entries: tuple
    abnormal: Any


def _entry(env_info: Any, name: str) -> Any:
    if not isinstance(env_info, dict):
        raise ValueError(f"Metrics: the rows hold no env_info to find {name!r} in, keep it in unroll(fields=...)")
    # ALF's environments put the suffix into the key.
    path = name if name in env_info else name.partition("@")[0]
    try:
        return tree.get_field(env_info, path)
    except ValueError as fault:
        raise ValueError(f"Metrics: env_info {fault}") from None


def _nothing(episode: Episode) -> Finished:
    """Sums of nothing."""
    lanes, reward = episode.length.shape, episode.return_.shape
    discounted = not isinstance(episode.discounted, tuple)

    counts = jnp.zeros(lanes, jnp.uint32)

    def mean(shape, of_each):
        return Mean(Sum.zeros(shape), jnp.zeros(of_each, jnp.uint32))

    return Finished(
        rewards=mean(reward, lanes),
        terminated=counts,
        truncated=counts,
        abnormal=counts,
        returns=Returns.zeros(reward),
        lengths=Lengths.zeros(lanes),
        starts=Sum.zeros(reward) if discounted else (),
        averages=Sum.zeros(reward) if discounted else (),
        entries=jax.tree.map(lambda e: mean(e.value.shape, e.value.shape), episode.entries, is_leaf=_is_entry),
    )


def _mean(moments: Moments) -> jax.Array:
    return _known(moments, moments.mean)


def _known(moments: Moments, x: jax.Array) -> jax.Array:
    return jnp.where(count_of(moments).is_zero(), np.float32(np.nan), x)


def _plain(values: Any) -> Any:
    if isinstance(values, list):
        return [_plain(x) for x in values]
    return None if values != values else values


def _is_number(node: Any) -> bool:
    return node is None or isinstance(node, Count)


def _is_entry(node: Any) -> bool:
    return isinstance(node, Entry)


def _is_mean(node: Any) -> bool:
    return isinstance(node, Mean)
