"""Normalises observations and rewards by running statistics, with three ways of weighting the past."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, Literal, Self, get_args

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._util.checks import check_bool, check_choice, check_integer, check_real, check_text, is_real
from jaxenv._util.numeric import clip
from jaxenv.core import _moments
from jaxenv.core._checks.rows import map_observation, with_reward
from jaxenv.core._moments import Count, Moments, summable
from jaxenv.core.timestep import TimeStep
from jaxenv.data.transformers.transformer import Transformer, flatten_windows, map_windows, vary_like_rows
from jaxenv.data.transformers.values import reward_of
from jaxenv.specs import field_paths, map_marked, select_floats
from jaxenv.tree import Tree
from jaxenv.wrappers.observation.values import normalized_spec

Mode = Literal["adaptive", "window", "exponential"]
Update = Literal["rollout", "replay", "never"]


@tree.struct
class Estimate:
    """Running statistics of one array."""

    moments: Moments  # count, mean and variance to normalise by
    # Data for later updates: () (adaptive), the moments of the last updates [window, ...] and the number of updates,
    # int32 (window), or the sum of all weights so far, float32 (exponential).
    memory: Any


@dataclasses.dataclass(frozen=True)
class Normalizer(Transformer):
    """Normalises by running statistics. Subclasses implement ``init``, ``update_estimates`` and ``normalize``.

    The state is a tree of `Estimate` in `jaxenv.tree.Shared`: all lanes share it and it continues over episodes. An
    update is one batch of rows: one step of all lanes, or all rows of the windows. Rows enter the statistics before
    they are normalised. ``mode`` determines how updates are weighted:

    - ``"adaptive"``: exact mean and variance of all rows so far; every row has the same weight.
    - ``"window"``: mean and variance of the rows of the last ``window`` updates. It stores ``window`` times the array
      and merges them at each update.
    - ``"exponential"``: an update has weight ``rate`` and earlier ones decay by ``1 - rate``. Weights are divided by
      their sum, so that the first updates are not biased towards 0.

    Args:
        mode: ``"adaptive"``, ``"window"`` or ``"exponential"``.
        update: the source of updates of the statistics: ``"rollout"``, ``"replay"``, or ``"never"`` (see ``frozen``).
        clip: bound on the magnitude of normalised values; ``None`` for no bound.
        epsilon: added to the variance.
        window: number of updates in the window, at least 1.
        rate: weight of an update, in (0, 1].
        axis_name: a mesh axis over whose shards the statistics are computed.
    """

    mode: Mode = "adaptive"
    update: Update = "rollout"
    clip: float | None = None
    epsilon: float = 1e-8
    window: int = 1000
    rate: float = 1e-3
    axis_name: str | None = None

    def check(self) -> None:
        owner = type(self).__name__
        check_choice(owner, "mode", self.mode, get_args(Mode))
        check_choice(owner, "update", self.update, get_args(Update))
        if self.clip is not None and not (is_real(self.clip) and self.clip > 0):
            raise ValueError(f"{owner}: clip must be None or positive, got {self.clip!r}")
        check_real(owner, "epsilon", self.epsilon, 0)
        if self.axis_name is not None:
            check_text(owner, "axis_name", self.axis_name)
        check_integer(owner, "window", self.window, 1)
        if not (is_real(self.rate) and 0 < self.rate <= 1):
            raise ValueError(f"{owner}: rate must be in (0, 1], got {self.rate!r}")

    @abc.abstractmethod
    def update_estimates(self, estimates: Any, timestep: TimeStep) -> Any:
        """Returns the estimates after rows ``[B, ...]``."""

    @abc.abstractmethod
    def normalize(self, estimates: Any, timestep: TimeStep) -> TimeStep:
        """Normalises rows ``[B, ...]`` by estimates."""

    def statistics(self, state: Any) -> Any:
        """Returns count, mean and variance of every normalised array, in its shape."""
        return jax.tree.map(lambda e: e.moments, state.value, is_leaf=lambda node: isinstance(node, Estimate))

    def frozen(self) -> Self:
        return dataclasses.replace(self, update="never")

    def transform_timestep(self, state: Tree, timestep: TimeStep) -> tuple[Tree, TimeStep]:
        if self.update == "rollout":
            state = self._updated(state, timestep)
        return state, self.normalize(state.value, timestep)

    def transform_batch(self, state: Tree, batch: Any, replay: Any = None, stored: Any = None) -> Any:
        if self.update == "replay":
            state = self._updated(state, flatten_windows(batch))
        return state, map_windows(lambda rows: self.normalize(state.value, rows), batch)

    def _updated(self, state: tree.Shared, timestep: TimeStep) -> tree.Shared:
        return tree.Shared(tree.strong(self.update_estimates(state.value, timestep)))

    def init_estimate(self, timestep: TimeStep, shape: tuple[int, ...]) -> Estimate:
        """Returns the estimate before the first row, for rows of one lane's ``shape``."""
        moments, memory = _moments.empty(shape), ()  # type: tuple[Moments, Any]
        if self.mode == "window":
            ring = jax.tree.map(lambda x: jnp.zeros((self.window, *x.shape), x.dtype), moments)
            memory = (ring, jnp.zeros((), jnp.int32))
        elif self.mode == "exponential":
            memory = jnp.zeros((), jnp.float32)
        estimate = Estimate(moments, memory)
        # Statistics of a shard vary over the mesh from the start, as the carry of a loop must.
        return vary_like_rows(timestep, estimate) if self.axis_name is None else estimate

    def update_estimate(self, estimate: Estimate, x: jax.Array, valid: jax.Array | None = None) -> Estimate:
        """Returns the estimate after rows ``x`` (``[B, ...]``) that are finite and ``valid`` (bool ``[B]``)."""
        rows = _moments.from_batch(x, summable(x) if valid is None else summable(x) & valid, self.axis_name)
        moments, memory = estimate.moments, estimate.memory
        merged = _moments.merge(moments, rows)
        if self.mode == "adaptive":
            return Estimate(merged, ())
        any_row = ~rows.count.is_zero()
        if self.mode == "window":
            ring, number = memory
            slot = number % np.int32(self.window)
            # Selecting between slots instead of rings avoids copies of the ring.
            ring = jax.tree.map(lambda past, new: past.at[slot].set(jnp.where(any_row, new, past[slot])), ring, rows)
            new, memory = _merge_window(ring), (ring, number + any_row.astype(jnp.int32))
        else:
            rate = np.float32(self.rate)
            total_weight = memory * (1 - rate) + rate
            new = _mix(merged, moments, rows, rate / total_weight)
            memory = jnp.where(any_row, total_weight, memory)
        return Estimate(jax.tree.map(lambda a, b: jnp.where(any_row, a, b), new, moments), memory)

    def normalize_array(self, estimate: Estimate, x: jax.Array, centre: bool = True) -> jax.Array:
        """Normalises rows ``x`` (``[B, ...]``) by an estimate, and clips them."""
        moments = estimate.moments
        if centre:
            normalized = _moments.normalize(moments, x, self.epsilon)
        else:
            normalized = (x.astype(jnp.float32) / _moments.scale(moments, x.ndim, self.epsilon)).astype(x.dtype)
        return normalized if self.clip is None else clip(normalized, -self.clip, self.clip)


