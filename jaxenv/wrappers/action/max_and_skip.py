"""Repeat actions and show the maximum of the last two frames."""

import dataclasses

import jax
import jax.numpy as jnp

from jaxenv.core import Facts, TimeStep
from jaxenv.tree import Tree
from jaxenv.wrappers.action.action_repeat import ActionRepeat


class MaxAndSkip(ActionRepeat):
    """An `ActionRepeat` whose observation is the elementwise maximum of the last two frames, for screens that flicker.

    A step with a single frame shows that frame: ``num`` is 1, or the episode ends on the first repeat. The FIRST row
    shows its own observation. Owns the same fields as `ActionRepeat`.

    Args:
        env: an environment without ``AutoReset`` and without batch state.
        num: number of repeats, at least 1.

    >>> import jax, numpy as np, jaxenv
    >>> env = MaxAndSkip(jaxenv.testing.Counting(np.array([9])), 4)
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> env.step(state, np.array([0]))[1].observation.tolist()
    [4]
    """

    in_evaluation = "kept"

    def facts_of(self, inner: Facts) -> Facts:
        return dataclasses.replace(super().facts_of(inner), observes_state=False)

    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        state, timestep, previous = self._repeat(state, action, two_frames=True)
        observation = jax.tree.map(jnp.maximum, previous, timestep.observation)
        return state, dataclasses.replace(timestep, observation=observation)
