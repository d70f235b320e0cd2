"""Replace termination by truncation."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp

from jaxenv import tree
from jaxenv.core import TimeStep, Wrapper
from jaxenv.tree import Tree


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
