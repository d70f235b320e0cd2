"""Environments of a user for gymnax: trees of spaces, truncations, and params that are not numbers."""

import flax.struct
import jax.numpy as jnp
from gymnax.environments import environment, spaces


class Pair(environment.Environment):
    """A user's environment with trees of observations and actions, and dtypes that change from reset to step."""

    def reset_env(self, key, params):
        return {"near": jnp.zeros(2), "far": 0}, environment.EnvState(time=0)

    def step_env(self, key, state, action, params):
        state = state.replace(time=state.time + 1.0)
        return {"near": action[1], "far": action[0]}, state, 1, state.time > 2, {"seen": state.time}

    def action_space(self, params=None):
        return spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (2,))])

    def observation_space(self, params):
        return spaces.Dict({"near": spaces.Box(-1, 1, (2,)), "far": spaces.Discrete(3)})


class Leaving(Pair):
    """An environment that also truncates where the agent leaves the field."""

    def is_truncated(self, state, params):
        return super().is_truncated(state, params) | (state.time == 2)


@flax.struct.dataclass
class Mass:
    grams: float = 1.0


@flax.struct.dataclass
class OddParams(environment.EnvParams):
    scale: float = 1.0
    shift: None = None
    kind: str = flax.struct.field(pytree_node=False, default="cart")
    mass: Mass = Mass()
    max_steps_in_episode: int = 10


class Odd(Pair):
    """An environment with a required argument and params that are not numbers."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    @property
    def default_params(self):
        return OddParams()

    def observation_space(self, params):
        return {"cart": super().observation_space}[params.kind](params)
