"""Wrappers that map rewards."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.core import (
    BatchWrapper,
    LaneWrapper,
    RewardWrapper,
    Sum,
    TimeStep,
    bounded_reward,
    check_callable,
    check_numbers,
    check_reward_spec,
    checked_reward,
    clip,
    moments,
)
from jaxenv.random import Stream
from jaxenv.tree import Tree


class ClipReward(RewardWrapper):
    """Clips the reward (``[B]`` or ``[B, R]``) to [minimum, maximum]. NaN passes through.

    The bounds of the spec are clipped too and always include 0, the reward at FIRST. Owns ``reward``.

    Args:
        minimum: lower limit, ``None`` for none: a number, or for a vector reward one per component.
        maximum: upper limit, ``None`` for none, at least ``minimum``.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.ClipReward(jaxenv.spec("Pendulum-v1").make(), -1, 0)
    >>> env.reward_spec()
    Bounded((), float32, -1.0, 0.0, name='reward')
    >>> env.reward(np.array([-16.2, -0.5], np.float32)).tolist()
    [-1.0, -0.5]
    """

    minimum: Any = tree.static(default=None)
    maximum: Any = tree.static(default=None)

    in_evaluation = "left_out"
    noop_kwargs: ClassVar = {"minimum": -np.inf, "maximum": np.inf}

    def check(self) -> None:
        if self.minimum is None and self.maximum is None:
            raise ValueError("ClipReward: minimum, maximum or both must be given, got None and None")
        for name in ("minimum", "maximum"):
            if getattr(self, name) is not None:
                check_numbers("ClipReward", name, getattr(self, name))
        spec, given = self.env.reward_spec(), f"got {self.minimum} and {self.maximum}"
        try:
            low, high = (np.broadcast_to(limit, spec.shape) for limit in self._limits())
        except (TypeError, ValueError):
            raise ValueError(f"ClipReward: minimum and maximum must be numbers that fit {spec}, {given}") from None
        if not np.all(low <= high):
            raise ValueError(f"ClipReward: minimum must not exceed maximum, {given}")

    def _limits(self) -> tuple[np.ndarray, np.ndarray]:
        low = np.asarray(-np.inf if self.minimum is None else self.minimum, np.float32)
        return low, np.asarray(np.inf if self.maximum is None else self.maximum, np.float32)

    def reward_spec(self) -> specs.Bounded:
        spec = self.env.reward_spec()
        return bounded_reward(spec, *(np.clip(bound, *self._limits()) for bound in specs.bounds(spec)))

    def reward(self, reward: jax.Array) -> jax.Array:
        low, high = (specs.aligned(limit, reward.ndim) for limit in self._limits())
        return clip(reward, low, high)


class SignReward(RewardWrapper):
    """Replaces the reward by its sign, -1, 0 or 1, as in the training of Atari agents.

    The result is float32 ``[B]``, or ``[B, R]`` by component. Owns ``reward``.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.SignReward(jaxenv.spec("Pendulum-v1").make())
    >>> env.reward(np.array([-16.2, 0.0, 3.0], np.float32)).tolist()
    [-1.0, 0.0, 1.0]
    """

    in_evaluation = "left_out"

    def reward_spec(self) -> specs.Bounded:
        spec = self.env.reward_spec()
        return bounded_reward(spec, *(np.sign(bound) for bound in specs.bounds(spec)))

    def reward(self, reward: jax.Array) -> jax.Array:
        return jnp.sign(reward)


class TransformReward(RewardWrapper):
    """Maps the reward by a function, except at FIRST, where it stays 0. Owns ``reward``.

    Args:
        fn: an elementwise function of a batch of rewards, ``[B]`` or ``[B, R]``; the result is cast to float32.
        spec: float32 spec of one lane's result, if its bounds are known; they must include 0, the reward of FIRST rows.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.TransformReward(jaxenv.spec("Pendulum-v1").make(), lambda r: 0.1 * r)
    >>> env.reward_spec()
    Array((), float32, name='reward')
    """

    fn: Callable[[jax.Array], Any] = tree.static()
    spec: specs.Array | None = tree.static(default=None)

    in_evaluation = "left_out"

    def check(self) -> None:
        check_callable("TransformReward", "fn", self.fn, "rewards")
        lanes, inner = self._spec_lanes, self.env.reward_spec()
        found = jax.eval_shape(
            lambda reward: checked_reward("TransformReward.fn", self.fn(reward), (lanes,)),
            jax.ShapeDtypeStruct((lanes, *inner.shape), inner.dtype),
        )
        if self.spec is not None:
            check_reward_spec("TransformReward", self.spec, specs.unbatched(found))

    def reward_spec(self) -> specs.Array:
        return super().reward_spec() if self.spec is None else self.spec.replace(name="reward")

    def reward(self, reward: jax.Array) -> jax.Array:
        return jnp.asarray(self.fn(reward), jnp.float32)


class RewardNoise(LaneWrapper):
    """Adds normal noise with mean 0 and standard deviation ``scale`` to the reward of every step, as bsuite does.

    Draws are independent for every lane, step and component. Rewards of FIRST rows stay 0. Owns ``reward``, which has
    no bounds; ``mode="eval"`` leaves the wrapper out.

    Args:
        scale: the standard deviation, at least 0, in units of the reward: one number, or one per lane.

    >>> import jaxenv
    >>> env = RewardNoise(jaxenv.spec("Catch-bsuite").make(), 0.1)
    >>> env.reward_spec()
    Array((), float32, name='reward')
    """

    scale: Any = tree.leaf(low=0)

    owns: ClassVar[frozenset[str]] = frozenset({"reward"})
    in_evaluation = "left_out"
    noop_kwargs = {"scale": np.float32(0)}

    def reward_spec(self) -> specs.Array:
        return specs.Array(self.env.reward_spec().shape, np.float32, "reward")

    def after(self, own: Tree, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        reward = timestep.reward
        noise = tree.expand(self.scale, reward.ndim) * random.normal(stream, reward.shape[1:])
        first = tree.expand(timestep.is_first(), reward.ndim)
        return own, dataclasses.replace(timestep, reward=reward + jnp.where(first, np.float32(0), noise))


class NormalizeReward(BatchWrapper):
    """Divides the reward by the running standard deviation of the discounted return. No mean is subtracted.

    The return of a lane is ``G = gamma * G + reward``, and 0 at FIRST; it includes the reward that ends an episode.
    Every row except FIRST updates the statistics, over all lanes, before it is divided. Returns that are non-finite or
    above 1e15 in magnitude (float32 sums of their squares would overflow) do not update them, nor does a ``frozen``
    wrapper. While all returns so far are equal, the divisor is only ``sqrt(epsilon)``, so set ``clip``.

    ``statistics(state)`` returns a struct as for `NormalizeObservation`, of float32 ``()`` or ``[R]``. Owns ``reward``.

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


