"""Shorten the first episodes at random, so that lanes get out of phase."""

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv.core import LaneState, Starts, StepType, TimeStep, Wrapper, check_no_autoreset
from jaxenv.tree import Tree

_NEVER = np.int32(np.iinfo(np.int32).max)


class RandomFirstEpisodeLength(Wrapper):
    """Ends the first episodes of every lane after a random number of steps, 1 to ``maximum``.

    Without it, lanes whose episodes have equal length stay in phase: their data is correlated, and restarts come in
    bursts. A cut row is LAST with an unchanged discount, so it counts as truncated unless the task ended on the same
    step. No entry of ``env_info`` marks it. The clock counts the episodes of a lane, so ``reset_where`` with a new key
    cuts again. Steps are the agent's, even if a wrapper inside repeats actions. ``make(mode="eval")`` leaves the
    wrapper out. Owns ``step_type``.

    Args:
        env: any environment without ``AutoReset``.
        maximum: the largest length, 1 to 2**31 - 2: one number, or int32 ``[B]`` with one per lane.
        num_episodes: number of episodes per lane to cut, at least 0: one number, or int32 ``[B]``.

    >>> import jax
    >>> from jaxenv.testing import Chain
    >>> env = RandomFirstEpisodeLength(Chain(9, num_envs=2), 1)
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> state, timestep = env.step(state, np.array([1, 1]))
    >>> timestep.truncated.tolist()
    [True, True]
    """

    maximum: Any = tree.leaf(dtype=np.int32, low=1, high=2**31 - 2)
    num_episodes: int = tree.leaf(default=1, low=0)

    owns: ClassVar[frozenset[str]] = frozenset({"step_type"})
    in_evaluation = "left_out"
    noop_kwargs: ClassVar = {"num_episodes": 0}

    def check(self) -> None:
        check_no_autoreset(self, "would not see the ends")

    def inner(self, state: LaneState) -> Tree:
        return state.inner

    def begin(self, starts: Starts, previous: LaneState | None = None) -> tuple[Tree, TimeStep]:
        state, timestep = super().begin(starts, previous)
        stream = self._stream(self.env.clock(state), "length")
        # Drawn once and carried: four bytes per lane cost less than a random word per step.
        length = random.integers(stream, (), 1, self.maximum + np.int32(1))
        left = jnp.where(starts.episode < self.num_episodes, length, _NEVER)
        return LaneState(state, left), timestep

    def proceed(self, state: LaneState, action: Tree) -> tuple[Tree, TimeStep]:
        inner, timestep = self.env.proceed(state.inner, action)
        left = state.own - 1  # the steps until the cut, int32 [B]
        step_type = jnp.where(left <= 0, np.int32(StepType.LAST), timestep.step_type)
        return LaneState(inner, left), dataclasses.replace(timestep, step_type=step_type)