@dataclasses.dataclass(frozen=True)
class ObservationNormalizer(Normalizer):
    """Maps the float parts of the observation to ``(x - mean) / sqrt(variance + epsilon)``.

    Rows with a number that is not finite or beyond 1e15 never enter the statistics. In ``same_step`` mode
    ``env_info["final_observation"]`` is normalised too, and enters the statistics on LAST rows only, where it differs
    from the observation.

    The buffer stores raw observations, which are normalised by the statistics at the time of sampling. Policy and
    learner use the same statistics: the state that the rollout or ``transform_batch`` returns.
    `jaxenv.wrappers.NormalizeObservation` stores observations that were normalised during the rollout, which suits
    on-policy learners only. ``fields`` are dotted paths of the parts to normalise; ``None`` for all float arrays.
    `Normalizer` describes the other options.
    """

    fields: str | tuple[str, ...] | None = None

    def check(self) -> None:
        super().check()
        field_paths("ObservationNormalizer", self.fields)

    def init(self, timestep: TimeStep, key: jax.Array | None = None) -> Tree:
        def empty(x: jax.Array) -> Any:
            return self.init_estimate(timestep, x.shape[1:])

        return tree.Shared(self._map(empty, timestep.observation, otherwise=lambda *_: ()))

    def update_estimates(self, estimates: Any, timestep: TimeStep) -> Any:
        estimates = self._update(estimates, timestep.observation)
        if "final_observation" in timestep.env_info:
            estimates = self._update(estimates, timestep.env_info["final_observation"], timestep.is_last())
        return estimates

    def normalize(self, estimates: Any, timestep: TimeStep) -> TimeStep:
        return map_observation(lambda o: self._map(lambda x, e: self.normalize_array(e, x), o, estimates), timestep)

    def transform_spec(self, spec: TimeStep) -> TimeStep:
        return map_observation(lambda o: self._map(lambda s: normalized_spec(s, self.clip), o), spec)

    def _update(self, estimates: Any, observation: Tree, valid: Any = None) -> Any:
        def update(x: jax.Array, estimate: Estimate) -> Any:
            return self.update_estimate(estimate, x, valid)

        return self._map(update, observation, estimates, otherwise=lambda *_: ())

    def _map(self, fn: Callable[..., Any], observation: Tree, *others: Any, otherwise: Any = None) -> Any:
        marks = select_floats("ObservationNormalizer", observation, self.fields)
        return map_marked(marks, fn, observation, *others, otherwise=otherwise)


