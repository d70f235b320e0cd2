"""Join several episodes of one task into a trial."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.core import (
    Facts,
    Levels,
    Place,
    Starts,
    Stateful,
    StepType,
    Sum,
    TimeStep,
    check_no_autoreset,
    is_concrete,
    unshare,
)
from jaxenv.core._restart import restart_in_row
from jaxenv.core.levels import InPlaces, refuse_given_levels
from jaxenv.random import Clock
from jaxenv.tree import Tree

_NEVER = np.int32(np.iinfo(np.int32).max)


@tree.struct
class TrialState:
    """State of the environment inside, and of the trial.

    Attributes:
        inner: the state of the environment inside.
        clock: a clock whose episodes are trials; the episodes of trial i are those from ``i * num_episodes`` on.
        level: the level of all episodes of the trial, leaves ``[B, ...]``.
        returned: the return of the episode so far, ``[B]`` (or ``[B, R]``).
        first: float32, the same shape, the return of the trial's first episode, or of its part so far.
    """

    inner: Tree
    clock: Clock
    level: Tree
    returned: Sum
    first: jax.Array


class Trials(Stateful):
    """Joins ``num_episodes`` episodes of one task into a trial, within which a memory learns: meta-learning by RL2.

    The task is drawn at the start of the trial: all its episodes start in one level, with the params of that level
    under `ResampleParams`. For a task without a ``Level`` that is the state in which the first one starts. All other
    randomness is new in each episode.

    To everything outside, `AutoReset`, memories, estimators and metrics, a trial is one episode. Where an episode ends
    and the trial goes on, the row is MID with discount 1, so that values bootstrap across it. It shows the first
    observation of the next episode and keeps the reward and ``prev_action`` of the last step. The end of the last
    episode is LAST with its own discount. An abnormal row ends the trial. The clock counts trials and their steps.

    ``env_info["trial"]`` holds ``episode_end`` (bool ``[B]``), whether an episode ended with this row, and on LAST rows
    ``first_return`` and ``last_return`` (float32 ``[B]``, ``[B, R]`` for a vector reward), the returns of the first and
    of the last episode in the rewards of ``env``; elsewhere they are 0. `PreviousActionAndReward` outside shows the
    ends to the agent. Owns ``step_type``, ``discount``, ``observation`` and ``env_info``.

    Args:
        env: an environment with levels and time limits, and without ``AutoReset``.
        num_episodes: episodes per trial, at least 1: one number, or int32 ``[B]`` with one per lane.

    Raises:
        ValueError: for an ``env`` with ``Trials``, with agents as lanes, with agents that leave early or with levels of
            ``with_level``; at the first step for one without a time limit, which ``make`` refuses at once.

    >>> import jaxenv
    >>> env = Trials(jaxenv.wrappers.TimeLimit(jaxenv.testing.count_to_two(), 9), 2)
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> for _ in range(4):
    ...     state, timestep = env.step(state, jnp.zeros(1, jnp.int32))
    ...     print(timestep.step_type.item(), timestep.observation.item(), timestep.reward.item())
    1 1 0.0
    1 0 1.0
    1 1 0.0
    2 2 1.0
    """

    num_episodes: Any = tree.leaf(dtype=np.int32, low=1)

    owns: ClassVar[frozenset[str]] = frozenset({"step_type", "discount", "observation", "env_info"})
    in_evaluation = "kept"
    keeps_specs: ClassVar[frozenset[str]] = frozenset({"observation"})
    place = "sees_ends"
    agent_entries = frozenset({"trial.first_return", "trial.last_return"})
    opt_outs = {"time_limit_exact": "a limit inside does not end the trial"}

    def check(self) -> None:
        check_no_autoreset(self, "would restart its lanes in other tasks")
        if self.env.lanes_per_game > 1:
            raise ValueError("Trials: the agents of a game restart together, put Trials inside AgentsAsLanes")
        refuse_given_levels("Trials", self.env, "call with_level on the whole stack")
        self.env.levels()  # raises where there are none
        entries = self.env.env_info_spec()
        if "trial" in entries:
            raise ValueError(f"Trials: {self.env!r} already has env_info['trial'], one is enough")
        if "agent_terminated" in entries:
            rule = "an agent that leaves would wait until the end of the trial"
            raise ValueError(f"Trials: {rule}, and the agents of {self.env} leave before their game ends")

    def check_ends(self) -> None:
        """Raises a ``ValueError`` if no time limit bounds the episodes of some lane."""
        longest = self.env._longest_episode
        if is_concrete(longest) and np.any(np.asarray(longest) == _NEVER):
            rule = "every episode of a trial must have a time limit"
            hint = "pass max_episode_steps to make, or put TimeLimit inside Trials"
            raise ValueError(f"Trials: {rule}, {self.env} has lanes without one: {hint}")

    @property
    def _longest_episode(self) -> Any:
        longest, number = self.env._longest_episode, self.num_episodes
        return jnp.where(longest > _NEVER // number, _NEVER, longest * number)

    def facts_of(self, inner: Facts) -> Facts:
        # An observation of the state stays one. In a game of turns, any player may begin the next episode.
        return dataclasses.replace(inner, alternates=inner.alternates and not inner.turns)

    def clock(self, state: TrialState) -> Clock:
        return state.clock

    def _first(self, starts: Starts) -> Starts:
        """Returns the first episodes of the trials that begin."""
        return dataclasses.replace(starts, episode=starts.episode * self.num_episodes)

    def levels(self) -> Levels:
        """Returns the levels of ``env``. A state gives its trial's level, and the state in which a first one starts."""
        levels = self.env.levels()
        return dataclasses.replace(
            levels,
            sample=lambda starts: levels.sample(self._first(starts)),
            of_state=lambda state: {"level": state.level, "start": levels.of_state(state.inner)},
        )

    def begin(self, starts: Starts, previous: TrialState | None = None) -> tuple[Tree, TimeStep]:
        first = self._first(starts)

        def sampled() -> Tree:
            return self.env.levels().sample(first)

        if starts.place is not None and starts.place.in_state:
            level, first = first.inside("level").values_or_else(sampled), first.inside("start")
        else:
            level = first.values_or_else(sampled)
            first = first.at(Place(level))
        inner, timestep = self.env.begin(first, None if previous is None else previous.inner)
        none = Sum.zeros(timestep.reward.shape)
        state = TrialState(inner, starts.clock, level, none, none.value)
        return unshare((state, _with_trial(timestep, timestep.is_last(), none.value, none.value)))

    def proceed(self, state: TrialState, action: Tree) -> tuple[Tree, TimeStep]:
        self.check_ends()
        stepped, row = self.env.proceed(state.inner, action)
        before, clock, ended = self.env.clock(state.inner), self.env.clock(stepped), row.is_last()
        number = clock.episode - state.clock.episode * self.num_episodes  # of the episode in its trial
        over = ended & ((number == self.num_episodes - 1) | row.env_info.get("abnormal", False))
        goes_on = ended & ~over
        env: Any = InPlaces(self.env, state.level)
        inner, shown = restart_in_row(env, goes_on, stepped, row, self.env.reset_strategy, block=64)
        returned = state.returned.add(row.reward)
        first = tree.where(number == 0, returned.value, state.first)
        none = Sum.zeros(first.shape)
        after = TrialState(
            inner,
            dataclasses.replace(state.clock, step=state.clock.step + clock.step - before.step),
            state.level,
            tree.where(goes_on, none, returned),
            first,
        )
        shown = _with_trial(shown, ended, *tree.where(over, (first, returned.value), (none.value, none.value)))
        step_type = jnp.where(goes_on, np.int32(StepType.MID), row.step_type)
        discount = jnp.where(goes_on, np.float32(1), row.discount)
        return unshare((after, dataclasses.replace(shown, step_type=step_type, discount=discount)))


def _with_trial(timestep: TimeStep, end: jax.Array, first: jax.Array, last: jax.Array) -> TimeStep:
    trial = {"episode_end": end, "first_return": first, "last_return": last}
    return dataclasses.replace(timestep, env_info={**timestep.env_info, "trial": trial})
