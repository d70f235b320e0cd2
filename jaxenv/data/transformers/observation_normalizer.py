"""Give observations mean 0 and variance 1, as far as has been seen."""

import dataclasses

import jax

from jaxenv import specs, tree
from jaxenv._fields import select_floats
from jaxenv._observation import map_observation
from jaxenv.data.transformers.base import check_fields, map_observation_spec
from jaxenv.data.transformers.normalizer import Normalizer
from jaxenv.wrappers.normalize_observation import normalized_spec


@dataclasses.dataclass(frozen=True)
class ObservationNormalizer(Normalizer):
    """Shows ``(x - mean) / sqrt(variance + epsilon)`` for the float parts of the observation.

    As ALF's ``ObservationNormalizer`` (its modes, ``update_mode``, ``clipping``). Rows with a number that is not finite
    or beyond 1e15 never enter the statistics. In ``same_step`` streams ``env_info["final_observation"]`` is normalised
    likewise, and counted on LAST rows alone, where it is a row of its own.

    The buffer keeps raw observations, which are normalised by what is known when they are sampled, and policy and
    learner use the same statistics: the state that the rollout returns, or the one that ``transform_batch`` does.
    `jaxenv.wrappers.NormalizeObservation` stores what was normalised by what was known then, which suits on-policy
    learners alone.

    Args:
        mode: ``"adaptive"``, ``"window"`` or ``"exponential"``: see `Normalizer`, also for the options not told here.
        update: ``"rollout"``, ``"replay"`` or ``"never"``.
        fields: dotted paths of the parts of the observation, each with a float array; ``None`` for all float arrays.

    Raises:
        ValueError: for an option out of range, a field that is not there, or an observation without float array.
    """

    fields: tuple[str, ...] | None = None

    def check(self):
        super().check()
        check_fields("ObservationNormalizer", self.fields)

    def init(self, timestep, stream=None):
        marks = self._chosen(timestep.observation)
        return tree.Shared(
            jax.tree.map(
                lambda mark, x: self._empty(timestep, x.shape[1:]) if mark else (), marks, timestep.observation
            )
        )

    def learned(self, estimates, timestep):
        estimates = self._seen(estimates, timestep.observation)
        if "final_observation" in timestep.env_info:
            estimates = self._seen(estimates, timestep.env_info["final_observation"], timestep.is_last())
        return estimates

    def shown(self, estimates, timestep):
        def show(observation):
            marks = self._chosen(observation)
            return jax.tree.map(lambda mark, x, e: self._shown(e, x) if mark else x, marks, observation, estimates)

        return map_observation(show, timestep)

    def transform_spec(self, spec):
        def shown(mark, s: specs.Array):
            return normalized_spec(s, self.clip) if mark else s

        return map_observation_spec(lambda o: jax.tree.map(shown, self._chosen(o), o), spec)

    def _seen(self, estimates, observation, valid=None):
        marks = self._chosen(observation)
        return jax.tree.map(lambda mark, x, e: self._update(e, x, valid) if mark else (), marks, observation, estimates)

    def _chosen(self, observation):
        return select_floats("ObservationNormalizer", observation, self.fields)