@dataclasses.dataclass(frozen=True)
class RewardNormalizer(Normalizer):
    """Divides the reward (``[B]``, or ``[B, R]`` per component) by its standard deviation.

    The mean is subtracted only with ``centre``: this adds a constant to the reward of every step, which changes the
    optimal policy if episodes differ in length. The reward of FIRST rows, which are not steps, remains 0 and never
    enters the statistics; nor do rewards that are not finite or beyond 1e15. `jaxenv.wrappers.NormalizeReward` divides
    by the standard deviation of the discounted return instead, and changes the stored reward. `Normalizer` describes
    the other options.
    """

    centre: bool = False

    def check(self) -> None:
        super().check()
        check_bool("RewardNormalizer", "centre", self.centre)

    def init(self, timestep: TimeStep, key: jax.Array | None = None) -> Tree:
        return tree.Shared(self.init_estimate(timestep, reward_of("RewardNormalizer", timestep).shape[1:]))

    def update_estimates(self, estimates: Any, timestep: TimeStep) -> Any:
        return self.update_estimate(estimates, reward_of("RewardNormalizer", timestep), ~timestep.is_first())

    def normalize(self, estimates: Any, timestep: TimeStep) -> TimeStep:
        reward = self.normalize_array(estimates, reward_of("RewardNormalizer", timestep), self.centre)
        return with_reward("RewardNormalizer", timestep, reward)

    def transform_spec(self, spec: TimeStep) -> TimeStep:
        reward: Any = normalized_spec(specs.Array(spec.reward.shape, np.float32, "reward"), self.clip)
        return dataclasses.replace(spec, reward=reward)


def _merge_window(ring: Moments) -> Moments:
    """Merges the moments of all updates in a ring, leaves ``[window, ...]``, with at least one row."""
    count = jnp.sum(ring.count.low, axis=0, dtype=jnp.uint32)
    weight = tree.expand(ring.count.low.astype(jnp.float32) / count.astype(jnp.float32), ring.mean.ndim)
    mean = jnp.sum(weight * (ring.mean + ring.mean_error), axis=0)
    variance = jnp.sum(weight * (ring.variance + jnp.square(ring.mean - mean[None])), axis=0)
    zeros = jnp.zeros_like(mean)
    return Moments(Count.from_array(count), mean, variance, zeros, zeros)


def _mix(counted: Moments, a: Moments, b: Moments, weight: jax.Array) -> Moments:
    """Mixes moments ``a`` and ``b`` with weights ``1 - weight`` and ``weight``; takes the count of ``counted``."""
    delta = b.mean - a.mean
    mean = a.mean + weight * delta
    variance = (1 - weight) * a.variance + weight * b.variance + weight * (1 - weight) * jnp.square(delta)
    zeros = jnp.zeros_like(mean)
    return Moments(counted.count, mean, variance, zeros, zeros)
