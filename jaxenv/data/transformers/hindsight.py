"""Replaces goals by goals that the episode achieved later: hindsight experience replay."""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv._util.checks import check_callable, check_real, check_text, is_concrete
from jaxenv.core.timestep import TimeStep
from jaxenv.data.replay.batch import Batch, episode_mask
from jaxenv.data.transformers.transformer import Identity, Transformer, with_timestep
from jaxenv.tree import Tree
from jaxenv.tree._structure import type_mismatch


def within_reach(achieved: Any, desired: Any) -> jax.Array:
    """Returns 0 where the achieved goal is within 0.05 of the desired one, else -1: float32 ``[B]``.

    Goals are trees of arrays ``[B, ...]``, and the distance is Euclidean over all their elements.

    >>> import numpy as np
    >>> within_reach(np.zeros((2, 2), np.float32), np.array([[0.03, 0.03], [0.03, 0.04]], np.float32)).tolist()
    [0.0, -1.0]
    """

    def squares(a: jax.Array, b: jax.Array) -> jax.Array:
        difference = a.astype(jnp.float32) - b.astype(jnp.float32)
        return jnp.sum(jnp.square(difference).reshape(difference.shape[0], -1), axis=-1)

    total = sum(map(squares, jax.tree.leaves(achieved), jax.tree.leaves(desired)))
    return jnp.where(jnp.sqrt(total) < np.float32(0.05), np.float32(0), np.float32(-1))


