"""Give returns variance 1, as far as has been seen."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import _moments, specs, tree
from jaxenv._checks import is_concrete
from jaxenv._numeric import clip
from jaxenv._wrapper_bases import BatchWrapper


class NormalizeReward(BatchWrapper):
    """Divides the reward by the running standard deviation of the discounted return; no mean is subtracted.

    The return of a lane is ``G = gamma * G + reward``, zero at FIRST; the reward that ends an episode is part of it,
    and the next episode starts from zero. Every row but FIRST enters the statistics, over all lanes, before it is
    divided; a return that is not finite or beyond 1e15, the square of which float32 could not sum, and ``frozen``
    wrappers leave them alone.
    ``statistics(state)`` gives their `_moments.Moments`, to save, to merge by ``_moments.merge`` and to load by
    ``with_statistics``.

    Gymnasium's wrapper carries the
    return across truncation, drops it before the terminal reward, and starts from a count of 0.0001 with variance 1.
    As long as all returns seen are alike the divisor is ``sqrt(epsilon)``: give a ``clip``.

    Owns ``reward``.

    Args:
        env: any environment, ``AutoReset`` inside; a vector reward has statistics for each of its components.
        gamma: discount of the return, in [0, 1]: one number, or one per lane.
        epsilon: added to the variance: one number, or one per lane.
        clip: the largest magnitude paid; ``None`` for no bound.
        frozen: stop learning.
        axis_name: a mesh axis over which the statistics are those of all shards.

    Raises:
        ValueError: if ``gamma`` is outside [0, 1], ``epsilon`` negative, or ``clip`` not positive.

    >>> import jax, jaxenv
    >>> env = jaxenv.wrappers.NormalizeReward(jaxenv.make("Pendulum-v1", num_envs=4), clip=10.0)
    >>> env.reward_spec()
    Bounded((), float32, -10.0, 10.0, name='reward')
    """

    gamma: Any = tree.leaf(default=np.float32(0.99))
    epsilon: Any = tree.leaf(default=np.float32(1e-8))
    clip: float | None = tree.static(default=None)

    owns: ClassVar[frozenset[str]] = frozenset({"reward"})

    def check(self):
        if is_concrete(self.gamma) and not np.all((np.asarray(self.gamma) >= 0) & (np.asarray(self.gamma) <= 1)):
            raise ValueError(f"NormalizeReward: gamma must lie in [0, 1], got {self.gamma}")
        if is_concrete(self.epsilon) and np.any(np.asarray(self.epsilon) < 0):
            raise ValueError(f"NormalizeReward: epsilon must be at least 0, got {self.epsilon}")
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"NormalizeReward: clip must be None or positive, got {self.clip}")

    def reward_spec(self):
        """Without ``clip`` only the sign of the reward is known, where it has one."""
        spec, most = self.env.reward_spec(), np.inf if self.clip is None else self.clip
        low = np.where(getattr(spec, "minimum", np.full(spec.shape, -np.inf)) < 0, -most, 0)
        high = np.where(getattr(spec, "maximum", np.full(spec.shape, np.inf)) > 0, most, 0)
        if np.all(low == -np.inf) and np.all(high == np.inf):
            return specs.Array(spec.shape, np.float32, "reward")
        return specs.Bounded(spec.shape, np.float32, low, high, "reward")

    def normalize(self, state: Any, reward: jax.Array) -> jax.Array:
        """What the wrapper pays for a batch of raw rewards, by the statistics in ``state``."""
        return self._paid(state.shared.value, reward)

    def inverse(self, state: Any, reward: jax.Array) -> jax.Array:
        """The raw rewards for a batch of normalised ones (what was clipped is lost)."""
        return reward * _moments.scale(state.shared.value, reward.ndim, self.epsilon)

    def init(self, timestep):
        return _moments.empty(timestep.reward.shape[1:])

    def init_lanes(self, timestep):
        return jnp.zeros_like(timestep.reward)

    def after(self, shared, lanes, timestep, learn):
        reward = timestep.reward
        returns = tree.expand(jnp.asarray(self.gamma), reward.ndim) * lanes + reward
        if learn:
            shared = _moments.update(shared, returns, _moments.summable(returns) & ~timestep.is_first(), self.axis_name)
        return shared, returns, dataclasses.replace(timestep, reward=self._paid(shared, reward))

    def _paid(self, shared, reward):
        paid = reward / _moments.scale(shared, reward.ndim, self.epsilon)
        return paid if self.clip is None else clip(paid, -self.clip, self.clip)
