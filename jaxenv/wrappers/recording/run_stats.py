"""Count the steps and episodes of every lane since the first reset, and keep its last episodes."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.core import Count, Starts, Sum, TimeStep, Wrapper
from jaxenv.tree import Tree


@tree.struct
class RecentEpisodes:
    """The last N finished episodes of each lane, in no particular order.

    Attributes:
        returns: float32 ``[B, N]`` (``[B, N, R]`` for a vector reward); read the ``valid`` ones.
        lengths: int32 ``[B, N]``; 0 where there is no episode yet.
        total: the return of the current episode so far.
        place: int32 ``[B]``, where the next episode goes.
    """

    returns: jax.Array
    lengths: jax.Array
    total: Sum
    place: jax.Array

    @property
    def valid(self) -> jax.Array:
        """Whether there is an episode yet, bool ``[B, N]``."""
        return self.lengths > 0


@tree.struct
class RunState:
    """State of the environment inside and the counters of `RunStats`, each ``[B]``.

    The first three are 64-bit counts: ``numpy.asarray(state.total_steps)`` reads one.

    Attributes:
        inner: the state of the environment inside.
        episodes: completed episodes: LAST rows.
        resets: started episodes, including the first.
        total_steps: rows other than FIRST.
        episode_steps: int32, rows other than FIRST in the current episode.
        recent: `RecentEpisodes`, or ``()`` if none are kept.
    """

    inner: Any
    episodes: Count
    resets: Count
    total_steps: Count
    episode_steps: jax.Array
    recent: Any


class RunStats(Wrapper):
    """Counts episodes, resets and steps per lane in its state, a `RunState`. Restarts do not reset the counters.

    With ``num_recent`` it also keeps the returns and lengths of the last episodes of each lane. The last episodes of
    the whole batch would be mostly short ones while the lanes are still in step. Episodes that end on an abnormal row
    are not kept. Put the wrapper outside ``AutoReset`` then: inside, every step copies the kept episodes.

    The wrapper works inside and outside ``AutoReset``. ``reset`` starts the counters from zero. Owns no field: rows
    pass through unchanged.

    Args:
        num_recent: number of episodes to keep per lane.

    >>> import jax, jax.numpy as jnp, jaxenv
    >>> env = jaxenv.wrappers.RunStats(jaxenv.wrappers.AutoReset(jaxenv.testing.count_to_two()), num_recent=2)
    >>> state, _ = env.reset(jax.random.key(0))
    >>> for _ in range(4):
    ...     state, _ = env.step(state, jnp.zeros(1, jnp.int32))
    >>> state.episodes, state.resets, state.total_steps, state.episode_steps.tolist()
    (Count([1]), Count([2]), Count([3]), [1])
    >>> state.recent.lengths.tolist(), state.recent.returns[state.recent.valid].tolist()
    ([[2, 0]], [1.0])
    """

    num_recent: int = tree.static(default=0, low=0)

    owns: ClassVar[frozenset[str]] = frozenset()
    in_evaluation = "kept"
    place = "sees_ends"

    def inner(self, state: RunState) -> Tree:
        return state.inner

    def begin(self, starts: Starts, previous: RunState | None = None) -> tuple[Tree, TimeStep]:
        state, timestep = super().begin(starts, previous)
        steps = jnp.zeros_like(starts.episode)
        if previous is None:
            none, one = Count.from_array(steps), Count.from_array(steps + 1)
            return RunState(state, none, one, none, steps, self._no_episodes(timestep)), timestep
        recent = previous.recent
        if self.num_recent:
            recent = dataclasses.replace(recent, total=Sum.zeros(timestep.reward.shape))
        resets = previous.resets + Count.from_array(steps + 1)
        return RunState(state, previous.episodes, resets, previous.total_steps, steps, recent), timestep

    def proceed(self, state: RunState, action: Tree) -> tuple[Tree, TimeStep]:
        inner, timestep = self.env.proceed(state.inner, action)
        starts, taken = self.episode_starts(timestep), ~timestep.is_first()
        steps = state.episode_steps + taken.astype(jnp.int32)
        return RunState(
            inner=inner,
            episodes=state.episodes + Count.from_array(timestep.is_last()),
            resets=state.resets + Count.from_array(starts),
            total_steps=state.total_steps + Count.from_array(taken),
            episode_steps=jnp.where(starts, np.int32(0), steps),
            recent=self._with_episode(state.recent, timestep, steps, starts) if self.num_recent else (),
        ), timestep

    def _no_episodes(self, timestep: TimeStep) -> Any:
        if not self.num_recent:
            return ()
        lanes, *reward = timestep.reward.shape
        return RecentEpisodes(
            returns=jnp.zeros((lanes, self.num_recent, *reward), jnp.float32),
            lengths=jnp.zeros((lanes, self.num_recent), jnp.int32),
            total=Sum.zeros(timestep.reward.shape),
            place=jnp.zeros(lanes, jnp.int32),
        )

    def _with_episode(
        self, recent: RecentEpisodes, timestep: TimeStep, steps: jax.Array, starts: jax.Array
    ) -> RecentEpisodes:
        """Adds the episodes that end on these rows; ``steps`` are their lengths, int32 ``[B]``."""
        ended = timestep.is_last() & ~jnp.asarray(timestep.env_info.get("abnormal", False))
        total = recent.total.add(timestep.reward)
        lane = jnp.arange(ended.shape[0], dtype=jnp.int32)
        at = lane, jnp.where(ended, recent.place, np.int32(self.num_recent))  # out of range: the write is dropped
        return RecentEpisodes(
            returns=recent.returns.at[at].set(total.value, mode="drop"),
            lengths=recent.lengths.at[at].set(steps, mode="drop"),
            total=tree.where(starts, Sum.zeros(timestep.reward.shape), total),
            place=(recent.place + ended.astype(jnp.int32)) % np.int32(self.num_recent),
        )
