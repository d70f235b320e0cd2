"""One lane of a game as an environment of PettingZoo: its agents act at once, or in turns."""

import functools
from typing import Any, ClassVar, Literal

import jax
import numpy as np

from jaxenv import specs
from jaxenv._util.library import import_library
from jaxenv._util.source import install_command
from jaxenv.core.environment import Environment
from jaxenv.core.timestep import TimeStep
from jaxenv.interop._agents import info_of_agent, specs_of_agents
from jaxenv.interop._environment import environment_of, refuse_num_envs, refuse_outside_jax
from jaxenv.interop._fixed import Fixed
from jaxenv.interop._gymnasium_rows import RENDERING, check_render_mode, frames, leaf_spaces, sample_of
from jaxenv.interop._host_actions import HostActions
from jaxenv.interop._infos import has_action_mask
from jaxenv.interop._spaces import space_of
from jaxenv.interop._stepper import Stepper
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
        env_or_id: an environment of one lane made with ``autoreset=None``, or an id.
        render_mode: ``"rgb_array"`` for pictures of 256 by 256 pixels by ``render``.
        **options: options of `jaxenv.load`, if ``env_or_id`` is an id.

    Raises:
        ImportError: without PettingZoo.
        ValueError: for an environment that has one agent, restarts its lanes itself or has more than one, or whose
            arrays do not lead with the agents.
    """
    check_render_mode(_OWNER, render_mode)
    refuse_outside_jax(_OWNER, env_or_id)
    if not isinstance(env_or_id, Environment):
        if options.setdefault("autoreset", None) is not None:
            raise ValueError(f"{_OWNER}: the caller restarts games, leave out autoreset, got {options['autoreset']!r}")
        refuse_num_envs(_OWNER, options, "an environment of PettingZoo is one lane")
    env = environment_of(_OWNER, env_or_id, None, options)
    if env.num_agents == 1:
        raise ValueError(f"{_OWNER}: env must have several agents, {env} has one: to_gymnasium takes it")
    if env.autoreset is not None:
        raise ValueError(f"{_OWNER}: the caller restarts games, make {env} with autoreset=None")
    if env.num_envs != 1:
        raise ValueError(f"{_OWNER}: env must have one lane, got {env.num_envs}")
    return _classes()[env.turns](env, render_mode)


@functools.cache
def _classes() -> tuple[type, type]:
    """Returns the classes of games in which agents act at once and in turns."""
    library = import_library("pettingzoo", install_command("pettingzoo"))
    names = {"__module__": __name__}
    return (
        type("JaxenvParallelEnv", (_Parallel, library.ParallelEnv), names),
        type("JaxenvAECEnv", (_Turns, library.AECEnv), names),
    )


def _copied(turns: bool, state: dict[str, Any]) -> Any:
    """Copies a game from its attributes."""
    copied: Any = object.__new__(_classes()[turns])
    copied.__dict__.update(state)
    return copied


def _fields(timestep: TimeStep) -> tuple[Any, ...]:
    return timestep.observation, timestep.reward, timestep.terminated, timestep.truncated, timestep.env_info


class _Game(Fixed):
    """What both kinds of games share.

    Attributes:
        env: the environment of jaxenv, one lane.
    """

    _owner = _OWNER
    # What methods of PettingZoo set, and ``max_cycles``, which its tests set.
    _settable = frozenset(
        {"agent_selection", "agents", "infos", "max_cycles", "metadata", "rewards", "terminations", "truncations"}
    )
    metadata: ClassVar[dict[str, Any]]

    def __init__(self, env: Environment, render_mode: str | None):
        spaces = import_library("gymnasium.spaces", install_command("pettingzoo"))
        self.env, self.render_mode = env, render_mode
        self.metadata = {  # type: ignore[misc]
            **RENDERING,
            "name": env.name or type(env.unwrapped).__name__,
            "is_parallelizable": not env.turns,
        }
        self.possible_agents, self.agents = list(env.agent_names), list[str]()
        actions = specs_of_agents(_OWNER, "action", env, env.action_spec())
        observations = specs_of_agents(_OWNER, "observation", env, env.observation_spec())
        self.action_spaces = {a: space_of(s, spaces, f"{_OWNER}: action") for a, s in actions.items()}
        plain = {a: space_of(s, spaces, f"{_OWNER}: observation") for a, s in observations.items()}
        self._leaves = {a: leaf_spaces(space) for a, space in plain.items()}
        boxes = list(plain.values())
        if not env.turns and all(isinstance(x, spaces.Box) and x.dtype == boxes[0].dtype for x in boxes):
            low, high = (np.concatenate([getattr(x, side).ravel() for x in boxes]) for side in ("low", "high"))
            self.state_space = spaces.Box(low, high, dtype=boxes[0].dtype)
        self._has_mask = has_action_mask(env) and all(
            isinstance(s, spaces.Discrete) for s in self.action_spaces.values()
        )
        self.observation_spaces = plain
        if self._has_mask:
            self.observation_spaces = {
                a: spaces.Dict(
                    {"observation": space, "action_mask": spaces.Box(0, 1, (int(self.action_spaces[a].n),), np.int8)}
                )
                for a, space in plain.items()
            }
        self._actions = {a: HostActions(s, None, f"{_OWNER}: {a}") for a, s in actions.items()}
        # Of agents that have left, whose actions the task ignores.
        self._no_actions = {a: jax.tree.map(np.asarray, specs.zeros(s, (1,))) for a, s in actions.items()}
        self._stepper = Stepper(env, _fields, numpy=True, owner=_OWNER)
        self._closed = False
        self._is_fixed = True

    def observation_space(self, agent: str) -> Any:
        """Returns the space of an agent's observations."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """Returns the space of an agent's actions."""
        return self.action_spaces[agent]

    def render(self) -> np.ndarray:
        """Renders the state, uint8 ``[256, 256, 3]``.

        Raises:
            ValueError: without ``render_mode="rgb_array"``, without pictures, before ``reset`` or after ``close``.
        """
        self._check_open()
        return frames(_OWNER, self._stepper, self.render_mode, ValueError)[0]

    def close(self) -> None:
        """Frees the state."""
        if not self._closed:
            self._closed = True
            self._stepper.close()
            self.env.close()

    def __reduce__(self) -> Any:
        return _copied, (self.env.turns, self.__dict__)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{self.env!r}>"

    def _started(self, seed: int | None) -> tuple[Any, ...]:
        """Starts a game: that of the seed, else the next one; the first one without a seed draws it."""
        self._check_open()
        self.agents = list(self.possible_agents)
        if seed is None and self._stepper.started:
            return self._stepper.restart(np.ones(1, bool))
        return self._stepper.start([int(np.random.default_rng().integers(2**32)) if seed is None else seed])

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"{_OWNER}: the environment is closed, make a new one")

    def _check_going(self) -> None:
        self._check_open()
        if not self._stepper.started:
            raise ValueError(f"{_OWNER}: call reset before step")
        if not self.agents:
            raise ValueError(f"{_OWNER}: all agents have left the game, call reset")

    def _sample(self, agent: str, observation: Tree, mask: Any) -> Any:
        """Returns a sample of the agent's space from its observation ``[1, ...]`` and its mask ``[1, n]``."""
        plain = sample_of(self._leaves[agent], observation)
        return {"observation": plain, "action_mask": mask[0].astype(np.int8)} if self._has_mask else plain

    def _info_of(self, agent: str, info: dict[str, Tree]) -> dict[str, Any]:
        """Returns the entries of an agent, without the mask that its observation shows."""
        info = {name: x for name, x in info.items() if not (self._has_mask and name == "action_mask")}
        of_lane = jax.tree.map(lambda x: x[0], info)
        return info_of_agent(self.env, of_lane, self.possible_agents.index(agent))


