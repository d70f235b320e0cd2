"""One lane of a game as an environment of PettingZoo: its agents act at once, or in turns."""

import dataclasses
from typing import Any, ClassVar, Literal

import jax
import numpy as np

from jaxenv import specs
from jaxenv._util.checks import check_choice
from jaxenv._util.library import import_library
from jaxenv._util.source import install_command
from jaxenv.core import Environment, TimeStep
from jaxenv.interop._adapter import RENDERING, Adapter, joined
from jaxenv.interop._environment import has_action_mask, info_of_agent, single_lane, specs_of_agents
from jaxenv.interop._spaces import HostActions, leaf_spaces, sample_of, space_of
from jaxenv.tree import Tree

_OWNER = "to_pettingzoo"


def to_pettingzoo(
    env_or_id: Environment | str, *, render_mode: Literal["rgb_array"] | None = None, **options: Any
) -> Any:
    """Exports one lane of a game as a ``pettingzoo.ParallelEnv``, or as a ``pettingzoo.AECEnv`` if agents take turns.

    With ``env_info["action_mask"]`` an observation is PettingZoo's ``{"observation", "action_mask"}``; the other
    entries of ``env_info`` are infos. An agent that leaves early (``env_info["agent_terminated"]``) terminates then.

    In a game of turns the row shows what the agent to move observes. ``observe`` of the other agent returns what that
    agent saw last, zeros before its first move, with a mask without legal actions.

    Args:
        env_or_id: an environment of one lane and several agents, made with ``autoreset=None``, or an id.
        render_mode: ``"rgb_array"`` for pictures of 256 by 256 pixels by ``render``.
        **options: of `jaxenv.make`.
    """
    check_choice(_OWNER, "render_mode", render_mode, ("rgb_array", None))
    lanes = "an environment of PettingZoo is one lane"
    env = single_lane(_OWNER, env_or_id, options, "the caller restarts games", lanes)
    if env.num_agents == 1:
        raise ValueError(f"{_OWNER}: env must have several agents, {env} has one: to_gymnasium takes it")
    if env.num_envs != 1:
        raise ValueError(f"{_OWNER}: env must have one lane, got {env.num_envs}")
    return joined(JaxenvAECEnv if env.turns else JaxenvParallelEnv)(env, render_mode)


@dataclasses.dataclass(frozen=True)
class _Rows:
    """The function from a TimeStep to what a game shows: with masks, legal actions are a part of the observation."""

    has_mask: bool

    def __call__(self, timestep: TimeStep) -> tuple[Any, ...]:
        observation, info = timestep.observation, dict(timestep.env_info)
        if self.has_mask:
            observation = {"observation": observation, "action_mask": info.pop("action_mask").astype(np.int8)}
        return observation, timestep.reward, timestep.terminated, timestep.truncated, info


class _Game(Adapter):
    _owner = _OWNER
    # What methods of PettingZoo set, and ``max_cycles``, which its tests set.
    _settable = frozenset(
        {"agent_selection", "agents", "infos", "max_cycles", "metadata", "rewards", "terminations", "truncations"}
    )
    metadata: ClassVar[dict[str, Any]]

    def __init__(self, env: Environment, render_mode: str | None):
        spaces = import_library("gymnasium.spaces", install_command("pettingzoo"))
        actions = specs_of_agents(_OWNER, "action", env, env.action_spec())
        observations = specs_of_agents(_OWNER, "observation", env, env.observation_spec())
        self.action_spaces = {a: space_of(s, spaces, f"{_OWNER}: action") for a, s in actions.items()}
        has_mask = has_action_mask(env) and all(isinstance(s, spaces.Discrete) for s in self.action_spaces.values())
        super().__init__(env, _Rows(has_mask))
        self.render_mode = render_mode
        name = env.name or type(env.unwrapped).__name__
        self.metadata = {**RENDERING, "name": name, "is_parallelizable": not env.turns}  # type: ignore[misc]
        self.possible_agents, self.agents = list(env.agent_names), list[str]()
        seen = {a: space_of(s, spaces, f"{_OWNER}: observation") for a, s in observations.items()}
        self._spaces = {a: leaf_spaces(s, f"{_OWNER}: observation") for a, s in observations.items()}
        for agent, space in self.action_spaces.items() if has_mask else ():
            mask = spaces.Box(0, 1, (int(space.n),), np.int8)
            self._spaces[agent] = {"observation": self._spaces[agent], "action_mask": mask}
            seen[agent] = spaces.Dict({"observation": seen[agent], "action_mask": mask})
        self.observation_spaces, self._has_mask = seen, has_mask
        self._actions = {a: HostActions(s, None, f"{_OWNER}: {a}") for a, s in actions.items()}
        # Of agents that have left, whose actions the task ignores.
        self._no_actions = {a: jax.tree.map(np.asarray, specs.zeros(s, (1,))) for a, s in actions.items()}
        self._is_fixed = True

    def observation_space(self, agent: str) -> Any:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        return self.action_spaces[agent]

    def render(self) -> np.ndarray:
        """Renders the state, uint8 ``[256, 256, 3]``; raises a ``ValueError`` without pictures."""
        return self._pictures()[0]

    def _started(self, seed: int | None) -> tuple[Any, ...]:
        """Starts a game: that of the seed, else the next one; the first one without a seed draws it."""
        self._open()
        self.agents = list(self.possible_agents)
        if seed is None and self._state is not None:
            return self._restart()
        return self._start([int(np.random.default_rng().integers(2**32)) if seed is None else seed])

    def _check_going(self) -> None:
        self._open("step")
        if not self.agents:
            raise ValueError(f"{_OWNER}: all agents have left the game, call reset")

    def _info_of(self, agent: str, info: dict[str, Tree]) -> dict[str, Any]:
        return info_of_agent(self.env, jax.tree.map(lambda x: x[0], info), self.possible_agents.index(agent))


