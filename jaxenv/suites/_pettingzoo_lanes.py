"""Games of PettingZoo as environments of Gymnasium whose actions are those of all agents."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxenv._util.library import import_library
from jaxenv._util.source import install_command

gymnasium = import_library("gymnasium", install_command("pettingzoo"))
pettingzoo = import_library("pettingzoo", install_command("pettingzoo"))
spaces, utils = gymnasium.spaces, gymnasium.vector.utils

_MASKED = {"observation", "action_mask"}  # the entries of an observation with legal actions


def game_of(game: Any, owner: str) -> "Game":
    """Wraps a ``ParallelEnv``, or an ``AECEnv`` as a game of turns."""
    return (AtOnce if isinstance(game, pettingzoo.ParallelEnv) else InTurns)(game, owner)


class Game(gymnasium.Env):  # type: ignore[name-defined]
    """A game whose observation shows the rewards of the agents and what `Engine.specs` calls info."""

    turns = False
    _rewards: Mapping[str, float]  # of the last step

    def __init__(self, game: Any, owner: str):
        self.game, self.owner, self.render_mode = game, owner, getattr(game, "render_mode", None)
        self.names: tuple[Any, ...] = tuple(getattr(game, "possible_agents", ()))
        if len(self.names) < 2:
            raise ValueError(f"{owner}: possible_agents must name two or more agents, got {self.names}")
        self.jaxenv_agents = self.names, self.turns  # an engine knows a game by it
        self._acted = [game.action_space(name) for name in self.names]
        observed = [game.observation_space(name) for name in self.names]
        discrete = all(isinstance(s, spaces.Discrete) and s.start == 0 for s in self._acted)
        self._num_actions = max(int(s.n) for s in self._acted) if discrete else 0
        self._has_mask = discrete and all(isinstance(s, spaces.Dict) and set(s.spaces) == _MASKED for s in observed)
        self.action_space = self._joint("action", self._acted)
        observed = [s["observation"] for s in observed] if self._has_mask else observed
        reward = spaces.Box(-np.inf, np.inf, (len(self.names),), np.float32)
        self.observation_space = spaces.Dict(
            observation=self._joint("observation", observed), reward=reward, info=spaces.Dict(self._info_spaces())
        )

    def _joint(self, kind: str, own: list[Any]) -> Any:
        """Returns the space of what all agents do or see."""
        if any(space != own[0] for space in own):
            listed = ", ".join(f"{name}: {space}" for name, space in zip(self.names, own, strict=True))
            raise ValueError(f"{self.owner}: agents must have equal {kind} spaces, or Box or Discrete, got {listed}")
        return own[0]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Starts an episode. Each has a seed of its own, drawn from a generator: not every game keeps one itself."""
        super().reset(seed=seed)
        self._rewards = {}
        self._restart(int(self.np_random.integers(2**31)))
        return self._row()[0], {}

    def _row(self, over: bool = False, cut: bool = False) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        observation, info = self._shown()
        reward = np.array([self._rewards.get(name, 0) for name in self.names], np.float32)
        return {"observation": observation, "reward": reward, "info": info}, 0.0, over and not cut, cut, {}

    def _of_agent(self, number: int, action: Any) -> Any:
        """Returns an action of the joint space within the space of an agent."""
        own = self._acted[number]
        if isinstance(own, spaces.Discrete):
            return own.dtype.type(min(action, own.start + own.n - 1))
        return action[tuple(map(slice, own.shape))].astype(own.dtype) if isinstance(own, spaces.Box) else action

    def render(self) -> Any:
        return self.game.render()

    def close(self) -> None:
        self.game.close()


