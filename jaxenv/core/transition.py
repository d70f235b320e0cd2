"""What a task computes in a step, and the state that the library keeps for it."""

import dataclasses

import jax

from jaxenv import tree
from jaxenv.random import Clock
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
