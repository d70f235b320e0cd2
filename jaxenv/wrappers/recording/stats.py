"""Statistics of episodes and of runs."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.core import (
    BatchWrapper,
    Count,
    Environment,
    LaneWrapper,
    Starts,
    Stateful,
    Sum,
    TimeStep,
    check_environment,
    layers,
)
from jaxenv.core._checks import given as _checks
from jaxenv.random import Stream
from jaxenv.tree import Tree


def statistics(env: Environment, state: Tree, name: str | None = None) -> Tree:
    """Returns the statistics of a wrapper with batch state, such as `NormalizeObservation`, from a state of the stack.

    Other wrappers may stand on either side of that wrapper. ``name`` is its class, which must be given unless the stack
    ``env`` has only one wrapper with batch state.

    >>> import jaxenv
    >>> env = jaxenv.make("Pendulum-v1", 4, wrappers=["NormalizeObservation", ("FrameStack", {"num": 2})])
    >>> state, _ = env.reset(jax.random.key(0))
    >>> int(statistics(env, state).count)
    4
    """
    check_environment("statistics", env)
    with _checks.explained("statistics", env, state):
        wrapper, own = _find("statistics", env, state, name)
        return wrapper.statistics(own)


def with_statistics(env: Environment, state: Tree, statistics: Tree, name: str | None = None) -> Tree:
    """Replaces the statistics of one wrapper in a state, for example by saved ones; see `BatchWrapper.with_statistics`.

    ``statistics`` is a result of `statistics`, whose leaves may be NumPy arrays. It must have the structure, shapes and
    dtypes of those in ``state``. The other arguments are as for `statistics`.
    """
    check_environment("with_statistics", env)
    with _checks.explained("with_statistics", env, state):
        wrapper, own = _find("with_statistics", env, state, name)
        new = wrapper.with_statistics(own, statistics)
    return jax.tree.map(lambda node: new if node is own else node, state, is_leaf=lambda node: node is own)


def _find(owner: str, env: Environment, state: Tree, name: str | None) -> tuple[BatchWrapper, Tree]:
    """Finds the wrapper with batch state that is called ``name``, and its part of ``state``."""
    found = []
    for layer in layers(env)[:-1]:
        if isinstance(layer, BatchWrapper):
            found.append((layer, state))
        state = layer.inner(state)  # type: ignore[attr-defined]
    fitting = [entry for entry in found if name in (None, type(entry[0]).__name__)]
    if len(fitting) != 1:
        names = ", ".join(type(layer).__name__ for layer, _ in found) or "none"
        rule = "name must be given unless the stack has" if name is None else "name must be the name of"
        raise ValueError(f"{owner}: {rule} one wrapper with batch state, got {name!r}; {env} has {names}")
    return fitting[0]


@tree.struct
class Totals:
    """Return (``[B]`` or ``[B, R]``) and length (int32 ``[B]``) of the episode so far."""

    reward: Sum
    length: jax.Array


class EpisodeStatistics(LaneWrapper):
    """Adds ``env_info["episode"]``: statistics of the episode on its LAST row, zeros and False on all other rows.

    ``return`` (float32 ``[B]``, ``[B, R]`` for a vector reward) sums the rewards of the environment inside and carries
    the rounding error of the sum, so that long episodes lose no reward. ``length`` (int32 ``[B]``) counts the rows
    after FIRST. ``terminated`` and ``truncated`` (bool ``[B]``) report how the episode ended. ``valid`` (bool ``[B]``)
    is True on LAST rows and distinguishes a return of 0 from no return. `RunStats` can keep the last episodes. Owns
    ``env_info``.

    >>> import jax, jax.numpy as jnp, jaxenv
    >>> env = jaxenv.wrappers.EpisodeStatistics(jaxenv.testing.count_to_two())
    >>> state, _ = env.reset(jax.random.key(0))
    >>> for _ in range(2):
    ...     state, timestep = env.step(state, jnp.zeros(1, jnp.int32))
    >>> {name: value.tolist() for name, value in sorted(timestep.env_info["episode"].items())}
    {'length': [2], 'return': [1.0], 'terminated': [True], 'truncated': [False], 'valid': [True]}
    """

    owns: ClassVar[frozenset[str]] = frozenset({"env_info"})
    in_evaluation = "kept"
    place = "sees_ends"
    agent_entries = frozenset({"episode.return"})

    def check(self) -> None:
        if "episode" in self.env.env_info_spec():
            raise ValueError(f"EpisodeStatistics: {self.env!r} already has env_info['episode'], one is enough")

    def init(self, timestep: TimeStep, stream: Stream) -> Totals:
        return Totals(Sum.zeros(timestep.reward.shape), jnp.zeros_like(timestep.step_type))

    def after(self, own: Totals, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        total = own.reward.add(timestep.reward)  # 0 at FIRST
        length = own.length + jnp.where(timestep.is_first(), np.int32(0), np.int32(1))
        last = timestep.is_last()
        episode = {
            "return": jnp.where(tree.expand(last, timestep.reward.ndim), total.value, np.float32(0)),
            "length": jnp.where(last, length, np.int32(0)),
            "terminated": timestep.terminated,
            "truncated": timestep.truncated,
            "valid": last,
        }
        row = dataclasses.replace(timestep, env_info={**timestep.env_info, "episode": episode})
        return Totals(total, length), row


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


class RunStats(Stateful):
    """Counts episodes, resets and steps per lane in its state, a `RunState`. Restarts do not reset the counters.

    With ``num_recent`` it also keeps the returns and lengths of the last episodes of each lane. The last episodes of
    the whole batch would be mostly short ones while the lanes are still in step. Episodes that end on an abnormal row
    are not kept. Put the wrapper outside ``AutoReset`` then: inside, every step copies the kept episodes.

    The wrapper works inside and outside ``AutoReset``. ``reset`` starts the counters from zero. Owns no field: rows
    pass through unchanged.

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


class EvalReturn(LaneWrapper):
    """Adds ``env_info["eval_episode_return"]``: the return of the episode on its LAST row, 0 on all other rows.

    It is float32 ``[B]`` (``[B, R]`` for a vector reward). ``env_info["eval_episode_return_valid"]`` (bool ``[B]``) is
    True on LAST rows. `EpisodeStatistics` reports more. Owns ``env_info``.

    >>> import jax, jax.numpy as jnp, jaxenv
    >>> env = EvalReturn(jaxenv.testing.count_to_two())
    >>> state, _ = env.reset(jax.random.key(0))
    >>> for _ in range(2):
    ...     state, timestep = env.step(state, jnp.zeros(1, jnp.int32))
    >>> timestep.env_info["eval_episode_return"].tolist(), timestep.env_info["eval_episode_return_valid"].tolist()
    ([1.0], [True])
    """

    owns: ClassVar[frozenset[str]] = frozenset({"env_info"})
    in_evaluation = "kept"
    place = "sees_ends"
    agent_entries = frozenset({"eval_episode_return"})

    def init(self, timestep: TimeStep, stream: Stream) -> Tree:
        return Sum.zeros(timestep.reward.shape)

    def after(self, own: Tree, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        total, last = own.add(timestep.reward), timestep.is_last()  # the reward is 0 at FIRST
        shown = jnp.where(tree.expand(last, timestep.reward.ndim), total.value, np.float32(0))
        env_info = {**timestep.env_info, "eval_episode_return": shown, "eval_episode_return_valid": last}
        return total, dataclasses.replace(timestep, env_info=env_info)
