"""Scale rewards by the running standard deviation of the return."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import BatchWrapper, TimeStep, clip, moments
from jaxenv.tree import Tree


class NormalizeReward(BatchWrapper):
    """Divides the reward by the running standard deviation of the discounted return. No mean is subtracted.

    The return of a lane is ``G = gamma * G + reward``, and 0 at FIRST; it includes the reward that ends an episode.
    Every row except FIRST updates the statistics, over all lanes, before it is divided. Returns that are non-finite or
    above 1e15 in magnitude (float32 sums of their squares would overflow) do not update them, nor does a ``frozen``
    wrapper. While all returns so far are equal, the divisor is only ``sqrt(epsilon)``, so set ``clip``.

    ``statistics(state)`` returns a struct of ``count`` (``int(count)`` reads it), ``mean`` and ``variance``, float32
    ``()`` or ``[R]``, and their rounding errors. This tree of arrays can be saved, and ``with_statistics`` loads it.
    Owns ``reward``.

    Args:
        env: any environment, with ``AutoReset`` inside if there is one; a vector reward has statistics per component.
        gamma: discount of the return, in [0, 1]: one number, or one per lane.
        epsilon: added to the variance: one number, or one per lane.
        clip: limit on the magnitude of the result; ``None`` for none.
        frozen: stop updating the statistics.
        axis_name: a mesh axis over whose shards the statistics are computed.

    >>> import jax, jaxenv
    >>> env = jaxenv.wrappers.NormalizeReward(jaxenv.make("Pendulum-v1", num_envs=4), clip=10.0)
    >>> env.reward_spec()
    Bounded((), float32, -10.0, 10.0, name='reward')
    """

    gamma: Any = tree.leaf(default=0.99, low=0, high=1)
    epsilon: Any = tree.leaf(default=1e-8, low=0)
    clip: float | None = tree.static(default=None, above=0)

    owns: ClassVar[frozenset[str]] = frozenset({"reward"})
    in_evaluation = "left_out"

    def reward_spec(self) -> specs.Array:
        """Keeps only the signs of the inner bounds; their magnitude is ``clip``, or infinite without it."""
        spec, most = self.env.reward_spec(), np.inf if self.clip is None else self.clip
        low, high = specs.bounds(spec)
        low, high = np.where(low < 0, -most, 0), np.where(high > 0, most, 0)
        if np.all(low == -np.inf) and np.all(high == np.inf):
            return specs.Array(spec.shape, np.float32, "reward")
        return specs.Bounded(spec.shape, np.float32, low, high, "reward")

    def normalize(self, state: Any, reward: jax.Array) -> jax.Array:
        """Normalises a batch of raw rewards (``[B]`` or ``[B, R]``) by the statistics in ``state``."""
        return self._paid(state.shared.value, reward)

    def inverse(self, state: Any, reward: jax.Array) -> jax.Array:
        """Restores raw rewards from a batch of normalised ones; clipping cannot be undone."""
        return reward * moments.scale(state.shared.value, reward.ndim, self.epsilon)

    def init(self, timestep: TimeStep) -> Tree:
        return moments.empty(timestep.reward.shape[1:])

    def init_lanes(self, timestep: TimeStep) -> Tree:
        return jnp.zeros_like(timestep.reward)

    def after(self, shared: Tree, lanes: Tree, timestep: TimeStep, learn: bool) -> tuple[Tree, Tree, TimeStep]:
        reward = timestep.reward
        returns = tree.expand(jnp.asarray(self.gamma), reward.ndim) * lanes + reward
        if learn:
            shared = moments.update(shared, returns, moments.summable(returns) & ~timestep.is_first(), self.axis_name)
        return shared, returns, dataclasses.replace(timestep, reward=self._paid(shared, reward))

    def _paid(self, shared: moments.Moments, reward: jax.Array) -> jax.Array:
        paid = reward / moments.scale(shared, reward.ndim, self.epsilon)
        return paid if self.clip is None else clip(paid, -self.clip, self.clip)
