"""Games of PettingZoo, in a module that worker processes can import."""

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv


class Ferry(ParallelEnv):
    """Two kinds of passengers, with spaces of their own, count to a number that the seed draws, then get off.

    ``"a"`` sees one number and has two actions, ``"b"`` sees two and has three, of which the second is illegal on even
    steps; ``"c"`` is like ``"a"``. An agent gets 1 + its number for its action 1. The trip ends when all have got off,
    or at ``max_cycles``.
    """

    metadata = {"name": "ferry"}
    possible_agents = ["a", "b", "c"]

    def __init__(self, max_cycles=7, alone=False, render_mode=None):
        self.max_cycles, self.alone, self.render_mode = max_cycles, alone, render_mode

    def observation_space(self, agent):
        size, actions = (2, 3) if agent == "b" else (1, 2)
        low = 3 if agent == "c" else 0
        return spaces.Dict(
            {
                "observation": spaces.Box(low, 99, (size,), np.float64 if agent == "b" else np.float32),
                "action_mask": spaces.Box(0, 1, (actions,), np.int8),
            }
        )

    def action_space(self, agent):
        return spaces.Discrete(3 if agent == "b" else 2)

    def reset(self, seed=None, options=None):
        self.seed = seed
        self.stops = dict(
            zip(self.possible_agents, np.random.default_rng(seed).integers(1, 9, 3).tolist(), strict=True)
        )
        self.agents, self.steps = list(self.possible_agents), 0
        return self._seen(), {agent: {} for agent in self.agents}

    def step(self, actions):
        assert actions.keys() == set(self.agents)
        assert all(self.action_space(agent).contains(action) for agent, action in actions.items()), actions
        self.steps += 1
        seen = self._seen()
        rewards = {x: float((1 + self.possible_agents.index(x)) * (actions[x] == 1)) for x in self.agents}
        terminated = {x: self.steps >= self.stops[x] for x in self.agents}
        limit = self.steps >= self.max_cycles
        truncated = {x: limit or (self.alone and x == "a" and self.steps == 1) for x in self.agents}
        self.agents = [x for x in self.agents if not (terminated[x] or truncated[x])]
        return seen, rewards, terminated, truncated, {x: {} for x in seen}

    def render(self):
        return np.full((4, 6, 3), self.steps, np.uint8)

    def _seen(self):
        def of(agent):
            number = np.float32(3 + self.steps + self.seed % 7)
            if agent != "b":
                return {"observation": np.array([number], np.float32), "action_mask": np.ones(2, np.int8)}
            mask = np.array([1, self.steps % 2, 1], np.int8)
            return {"observation": np.array([number, self.stops["b"]], np.float64), "action_mask": mask}

        return {agent: of(agent) for agent in self.agents}


class Parcels(ParallelEnv):
    """Two agents with equal spaces of every kind; the first one leaves after a step, the game ends after two."""

    metadata = {"name": "parcels"}
    possible_agents = ["first", "second"]

    def observation_space(self, agent):
        pair = spaces.Tuple((spaces.MultiDiscrete([3, 4], start=[2, 1]), spaces.Box(1, 9, (2,), np.float32)))
        return spaces.Dict({"flags": spaces.MultiBinary(3), "number": spaces.Discrete(4, start=2), "pair": pair})

    def action_space(self, agent):
        return spaces.MultiBinary(2)

    def reset(self, seed=None, options=None):
        self.agents, self.steps = list(self.possible_agents), 0
        return self._rows(self._seen), self._rows(lambda number: {})

    def step(self, actions):
        assert all(self.action_space(agent).contains(action) for agent, action in actions.items()), actions
        self.steps += 1
        paid = {agent: float(actions[agent] @ [1, 2]) for agent in self.agents}
        rows = self._rows(self._seen), paid, self._rows(lambda number: self.steps > number), self._rows(lambda _: False)
        self.agents = self.agents[1:]
        return *rows, {}

    def _seen(self, number):
        flags = np.array([1, 0, number], np.int8)
        pair = np.array([3 + number, 2]), np.array([self.steps + 1, 5], np.float32)
        return {"flags": flags, "number": 3 + number, "pair": pair}

    def _rows(self, of):
        return {agent: of(self.possible_agents.index(agent)) for agent in self.agents}


class Countdown(AECEnv):
    """Three players name a number in turns; who names 0 leaves with -1, the last one gets 2. ``"y"`` moves twice."""

    metadata = {"name": "countdown"}
    possible_agents = ["x", "y", "z"]
    render_mode = None

    def __init__(self, moves=20):
        super().__init__()
        self.moves = moves

    def observation_space(self, agent):
        return spaces.Dict({"step": spaces.Discrete(99), "seat": spaces.Discrete(3)})

    def action_space(self, agent):
        return spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        self.agents, self.steps = list(self.possible_agents), 0
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.order = ["x", "y", "y", "z"]
        self.agent_selection = self.possible_agents[(seed or 0) % 3]

    def observe(self, agent):
        return {"step": self.steps, "seat": self.possible_agents.index(agent)}

    def step(self, action):
        if self.terminations[self.agent_selection] or self.truncations[self.agent_selection]:
            self._was_dead_step(action)
            return
        mover = self.agent_selection
        self.steps += 1
        self._clear_rewards()
        if action == 0:
            self.rewards[mover], self.terminations[mover] = -1.0, True
        left = [agent for agent in self.agents if not self.terminations[agent]]
        if len(left) == 1:
            self.rewards[left[0]], self.terminations[left[0]] = 2.0, True
        elif self.steps >= self.moves:
            self.truncations = {agent: not self.terminations[agent] for agent in self.agents}
        following = [agent for agent in self.order if agent in left and agent != mover] or [mover]
        self.agent_selection = mover if mover == "y" and action == 2 else following[self.steps % len(following)]
        self._accumulate_rewards()
        self._deads_step_first()


class Solo(Ferry):
    """Has one agent."""

    possible_agents = ["a"]


class Unequal(Ferry):
    """Has agents with spaces that have no joint space."""

    def action_space(self, agent):
        return spaces.Discrete(2) if agent == "a" else spaces.Box(-1, 1, (2,))
