"""Wrappers that change where and how episodes end."""

import dataclasses
import functools
from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import (
    Facts,
    Starts,
    StepType,
    Task,
    TimeStep,
    Wrapper,
    check_callable,
    check_combined,
    check_no_autoreset,
    end_abnormal,
    finite,
    layers,
)
from jaxenv.tree import Tree
from jaxenv.wrappers.episode.starts import FixedResetKey


class Discount(Wrapper):
    """Multiplies the discount of every row except FIRST by ``value``.

    MID rows show ``value``, FIRST rows 1, termination 0. LAST rows of a time limit show ``value``, whether the limit is
    inside or outside. A learner's gamma multiplies it. Owns ``discount``.

    Args:
        value: above 0 and at most 1: one number, or float32 ``[B]`` with one per lane.

    >>> import jax, jaxenv, numpy as np
    >>> env = Discount(jaxenv.testing.Counting(np.array([2])), 0.5)
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> for _ in range(2):
    ...     state, timestep = env.step(state, jnp.array([0]))
    ...     print(timestep.discount.item())
    0.5
    0.0
    """

    value: float = tree.leaf(default=1.0, above=0, high=1)

    owns: ClassVar[frozenset[str]] = frozenset({"discount"})
    in_evaluation = "kept"
    noop_kwargs: ClassVar = {"value": 1.0}

    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        state, timestep = self.env.proceed(state, action)
        discount = jnp.where(timestep.is_first(), timestep.discount, timestep.discount * self.value)
        return state, dataclasses.replace(timestep, discount=discount)


class NonEpisodic(Wrapper):
    """Replaces LAST rows by MID rows with discount 1 and steps the environment past its end.

    Nothing restarts: the physics continues, and the task may reach its end again at every step. A `TimeLimit` outside
    still ends episodes (``make`` puts it there). Ends by `GuardNonFinite` are hidden, too: such a lane stays in its
    last finite state. Past its end a task may leave the declared bounds of its observation. An ``AutoReset`` inside is
    refused: to restart lanes and only bootstrap past their ends, use `NonTerminating`. Owns ``step_type`` and
    ``discount``.

    >>> import jax, jaxenv
    >>> from jaxenv.testing import Chain
    >>> env = jaxenv.wrappers.NonEpisodic(Chain(2))
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> state, timestep = env.step(state, np.array([1]))
    >>> timestep.is_last().tolist(), timestep.discount.tolist(), timestep.reward.tolist()
    ([False], [1.0], [1.0])
    """

    owns: ClassVar[frozenset[str]] = frozenset({"step_type", "discount"})
    in_evaluation = "kept"
    place = "hides_ends"

    def check(self) -> None:
        check_no_autoreset(self, "would restart its lanes")

    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        state, timestep = self.env.proceed(state, action)
        last = timestep.is_last()
        return state, dataclasses.replace(
            timestep,
            step_type=jnp.where(last, np.int32(StepType.MID), timestep.step_type),
            discount=jnp.where(last, np.float32(1), timestep.discount),
        )


class NonTerminating(Wrapper):
    """Sets the discount of LAST rows to ``discount``, 1 by default, so that a learner bootstraps past them.

    Episodes end and restart as before, but none counts as terminated. To hide the ends themselves, use `NonEpisodic`.
    The wrapper works inside and outside ``AutoReset``. ``make(mode="eval")`` leaves it out, so that evaluations count
    the terminations of the task. Owns ``discount``.

    Args:
        discount: discount of LAST rows, above 0 and at most 1: one number, or float32 ``[B]``.

    >>> import jax, jax.numpy as jnp, jaxenv, numpy as np
    >>> env = NonTerminating(jaxenv.testing.Counting(np.array([1])))
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> timestep = env.step(state, jnp.array([0]))[1]
    >>> timestep.is_last().tolist(), timestep.discount.tolist()
    ([True], [1.0])
    """

    discount: float = tree.leaf(default=1.0, above=0, high=1)

    owns: ClassVar[frozenset[str]] = frozenset({"discount"})
    in_evaluation = "left_out"

    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        state, timestep = self.env.proceed(state, action)
        discount = jnp.where(timestep.is_last(), self.discount, timestep.discount)
        return state, dataclasses.replace(timestep, discount=discount)


