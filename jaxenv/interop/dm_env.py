"""One lane as a `dm_env.Environment`."""

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import jax
import numpy as np

from jaxenv import specs
from jaxenv._util.library import import_library
from jaxenv.core._checks.given import check_lanes
from jaxenv.core.environment import Environment
from jaxenv.core.timestep import TimeStep
from jaxenv.interop._adapter import Adapter, check_seed
from jaxenv.interop._environment import check_one_agent, environment_of, refuse_num_envs
from jaxenv.interop._spaces import HostActions
from jaxenv.tree import Tree
from jaxenv.wrappers import AutoReset


def to_dm_env(env: Environment | str, seed: int = 0, **options: Any) -> "DmEnv":
    """Exports one lane as a ``dm_env.Environment``, with NumPy arrays.

    Rows, episodes and rewards equal a batch of one lane. A ``FIRST`` row has no reward and no discount, as dm_env
    demands. A time limit ends an episode with discount 1.

    Args:
        env: an id, or an environment of one agent, not in mode ``"same_step"``. One without ``AutoReset`` gets it.
        seed: seed of the episodes: the key is ``jax.random.key(seed)``.
        **options: of `jaxenv.make`.
    """
    if not isinstance(env, Environment):
        refuse_num_envs("to_dm_env", options, "a dm_env.Environment is one lane")
    env = environment_of("to_dm_env", env, None, options)
    if env.autoreset == "same_step":
        raise ValueError(f"to_dm_env: dm_env returns FIRST rows, make {env} with autoreset='next_step'")
    check_one_agent("to_dm_env", env)
    check_seed("to_dm_env", seed)
    env = env._with_num_envs(1)
    check_lanes(env, 1)
    _dm_env().Environment.register(DmEnv)
    return DmEnv(env if env.autoreset else AutoReset(env), seed)


def _fields(timestep: TimeStep) -> tuple[Any, ...]:
    return timestep.step_type, timestep.reward, timestep.discount, timestep.observation


@functools.cache
def _dm_env() -> ModuleType:
    return import_library("dm_env", "pip install dm-env")


class DmEnv(Adapter):
    """The environment that `to_dm_env` returns, with the methods of ``dm_env.Environment``."""

    _owner = "to_dm_env"

    def __init__(self, env: Environment, seed: int):
        self._specs = {
            name: _dm_spec(f"to_dm_env: {env}: {name}", spec)
            for name, spec in (("observation", env.observation_spec()), ("action", env.action_spec()))
        }
        super().__init__(env, _fields)
        self._seed, self._ended = seed, False
        self._no_action = jax.tree.map(lambda s: np.zeros((1, *s.shape), s.dtype), env.action_spec())
        self._actions = HostActions(env.action_spec(), None, "to_dm_env")
        self._is_fixed = True

    def reset(self) -> Any:
        """Starts an episode: a ``dm_env.TimeStep``, FIRST. Repeated calls start further ones."""
        self._open()
        return self._dm_row(self._start(self._seed) if self._state is None else self._restart())

    def step(self, action: Tree) -> Any:
        """Advances by one step. Without an episode, or after its LAST row, it starts one and ignores the action."""
        self._open()
        if self._state is None:
            return self.reset()
        return self._dm_row(self._step(self._no_action if self._ended else self._actions(action)))

    def observation_spec(self) -> Any:
        return self._specs["observation"]

    def action_spec(self) -> Any:
        """Returns dm_env's specs for the arrays of an action: ``DiscreteArray`` for one integer that starts at 0."""
        return self._specs["action"]

    def reward_spec(self) -> Any:
        return _dm_spec("to_dm_env: reward", self.env.reward_spec())

    def discount_spec(self) -> Any:
        return _dm_spec("to_dm_env: discount", self.env.time_step_spec().discount)

    def _dm_row(self, batch: tuple[Any, ...]) -> Any:
        step_type, reward, discount, observation = jax.tree.map(lambda x: x[0], batch)
        step_type = _dm_env().StepType(int(step_type))
        self._ended = step_type.last()
        if step_type.first():
            reward = discount = None
        return _dm_env().TimeStep(step_type, reward, discount, observation)


def _dm_spec(owner: str, spec: Tree) -> Any:
    if isinstance(spec, Mapping):
        return {name: _dm_spec(owner, inner) for name, inner in spec.items()}
    if isinstance(spec, list):
        return [_dm_spec(owner, inner) for inner in spec]
    if isinstance(spec, tuple):
        inside = [_dm_spec(owner, inner) for inner in spec]
        return type(spec)(*inside) if hasattr(spec, "_fields") else tuple(inside)
    if not specs.is_spec(spec):
        raise ValueError(f"{owner} must be made of dicts, tuples, lists and arrays, got {type(spec).__name__}")
    dm_specs, name = _dm_env().specs, spec.name or None
    if not isinstance(spec, specs.Bounded):
        return dm_specs.Array(spec.shape, spec.dtype, name)
    if spec.shape == () and spec.dtype.kind in "iu" and spec.minimum == 0:
        return dm_specs.DiscreteArray(spec.num_values, spec.dtype, name)
    return dm_specs.BoundedArray(spec.shape, spec.dtype, spec.minimum, spec.maximum, name)
