"""Show every agent of a game as a lane of its own."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import (
    BatchWrapper,
    Facts,
    Levels,
    Starts,
    StepType,
    TimeStep,
    Wrapper,
    check_agents_lead,
    conform,
    marks_of_agents,
)
from jaxenv.random import Clock, KeyWords
from jaxenv.tree import Tree


@tree.struct
class AgentLanes:
    """State of the games, and of the lanes that are their agents.

    Attributes:
        games: the state of ``env``, leaves ``[B, ...]``.
        keys: the key words of the lanes, two ``uint32[B * A]``.
        env_id: int32 ``[B * A]``.
        waiting: bool ``[B * A]``, whether the agent has left and waits for the end of its game.
    """

    games: tree.Grouped
    keys: KeyWords
    env_id: jax.Array
    waiting: jax.Array


class AgentsAsLanes(Wrapper):
    """Folds the A agents of each of B games into lanes: arrays ``[B, A, ...]`` become ``[B * A, ...]``.

    Lane ``A * i + a`` is agent a of game i. A learner of single agents then trains one policy for all agents (parameter
    sharing), and every wrapper outside works for each agent. ``num_envs`` counts lanes, so it is a multiple of A, also
    in ``make(id, num_envs, wrappers=["AgentsAsLanes"])``. The games are those that lanes 0, A, 2A, ... of ``env`` play.

    An agent that leaves before the end of its game, as ``env_info["agent_terminated"]`` reports, has a LAST row with
    discount 0 there. Its lane then waits: it repeats FIRST rows without a reward until the next game starts, so the
    masks of every learner leave the wait out.

    The wrapper goes outside ``AutoReset``. A game cannot restart, wait or move to another batch for one of its agents
    alone, so ``reset_where`` and ``step_where`` refuse it. Owns all fields of a TimeStep.

    Args:
        env: an environment whose agents act at once, with equal actions and with observations of one shape. Bounds of
            observations are the widest of all agents.
        agent_id: add the number of the agent: the observation is then ``{"observation", "agent_id"}`` with
            ``agent_id`` int32 ``[B * A]``, 0 to A - 1.
        global_state: add what a centralised critic reads: the observation is then ``{"observation", "global_state"}``
            with, for each agent, ``env_info["global_state"]`` of the task, or without that entry the observations
            of all agents of the game along the last axis: first the agent's own, then the next agents', in a circle.

    Raises:
        ValueError: in ``"same_step"`` for agents that leave early or a ``global_state`` of the task.
    """

    agent_id: bool = tree.static(default=False)
    global_state: bool = tree.static(default=False)

    owns: ClassVar[frozenset[str]] = frozenset(field.name for field in dataclasses.fields(TimeStep))
    in_evaluation = "kept"
    place = "batch"
    opt_outs = dict.fromkeys(BatchWrapper.opt_outs, "the agents of a game share its state")

    def check(self) -> None:
        if self.env.turns:
            rule = "env must be a game whose agents act at once"
            raise ValueError(f"AgentsAsLanes: {rule}, {self.env} is a game of turns: see jaxenv.wrappers.Opponent")
        if self.env.num_agents < 2:
            rule = f"env must have two or more agents, {self.env} has one"
            raise ValueError(f"AgentsAsLanes: {rule}: a task names its agents in agent_names")
        check_agents_lead("AgentsAsLanes", self.env)
        self.action_spec()  # raises for agents that differ
        if self.autoreset != "same_step":
            return
        rules = {
            "global_state": "the global_state of a task is not known for final_observation",
            "agent_terminated": "agents that leave before the end of a game wait on FIRST rows",
        }
        for entry, rule in rules.items():
            if entry in self.env.env_info_spec() and (entry != "global_state" or self.global_state):
                raise ValueError(f"AgentsAsLanes: {rule}: make {self.env} with 'next_step', got 'same_step'")

    def observation_spec(self) -> Tree:
        spec = self.env.observation_spec()
        entries: dict[str, Tree] = {}
        if self.agent_id:
            entries["agent_id"] = specs.discrete(self.env.num_agents, name="agent_id")
        if self._declares_state:
            entries["global_state"] = jax.tree.map(_of_any_agent, self.env.env_info_spec()["global_state"])
        elif self.global_state:
            entries["global_state"] = jax.tree.map(lambda x: _of_any_agent(specs.rearranged(x, _joint)), spec)
        observation = jax.tree.map(_of_any_agent, spec)
        return {"observation": observation, **entries} if entries else observation

    def action_spec(self) -> Tree:
        def of_each_agent(spec: specs.Array) -> specs.Array:
            of_one = _of_any_agent(spec)
            if isinstance(spec, specs.Bounded) and (
                np.any(spec.minimum != of_one.minimum) or np.any(spec.maximum != of_one.maximum)
            ):
                rule = "all agents must have the same actions to be lanes of one policy"
                raise ValueError(f"AgentsAsLanes: {rule}, got {spec} of {self.env}")
            return of_one

        return jax.tree.map(of_each_agent, self.env.action_spec())

    def reward_spec(self) -> specs.Array:
        return _of_any_agent(self.env.reward_spec())

    def facts_of(self, inner: Facts) -> Facts:
        agents = len(inner.agent_names)
        return dataclasses.replace(
            inner, agent_names=("agent",), lanes_per_game=agents, num_envs=inner.num_envs * agents
        )

    def _of_games(self, starts: Starts) -> Starts:
        """Returns the starts of the games; places are those of games already."""
        keys, env_id, episode = jax.tree.map(
            lambda x: x[:: self.env.num_agents], (starts.keys, starts.env_id, starts.episode)
        )
        return Starts(keys, env_id, episode, starts.place)

    def levels(self) -> Levels:
        levels = super().levels()
        return dataclasses.replace(levels, sample=lambda starts: levels.sample(self._of_games(starts)))

    def _folded(self, values: Tree) -> Tree:
        """Folds arrays of agents ``[B, A, ...]`` into ``[B * A, ...]``."""
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), values)

    def _repeated(self, values: Tree) -> Tree:
        """Repeats arrays of games ``[B, ...]`` for each agent, ``[B * A, ...]``."""
        return jax.tree.map(lambda x: jnp.repeat(x, self.env.num_agents, axis=0), values)

    @property
    def _declares_state(self) -> bool:
        return self.global_state and "global_state" in self.env.env_info_spec()

    def _observed(self, observation: Tree, env_info: dict[str, Tree], num_lanes: int) -> Tree:
        entries: dict[str, Tree] = {}
        if self.agent_id:
            number = jnp.arange(num_lanes, dtype=jnp.int32) % np.int32(self.env.num_agents)
            entries["agent_id"] = tree.vary_like(jax.tree.leaves(observation)[0], number)
        if self.global_state:
            of_task = env_info.get("global_state")
            entries["global_state"] = self._folded(jax.tree.map(_joint, observation) if of_task is None else of_task)
        observation = self._folded(observation)
        return {"observation": observation, **entries} if entries else observation

    def _info(self, env_info: dict[str, Tree]) -> dict[str, Tree]:
        """Folds ``env_info``, without the global state where the observation shows it."""
        shown = {k: x for k, x in env_info.items() if not (self.global_state and k == "global_state")}
        marks = marks_of_agents(self.env, shown)
        return jax.tree.map(lambda mark, x: self._folded(x) if mark else self._repeated(x), marks, shown)

    def _row(self, timestep: TimeStep, env_id: jax.Array) -> TimeStep:
        env_info = dict(timestep.env_info)
        final = env_info.pop("final_observation", None)
        shown = self._info(env_info)
        if final is not None:
            shown["final_observation"] = self._observed(final, {}, env_id.shape[0])
        step_type, discount = self._repeated((timestep.step_type, timestep.discount))
        reward, prev_action = self._folded((timestep.reward, timestep.prev_action))
        observation = self._observed(timestep.observation, timestep.env_info, env_id.shape[0])
        return TimeStep(step_type, reward, discount, observation, prev_action, env_id, env_info=shown)

    def begin(self, starts: Starts, previous: Tree = None) -> tuple[Tree, TimeStep]:
        if previous is not None:
            rule = "the agents of a game restart together: restart games inside AgentsAsLanes"
            raise ValueError(f"AgentsAsLanes: {rule}, by AutoReset or reset_where")
        games, timestep = self.env.begin(self._of_games(starts))
        row = self._row(timestep, jnp.copy(starts.env_id))
        return AgentLanes(tree.Grouped(games), starts.keys, starts.env_id, _absent(row)), row

    def proceed(self, state: AgentLanes, action: Tree) -> tuple[Tree, TimeStep]:
        action = conform(self.action_spec(), action, state.env_id.shape[0], str(self))
        unfolded = jax.tree.map(lambda x: x.reshape(-1, self.env.num_agents, *x.shape[1:]), action)
        games, timestep = self.env.proceed(state.games.value, unfolded)
        row = self._row(timestep, state.env_id)
        waiting = state.waiting
        if (ended := row.env_info.get("agent_terminated")) is not None:
            row, waiting = self._with_waits(games, row, waiting, ended & ~waiting)
        return AgentLanes(tree.Grouped(games), state.keys, state.env_id, waiting), row

    def _with_waits(
        self, games: Tree, row: TimeStep, waiting: jax.Array, ended: jax.Array
    ) -> tuple[TimeStep, jax.Array]:
        """Ends the episodes of agents that leave, and lets those that have left wait: FIRST rows without a reward."""
        quiet = waiting & ~row.is_first()
        of_state = jax.eval_shape(self.env.env_info_of, games)
        of_step = {name: x for name, x in row.env_info.items() if name not in of_state}
        zeros = tree.zeros((row.reward, row.prev_action, of_step))
        reward, prev_action, of_step = tree.where(quiet, zeros, (row.reward, row.prev_action, of_step))
        step_type = jnp.where(ended, np.int32(StepType.LAST), row.step_type)
        discount = jnp.where(ended, np.float32(0), row.discount)
        row = dataclasses.replace(
            row,
            step_type=jnp.where(quiet, np.int32(StepType.FIRST), step_type),
            reward=reward,
            discount=jnp.where(quiet, np.float32(1), discount),
            prev_action=prev_action,
            env_info={**row.env_info, **of_step},
        )
        starts = row.is_first() & ~quiet
        return row, jnp.where(starts, _absent(row), waiting | ended)

    def inner(self, state: AgentLanes) -> Tree:
        return state.games.value

    def clock(self, state: AgentLanes) -> Clock:
        clock = self.env.clock(state.games.value)
        return Clock(state.keys, state.env_id, *self._repeated((clock.episode, clock.step)))

    def observation_of(self, state: AgentLanes) -> Tree:
        games = state.games.value
        of_task = self.env.env_info_of(games) if self._declares_state else {}
        return self._observed(self.env.observation_of(games), of_task, state.env_id.shape[0])

    def env_info_of(self, state: AgentLanes) -> dict[str, Tree]:
        return self._info(self.env.env_info_of(state.games.value))

    def picture_of(self, state: AgentLanes, size: tuple[int, int]) -> jax.Array:
        return self._repeated(self.env.picture_of(state.games.value, size))


def _absent(row: TimeStep) -> jax.Array:
    """Returns which agents are not in the game of a row, bool ``[B * A]``: a level may begin without some of them."""
    alive = row.env_info.get("agent_alive")
    return jnp.zeros_like(row.is_first()) if alive is None else ~alive


def _of_any_agent(spec: Any) -> Any:
    """Returns the spec of one agent ``[...]`` from that of all ``[A, ...]``, with bounds that hold for each."""
    if isinstance(spec, specs.Bounded):
        return spec.replace(shape=spec.shape[1:], minimum=spec.minimum.min(axis=0), maximum=spec.maximum.max(axis=0))
    return spec.replace(shape=spec.shape[1:])


def _joint(x: Any) -> Any:
    """Returns for each agent the values of all ``[B, A, ..., n]`` in a circle from its own: ``[B, A, ..., A * n]``.

    ``x`` is an array of JAX or NumPy. Agents that observe one number each ``[B, A]`` have ``[B, A, A]``.
    """
    count = x.shape[1]
    columns = x if x.ndim > 2 else x[..., None]
    circles = columns[:, (np.arange(count)[:, None] + np.arange(count)) % count]  # [B, agent, seen agent, ..., n]
    last = circles.ndim - 1
    circles = circles.transpose(0, 1, *range(3, last), 2, last)
    return circles.reshape(*circles.shape[:-2], -1)