class _Parallel(_Game):
    """A game whose agents act at once, with the methods of ``pettingzoo.ParallelEnv``."""

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], ...]:
        """Starts a game: observations and infos by agent.

        Args:
            seed: the key ``jax.random.key(seed)``. Without it the next game starts, so that the first seed determines
                all of them; the first reset without a seed draws one.
            options: ignored, as PettingZoo's own environments do.
        """
        observation, *_, info = self._started(seed)
        return self._observed(observation, info), {agent: self._info_of(agent, info) for agent in self.agents}

    def step(self, actions: dict[str, Tree]) -> tuple[dict[str, Any], ...]:
        """Advances by one step: observations, rewards, terminations, truncations and infos of the agents in the game.

        Raises:
            ValueError: without an action for each agent in the game, for an action of another agent or one outside of
                the space, before ``reset``, or after the game or ``close``.
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
        observation, reward, terminated, truncated, info = self._stepper.step(joint)
        left = info.get("agent_terminated", np.zeros((1, len(by_agent)), bool)) | terminated[:, None]
        numbers = {agent: self.possible_agents.index(agent) for agent in self.agents}
        terminations = {agent: bool(left[0, number]) for agent, number in numbers.items()}
        truncations = {agent: bool(truncated[0]) and not terminations[agent] for agent in numbers}
        rewards = {agent: float(reward[0, number]) for agent, number in numbers.items()}
        observations = self._observed(observation, info)
        infos = {agent: self._info_of(agent, info) for agent in self.agents}
        self.agents = [agent for agent in self.agents if not (terminations[agent] or truncations[agent])]
        return observations, rewards, terminations, truncations, infos

    def state(self) -> np.ndarray:
        """Returns the observations of all agents, flat, one after another, as PettingZoo's particle tasks do.

        It lies in ``state_space``. Only games have both whose observation spaces are a ``Box`` of one dtype.

        Raises:
            NotImplementedError: for such a game.
            ValueError: before ``reset`` or after ``close``.
        """
        self._check_open()
        if not hasattr(self, "state_space"):
            raise NotImplementedError(
                f"{_OWNER}: state needs observation spaces that are a Box of one dtype: {self.env}"
            )
        if not self._stepper.started:
            raise ValueError(f"{_OWNER}: call reset before state")
        return self._joint.reshape(-1).copy()

    def _observed(self, observation: Tree, info: dict[str, Tree]) -> dict[str, Any]:
        self._joint = observation
        mask = info["action_mask"] if self._has_mask else None
        return {
            agent: self._sample(
                agent,
                jax.tree.map(lambda x, number=number: x[:, number], observation),
                None if mask is None else mask[:, number],
            )
            for number, agent in enumerate(self.possible_agents)
            if agent in self.agents
        }


class _Turns(_Game):
    """A game whose agents move in turns, with the methods of ``pettingzoo.AECEnv``."""

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Starts a game; the arguments are those of games whose agents act at once."""
        row = self._started(seed)
        self._skip_agent_selection = None
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        nothing = jax.tree.map(np.asarray, specs.zeros(self.env.observation_spec(), (1,)))
        self._seen = dict.fromkeys(self.agents, nothing)
        self._show(row)

    def step(self, action: Tree) -> None:
        """Moves for ``agent_selection``; the action of an agent whose game is over is ``None``.

        Raises:
            ValueError: for an action outside of the space, before ``reset``, or after the game or ``close``.
        """
        self._check_going()
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)  # type: ignore[attr-defined]
            return
        row = self._stepper.step(self._actions[agent](action))
        self._cumulative_rewards[agent] = 0.0
        self._show(row)
        self._accumulate_rewards()  # type: ignore[attr-defined]

    def observe(self, agent: str) -> Any:
        """Returns what an agent sees before its move, or saw last if it is not its turn."""
        mask = self._mask if agent == self._player else np.zeros_like(self._mask)
        return self._sample(agent, self._seen[agent], mask)

    def _show(self, row: tuple[Any, ...]) -> None:
        observation, reward, terminated, truncated, info = row
        self._player = self.agent_selection = self.possible_agents[int(info["player"][0])]
        self._seen = {**self._seen, self._player: observation}
        self._mask = info["action_mask"] if self._has_mask else np.zeros((1, 0), bool)
        self.rewards = {agent: float(x) for agent, x in zip(self.possible_agents, reward[0], strict=True)}
        self.terminations = dict.fromkeys(self.agents, bool(terminated[0]))
        self.truncations = dict.fromkeys(self.agents, bool(truncated[0]))
        self.infos = {agent: self._info_of(agent, info) for agent in self.agents}
