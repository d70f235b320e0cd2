"""Map the reward by a function."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxenv import specs, tree
from jaxenv.core import RewardWrapper, check_callable, check_reward_spec, checked_reward


class TransformReward(RewardWrapper):
    """Maps the reward by a function, except at FIRST, where it stays 0.

    Owns ``reward``.

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
