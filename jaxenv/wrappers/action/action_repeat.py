"""Take several steps of the environment with one action."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import BatchWrapper, Facts, Starts, TimeStep, Wrapper, check_no_autoreset, combined_info, layers
from jaxenv.tree import Tree


class ActionRepeat(Wrapper):
    """Repeats every action ``num`` times and stops early at the end of an episode.

    Rewards are summed, discounts multiplied, and all other fields come from the last step taken, except for flags of
    the contract in ``env_info``, which one of the steps sets, and entries that the task sums (``summed_entries``).
    ``env_info["num_env_frames"]`` (int32 ``[B]``, 0 at FIRST) counts the steps of the environment; nested repeats
    multiply. A `TimeLimit` outside counts the agent's steps, one inside the steps of the environment. Owns
    ``step_type``, ``reward``, ``discount``, ``observation`` and ``env_info``.

    Args:
        env: an environment without ``AutoReset`` and without batch state.
        num: number of repeats, at least 1.

    >>> import jaxenv
    >>> env = ActionRepeat(jaxenv.testing.Counting(np.array([4])), 3)
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> state, timestep = env.step(state, jnp.array([5]))
    >>> timestep.observation.tolist(), timestep.reward.tolist(), timestep.env_info["num_env_frames"].tolist()
    ([3], [15.0], [3])
    """

    num: int = tree.static(default=1, low=1)

    owns: ClassVar[frozenset[str]] = frozenset({"step_type", "reward", "discount", "observation", "env_info"})
    in_evaluation = "kept"
    keeps_specs: ClassVar[frozenset[str]] = frozenset({"observation"})
    place = "several_steps"
    summed_entries = frozenset({"num_env_frames"})
    noop_kwargs = {"num": 1}

    def check(self) -> None:
        name = type(self).__name__
        check_no_autoreset(self, "would start the next episode between repeats")
        for layer in layers(self.env):
            if isinstance(layer, BatchWrapper):
                fault = f"{type(layer).__name__} carries state of the whole batch"
                raise ValueError(f"{name}: {fault}, put it outside {name}")

    def facts_of(self, inner: Facts) -> Facts:
        several = self.num > 1  # a game of turns does not alternate then: the action is played for both sides
        return dataclasses.replace(inner, alternates=inner.alternates and not several, repeats=inner.repeats or several)

    def reward_spec(self) -> specs.Array:
        inner = self.env.reward_spec()
        if not isinstance(inner, specs.Bounded):
            return inner
        # An early end sums 1 to num rewards. Float addition is monotonic, so sums of bounds are exact bounds.
        low, high = (np.cumsum(np.stack([bound] * self.num), axis=0) for bound in (inner.minimum, inner.maximum))
        return inner.replace(minimum=low.min(axis=0), maximum=high.max(axis=0))

    def begin(self, starts: Starts, previous: Tree = None) -> tuple[Tree, TimeStep]:
        state, timestep = super().begin(starts, previous)
        return state, _counted(timestep, jnp.zeros_like(starts.env_id))

    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        state, timestep, _ = self._repeat(state, action, two_frames=False)
        return state, timestep

    def _repeat(self, state: Tree, action: Tree, two_frames: bool) -> tuple[Tree, TimeStep, Any]:
        """Repeats the action: returns state and row, and with ``two_frames`` the observation of the last step but one.

        If only one step was taken, it is the observation of this step.
        """

        def one(state: Tree) -> tuple[Tree, TimeStep]:
            state, timestep = self.env.proceed(state, action)
            return state, _counted(timestep, timestep.env_info.get("num_env_frames", jnp.ones_like(timestep.env_id)))

        def repeated(carry: tuple[Tree, TimeStep, Any], _: Any) -> tuple[tuple[Tree, TimeStep, Any], None]:
            state, so_far, _previous = carry
            now, row = one(state)
            row = dataclasses.replace(
                row,
                reward=so_far.reward + row.reward,
                discount=so_far.discount * row.discount,
                env_info=combined_info(self, so_far.env_info, row.env_info),
            )
            new = (now, row, so_far.observation if two_frames else ())
            return tree.where(~so_far.is_last(), new, carry), None

        state, timestep = one(state)
        carry = tree.vary_like(timestep.env_id, (state, timestep, timestep.observation if two_frames else ()))
        # An unrolled loop takes longer to compile, and to run on CPU, where the compiler recomputes steps it fuses.
        return jax.lax.scan(repeated, carry, length=self.num - 1)[0]


def _counted(timestep: TimeStep, frames: jax.Array) -> TimeStep:
    """Adds the number of environment steps that a row covers."""
    return dataclasses.replace(timestep, env_info={**timestep.env_info, "num_env_frames": frames})