class JaxenvParallelEnv(_Game):
    """A game whose agents act at once, with the methods of ``pettingzoo.ParallelEnv``."""

    _base = "pettingzoo", "ParallelEnv", install_command("pettingzoo")

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], ...]:
        """Starts a game: observations and infos by agent.

        The seed is the argument of ``jax.random.key``. Without it the next game starts, so that the first seed
        determines all of them; the first reset without a seed draws one. Options are ignored, as in PettingZoo's own
        environments.
        """
        observation, *_, info = self._started(seed)
        return self._observed(observation), {agent: self._info_of(agent, info) for agent in self.agents}

    def step(self, actions: dict[str, Tree]) -> tuple[dict[str, Any], ...]:
        """Advances by one step: observations, rewards, terminations, truncations and infos of the agents in the game.

        Each of them must act, and no other agent.
        """
        self._check_going()
        if actions.keys() != set(self.agents):
            rule = f"actions must have one of each agent in the game, {', '.join(self.agents)}"
            raise ValueError(f"{_OWNER}: {rule}, got {', '.join(map(str, actions)) or 'none'}")
        by_agent = [
            self._actions[agent](actions[agent]) if agent in actions else self._no_actions[agent]
            for agent in self.possible_agents
        ]
        joint = jax.tree.map(lambda *of_agents: np.stack(of_agents, axis=1), *by_agent)
        observation, reward, terminated, truncated, info = self._step(joint)
        left = info.get("agent_terminated", np.zeros((1, len(by_agent)), bool)) | terminated[:, None]
        numbers = {agent: self.possible_agents.index(agent) for agent in self.agents}
        terminations = {agent: bool(left[0, number]) for agent, number in numbers.items()}
        truncations = {agent: bool(truncated[0]) and not terminations[agent] for agent in numbers}
        rewards = {agent: float(reward[0, number]) for agent, number in numbers.items()}
        observations = self._observed(observation)
        infos = {agent: self._info_of(agent, info) for agent in self.agents}
        self.agents = [agent for agent in self.agents if not (terminations[agent] or truncations[agent])]
        return observations, rewards, terminations, truncations, infos

    def _observed(self, observation: Any) -> dict[str, Any]:
        return {
            agent: sample_of(self._spaces[agent], jax.tree.map(lambda x, number=number: x[:, number], observation))
            for number, agent in enumerate(self.possible_agents)
            if agent in self.agents
        }


class JaxenvAECEnv(_Game):
    """A game whose agents move in turns, with the methods of ``pettingzoo.AECEnv``."""

    _base = "pettingzoo", "AECEnv", install_command("pettingzoo")

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Starts a game; the arguments are as for games whose agents act at once."""
        row = self._started(seed)
        self._skip_agent_selection = None
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self._seen = dict.fromkeys(self.agents, jax.tree.map(np.zeros_like, row[0]))
        self._show(row)

    def step(self, action: Tree) -> None:
        """Moves for ``agent_selection``; the action of an agent whose game is over is ``None``."""
        self._check_going()
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)  # type: ignore[attr-defined]
            return
        row = self._step(self._actions[agent](action))
        self._cumulative_rewards[agent] = 0.0
        self._show(row)
        self._accumulate_rewards()  # type: ignore[attr-defined]

    def observe(self, agent: str) -> Any:
        """Returns an agent's observation before its move, or its last one if it is not its turn."""
        seen: Any = sample_of(self._spaces[agent], self._seen[agent])
        if self._has_mask and agent != self._player:
            seen["action_mask"] = np.zeros_like(seen["action_mask"])
        return seen

    def _show(self, row: tuple[Any, ...]) -> None:
        observation, reward, terminated, truncated, info = row
        self._player = self.agent_selection = self.possible_agents[int(info["player"][0])]
        self._seen = {**self._seen, self._player: observation}
        self.rewards = {agent: float(x) for agent, x in zip(self.possible_agents, reward[0], strict=True)}
        self.terminations = dict.fromkeys(self.agents, bool(terminated[0]))
        self.truncations = dict.fromkeys(self.agents, bool(truncated[0]))
        self.infos = {agent: self._info_of(agent, info) for agent in self.agents}
