"""Scale the discount."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp

from jaxenv import tree
from jaxenv.core import TimeStep, Wrapper
from jaxenv.tree import Tree


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