class AtOnce(Game):
    """A ``ParallelEnv``: arrays have a leading axis of agents, padded with zeros where the spaces of agents differ."""

    def _joint(self, kind: str, own: list[Any]) -> Any:
        first, count = own[0], len(own)
        if all(isinstance(s, spaces.Box) and s.low.ndim == first.low.ndim for s in own):
            low, high = (_stacked([getattr(s, bound) for s in own]) for bound in ("low", "high"))
            return spaces.Box(low, high, dtype=low.dtype)
        if kind == "action" and all(isinstance(s, spaces.Discrete) and s.start == first.start for s in own):
            return spaces.MultiDiscrete([max(int(s.n) for s in own)] * count, start=[int(first.start)] * count)
        super()._joint(kind, own)
        if isinstance(first, spaces.Dict):
            return spaces.Dict({name: self._joint(kind, [inner] * count) for name, inner in first.spaces.items()})
        if isinstance(first, spaces.Tuple):
            return spaces.Tuple([self._joint(kind, [inner] * count) for inner in first.spaces])
        if isinstance(first, spaces.MultiBinary):
            return spaces.MultiBinary((count, *first.shape))
        return utils.batch_space(first, count)

    def _info_spaces(self) -> dict[str, Any]:
        count = len(self.names)
        info: dict[str, Any] = {name: spaces.MultiBinary(count) for name in ("agent_alive", "agent_terminated")}
        if self._has_mask or (self._num_actions and any(s.n < self._num_actions for s in self._acted)):
            info["action_mask"] = spaces.MultiBinary((count, self._num_actions))
        return info

    def _restart(self, seed: int) -> None:
        self._seen, _ = self.game.reset(seed=seed)
        self._terminated: Mapping[str, bool] = {}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        of_agents = zip(self.names, utils.iterate(self.action_space, action), strict=True)
        actions = {n: self._of_agent(i, own) for i, (n, own) in enumerate(of_agents) if n in self.game.agents}
        self._seen, self._rewards, self._terminated, truncated, _ = self.game.step(actions)
        cut = {name for name, flag in truncated.items() if flag and not self._terminated[name]}
        if cut and self.game.agents:
            rule = "a time limit must end the game of all agents: mark agents that leave earlier as terminated"
            raise ValueError(f"{self.owner}: {rule}, got a truncation of {', '.join(sorted(cut))} alone")
        return self._row(not self.game.agents, bool(cut))

    def _shown(self) -> tuple[Any, dict[str, Any]]:
        info = {name: np.zeros(space.shape, np.int8) for name, space in self.observation_space["info"].spaces.items()}
        observation = _zeros(self.observation_space["observation"])  # of agents that have left
        for number, (name, own) in enumerate(zip(self.names, self._acted, strict=True)):
            shown = self._seen.get(name)
            info["agent_alive"][number] = name in self.game.agents
            info["agent_terminated"][number] = bool(self._terminated.get(name))
            if "action_mask" in info:
                everything = shown is None or not self._has_mask
                info["action_mask"][number, : own.n] = 1 if everything else shown["action_mask"]
            if shown is not None:
                _write(observation, number, shown["observation"] if self._has_mask else shown)
        return observation, info


class InTurns(Game):
    """An ``AECEnv``: a row shows what the agent to move observes, and the action is that agent's."""

    turns = True

    def _info_spaces(self) -> dict[str, Any]:
        player: dict[str, Any] = {"player": spaces.Discrete(len(self.names), dtype=np.int32)}
        return player | ({"action_mask": spaces.MultiBinary(self._num_actions)} if self._has_mask else {})

    def _restart(self, seed: int) -> None:
        self.game.reset(seed=seed)

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        game, mover = self.game, self.game.agent_selection
        game.step(self._of_agent(self.names.index(mover), action))
        self._rewards = dict(game.rewards)
        left = {name for name in game.agents if game.terminations[name] or game.truncations[name]}
        if left == set(game.agents):
            return self._row(True, any(game.truncations.values()) and not all(game.terminations.values()))
        while game.agent_selection in left:
            game.step(None)
        return self._row()

    def _shown(self) -> tuple[Any, dict[str, Any]]:
        mover = self.game.agent_selection
        shown = self.game.observe(mover)
        info: dict[str, Any] = {"player": self.names.index(mover)}
        if self._has_mask:
            info["action_mask"], shown = np.asarray(shown["action_mask"], np.int8), shown["observation"]
        return shown, info


# --- values of all agents --------------------------------------------------------------------------------------------


def _stacked(arrays: list[np.ndarray]) -> np.ndarray:
    """Stacks arrays of one rank, each padded with zeros at its end."""
    stacked = np.zeros((len(arrays), *np.max([x.shape for x in arrays], axis=0)), np.result_type(*arrays))
    for number, x in enumerate(arrays):
        _write(stacked, number, x)
    return stacked


def _zeros(space: Any) -> Any:
    if isinstance(space, spaces.Dict):
        return {name: _zeros(inner) for name, inner in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(map(_zeros, space.spaces))
    return np.zeros(space.shape, space.dtype)


def _write(values: Any, number: int, of_agent: Any) -> None:
    """Writes the values of one agent into those of all, ``[A, ...]``, of which it may fill a part."""
    if isinstance(values, dict):
        for name, inner in values.items():
            _write(inner, number, of_agent[name])
    elif isinstance(values, tuple):
        for inner, part in zip(values, of_agent, strict=True):
            _write(inner, number, part)
    else:
        values[(number, *map(slice, np.shape(of_agent)))] = of_agent
