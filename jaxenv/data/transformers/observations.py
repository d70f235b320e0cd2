"""Transforms observations: scales images, and normalises."""

import dataclasses
from typing import Any

import jax
import numpy as np

from jaxenv import specs, tree
from jaxenv._util.checks import check_real
from jaxenv.core._checks.rows import map_observation
from jaxenv.core.timestep import TimeStep
from jaxenv.data.transformers.normalizer import Normalizer
from jaxenv.data.transformers.transformer import RowTransformer
from jaxenv.specs._fields import field_paths, select, select_floats
from jaxenv.tree import Tree
from jaxenv.wrappers.image.scale_image import scaled, scaled_spec
from jaxenv.wrappers.observation.normalize_observation import normalized_spec


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
        def scale(is_image: Any, x: Any) -> Any:
            return scaled(x, specs.Array(x.shape[1:], x.dtype), self.low, self.high) if is_image else x

        return map_observation(lambda o: jax.tree.map(scale, _images(o, self.fields), o), timestep)

    def transform_spec(self, spec: TimeStep) -> TimeStep:
        def scale(is_image: Any, s: Any) -> Any:
            return scaled_spec(s, self.low, self.high) if is_image else s

        return map_observation(lambda o: jax.tree.map(scale, _images(o, self.fields), o), spec)


def _images(observation: Tree, fields: Any) -> Any:
    """Marks the leaves of an observation (arrays or specs) that are mapped."""
    return select("ImageScale", observation, fields, "a uint8 array", lambda x: x.dtype == np.uint8)


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
        marks = self._selected(timestep.observation)
        return tree.Shared(
            jax.tree.map(
                lambda mark, x: self.init_estimate(timestep, x.shape[1:]) if mark else (), marks, timestep.observation
            )
        )

    def update_estimates(self, estimates: Any, timestep: TimeStep) -> Any:
        estimates = self._update(estimates, timestep.observation)
        if "final_observation" in timestep.env_info:
            estimates = self._update(estimates, timestep.env_info["final_observation"], timestep.is_last())
        return estimates

    def normalize(self, estimates: Any, timestep: TimeStep) -> TimeStep:
        def normalize(observation: Tree) -> Any:
            return jax.tree.map(
                lambda mark, x, e: self.normalize_array(e, x) if mark else x,
                self._selected(observation),
                observation,
                estimates,
            )

        return map_observation(normalize, timestep)

    def transform_spec(self, spec: TimeStep) -> TimeStep:
        def normalize(mark: Any, s: specs.Array) -> Any:
            return normalized_spec(s, self.clip) if mark else s

        return map_observation(lambda o: jax.tree.map(normalize, self._selected(o), o), spec)

    def _update(self, estimates: Any, observation: Tree, valid: Any = None) -> Any:
        return jax.tree.map(
            lambda mark, x, e: self.update_estimate(e, x, valid) if mark else (),
            self._selected(observation),
            observation,
            estimates,
        )

    def _selected(self, observation: Tree) -> Any:
        return select_floats("ObservationNormalizer", observation, self.fields)
