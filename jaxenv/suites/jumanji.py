"""Jumanji's environments as batched environments: ``jaxenv.make("jumanji:Snake-v1", num_envs=8)``.

Jumanji itself reports most time limits as terminations, and its auto-reset wrappers hide the last observation.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs
from jaxenv._util.checks import INT32_MAX
from jaxenv.core.environment import Environment
from jaxenv.suites._options import arguments_of, check_known, library, reporting
from jaxenv.suites._task import Single, Stepped, functions_of, load_task
from jaxenv.tree import Tree

_jumanji = library("jumanji")
# Tasks whose rewards shrink to 0 at the horizon, which therefore is an end of the task.
_TERMINAL_HORIZON = ("SearchAndRescue-v0",)
# Tasks whose default generator downloads puzzles.
_DOWNLOADING = ("Sokoban-v0",)
# Entries of observations that leave their declared bounds, by id. Others have only step_count, which Jumanji bounds by
# its time limit; max_episode_steps may be larger.
_UNBOUNDED = {"TSP-v1": ("position",)}  # -1 before the first city
# Tasks whose reset costs less than a step. The others restart lanes by compact: 12 times as fast for Maze, 1.3 to 1.9
# times for Knapsack, Snake and GraphColoring (256 lanes on a CPU).
_CHEAP_RESETS = (
    *("BinPack-v2", "FlatPack-v0", "Game2048-v1", "PacMan-v1", "Sudoku-v0", "Sudoku-very-easy-v0", "Tetris-v0"),
)
# Checked tasks with loops that run until the last lane has finished.
_LOOPING = ("Maze-v0",)
# Tasks of several agents, and the entries of their observations that have an axis of agents. The others are what all
# agents see; `_VIEWS` shows some of them with the agent itself as the first one. MMST and MultiCVRP have one agent that
# moves all parts: it sees what one agent sees, or pays one cost.
_AGENTS = {
    "Cleaner-v0": ("action_mask",),
    "Connector-v3": ("action_mask",),
    "LevelBasedForaging-v0": ("agents_view", "action_mask"),
    "RobotWarehouse-v0": ("agents_view", "action_mask"),
    "SearchAndRescue-v0": ("searcher_views", "positions"),
}
# Checked tasks whose steps or starts XLA shards with a gather of all lanes.
_GATHERING = ("Cleaner-v0", "LevelBasedForaging-v0")
# Arguments that load does not take: the stack adds the time limit, and Jumanji's viewer is not used.
_LEFT_OUT = ("time_limit", "viewer")


def ids() -> list[str]:
    """Returns the ids that ``load`` accepts: all ids registered with Jumanji."""
    return sorted(_registry())


def load(name: str, /, num_envs: int | None = None, **kwargs: Any) -> Environment:
    """Builds a Jumanji environment; keywords are also arguments of its constructor, ``generator`` and ``reward_fn``.

    ``max_episode_steps`` is Jumanji's ``time_limit``.
    """
    check_known("jumanji", name, _registry())
    left_out = _LEFT_OUT[1:] if name in _TERMINAL_HORIZON else _LEFT_OUT
    arguments, _ = arguments_of(_jumanji().registration.load(_registry()[name].entry_point))
    constructor = {key: x for key, x in arguments.items() if key not in left_out}
    return load_task("jumanji", name, num_envs, constructor, kwargs)


class JumanjiSingle(Single):
    """A Jumanji environment whose own time limit is out of reach; `single` builds each configuration once."""

    suite, limit_name = "jumanji", "time_limit"

    def build(self, id: str, arguments: dict[str, Any]) -> None:
        if id in _DOWNLOADING and arguments.get("generator") is None:
            rule = "its default generator downloads puzzles, pass one that does not, such as ToyGenerator()"
            raise ValueError(f"{self.owner}: {rule}, as generator, got {arguments.get('generator')!r}")
        with reporting(self.owner, arguments):
            self.env = _jumanji().make(id, **arguments)
        if id not in _TERMINAL_HORIZON:
            self.limit = getattr(self.env, "time_limit", None)
            self.env.time_limit = INT32_MAX
        self.unbounded = _UNBOUNDED.get(id, ("step_count",))
        if id in _LOOPING:
            self.opt_outs = {"sharding_invariant": "mazes are drawn in a loop that runs until all lanes have theirs"}
        if id in _GATHERING:
            self.opt_outs = {"sharding_invariant": "XLA gathers all lanes where Jumanji indexes arrays of a lane"}
        self.reset_strategy = "select" if id in _CHEAP_RESETS else "compact"
        self.of_agents, self.views = _AGENTS.get(id, ()), _VIEWS.get(id, {})
        self.num_agents = self.env.num_agents if self.of_agents else 1
        if self.num_agents > 1:
            self.agent_names = tuple(f"agent_{number}" for number in range(self.num_agents))

    def reset(self, values: Mapping[str, Any], key: jax.Array) -> tuple[Tree, Tree]:
        state, timestep = self.env.reset(key)
        return state, self._observed(timestep.observation)

    def step(self, values: Mapping[str, Any], key: jax.Array, state: Tree, action: Tree) -> Stepped:
        state, timestep = self.env.step(state, action)
        info = self._for_all(_as_dicts(timestep.extras))
        if timestep.discount.ndim:
            info["agent_discount"] = timestep.discount
        reward = timestep.reward
        if self.num_agents > 1 and not reward.ndim:
            reward = self._for_all(reward)  # a team reward
        reward = reward[0] if reward.shape == (1,) else reward
        return state, self._observed(timestep.observation), reward, timestep.last(), info

    def _observed(self, observation: Any) -> dict[str, Tree]:
        """Returns what the agent sees, or what each of several agents sees, ``[A, ...]``."""
        observation = _as_dicts(observation)
        if self.num_agents == 1:
            return observation
        seen = {name: x if name in self.of_agents else self._for_all(x) for name, x in observation.items()}
        for name, from_each_side in self.views.items():
            seen[name] = from_each_side(observation[name], self.num_agents)
        return seen

    def _for_all(self, values: Tree) -> Tree:
        """Repeats values for each of several agents."""
        if self.num_agents == 1:
            return values
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (self.num_agents, *jnp.shape(x))), values)

    def state_info(self, state: Tree, observation: Tree) -> dict[str, Tree]:
        return {"action_mask": observation["action_mask"]} if "action_mask" in observation else {}

    def declared_action(self) -> Tree:
        return _spec_of(self.env.action_spec, "action")

    def declared_observation(self) -> Tree:
        declared = _spec_of(self.env.observation_spec, "observation")
        if self.num_agents == 1:
            return declared
        count = self.num_agents
        return {name: spec if name in self.of_agents else spec.batched(count) for name, spec in declared.items()}


single, action_and_limit, docstring = functions_of(JumanjiSingle)


def _registry() -> Mapping[str, Any]:
    return _jumanji().registration._REGISTRY


def _as_dicts(value: Any) -> Tree:
    """Converts named tuples and dataclasses to dicts, at every depth."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    elif dataclasses.is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {name: _as_dicts(x) for name, x in value.items()} if isinstance(value, Mapping) else value


