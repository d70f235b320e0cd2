"""Transforms observations: scales images, and normalises."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxenv import specs, tree
from jaxenv._util.checks import check_real
from jaxenv.core._checks.rows import map_observation
from jaxenv.core.timestep import TimeStep
from jaxenv.data.transformers.normalizer import Estimate, Normalizer
from jaxenv.data.transformers.transformer import RowTransformer
from jaxenv.specs._fields import field_paths, map_marked, select, select_floats
from jaxenv.tree import Tree
from jaxenv.wrappers.image.pixels import scaled, scaled_spec
from jaxenv.wrappers.observation.values import normalized_spec


@dataclasses.dataclass(frozen=True)
class ImageScale(RowTransformer):
    """Maps the uint8 parts of the observation affinely from 0 .. 255 to float32 ``low`` .. ``high``.

    ``env_info["final_observation"]`` is mapped in the same way. The buffer stores the bytes, a quarter of the floats
    that `jaxenv.wrappers.ScaleImage` stores.

    Args:
        low: the value of 0, finite.
        high: the value of 255, greater than ``low``.
        fields: dotted paths of the uint8 parts of the observation to map; ``None`` for every uint8 array.
    """

    low: float = -1.0
    high: float = 1.0
    fields: str | tuple[str, ...] | None = None

    def check(self) -> None:
        for name in ("low", "high"):
            check_real("ImageScale", name, getattr(self, name), -np.inf)
        if not self.low < self.high:
            raise ValueError(f"ImageScale: low must be below high, got {self.low!r} and {self.high!r}")
        field_paths("ImageScale", self.fields)

    def transform_rows(self, timestep: TimeStep) -> TimeStep:
        return self._map(lambda x: scaled(x, specs.Array(x.shape[1:], x.dtype), self.low, self.high), timestep)

    def transform_spec(self, spec: TimeStep) -> TimeStep:
        return self._map(lambda s: scaled_spec(s, self.low, self.high), spec)

    def _map(self, fn: Callable[[Any], Any], timestep: TimeStep) -> TimeStep:
        def mapped(observation: Tree) -> Any:
            marks = select("ImageScale", observation, self.fields, "a uint8 array", lambda x: x.dtype == np.uint8)
            return map_marked(marks, fn, observation)

        return map_observation(mapped, timestep)


@dataclasses.dataclass(frozen=True)
class ObservationNormalizer(Normalizer):
    """Maps the float parts of the observation to ``(x - mean) / sqrt(variance + epsilon)``.

    Rows with a number that is not finite or beyond 1e15 never enter the statistics. In ``same_step`` mode
    ``env_info["final_observation"]`` is normalised too, and enters the statistics on LAST rows only, where it differs
    from the observation.

    The buffer stores raw observations, which are normalised by the statistics at the time of sampling. Policy and
    learner use the same statistics: the state that the rollout or ``transform_batch`` returns.
    `jaxenv.wrappers.NormalizeObservation` stores observations that were normalised during the rollout, which suits
    on-policy learners only.

    Args:
        mode: ``"adaptive"``, ``"window"`` or ``"exponential"``: see `Normalizer`, also for the other options.
        update: ``"rollout"``, ``"replay"`` or ``"never"``.
        fields: dotted paths of the float parts of the observation to normalise; ``None`` for all float arrays.
    """

    fields: str | tuple[str, ...] | None = None

    def check(self) -> None:
        super().check()
        field_paths("ObservationNormalizer", self.fields)

    def init(self, timestep: TimeStep, key: jax.Array | None = None) -> Tree:
        def empty(x: jax.Array) -> Any:
            return self.init_estimate(timestep, x.shape[1:])

        return tree.Shared(self._map(empty, timestep.observation, otherwise=_nothing))

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

        return self._map(update, observation, estimates, otherwise=_nothing)

    def _map(self, fn: Callable[..., Any], observation: Tree, *others: Any, otherwise: Any = None) -> Any:
        marks = select_floats("ObservationNormalizer", observation, self.fields)
        return map_marked(marks, fn, observation, *others, otherwise=otherwise)


def _nothing(*_: Any) -> Any:
    return ()
