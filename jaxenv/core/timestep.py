"""Rows of a rollout, and the results of a task's transition."""

import dataclasses
import enum
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxenv import tree
from jaxenv._util.checks import Range, check_array, check_arrays, described, is_integer
from jaxenv._util.names import explained, missing_attribute
from jaxenv.canvas import _html
from jaxenv.random import Clock, Shape
from jaxenv.tree import Tree


@tree.struct
class Transition:
    """The result of one step of a task: the part of a TimeStep that its author computes.

    Attributes:
        state: the task's next state, of the same structure, shapes and dtypes as ``initial`` returned.
        reward: float32 ``[B]``, or ``[B, R]`` of R > 1 for a vector reward; ``[B, A]`` for a task of A agents.
        terminated: bool ``[B]``, whether the task itself ended. A task does not implement time limits.
        env_info: dict of arrays ``[B, ...]`` about this transition; zero at FIRST. An entry ``"abnormal"``, bool
            ``[B]``, reports lanes whose step failed: the row is LAST with discount 1 and reward 0, the lane keeps its
            state, and learners mask the row out.
    """

    state: Tree
    reward: jax.Array
    terminated: jax.Array
    env_info: dict[str, Tree] = dataclasses.field(default_factory=dict)


@tree.struct
class TaskState:
    """State of a task: the lanes' clock and the state that its author returns, every leaf leading with ``[B]``."""

    clock: Clock
    task: Tree


EnvInfo: TypeAlias = dict[str, Tree]  # the entries and their trees depend on the stack
_UNSET: Any = ()


class StepType(enum.IntEnum):
    """The position of a row in its episode."""

    FIRST = 0
    MID = 1
    LAST = 2


@tree.struct
class TimeStep:
    """A batch of rows, one per lane. Unset fields hold ``()``, an empty pytree.

    Attributes:
        step_type: int32 ``[B]``, a `StepType`.
        reward: float32 ``[B]``, or ``[B, R]`` for a vector reward: the reward of the previous action, which arrives
            with the observation that it caused. 0 at FIRST.
        discount: float32 ``[B]`` in [0, 1]: 0 where the task ended. It never includes the learner's gamma.
        observation: tree of arrays ``[B, ...]``.
        prev_action: the previous action, in the action space of the outermost wrapper; zeros at FIRST.
        env_id: int32 ``[B]``, the global number of the lane.
        untransformed: the raw TimeStep, if a data transformer stores it.
        env_info: dict of fixed structure. Entries about a transition are zero at FIRST.
    """

    step_type: jax.Array = _UNSET
    reward: jax.Array = _UNSET
    discount: jax.Array = _UNSET
    observation: Tree = _UNSET
    prev_action: Tree = _UNSET
    env_id: jax.Array = _UNSET
    untransformed: "TimeStep" = _UNSET
    env_info: EnvInfo = _UNSET

    def is_first(self) -> jax.Array:
        """Marks rows that start an episode, bool in the shape of ``step_type``."""
        return self.step_type == np.int32(StepType.FIRST)

    def is_mid(self) -> jax.Array:
        """Marks rows inside an episode, bool in the shape of ``step_type``."""
        return self.step_type == np.int32(StepType.MID)

    def is_last(self) -> jax.Array:
        """Marks rows that end an episode, bool in the shape of ``step_type``."""
        return self.step_type == np.int32(StepType.LAST)

    @property
    def terminated(self) -> jax.Array:
        """Rows on which the task itself ended: LAST with discount 0."""
        return self.is_last() & (self.discount == 0)

    @property
    def truncated(self) -> jax.Array:
        """Rows on which something outside the task ended the episode: LAST with discount above 0."""
        return self.is_last() & (self.discount > 0)

    @property
    def bootstrap_mask(self) -> jax.Array:
        """Rows whose value the previous row bootstraps from, in trajectories that have FIRST rows."""
        return (self.step_type != np.int32(StepType.FIRST)) & (self.discount > 0)

    @property
    def learn_mask(self) -> jax.Array:
        """Rows whose value is learned: all but LAST, in trajectories that have FIRST rows."""
        return self.step_type != np.int32(StepType.LAST)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return missing_attribute(self, name, r"\btimestep\b")

        def __getitem__(self, index: Any) -> Any:  # unpacking and loops call it, too
            rule = "a TimeStep is not a sequence: use its fields, such as timestep.observation, and "
            rule += "jax.tree.map(lambda x: x[i], timestep) for the row of one lane"
            raise TypeError(explained(rule, str(index), r"\btimestep\b"))

    def __repr__(self) -> str:
        fields = ((name, getattr(self, name)) for name in self.__dataclass_fields__)
        lines = (f"{name!r}: {_html.short(x)}" for name, x in fields if not (isinstance(x, tuple) and not x))
        return "TimeStep(\n{" + ",\n ".join(lines) + "})"

    _repr_html_ = _html.rows_html  # the display in notebooks


def check_timestep(owner: str, name: str, value: Any) -> None:
    """Raises a ``ValueError`` unless ``value`` is a `TimeStep`; the message says how to take one out of an unroll."""
    hint = ": pass experience.timestep" if hasattr(value, "timestep") else ""
    if not isinstance(value, TimeStep):
        raise ValueError(f"{owner}: {name} must be a TimeStep, got {described(value)}{hint}")


