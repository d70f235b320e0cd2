"""Wrappers that compose rewards: from components, from infos, from potentials."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import (
    BatchWrapper,
    Environment,
    RewardWrapper,
    RowRewardWrapper,
    TimeStep,
    check_callable,
    check_combined,
    check_reward_spec,
    is_concrete,
)
from jaxenv.tree import Tree


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
        ones = np.ones(self.env.reward_spec().numel + len(names), np.float32)
        return {"names": names, "weights": ones if self.weights is None else self.weights}

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
        _check_weights("VectorReward", self.weights, self.env.reward_spec().numel + len(self.names))

    def reward_of_row(self, timestep: TimeStep) -> jax.Array:
        reward = timestep.reward.reshape(timestep.env_id.shape[0], -1)
        entries = [timestep.env_info[name].astype(reward.dtype)[:, None] for name in self.names]
        return jnp.concatenate([reward, *entries], axis=1) * specs.aligned(self.weights, 2)


class ScalarizeReward(RewardWrapper):
    """Returns the weighted sum of the components of a vector reward. Owns ``reward``.

    Args:
        env: an environment with a vector reward float32 ``[B, R]``.
        weights: float32 ``[R]``, or ``[B, R]`` for weights per lane; by default only the first component counts.

    >>> import jax.numpy as jnp, jaxenv
    >>> from jaxenv import specs, testing
    >>> pair = specs.Array((2,), np.float32)
    >>> env = testing.random_environment(specs.discrete(3), specs.discrete(2), pair)
    >>> jaxenv.wrappers.ScalarizeReward(env, [1, -2]).reward(jnp.array([[5.0, 1.0]])).tolist()
    [3.0]
    """

    weights: Any = tree.leaf(rank=1, default=None)

    in_evaluation = "kept"

    def convert(self) -> dict[str, Any]:
        spec = self.env.reward_spec()
        if spec.ndim != 1:
            raise ValueError(f"ScalarizeReward: the reward must be a vector, got {spec}")
        return {"weights": np.eye(1, spec.shape[0], dtype=np.float32)[0]} if self.weights is None else {}

    def check(self) -> None:
        _check_weights("ScalarizeReward", self.weights, self.env.reward_spec().shape[0])

    def reward_spec(self) -> specs.Array:
        return specs.Array((), np.float32, "reward")

    def reward(self, reward: jax.Array) -> jax.Array:
        return jnp.sum(reward * specs.aligned(self.weights, reward.ndim), axis=-1)


def _check_weights(owner: str, weights: Any, components: int) -> None:
    if np.shape(weights)[-1] != components:
        shown = np.asarray(weights).tolist() if is_concrete(weights) else np.shape(weights)
        raise ValueError(f"{owner}: weights must be {components}, one per component, got {shown}")


class _Noting(Mapping[str, Any]):
    """A mapping that notes which entries are read; a dict has ways around ``__getitem__``."""

    def __init__(self, entries: Mapping[str, Any]):
        self._entries = entries
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        value = self._entries[name]
        self.names.add(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class RewardFromInfo(RowRewardWrapper):
    """Replaces the reward by a function of ``env_info``.

    The entries should describe the transition. Entries that describe the state belong to the observation on the row:
    outside a ``same_step`` `AutoReset`, LAST rows hold the next episode's. Owns ``reward``.

    Args:
        fn: maps the batch's ``env_info`` to rewards ``[B]`` or ``[B, R]``, which are cast to float32.
        spec: float32 spec of one lane's reward, if its bounds are known; they must include 0, the reward of FIRST rows.

    Raises:
        ValueError: if the result has no leading axis of lanes, if ``spec`` does not fit it, or if one action takes
            several steps and ``fn`` reads an entry that the task does not sum (`Task.summed_entries`).

    >>> import jaxenv
    >>> inside = jaxenv.wrappers.TimeLimit(jaxenv.spec("Pendulum-v1").make(), 200)
    >>> RewardFromInfo(inside, lambda env_info: env_info["time_limit_reached"]).reward_spec()
    Array((), float32, name='reward')
    """

    fn: Callable[[Mapping[str, Any]], Any] = tree.static()
    spec: specs.Array | None = tree.static(default=None)

    in_evaluation = "left_out"

    def check(self) -> None:
        check_callable("RewardFromInfo", "fn", self.fn, "env_info")
        found = Environment.reward_spec(self)  # traces fn, which raises its errors here
        if self.env.facts.repeats:
            jax.eval_shape(self._noted, self.env.start_shapes()[1].env_info)
        if self.spec is not None:
            check_reward_spec("RewardFromInfo", self.spec, found)

    def reward_spec(self) -> specs.Array:
        return super().reward_spec() if self.spec is None else self.spec.replace(name="reward")

    def _noted(self, env_info: dict[str, Any]) -> Any:
        """Calls ``fn`` with entries that refuse to be read where they show only the last of several steps."""
        reads = _Noting(env_info)
        reward = self.fn(reads)
        check_combined("RewardFromInfo", self.env, reads.names)
        return reward

    def reward_of_row(self, timestep: TimeStep) -> jax.Array:
        return self.fn(timestep.env_info)


class ShapedReward(BatchWrapper):
    """Adds an entry of ``env_info`` to the reward, with a weight that falls from 1 to 0.

    The weight falls linearly over the first ``steps`` rows of every lane and stays 0: a learner then goes on with the
    task's own reward. The entry must describe the transition and have the shape of the reward, such as
    ``env_info["shaped_reward"]`` of Overcooked. Evaluations leave the wrapper out.

    ``statistics(state)`` returns the number of rows so far, int32 ``()``, at most ``steps``. Owns ``reward``.

    Args:
        env: any environment, with ``AutoReset`` inside if there is one.
        steps: number of rows of a lane until the weight is 0.
        entry: the name of the entry.
        frozen: stop counting, so that the weight stands still.
        axis_name: has no effect, since all shards count the same rows.

    Raises:
        ValueError: if one action takes several steps and the task does not sum the entry (`Task.summed_entries`).

    >>> import jax, jaxenv
    >>> wrappers = ["AgentsAsLanes", ("ShapedReward", {"steps": 40_000})]
    >>> env = jaxenv.make("Overcooked-CrampedRoom-v1", num_envs=4, wrappers=wrappers)
    >>> env.reward_spec()
    Array((), float32, name='reward')
    """

    steps: int = tree.static(low=1)
    entry: str = tree.static(default="shaped_reward")

    owns: ClassVar[frozenset[str]] = frozenset({"reward"})
    in_evaluation = "left_out"

    def check(self) -> None:
        entry, reward = self.env.env_info_spec().get(self.entry), self.env.reward_spec()
        if entry is None or not specs.is_spec(entry) or entry.shape != reward.shape:
            found = entry if entry is not None else f"the entries {', '.join(self.env.env_info_spec()) or 'none'}"
            rule = f"entry must be an entry of env_info with the shape {reward.shape} of the reward"
            raise ValueError(f"ShapedReward: {rule}, got {self.entry!r} and {found} of {self.env}")
        check_combined("ShapedReward", self.env, [self.entry])

    def reward_spec(self) -> specs.Array:
        return specs.Array(self.env.reward_spec().shape, np.float32, "reward")

    def init(self, timestep: TimeStep) -> jax.Array:
        return jnp.zeros((), jnp.int32)

    def after(self, shared: jax.Array, lanes: Tree, timestep: TimeStep, learn: bool) -> tuple[Tree, Tree, TimeStep]:
        weight = 1 - shared.astype(jnp.float32) / np.float32(self.steps)
        bonus = weight * timestep.env_info[self.entry].astype(jnp.float32)
        unpaid = tree.expand(timestep.is_first() | (weight <= 0), timestep.reward.ndim)
        reward = timestep.reward + jnp.where(unpaid, np.float32(0), bonus)
        seen = jnp.minimum(shared + 1, np.int32(self.steps)) if learn else shared
        return seen, lanes, dataclasses.replace(timestep, reward=reward)
