"""Rollouts as transitions, for learners that replay them, and in TF-Agents' layout."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import _xla, tree
from jaxenv.data.rows import (
    StreamMode,
    check_rows,
    check_steps,
    check_stream,
    coefficient,
    next_rows,
    transition_mask,
)
from jaxenv.rollout import Experience
from jaxenv.timestep import StepType, TimeStep


@tree.struct
class Transitions:
    """T transitions of every lane, each leaf ``[T, B, ...]``; fields that were not unrolled hold ``()``.

    Attributes:
        step_type: int32, of the row on which the action was taken.
        observation: what the policy saw.
        action: what it did.
        policy_info: what the policy noted.
        reward: float32 (or ``[T, B, R]``): of this action.
        discount: float32, 0 where the action ended the task: a learner's target is ``reward + gamma * discount *
            V(next_observation)``, without a look at step types.
        next_step_type: int32, LAST where the episode ended, for whichever reason.
        next_observation: what the action led to; where it ended the episode, the observation that it ended with, in
            either mode.
        valid: bool, rows that are a transition (see `transition_mask`): drop or mask out the others.
    """

    step_type: Any = ()
    observation: Any = ()
    action: Any = ()
    policy_info: Any = ()
    reward: Any = ()
    discount: Any = ()
    next_step_type: Any = ()
    next_observation: Any = ()
    valid: Any = ()


def to_transitions(experience: Experience, last: TimeStep, mode: StreamMode = "next_step") -> Transitions:
    """Pairs each row of an unroll with the next one: leaves ``[T, B, ...]``.

    Every action that an environment carried out is one valid transition, so that a ``same_step`` stream gives the same
    ones as a ``next_step`` stream of the same episodes.

    Args:
        experience: rows ``[T, B, ...]``.
        last: the TimeStep after them, as `jaxenv.unroll` returns it.
        mode: of the stream's ``AutoReset``. In ``"same_step"`` streams ``next_observation`` is read from
            ``env_info["final_observation"]``.

    Raises:
        ValueError: if the mode does not fit the rows, or ``last`` does not.

    >>> import jax, jaxenv
    >>> env = jaxenv.wrappers.AutoReset(jaxenv.testing.mock_012())
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> (_, last, _), rows = jaxenv.unroll(env, jaxenv.rollout.random_policy(env), state, timestep, 4)
    >>> found = to_transitions(rows, last)
    >>> found.next_observation[:, 0].tolist(), found.valid[:, 0].tolist()
    ([1, 2, 0, 1], [True, True, False, True])
    """
    return _transitions("to_transitions", experience, last, mode)


def to_n_step_transitions(
    experience: Experience, last: TimeStep, n: int, gamma: Any, mode: StreamMode = "next_step"
) -> Transitions:
    """Transitions over up to ``n`` steps, one from each row: leaves ``[T, B, ...]``.

    ``reward = sum_{k<m} gamma^k D[k] r[t+k+1]`` and ``discount = gamma^(m-1) D[m]`` with ``D[k] = d[t+1] ... d[t+k]``,
    so that the learner's target has the same form as for one step: ``reward + gamma * discount * V(next_observation)``.
    The ``m`` steps are ``n``, or less where the episode ends, the rows end, or the next row is not valid. As TF-Agents'
    ``to_n_step_transition``, which gives only the windows of full length that fit into the rows.

    Args:
        experience: rows ``[T, B, ...]``.
        last: the TimeStep after them.
        n: how many steps, at least 1; static.
        gamma: discount rate in [0, 1], one number or ``[B]``.
        mode: of the stream's ``AutoReset``.

    Raises:
        ValueError: for an ``n`` that is no whole number from 1, a ``gamma`` out of range, or rows that do not fit.
    """
    n = check_steps("to_n_step_transitions", n)
    one = _transitions("to_n_step_transitions", experience, last, mode)
    gamma = coefficient("to_n_step_transitions", "gamma", gamma, experience.timestep)
    rate = gamma.reshape(gamma.shape[: one.discount.ndim]) * one.discount
    rows = rate.shape[0]
    place = jnp.broadcast_to(tree.expand(jnp.arange(rows, dtype=jnp.int32), rate.ndim), rate.shape)
    # A window goes on into the next row's window if that row lies in the same episode and is itself a transition.
    ahead = jnp.concatenate([one.valid[1:], jnp.zeros_like(one.valid[:1])])
    continues = one.valid & ahead & (one.next_step_type != np.int32(StepType.LAST))
    start = (one.reward, one.discount, _xla.vary_like(rate, place))

    def one_more(_, window):
        reward, discount, end = jax.tree.map(lambda x: jnp.roll(x, -1, axis=0), window)
        longer = (one.reward + tree.expand(rate, reward.ndim) * reward, rate * discount, end)
        return tree.where(continues, longer, start)

    reward, discount, end = jax.lax.fori_loop(1, min(n, max(rows, 1)), one_more, start)

    def at_end(x):
        return jnp.take_along_axis(x, tree.expand(end, x.ndim), axis=0, mode="clip")

    return tree.rebuild(
        one,
        reward=reward,
        discount=discount,
        next_step_type=at_end(one.next_step_type),
        next_observation=jax.tree.map(at_end, one.next_observation),
    )


@tree.struct
class Trajectory:
    """TF-Agents' ``Trajectory``: observation and action of row t, what came of it from row t + 1; ``[T, B, ...]``."""

    step_type: Any
    observation: Any
    action: Any
    policy_info: Any
    next_step_type: Any
    reward: Any
    discount: Any

    def is_first(self) -> jax.Array:
        """Rows that begin an episode, bool in the shape of ``step_type``."""
        return self.step_type == np.int32(StepType.FIRST)

    def is_mid(self) -> jax.Array:
        """Rows with more of the episode on either side."""
        middle = np.int32(StepType.MID)
        return (self.step_type == middle) & (self.next_step_type == middle)

    def is_last(self) -> jax.Array:
        """Rows whose action ended the episode."""
        return self.next_step_type == np.int32(StepType.LAST)

    def is_boundary(self) -> jax.Array:
        """Rows that lead from an episode's end to the next one's start: reward 0, discount 1, no step of the task."""
        return self.step_type == np.int32(StepType.LAST)


