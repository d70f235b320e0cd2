"""Normalise observations to mean 0 and variance 1."""

import dataclasses
from typing import Any

import jax

from jaxenv import specs, tree
from jaxenv._fields import field_paths, select_floats
from jaxenv._observation import map_observation
from jaxenv.data.transformers.normalizer import Normalizer
from jaxenv.timestep import TimeStep
from jaxenv.tree import Tree
from jaxenv.wrappers.normalize_observation import normalized_spec


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

    Raises:
        ValueError: for an option out of range, an unknown field, or an observation without a float array.
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
