"""Environments for the trainers of Brax, in its ``Env`` and ``State`` protocol.

``brax.training.agents.ppo.train(to_brax("CartPole-v1"), episode_length=500, ...)`` learns on one of this library.
"""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._util.library import import_library
from jaxenv.core import Environment, Starts, TimeStep
from jaxenv.core._merging import for_one_lane
from jaxenv.core._restart import start_episodes
from jaxenv.interop._environment import LaneAdapter, check_reward, one_lane, params_of, with_params_like
from jaxenv.random import KeyWords
from jaxenv.tree import Tree
from jaxenv.wrappers import RescaleAction

# The entries that Brax's AutoResetWrapper restores at the end of an episode.
_FIRST = ("first_pipeline_state", "first_obs")


def to_brax(env: Environment | str, **options: Any) -> "BraxEnv":
    """Exports an environment with Brax's methods, for ``train`` of its agents.

    Under Brax's own wrappers ``vmap`` over single lanes runs this library's batched code. The time limit is the
    trainer's ``episode_length``, which replaces the environment's limit, unless the limit is a part of the task, as in
    MetaMaze. Every episode has a new start, although Brax's ``AutoResetWrapper`` alone would replay one.

    An action is a vector of numbers in [-1, 1], as Brax's policies draw it. A continuous action is mapped onto its
    bounds. For a discrete action of n values the vector has n numbers, and the index of the largest one is the action.
    An observation is a float32 vector: its arrays are flattened and joined, and a single integer becomes a one-hot
    vector. A dict stays a dict of such vectors, from which Brax's networks select by ``policy_obs_key`` and
    ``value_obs_key``; an entry whose name starts with ``pixels/`` keeps its shape.

    ``env`` is an id, or an environment without ``AutoReset`` that has one agent and one reward.
    """
    env = one_lane("to_brax", env, options, "episodes restart outside the environment")
    _brax().Env.register(BraxEnv)
    return BraxEnv(env)


class BraxEnv(LaneAdapter):
    """The environment that `to_brax` returns, with the methods of ``brax.envs.Env``."""

    _owner = "to_brax"
    _settable = frozenset({"sys"})
    _reserved = ("reward", "sum_reward", "length")  # Brax's wrappers add these to the metrics

    def __init__(self, env: Environment):
        check_reward("to_brax", env)
        super().__init__(env)
        leaves = jax.tree.leaves(env.action_spec())
        for spec in leaves:
            is_choice = spec.shape == () and spec.dtype.kind in "iu"
            if not (spec.is_bounded and (spec.is_continuous or is_choice)):
                rule = "an action must be made of single integers and of floats, all with finite bounds"
                raise ValueError(f"to_brax: {rule}, got {env.action_spec()}")
        # Policies may be unbounded: distribution_type="normal".
        if any(s.is_continuous for s in leaves):
            self._env = RescaleAction(env, clip=True)
        self._is_fixed = True

    @property
    def observation_size(self) -> int | dict[str, tuple[int, ...]]:
        """The length of the observation; for a dict the shape of each entry."""
        spec = self._env.observation_spec()
        obs = jax.eval_shape(lambda: _vectors(spec, specs.zeros(spec, 1)))
        if isinstance(obs, dict):
            return {name: x.shape[1:] for name, x in obs.items()}
        return obs.shape[1]

    @property
    def action_size(self) -> int:
        """The length of the action."""
        return specs.flattened(self._env.action_spec(), dtype=np.float32).numel

    @property
    def backend(self) -> str:
        return "jaxenv"

    @property
    def sys(self) -> Any:
        """The params of the task, which ``randomization_fn`` of Brax's trainers sets; ``None`` for several tasks."""
        return params_of(self._env)

    @sys.setter
    def sys(self, params: Any) -> None:
        self._env = with_params_like(str(self), self._env, "sys", params)

    def reset(self, rng: jax.Array) -> Any:
        """Starts an episode: a ``brax.envs.State`` of one lane."""
        state, (obs, reward, metrics) = _begin(self._env, *self._lane_and_words(rng))
        return _brax().State(state, obs, reward, jnp.zeros_like(reward), metrics, {})

    def step(self, state: Any, action: jax.Array) -> Any:
        """Advances by one step. A lane that is done stays done without reward."""
        wanted = (self.action_size,)
        if not (jnp.issubdtype(jnp.result_type(action), jnp.floating) and jnp.shape(action) == wanted):
            got = f"{jnp.result_type(action)}{list(jnp.shape(action))}"
            raise ValueError(f"{self}: action must be floats {list(wanted)} in [-1, 1], got {got}")
        restarts = all(name in state.info for name in _FIRST)
        lane = self._env.clock(state.pipeline_state).env_id
        first = tuple(state.info[name] for name in _FIRST) if restarts else ()
        stepped, (obs, reward, metrics), ended, first = _step(self._env, lane, state.pipeline_state, action, first)
        # EpisodeWrapper repeats actions beyond the end of an episode.
        reward = jnp.where(state.done > 0, np.float32(0), reward)
        done = jnp.maximum(state.done, ended)
        info = {**state.info, **dict(zip(_FIRST, first, strict=False))}
        return _brax().State(stepped, obs, reward, done, {**state.metrics, **metrics}, info)


def _brax() -> ModuleType:
    return import_library("brax.envs.base", "pip install 'brax>=0.14'")


# --- one lane, as a batch under vmap ----------------------------------------------------------------------------------


@for_one_lane
def _begin(env: Environment, env_id: jax.Array, words: KeyWords) -> Any:
    state, timestep = env.begin(Starts(words, env_id, jnp.zeros_like(env_id)))
    return state, _fields(env, timestep)


@for_one_lane
def _step(env: Environment, env_id: jax.Array, state: Tree, action: Tree, first: Any) -> Any:
    stepped, timestep = env.step(state, specs.unflatten(env.action_spec(), action))
    # Brax's EpisodeWrapper applies the time limit and calls every other end a termination.
    limited = timestep.truncated & timestep.env_info.get("time_limit_reached", np.False_)
    ended = (timestep.is_last() & ~limited).astype(jnp.float32)
    return stepped, _fields(env, timestep), ended, _next_start(env, first, stepped, timestep) if first else ()


def _next_start(env: Environment, first: Tree, state: Tree, timestep: TimeStep) -> Tree:
    """Returns state and observation of the next episode, given the values that AutoResetWrapper would restore.

    The inner environment does not know its last step, so the next episode starts on the first step of the current one.
    """
    used = env.clock(first[0]).episode == env.clock(state).episode
    fresh, row = start_episodes(env, used, state, timestep, env.reset_strategy, block=64)
    return tree.where(used, (fresh, _vectors(env.observation_spec(), row.observation)), first)


# --- Brax's view -----------------------------------------------------------------------------------------------------


def _fields(env: Environment, timestep: TimeStep) -> tuple[Tree, jax.Array, dict[str, jax.Array]]:
    """Returns observation, reward and metrics of rows; metrics are the ``env_info`` entries of one number."""
    info = timestep.env_info
    numbers = {name: x.astype(jnp.float32) for name, x in info.items() if hasattr(x, "ndim") and x.ndim == 1}
    return _vectors(env.observation_spec(), timestep.observation), timestep.reward, numbers


def _vectors(spec: Tree, observation: Tree) -> Any:
    if not isinstance(spec, Mapping):
        return specs.flatten(spec, observation, dtype=np.float32)
    return {
        name: observation[name].astype(jnp.float32)
        if name.startswith("pixels/") and specs.is_spec(inner)
        else specs.flatten(inner, observation[name], dtype=np.float32)
        for name, inner in spec.items()
    }
