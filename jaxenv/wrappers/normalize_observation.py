"""Give observations mean 0 and variance 1, as far as has been seen."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import _moments, specs, tree
from jaxenv._checks import is_concrete
from jaxenv._fields import select_floats
from jaxenv._numeric import clip
from jaxenv._observation import map_observation
from jaxenv._wrapper_bases import BatchWrapper


class NormalizeObservation(BatchWrapper):
    """Shows ``(x - mean) / sqrt(variance + epsilon)`` for the float parts of the observation.

    Mean and variance are running ones over all lanes, of each element. The rows of a step enter them before they are
    normalised, those of ``reset`` included; lanes restarted by ``reset_where``, rows with a number that is not finite
    or beyond 1e15, the squares of which float32 could not sum, and ``frozen`` wrappers leave them alone. In
    ``same_step`` streams ``env_info["final_observation"]`` is normalised likewise, and counted on LAST rows alone,
    where it is a row of its own: what is counted is what a ``next_step`` stream shows. ``statistics(state)`` gives
    `_moments.Moments` for each part (``()`` for other parts of the tree), to save, to merge with another run's by
    ``_moments.merge``, and to load by ``with_statistics``.

    As Gymnasium's wrapper, which starts from a count of 0.0001 with mean 0 and variance 1; here nothing
    is counted at the start, so the first batch alone sets both.

    Owns ``observation``.

    Args:
        env: any environment, ``AutoReset`` inside.
        epsilon: added to the variance: one number, or one per lane.
        clip: the largest magnitude shown; ``None`` for no bound.
        fields: dotted paths of the parts, each with a float array; ``None`` for all float arrays.
        frozen: stop learning.
        axis_name: a mesh axis over which the statistics are those of all shards.

    Raises:
        ValueError: if ``epsilon`` is negative, ``clip`` not positive, or there is no float array.

    >>> import jax, jaxenv
    >>> env = jaxenv.wrappers.NormalizeObservation(jaxenv.make("Pendulum-v1", num_envs=4))
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> int(env.statistics(state).count)
    4
    """

    epsilon: Any = tree.leaf(default=np.float32(1e-8))
    clip: float | None = tree.static(default=None)
    fields: Any = tree.static(default=None)

    owns: ClassVar[frozenset[str]] = frozenset({"observation"})

    def check(self):
        if is_concrete(self.epsilon) and np.any(np.asarray(self.epsilon) < 0):
            raise ValueError(f"NormalizeObservation: epsilon must be at least 0, got {self.epsilon}")
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"NormalizeObservation: clip must be None or positive, got {self.clip}")
        self._chosen(self.env.observation_spec())

    def _chosen(self, observation):
        return select_floats("NormalizeObservation", observation, self.fields)

    def observation_spec(self):
        spec = self.env.observation_spec()
        return jax.tree.map(
            lambda is_chosen, s: normalized_spec(s, self.clip) if is_chosen else s, self._chosen(spec), spec
        )

    def normalize(self, state: Any, observation: Any) -> Any:
        """What the wrapper shows for a batch of raw observations, by the statistics in ``state``."""
        return self._shown(state.shared.value, observation)

    def inverse(self, state: Any, observation: Any) -> Any:
        """The raw observations for a batch of normalised ones (what was clipped is lost)."""
        return self._map(
            lambda x, moments: _moments.denormalize(moments, x, self.epsilon), observation, state.shared.value
        )

    def init(self, timestep):
        return self._map(lambda x: _moments.empty(x.shape[1:]), timestep.observation, otherwise=lambda x: ())

    def after(self, shared, lanes, timestep, learn):
        if learn:
            shared = self._learned(shared, timestep.observation, jnp.ones_like(timestep.is_last()))
            if "final_observation" in timestep.env_info:
                shared = self._learned(shared, timestep.env_info["final_observation"], timestep.is_last())
        return shared, lanes, map_observation(lambda x: tree.strong(self._shown(shared, x)), timestep)

    def _learned(self, shared, observation, valid):
        def learn(x, moments):
            return _moments.update(moments, x, valid & _moments.summable(x), self.axis_name)

        return self._map(learn, observation, shared, otherwise=lambda x, moments: ())

    def _shown(self, shared, observation):
        def show(x, moments):
            shown = _moments.normalize(moments, x, self.epsilon)
            return shown if self.clip is None else clip(shown, -self.clip, self.clip)

        return self._map(show, observation, shared)

    def _map(self, fn, observation, *shared, otherwise=lambda x, *moments: x):
        """``fn`` on every leaf that is normalised, and ``otherwise`` on the others."""
        return jax.tree.map(
            lambda is_chosen, *xs: (fn if is_chosen else otherwise)(*xs),
            self._chosen(observation),
            observation,
            *shared,
        )


def normalized_spec(spec: specs.Array, clip: float | None) -> specs.Array:
    """The spec of one lane's normalised array, of magnitude ``clip`` at most."""
    if clip is None:
        return specs.Array(spec.shape, spec.dtype, spec.name)
    return specs.Bounded(spec.shape, spec.dtype, -clip, clip, spec.name)
