"""Small games of several agents, for tests."""

import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import Task, Transition


class Duel(Task):
    """Two agents choose numbers at once, three times; the first is paid where they are equal, the second pays."""

    agent_names = ("row", "column")

    def initial(self, stream):
        return {"round": jnp.zeros(stream.shape, jnp.int32)}

    def transition(self, state, action, stream):
        now = state["round"] + 1
        equal = (action[:, 0] == action[:, 1]).astype(jnp.float32)
        return Transition({"round": now}, jnp.stack([equal, -equal], axis=1), now >= 3)

    def observe(self, state):
        return jnp.stack([state["round"], -state["round"]], axis=1)

    def state_info(self, state):
        legal = np.array([[True, False, True], [False, True, True]])
        return {"action_mask": jnp.broadcast_to(legal[None], (*state["round"].shape, 2, 3))}

    def observation_spec(self):
        return specs.Bounded((2,), np.int32, [0, -3], [3, 0])

    def action_spec(self):
        return specs.Bounded((2,), np.int32, 0, 2)


class Leavers(Task):
    """Three agents collect what they name; naming 0 leaves the game, which ends after 9 steps or without agents."""

    agent_names = ("a", "b", "c")

    def initial(self, stream):
        agents = (*stream.shape, 3)
        return {
            "step": jnp.zeros(stream.shape, jnp.int32),
            "alive": jnp.ones(agents, bool),
            "sum": jnp.zeros(agents, jnp.int32),
        }

    def transition(self, state, action, stream):
        step, alive = state["step"] + 1, state["alive"] & (action != 0)
        gain = jnp.where(state["alive"], action, 0)
        after = {"step": step, "alive": alive, "sum": state["sum"] + gain}
        info = {"agent_terminated": state["alive"] & ~alive}
        return Transition(after, gain.astype(jnp.float32), ~alive.any(axis=1) | (step >= 9), info)

    def observe(self, state):
        return jnp.stack([jnp.broadcast_to(state["step"][:, None], state["sum"].shape), state["sum"]], axis=2)

    def state_info(self, state):
        return {"agent_alive": state["alive"]}

    def observation_spec(self):
        return specs.Bounded((3, 2), np.int32, 0, 27)

    def action_spec(self):
        return specs.Bounded((3,), np.int32, 0, 3)


class Nim(Task):
    """Two agents take one to three sticks in turns; who takes the last one wins, who takes too many loses."""

    sticks: int = tree.static(default=9)
    agent_names = ("first", "second")
    turns = True

    def initial(self, stream):
        zero = jnp.zeros(stream.shape, jnp.int32)
        return {"left": zero + self.sticks, "player": zero}

    def transition(self, state, action, stream):
        left = state["left"] - action - 1
        winner = jnp.where(left < 0, 1 - state["player"], state["player"])
        sign = jnp.where(winner[:, None] == np.arange(2, dtype=np.int32)[None], 1.0, -1.0)
        reward = jnp.where((left <= 0)[:, None], sign, 0.0)
        return Transition({"left": jnp.maximum(left, 0), "player": 1 - state["player"]}, reward, left <= 0)

    def observe(self, state):
        return state["left"]

    def state_info(self, state):
        fits = state["left"][:, None] > np.arange(3, dtype=np.int32)[None]
        return {"player": state["player"], "action_mask": fits | (state["left"] == 0)[:, None]}

    def observation_spec(self):
        return specs.Bounded((), np.int32, 0, self.sticks)

    def action_spec(self):
        return specs.discrete(3)

    def reward_spec(self):
        return specs.Bounded((2,), np.float32, -1, 1, "reward")


def best_move(timestep, stream):
    """Wins Nim whenever it can: leaves a multiple of four."""
    return jnp.maximum(timestep.observation % 4 - 1, 0)
