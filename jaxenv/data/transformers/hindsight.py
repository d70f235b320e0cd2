"""Take what an episode reached later for what it was after: hindsight experience replay."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv.data.replay.batch import episode_mask
from jaxenv.data.transformers.base import Transformer, check_number, with_timestep


def within_reach(achieved: Any, desired: Any) -> jax.Array:
    """The reward 0 where the goal achieved lies closer than 0.05 to the one desired, -1 elsewhere: float32 ``[B]``.

    Goals are trees of arrays ``[B, ...]``, the distance is Euclidean over all their elements.

    >>> import numpy as np
    >>> within_reach(np.zeros((2, 2), np.float32), np.array([[0.03, 0.03], [0.03, 0.04]], np.float32)).tolist()
    [0.0, -1.0]
    """

    def squares(a, b):
        difference = a.astype(jnp.float32) - b.astype(jnp.float32)
        return jnp.sum(jnp.square(difference).reshape(difference.shape[0], -1), axis=-1)

    total = sum(map(squares, jax.tree.leaves(achieved), jax.tree.leaves(desired)))
    return jnp.where(jnp.sqrt(total) < np.float32(0.05), np.float32(0), np.float32(-1))


@dataclasses.dataclass(frozen=True)
class Hindsight(Transformer):
    """Replaces the goal of replayed windows by one that their episode achieved later, and pays by it.

    Andrychowicz et al. (2017), "Hindsight Experience Replay", arXiv:1707.01495, strategy "future". A window is
    relabelled with probability ``proportion``: its new goal is what was achieved on a row drawn uniformly from those
    after the window's first row, up to the end of its episode (the newest row stored, where that goes on). All rows of
    the window that belong to the episode of the first one get this goal, and all but FIRST the reward of it. Windows
    that begin with a LAST row, after which nothing was achieved, and those not drawn stay as they are, bit for bit.
    Rollouts see the goals of the environment.

    As ALF's ``HindsightExperienceTransformer``, which takes windows of 2 rows; here they may have any length from 2,
    and may run over the end of the episode.

    Draws come from the state: the stream of the key that ``init`` or ``around`` is given, one place further with every
    batch.

    Discounts stay as they are stored: a relabelled row that reaches its new goal has discount 1 and its value goes on,
    which is right where reaching a goal ends nothing. Where the task ends on success, set the discount of such rows to
    0 after ``transform_batch``: ``jnp.where((reward >= 0) & ~timestep.is_first(), 0.0, discount)`` for the rewards of
    `within_reach`.

    Args:
        reward: a function of achieved and desired goals, trees of ``[R, ...]``, to rewards ``[R]``, cast to float32. It
            must be what the environment pays (``GoalConditioned.reward_fn``).
        proportion: the chance that a window is relabelled, in [0, 1].
        achieved_goal: dotted path of the goal achieved, below the observation.
        desired_goal: dotted path of the goal to replace, of the same structure, shapes and dtypes.

    Raises:
        ValueError: for a proportion out of range, a field that is not there, goals that differ in kind, a buffer
            without ``index_episodes``, windows of one row, or rows of a ``same_step`` stream.
    """

    reward: Callable[[Any, Any], jax.Array] = within_reach
    proportion: float = 0.8
    achieved_goal: str = "achieved_goal"
    desired_goal: str = "desired_goal"

    tier: ClassVar[int] = 2
    reason: ClassVar[str] = (
        "it takes goals from the buffer and computes rewards from them, so nothing may have changed goals or rewards"
    )

    @property
    def draws(self):
        return True

    def check(self):
        if not callable(self.reward):
            raise ValueError(f"Hindsight: reward must be a function of achieved and desired goals, got {self.reward!r}")
        check_number("Hindsight", "proportion", self.proportion, lambda x: 0 <= x <= 1, "in [0, 1]")
        for name in ("achieved_goal", "desired_goal"):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"Hindsight: {name} must be a dotted path, got {getattr(self, name)!r}")

    def init(self, timestep, stream=None):
        self._check_rows(timestep)
        return tree.Shared(random.stream(jax.random.key(0) if stream is None else stream))

    def transform_timestep(self, state, timestep):
        return state, timestep

    def transform_spec(self, spec):
        self._check_rows(spec)
        return spec

    def transform_batch(self, state, batch, replay=None, stored=None):
        if replay is None or stored is None:
            raise ValueError("Hindsight: it takes goals from the buffer, pass replay and its state")
        if not replay.index_episodes:
            raise ValueError("Hindsight: the buffer does not know where episodes end, make it with index_episodes=True")
        if batch.length < 2:
            raise ValueError(f"Hindsight: windows must have at least 2 rows, got {batch.length}")
        timestep = batch.experience.timestep
        self._check_rows(timestep)
        achieved, desired = self.goals(timestep.observation)
        relabelled, position = self._drawn(state.value, batch, replay.episode_end(stored, batch.env_id, batch.position))
        goal = replay.get(stored, f"timestep.observation.{self.achieved_goal}", batch.env_id, position)
        self._check_alike(goal, achieved_goal=achieved, desired_goal=desired)

        mask = relabelled[:, None] & episode_mask(timestep)
        goal = jax.tree.map(lambda x, old: jnp.broadcast_to(x[:, None], old.shape), goal, desired)
        reward = self._paid(achieved, goal, timestep.reward)
        shown = tree.set_field(timestep, f"observation.{self.desired_goal}", tree.where(mask, goal, desired))
        shown = dataclasses.replace(shown, reward=jnp.where(mask & ~timestep.is_first(), reward, timestep.reward))
        stream = dataclasses.replace(state.value, c0=state.value.c0 + np.uint32(1))
        return tree.Shared(stream), with_timestep(batch, shown)

    def _drawn(self, stream, batch, end):
        """Which windows are relabelled, bool ``[N]``, and the positions of their goals, int32 ``[N]``."""
        first, window = batch.position + np.int32(1), np.arange(batch.position.shape[0], dtype=np.uint32)
        one_each = jax.tree.map(
            lambda word: jnp.broadcast_to(word, window.shape), dataclasses.replace(stream, c1=window)
        )
        chosen = random.bernoulli(one_each, (), self.proportion)
        later = random.integers(random.fold_in(one_each, "goal"), (), first, end + np.int32(1))
        return chosen & (first <= end), jnp.minimum(later, end)

    def _paid(self, achieved, desired, reward):
        """What the rows of all windows pay by these goals, ``[N, L]``."""
        rows = reward.shape[:2]
        achieved, desired = jax.tree.map(lambda x: x.reshape(rows[0] * rows[1], *x.shape[2:]), (achieved, desired))
        paid = jnp.asarray(self.reward(achieved, desired), jnp.float32)
        if paid.shape != (rows[0] * rows[1],) or reward.shape != rows:
            raise ValueError(
                f"Hindsight: reward must return one number for each of {rows[0] * rows[1]} rows, it returns shape "
                f"{paid.shape}, and the rows' own reward has shape {reward.shape}"
            )
        return paid.reshape(rows)

    def goals(self, observation: Any) -> tuple[Any, Any]:
        """The goals achieved and desired in a tree like an observation, whatever shape its leaves have."""
        try:
            return tree.get_field(observation, self.achieved_goal), tree.get_field(observation, self.desired_goal)
        except ValueError as unknown:
            raise ValueError(f"Hindsight: {unknown}") from None

    def _check_rows(self, timestep):
        if "final_observation" in timestep.env_info:
            raise ValueError(
                "Hindsight: the rows hold env_info['final_observation']: the LAST rows of a same_step stream show the "
                "next episode's goals. Take AutoReset in mode 'next_step'"
            )
        self.goals(timestep.observation)

    def _check_alike(self, stored, **goals):
        """Refuses goals of windows that are not of the kind of the goals stored as achieved."""
        kind = jax.tree.map(lambda x: (x.shape[1:], x.dtype), stored)
        for name, goal in goals.items():
            if jax.tree.map(lambda x: (x.shape[2:], x.dtype), goal) != kind:
                raise ValueError(
                    f"Hindsight: {name} is {_told(goal, 2)} in the windows, the goals achieved are {_told(stored, 1)} "
                    "in the buffer: all must be goals of one kind, as they were stored"
                )


def _told(goals: Any, outer: int) -> str:
    return ", ".join(f"{x.dtype}{list(x.shape[outer:])}" for x in jax.tree.leaves(goals))