@tree.struct
class Unpaid:
    """The sum of rewards since the last payment, and the number of steps it covers (int32 ``[B]``)."""

    reward: Sum
    steps: jax.Array


class DelayReward(LaneWrapper):
    """Pays the sum of the rewards on every ``num``-th step and on LAST, and 0 in between.

    The return of an episode does not change, and no reward carries over to the next one. Owns ``reward``.

    Args:
        num: number of steps per payment, at least 1: one number, or int32 ``[B]`` with one per lane.

    >>> import jaxenv
    >>> env = DelayReward(jaxenv.testing.Counting(np.array([9])), 2)
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> for _ in range(2):
    ...     state, timestep = env.step(state, jnp.array([5]))
    ...     print(timestep.reward.item())
    0.0
    10.0
    """

    num: int = tree.leaf(default=1, low=1)

    owns: ClassVar[frozenset[str]] = frozenset({"reward"})
    in_evaluation = "left_out"
    place = "sees_ends"
    noop_kwargs: ClassVar = {"num": 1}

    def reward_spec(self) -> specs.Bounded:
        """Keeps only the signs of the bounds, since the number of summed rewards is unknown."""
        spec = self.env.reward_spec()
        low, high = specs.bounds(spec)
        return bounded_reward(spec, np.where(low < 0, -np.inf, 0), np.where(high > 0, np.inf, 0))

    def init(self, timestep: TimeStep, stream: Stream) -> Unpaid:
        return Unpaid(Sum.zeros(timestep.reward.shape), jnp.zeros_like(timestep.env_id))

    def after(self, own: Unpaid, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        reward = own.reward.add(timestep.reward)
        steps = own.steps + jnp.where(timestep.is_first(), np.int32(0), np.int32(1))
        nothing = Unpaid(Sum.zeros(reward.value.shape), jnp.zeros_like(steps))
        pays = (steps >= self.num) | timestep.is_last()
        paid = tree.where(pays, reward.value, nothing.reward.value)
        return tree.where(pays, nothing, Unpaid(reward, steps)), dataclasses.replace(timestep, reward=paid)


class SparseReward(RewardWrapper):
    """Pays 1 if the reward exceeds the threshold, else 0 (also for NaN). Owns ``reward``.

    Args:
        threshold: one number, or float32 ``[B]`` with one per lane.

    >>> import jax.numpy as jnp, jaxenv
    >>> env = jaxenv.wrappers.SparseReward(jaxenv.spec("MountainCar-v0").make())
    >>> env.reward(jnp.array([-1.0, 0.0, 0.5])).tolist()
    [0.0, 0.0, 1.0]
    """

    threshold: Any = tree.leaf(default=0.0)

    in_evaluation = "left_out"

    def reward_spec(self) -> specs.Bounded:
        return bounded_reward(self.env.reward_spec(), 0, 1)

    def reward(self, reward: jax.Array) -> jax.Array:
        return (reward > tree.expand(self.threshold, reward.ndim)).astype(reward.dtype)
