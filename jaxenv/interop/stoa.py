"""Environments for Stoix and other trainers that use the interface of Stoa (``pip install stoa-env``)."""

import dataclasses
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._util.checks import INT32_MAX
from jaxenv._util.library import import_library, outside_traces
from jaxenv._util.programs import jitted
from jaxenv.core import Environment, TimeStep
from jaxenv.core._merging import for_one_lane
from jaxenv.interop._environment import (
    LaneAdapter,
    begin,
    check_action,
    check_reward,
    one_lane,
    params_of,
    typed,
    with_params_like,
)
from jaxenv.tree import Tree
from jaxenv.tree._structure import mismatch
from jaxenv.tree._typed_keys import is_key
from jaxenv.wrappers import AutoReset


def to_stoa(env: Environment | str, **options: Any) -> "StoaEnv":
    """Exports an environment with the methods of ``stoa.Environment``.

    For one key ``reset`` makes one lane, and Stoa's wrappers do the rest: ``AddRNGKey``, ``RecordEpisodeMetrics``,
    ``AutoResetWrapper``, ``VmapWrapper``. Under ``vmap`` the functions run this library's batched code.

    For a batch of keys ``reset`` makes a batch of lanes that restart themselves, with the entries ``"next_obs"`` and
    ``"episode_metrics"`` of these wrappers in ``extras``. It replaces all four, and restarts only lanes that ended.

    ``env`` is an id, or an environment without ``AutoReset`` that has one agent and one reward.
    """
    return StoaEnv(one_lane("to_stoa", env, options, "episodes restart outside the environment"))


@tree.struct
class StoaState:
    """The state of a batch of lanes: the environment's state, and sums over the current episodes, ``[B]``."""

    inner: Tree
    episode_return: jax.Array
    episode_length: jax.Array


class StoaEnv(LaneAdapter):
    """The environment that `to_stoa` returns, with the methods of ``stoa.Environment``."""

    _owner = "to_stoa"
    _reserved = ("next_obs", "episode_metrics")  # Stoa's wrappers fill these

    def __init__(self, env: Environment):
        check_reward("to_stoa", env)
        super().__init__(env)
        with outside_traces():  # spaces compute with their bounds
            self._observation_space = _space(f"to_stoa: {env}: observation", env.observation_spec())
            self._action_space = _space(f"to_stoa: {env}: action", jax.tree.map(_countable, env.action_spec()))
        self._is_fixed = True

    @property
    def params(self) -> Any:
        """The params of the task, which ``env_params`` may replace; ``None`` for several tasks."""
        return params_of(self._env)

    def reset(self, rng_key: jax.Array, env_params: Any = None) -> tuple[Tree, Any]:
        """Starts an episode: the state and a ``stoa.TimeStep``, of a lane for one key, of a batch for ``Key[B]``."""
        env, key = self._with(env_params), typed(rng_key)
        if is_key(key) and key.ndim == 1:
            inner, timestep = AutoReset(env, "same_step").reset(key)
            return _batch(inner, timestep, jnp.zeros_like(timestep.reward), jnp.zeros_like(timestep.step_type))
        state, timestep = begin(env, *self._lane_and_words(key))
        return state, _row(timestep)

    def step(self, state: Tree, action: Tree, env_params: Any = None) -> tuple[Tree, Any]:
        """Advances by one step: state and ``stoa.TimeStep``. A batch of lanes starts the next episodes."""
        env = self._with(env_params)
        action = _with_flags(env.action_spec(), jax.tree.map(jnp.asarray, action))
        if isinstance(state, StoaState):
            inner, timestep = AutoReset(env, "same_step").step(state.inner, action)
            return _batch(inner, timestep, state.episode_return + timestep.reward, state.episode_length + 1)
        check_action(str(self), env.action_spec(), action)
        state, timestep = _step(env, env.clock(state).env_id, state, action)
        return state, _row(timestep)

    def observation_space(self, env_params: Any = None) -> Any:
        return self._observation_space

    def action_space(self, env_params: Any = None) -> Any:
        return self._action_space

    def reward_space(self, env_params: Any = None) -> Any:
        return _spaces().BoundedArraySpace((), np.float32, name="reward")

    def discount_space(self, env_params: Any = None) -> Any:
        return _spaces().BoundedArraySpace((), np.float32, 0.0, 1.0, name="discount")

    def state_space(self, env_params: Any = None) -> Any:
        """Raises an error: a state is a tree of arrays without bounds."""
        raise NotImplementedError(f"{self}: states have no space")

    def environment_space(self, env_params: Any = None) -> Any:
        return self.state_space(env_params)

    def close(self) -> None:
        self._env.close()

    def _with(self, params: Any) -> Environment:
        return self._env if params is None else with_params_like(str(self), self._env, "env_params", params)