@dataclasses.dataclass(frozen=True)
class Hindsight(Transformer):
    """Replaces the goals of replayed windows by goals that their episodes achieved later, and recomputes rewards.

    Andrychowicz et al. (2017), "Hindsight Experience Replay", arXiv:1707.01495, strategy "future". A window is
    relabelled with probability ``proportion``. Its new goal was achieved on a row drawn uniformly from those after the
    window's first row, up to the end of the episode, or to its newest row if it is unfinished. The rows of the window
    in the same episode as the first row get this goal and, except for FIRST rows, its reward. Other windows, and
    windows that start with a LAST row, do not change. Rollouts see the environment's goals. It needs a buffer with
    ``index_episodes``, windows of at least 2 rows, and rows made in ``next_step`` mode.

    The state is a stream, made from the key given to ``init`` or ``wrap_policy`` and advanced by one with every batch.

    Discounts do not change: a relabelled row that reaches its new goal has discount 1, and its value bootstraps. This
    is correct if reaching a goal does not end the task. If it does, set the discount of such rows to 0 after
    ``transform_batch``, for the rewards of `within_reach` by
    ``jnp.where((reward >= 0) & ~timestep.is_first(), 0.0, discount)``.

    Args:
        reward: maps achieved and desired goals, trees of ``[R, ...]``, to rewards ``[R]``, cast to float32. It
            must compute the environment's reward (``GoalConditioned.reward_fn``). Outside jitted code `transform_batch`
            compares both and warns if they differ: call it there once.
        proportion: the probability that a window is relabelled, in [0, 1].
        achieved_goal: dotted path of the achieved goal, below the observation.
        desired_goal: dotted path of the goal to replace, with the same structure, shapes and dtypes.
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
    def is_random(self) -> bool:
        return True

    def check(self) -> None:
        check_callable("Hindsight", "reward", self.reward, "achieved and desired goals")
        check_real("Hindsight", "proportion", self.proportion, 0, 1)
        for name in ("achieved_goal", "desired_goal"):
            check_text("Hindsight", name, getattr(self, name))

    def init(self, timestep: TimeStep, key: jax.Array | None = None) -> Tree:
        self._check_rows(timestep)
        return tree.Shared(random.stream(jax.random.key(0) if key is None else key))

    def transform_timestep(self, state: Tree, timestep: TimeStep) -> tuple[Tree, TimeStep]:
        return state, timestep

    def transform_spec(self, spec: TimeStep) -> TimeStep:
        self._check_rows(spec)
        return spec

    def as_rollout(self) -> Transformer:
        return Identity()

    def transform_batch(self, state: Tree, batch: Any, replay: Any = None, stored: Any = None) -> Any:
        if replay is None or stored is None:
            raise ValueError("Hindsight: pass replay and its state, to read goals from the buffer")
        if not replay.index_episodes:
            raise ValueError("Hindsight: episodes are not indexed, make the Replay with index_episodes=True")
        if batch.length < 2:
            raise ValueError(f"Hindsight: windows must have at least 2 rows, got {batch.length}")
        timestep = batch.experience.timestep
        self._check_rows(timestep)
        achieved, desired = self.goals(timestep.observation)
        end = replay.episode_end(stored, batch.env_id, batch.position)
        is_relabelled, position = self._draw(state.value, batch, end)
        goal = replay.get(stored, f"timestep.observation.{self.achieved_goal}", batch.env_id, position)
        self._check_same_kind(goal, achieved_goal=achieved, desired_goal=desired)

        mask = is_relabelled[:, None] & episode_mask(timestep)
        goal = jax.tree.map(lambda x, old: jnp.broadcast_to(x[:, None], old.shape), goal, desired)
        goal = tree.where(mask, goal, desired)
        reward = self._reward_of(achieved, goal, timestep.reward)
        self._check_rewards(timestep, reward, mask)
        relabelled = tree.set_field(timestep, f"observation.{self.desired_goal}", goal)
        reward = jnp.where(mask & ~timestep.is_first(), reward, timestep.reward)
        relabelled = dataclasses.replace(relabelled, reward=reward)
        stream = dataclasses.replace(state.value, c0=state.value.c0 + np.uint32(1))
        return tree.Shared(stream), with_timestep(batch, relabelled)

    def _draw(self, stream: random.Stream, batch: Batch, end: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Draws whether windows are relabelled, bool ``[N]``, and the positions of their goals, int32 ``[N]``."""
        first, window = batch.position + np.int32(1), np.arange(batch.position.shape[0], dtype=np.uint32)
        streams = jax.tree.map(
            lambda word: jnp.broadcast_to(word, window.shape), dataclasses.replace(stream, c1=window)
        )
        is_chosen = random.bernoulli(streams, (), self.proportion)
        beyond = jnp.maximum(end, first) + np.int32(1)  # an episode that ends here has no later row
        later = random.integers(random.fold_in(streams, "goal"), (), first, beyond)
        return is_chosen & (first <= end), jnp.minimum(later, end)

    def _reward_of(
        self, achieved: dict[str, jax.Array], desired: dict[str, jax.Array], old_reward: jax.Array
    ) -> jax.Array:
        """Returns the rewards of all rows of the windows for these goals, ``[N, L]``."""
        number, length = old_reward.shape[:2]
        achieved, desired = jax.tree.map(lambda x: x.reshape(number * length, *x.shape[2:]), (achieved, desired))
        reward = jnp.asarray(self.reward(achieved, desired), jnp.float32)
        if reward.shape != (number * length,) or old_reward.shape != (number, length):
            rule = f"reward must return one number for each of {number * length} rows, got shape {reward.shape}"
            raise ValueError(f"Hindsight: {rule}, for rows whose own reward has shape {old_reward.shape}")
        return reward.reshape(number, length)

    def _check_rewards(self, timestep: TimeStep, reward: jax.Array, is_relabelled: jax.Array) -> None:
        """Warns, outside jitted code, if ``reward`` does not compute the rewards of rows that keep their goal."""
        if not is_concrete(reward):
            return
        moved = ~timestep.is_first()
        if "abnormal" in timestep.env_info:
            moved &= ~timestep.env_info["abnormal"]
        compared = np.asarray(moved & ~is_relabelled)
        wrong = compared & ~np.isclose(np.asarray(reward), np.asarray(timestep.reward), rtol=1e-4, atol=1e-4)
        if wrong.any():
            row = tuple(np.argwhere(wrong)[0])
            warnings.warn(
                f"Hindsight: reward must compute the environment's rewards: on {wrong.sum()} of {compared.sum()} rows "
                f"that keep their goal it gives another one, such as {float(reward[row]):.6g} for the stored "
                f"{float(timestep.reward[row]):.6g}",
                stacklevel=3,
            )

    def goals(self, observation: Any) -> tuple[Any, Any]:
        """Returns the achieved and the desired goal in an observation, or in any tree of its structure."""
        try:
            return tree.get_field(observation, self.achieved_goal), tree.get_field(observation, self.desired_goal)
        except ValueError as unknown:
            raise ValueError(f"Hindsight: {unknown}") from None

    def _check_rows(self, timestep: TimeStep) -> None:
        if "final_observation" in timestep.env_info:
            raise ValueError(
                "Hindsight: the rows hold env_info['final_observation']: in same_step mode LAST rows show the goals "
                "of the next episode. Use AutoReset in mode 'next_step'"
            )
        self.goals(timestep.observation)

    def _check_same_kind(self, stored: Tree, **goals: Any) -> None:
        """Raises a ``ValueError`` if goals of windows and stored achieved goals differ in structure, shape or dtype."""

        def types(goal: Tree, outer: int) -> Tree:
            return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[outer:], x.dtype), goal)

        for name, goal in goals.items():
            if (fault := type_mismatch(types(stored, 1), types(goal, 2), name)) is not None:
                rule = "as the achieved goals in the buffer; goals must not change after they are stored"
                raise ValueError(f"Hindsight: {fault}, {rule}")