def to_trajectory(experience: Experience, last: TimeStep, mode: StreamMode = "next_step") -> Trajectory:
    """Rows of an unroll in TF-Agents' layout: leaves ``[T, B, ...]``.

    A ``next_step`` stream keeps its LAST rows, as boundaries. A ``same_step`` stream has none: its LAST rows begin an
    episode and are FIRST here, and the observation an episode ended with has no place, so what reads next observations
    off the next row (TF-Agents' ``to_transition``) must not bootstrap a truncated row: take `to_transitions` there.

    Args:
        experience: rows ``[T, B, ...]``.
        last: the TimeStep after them, as `jaxenv.unroll` returns it.
        mode: of the stream's ``AutoReset``.

    Raises:
        ValueError: if the mode does not fit the rows, or ``last`` does not.
    """
    rows = _rows("to_trajectory", experience, last, mode)
    begins = rows.is_last() if mode == "same_step" else jnp.zeros_like(rows.is_last())
    return Trajectory(
        step_type=jnp.where(begins, np.int32(StepType.FIRST), rows.step_type),
        observation=rows.observation,
        action=experience.action,
        policy_info=experience.policy_info,
        next_step_type=next_rows(rows.step_type, last.step_type),
        reward=next_rows(rows.reward, last.reward),
        discount=next_rows(rows.discount, last.discount),
    )


def _rows(name: str, experience: Experience, last: TimeStep, mode: StreamMode) -> TimeStep:
    if not isinstance(experience, Experience):
        raise ValueError(
            f"{name}: experience must be an Experience as unroll returns it, got {type(experience).__name__}"
        )
    check_rows(name, experience.timestep, last)
    check_stream(name, experience.timestep, mode)
    return experience.timestep


def _transitions(name: str, experience: Experience, last: TimeStep, mode: StreamMode) -> Transitions:
    rows = _rows(name, experience, last, mode)
    if mode == "same_step" and "final_observation" not in rows.env_info:
        raise ValueError(f"{name}: mode 'same_step' needs env_info['final_observation'], keep it in unroll(fields=...)")
    if mode == "same_step":
        next_observation = next_rows(rows.env_info["final_observation"], last.env_info["final_observation"])
    else:
        next_observation = next_rows(rows.observation, last.observation)
    return Transitions(
        step_type=rows.step_type,
        observation=rows.observation,
        action=experience.action,
        policy_info=experience.policy_info,
        reward=next_rows(rows.reward, last.reward),
        discount=next_rows(rows.discount, last.discount),
        next_step_type=next_rows(rows.step_type, last.step_type),
        next_observation=next_observation,
        valid=transition_mask(rows, last, mode),
    )
