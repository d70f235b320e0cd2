"""Give the steps of an episode a discount."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from jaxenv._checks import is_concrete
from jaxenv.wrapper import Wrapper


class Discount(Wrapper):
    """Multiplies the discount of every row but FIRST: the parameter that the suites of ALF and TF-Agents have.

    MID rows show ``value``, FIRST rows 1, termination 0; LAST rows of a time limit keep ``value``, on whichever side
    the limit stands. The learner's gamma comes on top of it. Owns ``discount``.

    Args:
        env: any environment.
        value: above 0 and at most 1: one number, or float32 ``[B]`` with one per lane.

    Raises:
        ValueError: if ``value`` is out of range.
    """

    value: float = 1.0

    owns: ClassVar[frozenset[str]] = frozenset({"discount"})
    noop_kwargs: ClassVar = {"value": 1.0}

    def check(self):
        value = np.asarray(self.value) if is_concrete(self.value) else np.ones(())
        if np.any((value <= 0) | (value > 1)):
            raise ValueError(f"Discount: value must be above 0 and at most 1, got {self.value}")

    def step(self, state, action):
        state, timestep = self.env.step(state, action)
        discount = jnp.where(timestep.is_first(), timestep.discount, timestep.discount * self.value)
        return state, dataclasses.replace(timestep, discount=discount)
