"""What the bandits share: arms drawn for an episode, an agent that sees what it did, what it got and when.

Observation   float32[num_actions + 2]   last reward; last action one-hot; the time, see ``time_feature``
Action        int32                      the arm to pull
Terminates    never
env_info      regret: float32, how much more the best arm pays on average than the one pulled

At the start of an episode the last action reads as 0 and the last reward as 0.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.envs.misc.time_feature import check_t_max, time_bounds, time_feature
from jaxenv.random import Stream
from jaxenv.task import Task, Transition


@tree.struct
class Params:
    """Scalars, or ``[B]`` for one value per lane. A bandit's own have this field among others."""

    t_max: float = 100.0  # the step at which normalized time is 1


@tree.struct
class State:
    """Arms of this episode, and what was last done."""

    means: jax.Array  # float32[B, num_actions], of each arm's rewards
    last_action: jax.Array  # int32[B]
    last_reward: jax.Array  # float32[B]
    time: jax.Array  # int32[B]


class Bandit(Task):
    """Arms that pay at random; see the module.

    Attributes:
        normalize_time: whether the time runs from -1 to 1 instead of counting steps.
    """

    # Nothing but the limit ends an episode: mostly no lane starts, or all do.
    reset_strategy = {"cpu": "cond", "default": "select"}
    params: Any = Params()
    normalize_time: bool = tree.static(default=True)

    # --- what a bandit writes ----------------------------------------------------------------------------------------

    @property
    def num_actions(self) -> int:
        """How many arms there are."""
        raise NotImplementedError(f"{type(self).__name__}.num_actions")

    def arms(self, stream: Stream) -> jax.Array:
        """Mean rewards of the arms of an episode: float32 ``[B, num_actions]``."""
        raise NotImplementedError(f"{type(self).__name__}.arms")

    def noise(self, stream: Stream) -> jax.Array:
        """What chance adds to one pull: float32 ``[B]``."""
        raise NotImplementedError(f"{type(self).__name__}.noise")

    def pay(self, mean: jax.Array, action: jax.Array, noise: jax.Array) -> jax.Array:
        """The reward of pulling arm ``action``, whose rewards have this ``mean``: float32 ``[B]``."""
        raise NotImplementedError(f"{type(self).__name__}.pay")

    def reward_bounds(self) -> tuple[float, float]:
        """What rewards lie between."""
        raise NotImplementedError(f"{type(self).__name__}.reward_bounds")

    # --- the environment ---------------------------------------------------------------------------------------------

    def check(self):
        check_t_max(str(self), self.params.t_max)

    def initial(self, stream):
        lanes = jnp.zeros(stream.shape, jnp.int32)
        return State(self.arms(stream), lanes, jnp.zeros(stream.shape, jnp.float32), lanes)

    def transition(self, state, action, stream):
        return self.advance(state, action, self.noise(stream))

    def advance(self, state: State, action: jax.Array, noise: jax.Array) -> Transition:
        """One pull as a pure function of what chance adds."""
        arms = np.arange(self.num_actions, dtype=np.int32)[None]
        mean = jnp.sum(jnp.where(action[:, None] == arms, state.means, 0.0), axis=-1)
        reward = self.pay(mean, action, noise)
        after = State(state.means, action, reward, state.time + 1)
        regret = jnp.max(state.means, axis=-1) - mean
        return Transition(after, reward, jnp.zeros_like(reward, bool), {"regret": regret})

    def observe(self, state):
        time = time_feature(state.time, self.params.t_max, self.normalize_time)
        # Columns are stacked: joining blocks of them takes half as long again.
        last_action = [(state.last_action == arm).astype(jnp.float32) for arm in range(self.num_actions)]
        return jnp.stack([state.last_reward, *last_action, time], axis=-1)

    def observation_spec(self):
        (low, high), (first, last) = self.reward_bounds(), time_bounds(self.normalize_time)
        arms = self.num_actions
        return specs.Bounded(
            (arms + 2,), np.float32, [low, *[0.0] * arms, first], [high, *[1.0] * arms, last], "observation"
        )

    def action_spec(self):
        return specs.discrete(self.num_actions, name="action")
