"""Take several steps with one action and show what either of the last two frames shows."""

import dataclasses

import jax
import jax.numpy as jnp

from jaxenv.wrappers.action_repeat import ActionRepeat


class MaxAndSkip(ActionRepeat):
    """An `ActionRepeat` whose observation is the elementwise maximum of the last two that were seen.

    For screens on which things flicker. Where an episode ends on the first of the repeats, or ``num`` is 1, there is
    one frame only and it is shown as it is: DI-engine's rule, where Gymnasium would mix in an older frame. The FIRST
    row shows its own observation.

    Owns what `ActionRepeat` owns.

    Args:
        env: an environment without ``AutoReset`` and without batch state.
        num: how often an action is repeated, at least 1.

    Raises:
        ValueError: if ``num`` is below 1, or if ``env`` restarts its lanes or carries state of the whole batch.
    """

    @property
    def shows_state(self):
        return False

    def step(self, state, action):
        state, timestep, before = self._repeat(state, action, two_frames=True)
        observation = jax.tree.map(jnp.maximum, before, timestep.observation)
        return state, dataclasses.replace(timestep, observation=observation)