def _spec_of(spec: Any, name: str) -> Tree:
    if spec._specs:
        return {key: _spec_of(inner, name) for key, inner in spec._specs.items()}
    dtype = jnp.dtype(spec.dtype)
    if hasattr(spec, "num_values"):
        return specs.Bounded(spec.shape, dtype, 0, np.asarray(spec.num_values) - 1, name)
    low, high = (np.asarray(getattr(spec, *bound)) for bound in (("minimum", -np.inf), ("maximum", np.inf)))
    if dtype.kind == "b" or np.all(np.isinf(low) & np.isinf(high)):
        return specs.Array(spec.shape, dtype, name)
    return specs.Bounded(spec.shape, dtype, low, high, name)


def _own_row_first(rows: jax.Array, num_agents: int) -> jax.Array:
    """Returns the rows of all agents ``[A, ...]`` as each agent counts them from itself, ``[A, A, ...]``."""
    numbers = np.arange(num_agents, dtype=np.int32)
    return rows[(numbers[:, None] + numbers) % num_agents]


def _own_labels_first(grid: jax.Array, num_agents: int) -> jax.Array:
    """Returns the grid as each agent sees it: 0 is free, and path, position and target of an agent are three labels.

    Each agent's own ones are 1, 2 and 3, and those of the agent after it follow.
    """
    own = 3 * np.arange(num_agents, dtype=np.int32)[:, None, None]
    return jnp.where(grid == 0, 0, (grid - 1 - own) % (3 * num_agents) + 1)


_VIEWS: dict[str, dict[str, Callable[[jax.Array, int], jax.Array]]] = {
    "Cleaner-v0": {"agents_locations": _own_row_first},
    "Connector-v3": {"grid": _own_labels_first},
}
