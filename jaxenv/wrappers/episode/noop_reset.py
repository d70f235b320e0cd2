"""Start episodes with a random number of no-ops."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.core import Facts, Starts, TimeStep, Wrapper, check_no_autoreset
from jaxenv.tree import Tree


class NoopReset(Wrapper):
    """Plays 1 to ``maximum`` no-ops, uniformly distributed, before an episode is shown: the random starts of Atari.

    The row after them is FIRST, with reward 0, zeros for ``prev_action`` and for the transition's ``env_info``, and the
    resulting observation. A lane whose episode ends during the no-ops returns to its start and plays the remaining
    no-ops from there. Wrappers inside see the no-ops as steps: the first observation of ``FrameStack`` or
    ``PreviousActionAndReward`` shows them there, and outside of ``NoopReset`` it does not.

    A restart always costs ``maximum`` steps of all lanes, so the default restart strategy is ``compact``. No-ops count
    as steps of the clock and of a time limit inside, but not of one outside, where ``make`` puts it. Owns
    ``observation`` and ``env_info`` of FIRST rows.

    Args:
        env: any environment without ``AutoReset``.
        maximum: the largest number of no-ops, at least 1.
        noop: the no-op action: zeros by default, else a number or nested tuple for one action array.

    >>> import jaxenv
    >>> env = NoopReset(jaxenv.testing.Counting(np.array([99])), 1)
    >>> env.reset(jax.random.key(0))[1].observation.tolist()
    [1]
    """

    maximum: int = tree.static(low=1)
    noop: Any = tree.static(default=None)

    owns: ClassVar[frozenset[str]] = frozenset({"observation", "env_info"})
    in_evaluation = "kept"
    keeps_specs: ClassVar[frozenset[str]] = frozenset({"observation"})
    place = "several_steps"

    def check(self) -> None:
        spec = self.action_spec()
        try:
            specs.validate(spec, self._noop())
        except (TypeError, ValueError) as fault:
            raise ValueError(f"NoopReset: noop must be an action of {spec}, got {self.noop}: {fault}") from None
        check_no_autoreset(self, "would restart without no-ops")

    def _noop(self) -> Any:
        """Returns the no-op of one lane, in NumPy."""
        spec = self.action_spec()
        if self.noop is None:
            return jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), spec)
        given = np.asarray(self.noop)
        same_kind = specs.is_spec(spec) and np.can_cast(given.dtype, spec.dtype, "same_kind")
        return given.astype(spec.dtype) if same_kind else given

    def facts_of(self, inner: Facts) -> Facts:
        return dataclasses.replace(inner, reset_strategy="compact")

    def begin(self, starts: Starts, previous: Tree = None) -> tuple[Tree, TimeStep]:
        state, timestep = super().begin(starts, previous)
        num = random.integers(self._stream(self.env.clock(state), "num"), (), 1, self.maximum + 1)
        action = jax.tree.map(lambda x: jnp.broadcast_to(x, starts.env_id.shape + x.shape), self._noop())
        # An observation that depends on the state alone is computed once, from the last state.
        shown = () if self.observes_state else timestep.observation
        start = tree.vary_like(starts.env_id, (state, shown))

        def play(count: jax.Array, current: tuple[Tree, Any]) -> tuple[Tree, Any]:
            stepped, row = self.env.proceed(current[0], action)
            after = (stepped, () if self.observes_state else row.observation)
            return tree.where(count < num, tree.where(row.is_last(), start, after), current)

        # The number of iterations is fixed: some lane of a large batch draws the maximum anyway, and sharded lanes need
        # no communication to agree on when to stop.
        state, shown = jax.lax.fori_loop(np.int32(0), np.int32(self.maximum), play, start)
        observation = self.env.observation_of(state) if self.observes_state else shown
        env_info = {**timestep.env_info, **self.env.env_info_of(state)}
        return state, dataclasses.replace(timestep, observation=observation, env_info=env_info)
