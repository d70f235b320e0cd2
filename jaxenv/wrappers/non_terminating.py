"""Make every end look like one that a time limit made."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from jaxenv._checks import is_concrete
from jaxenv.wrapper import Wrapper


class NonTerminating(Wrapper):
    """Gives LAST rows discount 1, so that a learner bootstraps past them: ALF's NonEpisodicAgent.

    Episodes end and restart as before; none counts as terminated. To hide the ends themselves, use `NonEpisodic`. It
    stands on either side of ``AutoReset``. Owns ``discount``.

    Args:
        env: any environment.
        discount: what LAST rows get instead, above 0 and at most 1: one number, or float32 ``[B]``.

    Raises:
        ValueError: if ``discount`` is out of range.
    """

    discount: float = 1.0

    owns: ClassVar[frozenset[str]] = frozenset({"discount"})

    def check(self):
        value = np.asarray(self.discount) if is_concrete(self.discount) else np.ones(())
        if np.any((value <= 0) | (value > 1)):
            raise ValueError(f"NonTerminating: discount must be above 0 and at most 1, got {self.discount}")

    def step(self, state, action):
        state, timestep = self.env.step(state, action)
        discount = jnp.where(timestep.is_last(), self.discount, timestep.discount)
        return state, dataclasses.replace(timestep, discount=discount)
