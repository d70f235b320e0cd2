"""One game of PettingZoo with the methods of a Gymnasium environment whose actions are those of all agents.

A worker receives this module by value, so that it need not import jaxenv and JAX: import neither of them here. Nor are
Gymnasium and PettingZoo imported before a game is made.
"""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

MASKED = {"observation", "action_mask"}  # the entries of an observation with legal actions


def make_lane(
    kind: Literal["parallel", "aec"], spec: Any, owner: str, max_episode_steps: int | None, arguments: Mapping[str, Any]
) -> Any:
    """Makes a game from its spec in PettingZoo's registry; the worker's registry lacks those of the program."""
    import gymnasium
    import pettingzoo

    lane = lane_of(pettingzoo.make(kind, spec, **arguments), owner)
    return gymnasium.wrappers.TimeLimit(lane, max_episode_steps) if max_episode_steps else lane


def lane_of(game: Any, owner: str) -> Any:
    """Wraps a ``ParallelEnv``, or an ``AECEnv`` as a game of turns.

    Raises:
        ValueError: for a game whose agents or spaces are not arrays of one shape.
    """
    import gymnasium
    import pettingzoo

    kind = _AtOnce if isinstance(game, pettingzoo.ParallelEnv) else _InTurns
    return type("Lane", (kind, gymnasium.Env), {})(game, owner, gymnasium.spaces)


