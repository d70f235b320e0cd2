"""Hide the ends of episodes and continue."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from jaxenv.core import StepType, TimeStep, Wrapper, check_no_autoreset
from jaxenv.tree import Tree


class NonEpisodic(Wrapper):
    """Replaces LAST rows by MID rows with discount 1 and steps the environment past its end.

    Nothing restarts: the physics continues, and the task may reach its end again at every step. A `TimeLimit` outside
    still ends episodes (``make`` puts it there). Ends by `GuardNonFinite` are hidden, too: such a lane stays in its
    last finite state. Past its end a task may leave the declared bounds of its observation. To restart lanes as usual
    and only bootstrap past their ends, use `NonTerminating`. Owns ``step_type`` and ``discount``.

    Raises:
        ValueError: if ``env`` restarts its lanes.

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
