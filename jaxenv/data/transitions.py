"""Converts trajectories to transitions: observation, action, reward and next observation, with a mask of valid ones.

All functions take ``experience``, rows ``[T, B, ...]``, ``last``, the TimeStep after them, as `jaxenv.unroll` returns
both, and ``mode``, the ``AutoReset`` mode in which the rows were made. A ``ValueError`` says where they do not fit.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import check_integer, check_kind
from jaxenv.core._compiled import compiled_once
from jaxenv.core.timestep import StepType, TimeStep
from jaxenv.data.returns import coefficient
from jaxenv.data.rows import TrajectoryMode, check_mode, check_rows, next_rows, transition_mask
from jaxenv.rollout import Experience


@tree.struct
class Transitions:
    """T transitions per lane: leaves ``[T, B, ...]``. Fields that were not unrolled are ``()``.

    Attributes:
        step_type: int32, of the row on which the action was taken.
        observation: the observation of that row.
        action: the action.
        policy_info: the policy's ``PolicyStep.info``.
        reward: float32 (or ``[T, B, R]``), of this action.
        discount: float32, 0 where the action ended the task. `target` is the target of a learner, for all step types.
        next_step_type: int32, LAST where the episode ended, for either reason.
        next_observation: the observation that the action led to. Where the action ended the episode, it is the
            episode's final observation, in either mode.
        valid: bool, whether the row is a transition (see `transition_mask`). Drop or mask the others.
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

    def target(self, next_value: jax.Array, gamma: Any) -> jax.Array:
        """Returns ``reward + gamma * discount * next_value``, given V of ``next_observation`` in the reward's shape.

        Where the discount is 0 the value does not count, also if it is NaN.
        """
        discount = tree.expand(self.discount, jnp.ndim(self.reward))
        return self.reward + gamma * discount * jnp.where(discount != 0, next_value, np.float32(0))


def to_transitions(experience: Experience, last: TimeStep, mode: TrajectoryMode = "next_step") -> Transitions:
    """Pairs each row of an unroll with the next one: leaves ``[T, B, ...]``.

    Every action that the environment executed is one valid transition. The same episodes therefore yield the same valid
    transitions in both ``AutoReset`` modes; in ``"same_step"`` mode ``next_observation`` is read from
    ``env_info["final_observation"]``.

    >>> import jax, jaxenv
    >>> env = jaxenv.wrappers.AutoReset(jaxenv.testing.count_to_two())
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> (_, last, _), rows = jaxenv.unroll(env, jaxenv.rollout.random_policy(env), state, timestep, 4)
    >>> transitions = to_transitions(rows, last)
    >>> transitions.next_observation[:, 0].tolist(), transitions.valid[:, 0].tolist()
    ([1, 2, 0, 1], [True, True, False, True])
    """
    return _one_step("to_transitions", experience, last, mode)


def to_n_step_transitions(
    experience: Experience, last: TimeStep, n: int, gamma: Any, mode: TrajectoryMode = "next_step"
) -> Transitions:
    """Makes transitions over up to ``n`` steps, one from each row: leaves ``[T, B, ...]``.

    ``reward = sum_{k<m} gamma^k D[k] r[t+k+1]`` and ``discount = gamma^(m-1) D[m]`` with ``D[k] = d[t+1] ... d[t+k]``,
    so the learner's target has the same form as for one step (`Transitions.target`).
    The number of steps ``m`` is ``n``, a static integer of at least 1, or less where the episode ends, the rows end, or
    the next row is not valid. ``gamma`` is in [0, 1], one number or ``[B]``.
    """
    check_integer("to_n_step_transitions", "n", n, 1)
    one = _one_step("to_n_step_transitions", experience, last, mode)
    gamma = coefficient("to_n_step_transitions", "gamma", gamma, experience.timestep)
    rate = gamma.reshape(gamma.shape[: one.discount.ndim]) * one.discount
    num_rows = rate.shape[0]
    row = jnp.broadcast_to(tree.expand(jnp.arange(num_rows, dtype=jnp.int32), rate.ndim), rate.shape)
    # A window extends over the next row's window, if that row is a transition in the same episode.
    next_is_valid = jnp.concatenate([one.valid[1:], jnp.zeros_like(one.valid[:1])])
    continues = one.valid & next_is_valid & (one.next_step_type != np.int32(StepType.LAST))
    start = (one.reward, one.discount, tree.vary_like(rate, row))
    reward, discount, end = _windows(start, rate, continues, min(int(n), max(num_rows, 1)))

    def at_end(x: Any) -> Any:
        return jnp.take_along_axis(x, tree.expand(end, x.ndim), axis=0, mode="clip")

    return tree.rebuild(
        one,
        reward=reward,
        discount=discount,
        next_step_type=at_end(one.next_step_type),
        next_observation=jax.tree.map(at_end, one.next_observation),
    )