class Lane:
    """A game whose observation shows the rewards of the agents and what `Engine.specs` calls info.

    `lane_of` mixes it with ``gymnasium.Env``.

    Attributes:
        game: PettingZoo's object.
        agent_names: its ``possible_agents``.
        turns: whether the agents move in turns.
        jaxenv_agents: both, by which an engine knows a game.
    """

    turns = False
    observation_space: Any
    np_random: Any
    _rewards: Mapping[str, float]  # of the last step

    def __init__(self, game: Any, owner: str, spaces: Any):
        self.game, self.owner, self.spaces = game, owner, spaces
        self.render_mode = getattr(game, "render_mode", None)
        self.agent_names = tuple(getattr(game, "possible_agents", ()))
        if len(self.agent_names) < 2:
            raise ValueError(f"{owner}: possible_agents must name two or more agents, got {self.agent_names}")
        self.jaxenv_agents = self.agent_names, self.turns
        self._own_actions = [game.action_space(agent) for agent in self.agent_names]
        observed = [game.observation_space(agent) for agent in self.agent_names]
        discrete = all(isinstance(s, spaces.Discrete) and s.start == 0 for s in self._own_actions)
        self._num_actions = max(int(s.n) for s in self._own_actions) if discrete else 0
        self._has_mask = discrete and all(isinstance(s, spaces.Dict) and set(s.spaces) == MASKED for s in observed)
        self._observed = [s["observation"] for s in observed] if self._has_mask else observed
        self.action_space = self._joint_action()
        self.observation_space = spaces.Dict(
            {
                "observation": self._joint_observation(),
                "reward": spaces.Box(-np.inf, np.inf, (len(self.agent_names),), np.float32),
                "info": spaces.Dict(self._info_spaces()),
            }
        )

    def _joint_action(self) -> Any:
        raise NotImplementedError

    def _joint_observation(self) -> Any:
        raise NotImplementedError

    def _info_spaces(self) -> dict[str, Any]:
        raise NotImplementedError

    def _restart(self, seed: int) -> None:
        raise NotImplementedError

    def _shown(self) -> tuple[Any, dict[str, Any]]:
        """Returns the observation and the info of the newest row."""
        raise NotImplementedError

    def _row(self) -> dict[str, Any]:
        observation, info = self._shown()
        reward = np.array([self._rewards.get(name, 0) for name in self.agent_names], np.float32)
        return {"observation": observation, "reward": reward, "info": info}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Starts an episode. Each has a seed of its own, drawn from a generator: not every game keeps one itself."""
        super().reset(seed=seed)  # type: ignore[misc]
        self._rewards = {}
        self._restart(int(self.np_random.integers(2**31)))
        return self._row(), {}

    def render(self) -> Any:
        return self.game.render()

    def close(self) -> None:
        self.game.close()

    def _of_agent(self, number: int, action: Any) -> Any:
        """Returns an action of the joint space within the space of an agent."""
        own = self._own_actions[number]
        if isinstance(own, self.spaces.Discrete):
            return own.dtype.type(min(action, own.start + own.n - 1))
        if isinstance(own, self.spaces.Box):
            return action[tuple(map(slice, own.shape))].astype(own.dtype)
        return action

    def _equal(self, kind: str, of_agents: list[Any]) -> Any:
        if any(space != of_agents[0] for space in of_agents):
            listed = ", ".join(f"{name}: {space}" for name, space in zip(self.agent_names, of_agents, strict=True))
            raise ValueError(f"{self.owner}: agents must have equal {kind} spaces, or Box or Discrete, got {listed}")
        return of_agents[0]


class _AtOnce(Lane):
    """A ``ParallelEnv``: arrays lead with the agents, padded with zeros where the spaces of agents differ."""

    def _joint_action(self) -> Any:
        own, spaces = self._own_actions, self.spaces
        if all(isinstance(s, spaces.Discrete) for s in own):
            if len({s.start for s in own}) > 1:
                raise ValueError(f"{self.owner}: action spaces must start at one number, got {own}")
            return spaces.MultiDiscrete([max(int(s.n) for s in own)] * len(own), start=[int(s.start) for s in own])
        return self._stacked_space("action", own)

    def _joint_observation(self) -> Any:
        self._empty = [_zero(self.spaces, space) for space in self._observed]  # of agents that have left
        return self._stacked_space("observation", self._observed, with_zero=True)

    def _stacked_space(self, kind: str, own: list[Any], with_zero: bool = False) -> Any:
        first, count, spaces = own[0], len(own), self.spaces
        if all(isinstance(s, spaces.Box) for s in own) and len({len(s.shape) for s in own}) == 1:
            shape = tuple(np.max([s.shape for s in own], axis=0))
            dtype = np.result_type(*(s.dtype for s in own))
            low, high = (
                np.stack([_padded(getattr(s, bound).astype(dtype), shape) for s in own]) for bound in ("low", "high")
            )
            if with_zero:
                low, high = np.minimum(low, 0), np.maximum(high, 0)
            return spaces.Box(low.astype(dtype), high.astype(dtype), dtype=dtype)
        self._equal(kind, own)
        if isinstance(first, spaces.Dict):
            return spaces.Dict({k: self._stacked_space(kind, [s[k] for s in own], with_zero) for k in first.spaces})
        if isinstance(first, spaces.Tuple):
            parts = zip(*(s.spaces for s in own), strict=True)
            return spaces.Tuple([self._stacked_space(kind, list(part), with_zero) for part in parts])
        if isinstance(first, spaces.Discrete):
            start = min(0, int(first.start)) if with_zero else int(first.start)
            return spaces.MultiDiscrete([int(first.start + first.n) - start] * count, start=[start] * count)
        if isinstance(first, spaces.MultiBinary):
            return spaces.MultiBinary((count, *first.shape))
        if isinstance(first, spaces.MultiDiscrete):
            starts = np.minimum(0, first.start) if with_zero else first.start
            each = np.stack([first.start + first.nvec - starts] * count)
            return spaces.MultiDiscrete(each, start=np.stack([starts] * count))
        raise ValueError(f"{self.owner}: the {kind} space must consist of arrays of one shape, got {first}")

    def _info_spaces(self) -> dict[str, Any]:
        count, spaces = len(self.agent_names), self.spaces
        info: dict[str, Any] = {name: spaces.MultiBinary(count) for name in ("agent_alive", "agent_terminated")}
        if self._has_mask or (self._num_actions and any(s.n < self._num_actions for s in self._own_actions)):
            info["action_mask"] = spaces.MultiBinary((count, self._num_actions))
        return info

    def _restart(self, seed: int) -> None:
        self._seen, _ = self.game.reset(seed=seed)
        self._terminated: Mapping[str, bool] = {}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        from gymnasium.vector.utils import iterate

        playing = set(self.game.agents)
        of_agents = {
            name: self._of_agent(number, own)
            for number, (name, own) in enumerate(zip(self.agent_names, iterate(self.action_space, action), strict=True))
            if name in playing
        }
        self._seen, self._rewards, self._terminated, truncated, _ = self.game.step(of_agents)
        cut = {name for name, flag in truncated.items() if flag and not self._terminated[name]}
        over = not self.game.agents
        if cut and not over:
            rule = "a time limit must end the game of all agents: mark agents that leave earlier as terminated"
            raise ValueError(f"{self.owner}: {rule}, got a truncation of {', '.join(sorted(cut))} alone")
        return self._row(), 0.0, over and not cut, bool(cut), {}

    def _shown(self) -> tuple[Any, dict[str, Any]]:
        names, playing = self.agent_names, set(self.game.agents)
        shown = [self._seen.get(name) for name in names]
        info: dict[str, Any] = {
            "agent_alive": np.array([name in playing for name in names], np.int8),
            "agent_terminated": np.array([bool(self._terminated.get(name)) for name in names], np.int8),
        }
        if (space := self.observation_space["info"].spaces.get("action_mask")) is not None:
            mask = np.zeros(space.shape, np.int8)
            for number, (own, x) in enumerate(zip(self._own_actions, shown, strict=True)):
                mask[number, : own.n] = x["action_mask"] if self._has_mask and x is not None else 1
            info["action_mask"] = mask
        values = [
            empty if x is None else x["observation"] if self._has_mask else x
            for empty, x in zip(self._empty, shown, strict=True)
        ]
        return _stacked(self.spaces, self.observation_space["observation"], values), info


class _InTurns(Lane):
    """An ``AECEnv``: a row shows what the agent to move observes, and the action is that agent's."""

    turns = True

    def _joint_action(self) -> Any:
        return self._equal("action", self._own_actions)

    def _joint_observation(self) -> Any:
        return self._equal("observation", self._observed)

    def _info_spaces(self) -> dict[str, Any]:
        player: dict[str, Any] = {"player": self.spaces.Discrete(len(self.agent_names), dtype=np.int32)}
        if self._has_mask:
            player["action_mask"] = self.spaces.MultiBinary(self._num_actions)
        return player

    def _restart(self, seed: int) -> None:
        self.game.reset(seed=seed)

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        game, mover = self.game, self.game.agent_selection
        game.step(self._of_agent(self.agent_names.index(mover), action))
        self._rewards = dict(game.rewards)
        cut = any(game.truncations.values()) and not all(game.terminations.values())
        playing = [name for name in game.agents if not (game.terminations[name] or game.truncations[name])]
        if not playing:
            return self._row(), 0.0, not cut, cut, {}
        while game.terminations[game.agent_selection] or game.truncations[game.agent_selection]:
            game.step(None)  # of agents that have left
        return self._row(), 0.0, False, False, {}

    def _shown(self) -> tuple[Any, dict[str, Any]]:
        mover = self.game.agent_selection
        shown = self.game.observe(mover)
        info: dict[str, Any] = {"player": self.agent_names.index(mover)}
        if self._has_mask:
            info["action_mask"], shown = np.asarray(shown["action_mask"], np.int8), shown["observation"]
        return shown, info


# --- spaces and values of all agents ---------------------------------------------------------------------------------


def _zero(spaces: Any, space: Any) -> Any:
    if isinstance(space, spaces.Dict):
        return {name: _zero(spaces, inner) for name, inner in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_zero(spaces, inner) for inner in space.spaces)
    return np.zeros(space.shape or (), space.dtype)


def _stacked(spaces: Any, space: Any, values: list[Any]) -> Any:
    """Stacks the observations of the agents in the form of the joint space."""
    if isinstance(space, spaces.Dict):
        return {name: _stacked(spaces, inner, [x[name] for x in values]) for name, inner in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(
            _stacked(spaces, inner, list(part))
            for inner, part in zip(space.spaces, zip(*values, strict=True), strict=True)
        )
    return np.stack([_padded(np.asarray(x, space.dtype), space.shape[1:]) for x in values])


def _padded(x: np.ndarray, shape: Any) -> np.ndarray:
    if x.shape == tuple(shape):
        return x
    return np.pad(x, [(0, int(size) - own) for size, own in zip(shape, x.shape, strict=True)])
