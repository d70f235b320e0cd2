"""Games whose agents act at once for trainers that were written for JaxMARL: one lane, which the trainer vmaps.

Replace ``import jaxmarl`` by ``from jaxenv.interop import jaxmarl``: ``env = jaxmarl.make("SimpleSpread-mpe")``.
"""

import types
from typing import Any

import jax
import jax.numpy as jnp

from jaxenv import specs
from jaxenv._util.library import import_library
from jaxenv._util.source import install_command
from jaxenv.core import Environment, TimeStep, marks_of_agents
from jaxenv.core._merging import for_one_lane
from jaxenv.interop import _environment
from jaxenv.interop._environment import LaneAdapter, has_action_mask, lane_action, one_lane, specs_of_agents
from jaxenv.interop._spaces import space_of
from jaxenv.tree import Tree

_OWNER = "to_jaxmarl"


def to_jaxmarl(env: Environment | str, **options: Any) -> "JaxmarlEnv":
    """Exports one lane with the methods of JaxMARL's ``MultiAgentEnv``; ``jax.vmap`` over keys and states is a batch.

    The vmapped ``reset`` and ``step`` run this library's batched code. Observations, actions, rewards and dones are
    dicts by agent. ``step`` starts the next game in the step that ends one, by the task or by a time limit, and all
    randomness comes from the keys that are passed in; legacy ``uint32`` keys are accepted too.

    ``env`` is an id, or an environment of several agents that act at once, without ``AutoReset``.
    """
    env = one_lane(_OWNER, env, options, "step restarts games itself", "jax.vmap over keys makes the lanes")
    if env.turns or env.num_agents == 1:
        kind = "is a game of turns: see to_pettingzoo" if env.turns else "has one: see to_gymnax"
        raise ValueError(f"{_OWNER}: env must have several agents that act at once, {env} {kind}")
    return JaxmarlEnv(env)


def make(id: str, **options: Any) -> "JaxmarlEnv":
    """Makes the environment of an id, like ``jaxmarl.make``; the arguments are as for `to_jaxmarl`."""
    return to_jaxmarl(id, **options)