def _spaces() -> ModuleType:
    return import_library("stoa.spaces", "pip install stoa-env")


@jitted
@for_one_lane
def _step(env: Environment, env_id: jax.Array, state: Tree, action: Tree) -> Any:
    return env.step(state, action)


# --- Stoa's view -----------------------------------------------------------------------------------------------------


def _row(timestep: TimeStep, **extras: Any) -> Any:
    """Makes a ``stoa.TimeStep``, whose step type tells a termination (2) from a truncation (3)."""
    step_type = (timestep.step_type + timestep.truncated.astype(jnp.int32)).astype(jnp.int8)
    extras = {**timestep.env_info, **extras}
    stoa = import_library("stoa", "pip install stoa-env")
    return stoa.TimeStep(step_type, timestep.reward, timestep.discount, timestep.observation, extras)


def _batch(inner: Tree, timestep: TimeStep, total: jax.Array, length: jax.Array) -> tuple[StoaState, Any]:
    """Returns state and row of a batch, with the entries of Stoa's wrappers; metrics are 0 before the last row."""
    ended, info, zero, none = timestep.is_last(), dict(timestep.env_info), np.float32(0), np.int32(0)
    metrics = {"episode_return": jnp.where(ended, total, zero), "episode_length": jnp.where(ended, length, none)}
    final, metrics["is_terminal_step"] = info.pop("final_observation"), ended
    state = StoaState(inner, jnp.where(ended, zero, total), jnp.where(ended, none, length))
    return state, _row(dataclasses.replace(timestep, env_info=info), next_obs=final, episode_metrics=metrics)


def _countable(spec: specs.Array) -> specs.Array:
    """Replaces flags in the spec of an action by integers 0 and 1: Stoa cannot sample from a space of flags."""
    return specs.Bounded(spec.shape, np.int32, 0, 1, spec.name) if spec.dtype == np.bool_ else spec


def _with_flags(spec: Tree, action: Tree) -> Tree:
    """Restores flags in an action where the spec has them. Another structure passes: ``step`` refuses it."""
    if mismatch(spec, action, "action") is not None:
        return action
    return jax.tree.map(lambda s, a: a != 0 if s.dtype == np.bool_ and a.dtype.kind in "iu" else a, spec, action)


def _space(owner: str, spec: Tree) -> Any:
    spaces = _spaces()
    if isinstance(spec, Mapping):
        return spaces.DictSpace({name: _space(owner, inner) for name, inner in spec.items()})
    if isinstance(spec, tuple | list):
        return spaces.TupleSpace([_space(owner, inner) for inner in spec])
    if not specs.is_spec(spec):
        raise ValueError(f"{owner}: a space must be made of dicts, tuples and arrays, got {type(spec).__name__}")
    if not isinstance(spec, specs.Bounded):
        return spaces.ArraySpace(spec.shape, spec.dtype, spec.name)
    if spec.dtype.kind in "iu" and len(spec.shape) <= 1 and not np.any(spec.minimum):
        num_values = np.asarray(spec.maximum, np.int64) + 1
        if np.all(num_values <= INT32_MAX):  # a discrete space counts in int32
            if spec.shape == ():
                return spaces.DiscreteSpace(int(num_values), spec.dtype, spec.name)
            return spaces.MultiDiscreteSpace(num_values.astype(np.int32), spec.dtype, spec.name)
    return spaces.BoundedArraySpace(spec.shape, spec.dtype, spec.minimum, spec.maximum, spec.name)
