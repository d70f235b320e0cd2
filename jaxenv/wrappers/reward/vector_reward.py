"""Append entries of env_info to the reward."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import RowRewardWrapper, TimeStep, check_combined, is_concrete


class VectorReward(RowRewardWrapper):
    """Appends entries of ``env_info`` to the reward as further components: float32 ``[B, 1 + len(names)]``.

    With ``names=("cost",), weights=(1, -1)`` the reward is ``[reward, -cost]``. The entries should describe the
    transition (see `RewardFromInfo`). Owns ``reward``.

    Args:
        env: an environment with a scalar or vector reward.
        names: entries of ``env_info`` with one number or flag per lane.
        weights: factors of the components, float32 ``[n]``, or ``[B, n]`` for weights per lane; 1 by default.

    >>> import jax, jaxenv
    >>> inside = jaxenv.wrappers.TimeLimit(jaxenv.spec("Pendulum-v1").make(), 1)
    >>> env = VectorReward(inside, ("time_limit_reached",), [0, 1])
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> env.step(state, jnp.zeros((1, 1)))[1].reward.tolist()
    [[-0.0, 1.0]]
    """

    names: Any = tree.static()
    weights: Any = tree.leaf(rank=1, default=None)

    in_evaluation = "kept"

    def convert(self) -> dict[str, Any]:
        names = (self.names,) if isinstance(self.names, str) else self.names
        if not isinstance(names, list | tuple):
            raise ValueError(f"VectorReward: names must be names of entries of env_info, got {names!r}")
        num_components = self.env.reward_spec().numel + len(names)
        weights = np.ones(num_components, np.float32) if self.weights is None else self.weights
        return {"names": names, "weights": weights}

    @property
    def _components(self) -> int:
        return self.env.reward_spec().numel + len(self.names)

    def check(self) -> None:
        found = self.env.env_info_spec()
        for name in self.names:
            if name not in found:
                known = ", ".join(found) or "(none)"
                raise ValueError(f"VectorReward: no entry {name!r} in env_info, there are {known}")
            if not specs.is_spec(found[name]) or found[name].shape != ():
                raise ValueError(f"VectorReward: names must name single numbers, {name!r} is {found[name]}")
        check_combined("VectorReward", self.env, self.names)
        if not self.names:
            raise ValueError("VectorReward: names must name at least one entry of env_info, got ()")
        if np.shape(self.weights)[-1] != self._components:
            shown = np.asarray(self.weights).tolist() if is_concrete(self.weights) else np.shape(self.weights)
            raise ValueError(f"VectorReward: weights must be {self._components}, one per component, got {shown}")

    def reward_of_row(self, timestep: TimeStep) -> jax.Array:
        reward = timestep.reward.reshape(timestep.env_id.shape[0], -1)
        entries = [timestep.env_info[name].astype(reward.dtype)[:, None] for name in self.names]
        return jnp.concatenate([reward, *entries], axis=1) * specs.aligned(self.weights, 2)
