"""Normalise observations by running statistics."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from jaxenv import specs, tree
from jaxenv.core import BatchWrapper, TimeStep, clip, map_observation, moments
from jaxenv.tree import Tree


class NormalizeObservation(BatchWrapper):
    """Shows ``(x - mean) / sqrt(variance + epsilon)`` for the float parts of the observation.

    Mean and variance are running statistics of each element over all lanes. Rows, also from ``reset``, update
    them before they are normalised. Rows of lanes restarted by ``reset_where`` do not, nor do rows with a number that
    is non-finite or above 1e15 in magnitude (float32 sums of its square would overflow), nor does a ``frozen`` wrapper.
    In ``same_step`` mode ``env_info["final_observation"]`` is normalised in the same way and counted on LAST rows only,
    so that the statistics equal ``next_step`` mode's. They start from the first batch, without a prior.

    For each part ``statistics(state)`` returns a struct of ``count`` (``int(count)`` reads it), ``mean`` and
    ``variance``, float32 in the shape of the part, and their rounding errors; for other parts of the observation
    ``()``. This tree of arrays can be saved, and ``with_statistics`` loads it. Owns ``observation``.

    Args:
        env: any environment, with ``AutoReset`` inside if there is one.
        epsilon: added to the variance: one number, or one per lane.
        clip: limit on the magnitude of the result; ``None`` for none.
        fields: dotted paths of the parts, each of float arrays; ``None`` for all float arrays.
        frozen: stop updating the statistics.
        axis_name: a mesh axis over whose shards the statistics are computed.

    >>> import jax, jaxenv
    >>> env = jaxenv.wrappers.NormalizeObservation(jaxenv.make("Pendulum-v1", num_envs=4))
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> int(env.statistics(state).count)
    4
    """

    epsilon: Any = tree.leaf(default=1e-8, low=0)
    clip: float | None = tree.static(default=None, above=0)
    fields: Any = tree.static(default=None)

    owns: ClassVar[frozenset[str]] = frozenset({"observation"})
    in_evaluation = {"frozen": True}

    def check(self) -> None:
        self._marks(self.env.observation_spec())

    def _marks(self, observation: Tree) -> Tree:
        return specs.select_floats("NormalizeObservation", observation, self.fields)

    def observation_spec(self) -> Tree:
        spec = self.env.observation_spec()
        return specs.map_marked(self._marks(spec), lambda s: normalized_spec(s, self.clip), spec)

    def normalize(self, state: Any, observation: Any) -> Any:
        """Normalises a batch of raw observations ``[B, ...]`` by the statistics in ``state``."""
        return self._shown(state.shared.value, observation)

    def inverse(self, state: Any, observation: Any) -> Any:
        """Restores raw observations from a batch of normalised ones; clipping cannot be undone."""
        return self._map(
            lambda x, running: moments.denormalize(running, x, self.epsilon), observation, state.shared.value
        )

    def init(self, timestep: TimeStep) -> Tree:
        return self._map(lambda x: moments.empty(x.shape[1:]), timestep.observation, otherwise=lambda x: ())

    def after(self, shared: Tree, lanes: Tree, timestep: TimeStep, learn: bool) -> tuple[Tree, Tree, TimeStep]:
        if learn:
            shared = self._updated(shared, timestep.observation, jnp.ones_like(timestep.is_last()))
            if "final_observation" in timestep.env_info:
                shared = self._updated(shared, timestep.env_info["final_observation"], timestep.is_last())
        return shared, lanes, map_observation(lambda x: tree.strong(self._shown(shared, x)), timestep)

    def _updated(self, shared: moments.Moments, observation: Tree, valid: jax.Array) -> moments.Moments:
        def update(x: jax.Array, running: moments.Moments) -> moments.Moments:
            return moments.update(running, x, valid & moments.summable(x), self.axis_name)

        return self._map(update, observation, shared, otherwise=lambda x, running: ())

    def _shown(self, shared: moments.Moments, observation: Tree) -> Tree:
        def show(x: jax.Array, running: moments.Moments) -> jax.Array:
            shown = moments.normalize(running, x, self.epsilon)
            return shown if self.clip is None else clip(shown, -self.clip, self.clip)

        return self._map(show, observation, shared)

    def _map(self, fn: Callable[..., Any], observation: Tree, *shared: Any, otherwise: Any = None) -> Any:
        """Maps the normalised leaves by ``fn`` and the others by ``otherwise``."""
        return specs.map_marked(self._marks(observation), fn, observation, *shared, otherwise=otherwise)


def normalized_spec(spec: specs.Array, clip: float | None) -> specs.Array:
    """Returns the spec of one lane's normalised array, bounded by ``clip``."""
    if clip is None:
        return specs.Array(spec.shape, spec.dtype, spec.name)
    return specs.Bounded(spec.shape, spec.dtype, -clip, clip, spec.name)