@functools.partial(compiled_once, static_argnums=3)
def _windows(
    start: tuple[Any, ...], rate: jax.Array, continues: jax.Array, n: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns reward, discount and last row of windows of up to ``n`` steps, given those of one step."""

    def add_step(_: Any, window: Any) -> Any:
        reward, discount, end = jax.tree.map(lambda x: jnp.roll(x, -1, axis=0), window)
        longer = (start[0] + tree.expand(rate, reward.ndim) * reward, rate * discount, end)
        return tree.where(continues, longer, start)

    return jax.lax.fori_loop(1, n, add_step, start)


def _one_step(owner: str, experience: Experience, last: TimeStep, mode: TrajectoryMode) -> Transitions:
    rows = _rows_of(owner, experience, last, mode)
    if mode == "same_step":
        if "final_observation" not in rows.env_info:
            rule = "mode 'same_step' needs env_info['final_observation']"
            raise ValueError(f"{owner}: {rule}, keep it in unroll(fields=...)")
        next_observation = next_rows(owner, rows.env_info["final_observation"], last.env_info["final_observation"])
    else:
        next_observation = next_rows(owner, rows.observation, last.observation)
    return Transitions(
        step_type=rows.step_type,
        observation=rows.observation,
        action=experience.action,
        policy_info=experience.policy_info,
        reward=next_rows(owner, rows.reward, last.reward),
        discount=next_rows(owner, rows.discount, last.discount),
        next_step_type=next_rows(owner, rows.step_type, last.step_type),
        next_observation=next_observation,
        valid=transition_mask(rows, last, mode),
    )


def _rows_of(owner: str, experience: Experience, last: TimeStep, mode: TrajectoryMode) -> TimeStep:
    """Returns the TimeSteps ``[T, B]`` of an unroll; raises a ``ValueError`` if ``last`` or the mode does not fit."""
    check_kind(owner, "experience", experience, Experience, " as unroll returns it")
    check_rows(owner, experience.timestep, last)
    check_mode(owner, experience.timestep, mode, last)
    return experience.timestep


@tree.struct
class Trajectory:
    """Rows in the layout of TF-Agents' ``Trajectory``: leaves ``[T, B, ...]``.

    Observation, action and ``step_type`` come from row t; reward, discount and ``next_step_type`` from row t + 1, to
    which the action of row t led.
    """

    step_type: Any
    observation: Any
    action: Any
    policy_info: Any
    next_step_type: Any
    reward: Any
    discount: Any

    def is_first(self) -> jax.Array:
        """Marks rows that start an episode, bool in the shape of ``step_type``."""
        return self.step_type == np.int32(StepType.FIRST)

    def is_mid(self) -> jax.Array:
        """Marks rows with more rows of the episode on either side."""
        middle = np.int32(StepType.MID)
        return (self.step_type == middle) & (self.next_step_type == middle)

    def is_last(self) -> jax.Array:
        """Marks rows whose action ended the episode."""
        return self.next_step_type == np.int32(StepType.LAST)

    def is_boundary(self) -> jax.Array:
        """Marks rows that lead from the end of an episode to the start of the next: reward 0, discount 1, no step."""
        return self.step_type == np.int32(StepType.LAST)


def to_trajectory(experience: Experience, last: TimeStep, mode: TrajectoryMode = "next_step") -> Trajectory:
    """Converts the rows of an unroll to TF-Agents' layout: leaves ``[T, B, ...]``.

    LAST rows made in ``next_step`` mode are kept as boundaries. LAST rows made in ``same_step`` mode become FIRST: they
    start an episode, and the layout has no field for the last observation of the previous one. A learner that reads
    next observations from the next row (TF-Agents' ``to_transition``) must not bootstrap truncated rows of such a
    trajectory; use `to_transitions` there.
    """
    rows = _rows_of("to_trajectory", experience, last, mode)
    starts = rows.is_last() if mode == "same_step" else jnp.zeros_like(rows.is_last())
    return Trajectory(
        step_type=jnp.where(starts, np.int32(StepType.FIRST), rows.step_type),
        observation=rows.observation,
        action=experience.action,
        policy_info=experience.policy_info,
        next_step_type=next_rows("to_trajectory", rows.step_type, last.step_type),
        reward=next_rows("to_trajectory", rows.reward, last.reward),
        discount=next_rows("to_trajectory", rows.discount, last.discount),
    )
