"""Wrappers that change where episodes start."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.core import Facts, LaneState, Levels, Starts, Stateful, StepType, TimeStep, Wrapper, check_no_autoreset
from jaxenv.tree import Tree


class FixedResetKey(Wrapper):
    """Starts every episode of a lane in the same state, which ``initial`` draws from a fixed key.

    Use it for evaluation. Transitions still draw from the lane's own stream, so episodes of stochastic tasks differ.
    The tasks of a `Multitask` derive their streams from the key of the start, so their episodes do not differ. Owns no
    field.

    Args:
        env: an environment without wrappers.
        key: one typed key (lane i starts from ``fold_in(key, env_id[i])``), or ``Key[B]``.

    >>> import jax, jaxenv
    >>> env = FixedResetKey(jaxenv.spec("CartPole-v1").make(num_envs=2), jax.random.key(7))
    >>> starts = [env.reset(jax.random.key(seed))[1].observation for seed in (0, 1)]
    >>> bool((starts[0] == starts[1]).all())
    True
    """

    key: Any = tree.key_leaf()

    in_evaluation = "kept"
    place = "task"

    def check(self) -> None:
        if self.env is not self.env.unwrapped:
            raise ValueError(f"FixedResetKey: put it around the environment itself, not around {self.env}")

    def _fixed(self, starts: Starts) -> Starts:
        """Returns the episode that every episode of the lanes repeats."""
        words = self._lane_words(self.key, starts.env_id)
        return dataclasses.replace(starts, keys=words, episode=jnp.zeros_like(starts.episode))

    def levels(self) -> Levels:
        levels = super().levels()
        return dataclasses.replace(levels, sample=lambda starts: levels.sample(self._fixed(starts)))

    def begin(self, starts: Starts, previous: Tree = None) -> tuple[Tree, TimeStep]:
        state, timestep = super().begin(self._fixed(starts), previous)
        return tree.rebuild(state, clock=starts.clock), timestep


class NoopReset(Wrapper):
    """Plays 1 to ``maximum`` no-ops, uniformly distributed, before an episode is shown: the random starts of Atari.

    The row after them is FIRST, with reward 0, zeros for ``prev_action`` and for the transition's ``env_info``, and the
    resulting observation. A lane whose episode ends during the no-ops returns to its start and plays the remaining
    no-ops from there. Wrappers inside see the no-ops as steps: the first observation of ``FrameStack`` or
    ``PreviousActionAndReward`` shows them there, and outside of ``NoopReset`` it does not.

    A restart always costs ``maximum`` steps of all lanes, so the default restart strategy is ``compact``. No-ops count
    as steps of the clock and of a time limit inside, but not of one outside, where ``make`` puts it. Owns
    ``observation`` and ``env_info`` of FIRST rows.

    Args:
        env: any environment without ``AutoReset``.
        maximum: the largest number of no-ops, at least 1.
        noop: the no-op action: zeros by default, else a number or nested tuple for one action array.

    >>> import jaxenv
    >>> env = NoopReset(jaxenv.testing.Counting(np.array([99])), 1)
    >>> env.reset(jax.random.key(0))[1].observation.tolist()
    [1]
    """

    maximum: int = tree.static(low=1)
    noop: Any = tree.static(default=None)

    owns: ClassVar[frozenset[str]] = frozenset({"observation", "env_info"})
    in_evaluation = "kept"
    keeps_specs: ClassVar[frozenset[str]] = frozenset({"observation"})
    place = "several_steps"

    def check(self) -> None:
        spec = self.action_spec()
        try:
            specs.validate(spec, self._noop())
        except (TypeError, ValueError) as fault:
            raise ValueError(f"NoopReset: noop must be an action of {spec}, got {self.noop}: {fault}") from None
        check_no_autoreset(self, "would restart without no-ops")

    def _noop(self) -> Any:
        """Returns the no-op of one lane, in NumPy."""
        spec = self.action_spec()
        if self.noop is None:
            return jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), spec)
        given = np.asarray(self.noop)
        same_kind = specs.is_spec(spec) and np.can_cast(given.dtype, spec.dtype, "same_kind")
        return given.astype(spec.dtype) if same_kind else given

    def facts_of(self, inner: Facts) -> Facts:
        return dataclasses.replace(inner, reset_strategy="compact")

    def begin(self, starts: Starts, previous: Tree = None) -> tuple[Tree, TimeStep]:
        state, timestep = super().begin(starts, previous)
        num = random.integers(self._stream(self.env.clock(state), "num"), (), 1, self.maximum + 1)
        action = jax.tree.map(lambda x: jnp.broadcast_to(x, starts.env_id.shape + x.shape), self._noop())
        # An observation that depends on the state alone is computed once, from the last state.
        shown = () if self.observes_state else timestep.observation
        start = tree.vary_like(starts.env_id, (state, shown))

        def play(count: jax.Array, current: tuple[Tree, Any]) -> tuple[Tree, Any]:
            stepped, row = self.env.proceed(current[0], action)
            after = (stepped, () if self.observes_state else row.observation)
            return tree.where(count < num, tree.where(row.is_last(), start, after), current)

        # The number of iterations is fixed: some lane of a large batch draws the maximum anyway, and sharded lanes need
        # no communication to agree on when to stop.
        state, shown = jax.lax.fori_loop(np.int32(0), np.int32(self.maximum), play, start)
        observation = self.env.observation_of(state) if self.observes_state else shown
        env_info = {**timestep.env_info, **self.env.env_info_of(state)}
        return state, dataclasses.replace(timestep, observation=observation, env_info=env_info)


_NEVER = np.int32(np.iinfo(np.int32).max)


class RandomFirstEpisodeLength(Stateful):
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