class JaxmarlEnv(LaneAdapter):
    """The environment that `to_jaxmarl` returns, with the methods of ``jaxmarl.environments.MultiAgentEnv``.

    ``agents`` are the names of the A agents; ``observation_spaces`` and ``action_spaces`` have the spaces of each.
    """

    _owner = _OWNER
    # Entries of infos that JaxMARL's ``LogWrapper`` fills.
    _reserved = ("returned_episode", "returned_episode_lengths", "returned_episode_returns")

    def __init__(self, env: Environment):
        super().__init__(env)
        self.agents, self.num_agents = list(env.agent_names), env.num_agents
        self._action_specs = specs_of_agents(_OWNER, "action", env, env.action_spec())
        observations = specs_of_agents(_OWNER, "observation", env, env.observation_spec())
        spaces = _spaces()
        self.observation_spaces = {a: space_of(s, spaces, f"{_OWNER}: observation") for a, s in observations.items()}
        self.action_spaces = {a: space_of(s, spaces, f"{_OWNER}: action") for a, s in self._action_specs.items()}
        self._is_fixed = True

    def observation_space(self, agent: str) -> Any:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        return self.action_spaces[agent]

    def reset(self, key: jax.Array) -> tuple[dict[str, Tree], Tree]:
        """Starts a game: the observations and the state."""
        state, timestep = _environment.begin(self._env, *self._lane_and_words(key))
        return self._by_agent(timestep.observation), state

    def step(
        self, key: jax.Array, state: Tree, actions: dict[str, Tree], reset_state: Tree = None
    ) -> tuple[dict[str, Tree], Tree, dict[str, jax.Array], dict[str, jax.Array], dict[str, Any]]:
        """Advances by one step, and starts the next game if this one ends: in ``reset_state``, or in a drawn start.

        Returns observations, state, rewards, dones and infos. An agent is done from the step on which it leaves, and
        its actions are ignored; ``dones["__all__"]`` says that the game ended.
        """
        if reset_state is None:
            given = *self._lane_and_words(key), state, self._joint(actions)
            return self._row(*_environment.step_and_restart(self._env, *given))
        observation, state, rewards, dones, infos = self.step_env(key, state, actions)
        ended = dones["__all__"]
        starting = (self.get_obs(reset_state), reset_state)
        observation, state = jax.tree.map(lambda a, b: jnp.where(ended, a, b), starting, (observation, state))
        return observation, state, rewards, dones, infos

    def step_env(
        self, key: jax.Array, state: Tree, actions: dict[str, Tree]
    ) -> tuple[dict[str, Tree], Tree, dict[str, jax.Array], dict[str, jax.Array], dict[str, Any]]:
        """Advances by one step without a restart."""
        return self._row(*_environment.step(self._env, *self._lane_and_words(key), state, self._joint(actions)))

    def get_obs(self, state: Tree) -> dict[str, Tree]:
        """Computes the observations of a state, if they depend on the state alone."""
        if not self._env.observes_state:
            raise ValueError(f"{self}: observations must be functions of the state for get_obs, keep those of the row")
        return self._by_agent(_observed(self._env, self._env.clock(state).env_id, state))

    def get_avail_actions(self, state: Tree) -> dict[str, jax.Array]:
        """Returns ``env_info["action_mask"]`` of a state by agent, bool ``[n]``; without it all actions are legal."""
        for agent, spec in self._action_specs.items():
            if not (specs.is_spec(spec) and spec.is_discrete and spec.shape == ()):
                raise ValueError(f"{self}: the action of {agent} must be one integer to have flags, got {spec}")
        if not has_action_mask(self._env):
            return {agent: jnp.ones(spec.num_values, bool) for agent, spec in self._action_specs.items()}
        return self._by_agent(_infos(self._env, self._env.clock(state).env_id, state)["action_mask"])

    def _by_agent(self, values: Tree) -> dict[str, Any]:
        """Splits arrays ``[A, ...]``."""
        return {agent: jax.tree.map(lambda x, n=n: x[n], values) for n, agent in enumerate(self.agents)}

    def _joint(self, actions: dict[str, Tree]) -> Tree:
        """Checks the actions of the agents and stacks them, leaves ``[A, ...]``."""
        if not isinstance(actions, dict) or actions.keys() != set(self.agents):
            got = ", ".join(map(str, actions)) if isinstance(actions, dict) else type(actions).__name__
            rule = f"must be a dict with one of each agent, {', '.join(self.agents)}"
            raise ValueError(f"{self}: actions {rule}, got {got}")
        by_agent = [lane_action(f"{self}: {a}", spec, actions[a]) for a, spec in self._action_specs.items()]
        return jax.tree.map(lambda *of_agents: jnp.stack(of_agents), *by_agent)

    def _row(self, state: Tree, timestep: TimeStep) -> tuple[Any, ...]:
        """Returns what ``step`` returns; infos are entries of one number per agent, ``[A]``, as trainers log them."""
        ended, info = timestep.is_last(), timestep.env_info
        away = info.get("agent_terminated", jnp.zeros(self.num_agents, bool))
        away = away | ~info.get("agent_alive", jnp.ones(self.num_agents, bool))
        marks = marks_of_agents(self._env, info)
        infos: dict[str, Any] = {
            name: jnp.broadcast_to(x, (self.num_agents,))
            for name, x in info.items()
            if isinstance(x, jax.Array) and x.shape == ((self.num_agents,) if marks[name] else ())
        }
        if "shaped_reward" in infos:  # JaxMARL's Overcooked has it by agent
            infos["shaped_reward"] = self._by_agent(infos["shaped_reward"])
        dones = {**self._by_agent(away | ended), "__all__": ended}
        return self._by_agent(timestep.observation), state, self._by_agent(timestep.reward), dones, infos


def _spaces() -> types.SimpleNamespace:
    """Returns JaxMARL's spaces. Its ``MultiDiscrete`` is left out: it has no start."""
    found = import_library("jaxmarl.environments.spaces", install_command("jaxmarl"))
    return types.SimpleNamespace(Dict=found.Dict, Tuple=found.Tuple, Discrete=found.Discrete, Box=found.Box)


# --- one lane, as a batch under vmap ----------------------------------------------------------------------------------


@for_one_lane
def _observed(env: Environment, env_id: jax.Array, state: Tree) -> Tree:
    return env.observation_of(state)


@for_one_lane
def _infos(env: Environment, env_id: jax.Array, state: Tree) -> dict[str, Tree]:
    return env.env_info_of(state)
