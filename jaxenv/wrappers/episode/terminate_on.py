"""Terminate episodes by a function of the row."""

import dataclasses
from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.core import StepType, TimeStep, Wrapper, check_callable, check_no_autoreset
from jaxenv.tree import Tree


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
