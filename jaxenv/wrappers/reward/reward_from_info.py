"""Compute the reward from env_info."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax

from jaxenv import specs, tree
from jaxenv.core import Environment, RowRewardWrapper, TimeStep, check_callable, check_combined, check_reward_spec


class _Noting(Mapping[str, Any]):
    """A dict that notes which entries are read."""

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
