"""Set the discount to 0 at a flag in env_info, such as a lost life."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import TimeStep, Wrapper, check_combined
from jaxenv.tree import Tree


class TerminalOnInfo(Wrapper):
    """Sets the discount to 0 where a flag in ``env_info`` is set, and lets the episode continue.

    The row stays MID: values do not propagate across it, but nothing restarts, and recurrent state is kept. No other
    wrapper makes MID rows with discount 0. The flag should describe the transition: for a flag that describes the
    state, LAST rows in ``same_step`` mode hold the next episode's. ``make(mode="eval")`` leaves the wrapper out, so
    that evaluations count the terminations of the task. Owns ``discount``.

    Args:
        flag: name of an entry of ``env_info``, bool ``[B]``.

    Raises:
        ValueError: if there is no such flag, or if one action takes several steps and the task does not sum it
            (`Task.summed_entries`).

    >>> import jax, jax.numpy as jnp, jaxenv
    >>> env = TerminalOnInfo(jaxenv.wrappers.TimeLimit(jaxenv.testing.Counting(np.array([9])), 1), "time_limit_reached")
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> env.step(state, jnp.array([0]))[1].discount.tolist()
    [0.0]
    """

    flag: str = tree.static()

    owns: ClassVar[frozenset[str]] = frozenset({"discount"})
    in_evaluation = "left_out"
    opt_outs = {"discount_zero_only_at_last": "a flag sets the discount of MID rows to 0 by design"}

    def check(self) -> None:
        entries = self.env.env_info_spec().items()
        flags = [name for name, s in entries if specs.is_spec(s) and (s.shape, s.dtype) == ((), np.bool_)]
        if self.flag not in flags:
            known = ", ".join(flags) or "there is none"
            # `make` adds its time limit after the wrappers are built.
            at_limit = "; to terminate at the time limit use TerminateOn, or TimeLimit with terminal=True"
            hint = at_limit if self.flag == "time_limit_reached" else ""
            raise ValueError(f"TerminalOnInfo: flag must name a flag in env_info ({known}), got {self.flag!r}{hint}")
        check_combined("TerminalOnInfo", self.env, [self.flag])

    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        state, timestep = self.env.proceed(state, action)
        stops = timestep.env_info[self.flag] & ~timestep.is_first()
        discount = jnp.where(stops, np.float32(0), timestep.discount)
        return state, dataclasses.replace(timestep, discount=discount)
