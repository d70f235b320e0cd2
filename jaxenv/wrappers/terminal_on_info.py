"""Stop the flow of values at a lost life."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.wrapper import Wrapper


class TerminalOnInfo(Wrapper):
    """Sets the discount to 0 where a flag in ``env_info`` is set, and lets the episode go on: ALF's
    AtariTerminalOnLifeLoss.

    The row stays MID: values do not flow past it, but nothing restarts and recurrent state is kept. This is the one
    wrapper that makes MID rows with discount 0. The flag should describe the transition; of one that describes the
    state a ``same_step`` stream shows the next episode's on LAST rows. Owns ``discount``.

    Args:
        env: any environment.
        flag: an entry of ``env_info``, bool ``[B]``.

    Raises:
        ValueError: if there is no such flag.
    """

    flag: str = tree.static()

    owns: ClassVar[frozenset[str]] = frozenset({"discount"})
    opt_outs = {"discount_zero_only_at_last": "a flag sets the discount of MID rows to 0 by design"}

    def check(self):
        entries = self.env.env_info_spec().items()
        flags = [name for name, s in entries if specs.is_spec(s) and (s.shape, s.dtype) == ((), np.bool_)]
        if self.flag not in flags:
            known = ", ".join(flags) or "there is none"
            raise ValueError(f"TerminalOnInfo: flag must name a flag in env_info ({known}), got {self.flag!r}")

    def step(self, state, action):
        state, timestep = self.env.step(state, action)
        stops = timestep.env_info[self.flag] & ~timestep.is_first()
        discount = jnp.where(stops, np.float32(0), timestep.discount)
        return state, dataclasses.replace(timestep, discount=discount)