def end_abnormal(abnormal: jax.Array, timestep: TimeStep) -> TimeStep:
    """Ends the lanes of ``abnormal``, bool ``[B]``: their rows become LAST with discount 1 and reward 0."""
    reward = timestep.reward
    return dataclasses.replace(
        timestep,
        step_type=jnp.where(abnormal, np.int32(StepType.LAST), timestep.step_type),
        reward=jnp.where(tree.expand(abnormal, reward.ndim), jnp.zeros_like(reward), reward),
        discount=jnp.where(abnormal, np.float32(1), timestep.discount),
    )


def _batch_shape(name: str, observation: Any, batch_shape: Shape | None) -> Shape:
    leaves = jax.tree_util.tree_leaves_with_path(observation)
    if batch_shape is None:
        if not leaves or jnp.ndim(leaves[0][1]) == 0:
            raise ValueError(f"{name}: observation must have a batch axis unless batch_shape is given")
        batch_shape = jnp.shape(leaves[0][1])[:1]
    elif not isinstance(batch_shape, tuple | list):
        raise ValueError(f"{name}: batch_shape must be a tuple such as (4,), got {batch_shape!r}")
    check_arrays(name, "observation", observation)
    for path, x in leaves:
        if jnp.shape(x)[: len(batch_shape)] != tuple(batch_shape):
            where = tree.path_name(path, "observation")
            raise ValueError(f"{name}: {where} must lead with the batch {tuple(batch_shape)}, got shape {jnp.shape(x)}")
    return tuple(batch_shape)


def restart(
    observation: Tree,
    *,
    batch_shape: Shape | None = None,
    reward_shape: Shape = (),
    prev_action: Tree = _UNSET,
    env_id: jax.Array = _UNSET,
    env_info: EnvInfo = _UNSET,
) -> TimeStep:
    """Makes the FIRST row of an episode: reward 0, discount 1.

    Args:
        observation: tree of arrays ``[B, ...]``.
        batch_shape: ``(B,)``; by default the leading axis of the observation. ``()`` makes an unbatched row.
        reward_shape: shape of one lane's reward: ``()``, or ``(R,)`` for a vector reward.
        prev_action: zeros of the action spec, or ``()`` to leave it unset.
        env_id: int32 ``[B]``.
        env_info: zeros, except for entries that describe the state.
    """
    shape = _batch_shape("restart", observation, batch_shape)
    if not isinstance(reward_shape, tuple | list) or not all(is_integer(n) and n >= 0 for n in reward_shape):
        raise ValueError(f"restart: reward_shape must be a tuple such as (2,), got {reward_shape!r}")
    return TimeStep(
        step_type=jnp.full(shape, np.int32(StepType.FIRST)),
        reward=jnp.zeros(shape + tuple(reward_shape), jnp.float32),
        discount=jnp.ones(shape, jnp.float32),
        observation=observation,
        prev_action=prev_action,
        env_id=env_id,
        env_info=env_info,
    )


_DISCOUNTS = Range(above=0, high=1)  # a discount of 0 belongs to a termination


def _row(
    name: str, step_type: StepType, observation: Tree, reward: Any, discount: Any, batch_shape: Any, fields: Any
) -> TimeStep:
    shape = _batch_shape(name, observation, batch_shape)
    check_array(name, "discount", discount)
    if name != "termination":
        _DISCOUNTS.check(name, "discount", discount, rank=len(np.shape(discount)))
    check_array(name, "reward", reward)
    reward = jnp.asarray(reward, jnp.float32)
    discount = jnp.asarray(discount, jnp.float32)
    # A scalar applies to every lane. A reward may have more axes than the batch, a discount may not.
    if reward.ndim and reward.shape[: len(shape)] != shape:
        raise ValueError(f"{name}: reward must lead with the batch {shape}, got shape {reward.shape}")
    if discount.ndim and discount.shape != shape:
        raise ValueError(f"{name}: discount must have the shape {shape} of the batch, got {discount.shape}")
    return TimeStep(
        step_type=jnp.full(shape, np.int32(step_type)),
        reward=jnp.broadcast_to(reward, shape + reward.shape[len(shape) :]),
        discount=jnp.broadcast_to(discount, shape),
        observation=observation,
        **fields,
    )


def transition(
    observation: Tree, reward: ArrayLike, discount: ArrayLike = 1.0, *, batch_shape: Shape | None = None, **fields: Any
) -> TimeStep:
    """Makes a MID row. ``reward`` is float32 ``[B]`` or ``[B, R]``, ``discount`` ``[B]``; scalars apply to all lanes.

    Other fields of `TimeStep` are passed by keyword. A discount outside (0, 1] raises a ``ValueError``.
    """
    return _row("transition", StepType.MID, observation, reward, discount, batch_shape, fields)


def termination(observation: Tree, reward: ArrayLike, *, batch_shape: Shape | None = None, **fields: Any) -> TimeStep:
    """Makes a LAST row on which the task ended: discount 0, reward float32 ``[B]``, ``[B, R]`` or a scalar."""
    return _row("termination", StepType.LAST, observation, reward, 0.0, batch_shape, fields)


def truncation(
    observation: Tree, reward: ArrayLike, discount: ArrayLike = 1.0, *, batch_shape: Shape | None = None, **fields: Any
) -> TimeStep:
    """Makes a LAST row on which something other than the task, such as a time limit, ended the episode.

    Its value still bootstraps the previous one. ``reward`` is float32 ``[B]`` or ``[B, R]``, ``discount`` ``[B]`` in
    (0, 1], as in `transition`.
    """
    return _row("truncation", StepType.LAST, observation, reward, discount, batch_shape, fields)