class TerminalOnInfo(Wrapper):
    """Sets the discount to 0 where a flag in ``env_info`` is set, and lets the episode continue.

    The row stays MID: values do not propagate across it, but nothing restarts, and recurrent state is kept. No other
    wrapper makes MID rows with discount 0. The flag should describe the transition: for a flag that describes the
    state, LAST rows in ``same_step`` mode hold the next episode's. ``make(mode="eval")`` leaves the wrapper out, so
    that evaluations count the terminations of the task. Owns ``discount``.

    Args:
        flag: name of an entry of ``env_info``, bool ``[B]``.

    Raises:
        ValueError: if one action takes several steps and the task does not sum the flag (`Task.summed_entries`).

    >>> import jax, jax.numpy as jnp, jaxenv
    >>> env = TerminalOnInfo(jaxenv.wrappers.TimeLimit(jaxenv.testing.Counting(np.array([9])), 1), "time_limit_reached")
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> env.step(state, jnp.array([0]))[1].discount.tolist()
    [0.0]
    """

    flag: str = tree.static()

    owns: ClassVar[frozenset[str]] = frozenset({"discount"})
    in_evaluation = "left_out"
    opt_outs = {"discount_zero_only_at_last": "a flag sets the discount of MID rows to 0 by design"}

    def check(self) -> None:
        entries = self.env.env_info_spec().items()
        flags = [name for name, s in entries if specs.is_spec(s) and (s.shape, s.dtype) == ((), np.bool_)]
        if self.flag not in flags:
            known = ", ".join(flags) or "there is none"
            # `make` adds its time limit after the wrappers are built.
            at_limit = "; to terminate at the time limit use TerminateOn, or TimeLimit with terminal=True"
            hint = at_limit if self.flag == "time_limit_reached" else ""
            raise ValueError(f"TerminalOnInfo: flag must name a flag in env_info ({known}), got {self.flag!r}{hint}")
        check_combined("TerminalOnInfo", self.env, [self.flag])

    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        state, timestep = self.env.proceed(state, action)
        stops = timestep.env_info[self.flag] & ~timestep.is_first()
        return state, dataclasses.replace(timestep, discount=jnp.where(stops, np.float32(0), timestep.discount))


class TerminateOn(Wrapper):
    """Terminates an episode where ``fn`` is True: the row becomes LAST with discount 0.

    ``fn`` does not apply to FIRST rows. If a time limit inside ends the episode on the same row, termination wins. Owns
    ``step_type`` and ``discount``.

    Args:
        env: any environment without ``AutoReset``.
        fn: maps the batch's TimeStep to bool ``[B]``.

    >>> import jax, jaxenv
    >>> from jaxenv.testing import Counting
    >>> env = jaxenv.wrappers.TerminateOn(Counting(np.array([9])), lambda timestep: timestep.reward > 5)
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> state, timestep = env.step(state, np.array([6]))
    >>> timestep.terminated.tolist()
    [True]
    """

    fn: Callable[[TimeStep], jax.Array] = tree.static()

    owns: ClassVar[frozenset[str]] = frozenset({"step_type", "discount"})
    in_evaluation = "kept"

    def check(self) -> None:
        check_callable("TerminateOn", "fn", self.fn, "a TimeStep")
        check_no_autoreset(self, "would not see the ends")

    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        state, timestep = self.env.proceed(state, action)
        ends = self.fn(timestep)
        lanes, shape, dtype = timestep.env_id.shape, jnp.shape(ends), jnp.result_type(ends)
        if (shape, dtype) != (lanes, jnp.bool_):
            raise ValueError(f"TerminateOn: fn must return bool{list(lanes)}, got {dtype}{list(shape)}")
        return state, dataclasses.replace(
            timestep,
            step_type=jnp.where(ends, np.int32(StepType.LAST), timestep.step_type),
            discount=jnp.where(ends, np.float32(0), timestep.discount),
        )


class GuardNonFinite(Wrapper):
    """Truncates the episode of a lane whose state, observation or reward becomes NaN or infinite.

    The row is LAST with discount 1, even if the task terminated, with reward 0, the observation of the state before the
    step, and ``env_info["abnormal"]`` (bool ``[B]``) set; non-finite entries of ``env_info`` become 0. The task keeps
    its state from before the step. The lane then restarts like any other. Learners mask out abnormal rows. Rows that
    the task itself reports as ``abnormal`` stay so (see `jaxenv.Transition`). Owns ``step_type``, ``reward``,
    ``discount``, ``observation`` and ``env_info``, on abnormal rows only.

    Raises:
        ValueError: if ``env`` has wrappers other than `FixedResetKey`, or if it is a `Multitask` whose tasks have
            wrappers that show more than the state.

    >>> import jax, jaxenv
    >>> env = GuardNonFinite(jaxenv.spec("Pendulum-v1").make())
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> state, timestep = env.step(state, jnp.full((1, 1), 1.0))
    >>> timestep.env_info["abnormal"].tolist()
    [False]
    """

    owns: ClassVar[frozenset[str]] = frozenset({"step_type", "reward", "discount", "observation", "env_info"})
    in_evaluation = "kept"
    place = "task"
    keeps_specs: ClassVar[frozenset[str]] = frozenset({"observation", "reward"})

    def check(self) -> None:
        if wrong := [type(layer).__name__ for layer in layers(self.env)[:-1] if not isinstance(layer, FixedResetKey)]:
            raise ValueError(f"GuardNonFinite: put it innermost, inside {wrong[0]}")
        if not self.env.observes_state:  # the observation of the previous state must be reproducible
            raise ValueError(f"GuardNonFinite: put it inside the tasks of {self.env}, which show more than their state")

    def facts_of(self, inner: Facts) -> Facts:
        return inner  # an observation of the state stays one

    @property
    def _observes_finite(self) -> bool:
        return isinstance(self.unwrapped, Task) and self.unwrapped.finite_observation

    def observation_of(self, state: Tree) -> Tree:
        observation = self.env.observation_of(state)
        return observation if self._observes_finite else finite(observation)

    def begin(self, starts: Starts, previous: Tree = None) -> tuple[Tree, TimeStep]:
        state, timestep = super().begin(starts, previous)
        env_info = {"abnormal": jnp.zeros(starts.env_id.shape, bool), **timestep.env_info}
        return state, dataclasses.replace(timestep, env_info=env_info)

    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        new, timestep = self.env.proceed(state, action)
        # Checking a large observation costs more than the rest of the guard, so tasks may declare theirs finite.
        shown = () if self._observes_finite else timestep.observation
        abnormal = ~_finite_lanes((new, shown, timestep.reward))
        kept = tree.rebuild(tree.where(abnormal, state, new), clock=self.env.clock(new))
        env_info = {**finite(timestep.env_info), **self.env.env_info_of(kept)}
        env_info["abnormal"] = abnormal | env_info.get("abnormal", False)
        row = end_abnormal(abnormal, timestep)
        return kept, dataclasses.replace(row, observation=self.observation_of(kept), env_info=env_info)


def _finite_lanes(values: Tree) -> jax.Array:
    """Returns the lanes in which every float of a tree of arrays ``[B, ...]`` is finite, bool ``[B]``."""
    floats = [x for x in jax.tree.leaves(values) if jnp.issubdtype(x.dtype, jnp.inexact)]
    rows = [jnp.all(jnp.isfinite(x), axis=tuple(range(1, x.ndim))) for x in floats]
    return functools.reduce(jnp.logical_and, rows)
