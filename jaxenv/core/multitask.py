"""Several tasks with equal specs in one batch."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv._util.checks import INT32_MAX, is_concrete
from jaxenv.core._checks import actions as _actions
from jaxenv.core.bases.stateful import has_batch_state
from jaxenv.core.environment import Environment
from jaxenv.core.facts import Facts
from jaxenv.core.starts import Levels, Starts
from jaxenv.core.timestep import TaskState, TimeStep
from jaxenv.random import Clock, Stream
from jaxenv.tree import Tree


@tree.struct
class Playing:
    """The task that each lane plays, int32 ``[B]``, and one state per task."""

    task_id: jax.Array
    states: tuple[Any, ...]


class Multitask(Environment):
    """Lets every lane play one of several environments with equal specs.

    The lanes of a batch run one program, so every step runs all tasks in all lanes and keeps one result per lane: time
    and memory are the sums over all tasks. Tasks that a lane does not play stand still. Tasks that differ only in
    params do not need this class, since params may have one value per lane. ``env_info["task_id"]`` (int32 ``[B]``)
    reports the task of each row, and ``task_names`` names it. ``jaxenv.make`` makes the complete stack from ids.

    Wrappers and time limits of single tasks go inside, ``AutoReset`` goes outside. ``with_params`` applies to every
    task.

    Args:
        envs: environments of equally many lanes with equal specs of observation, action, reward and ``env_info``,
            without ``AutoReset`` and batch state.
        task: the number of the task that a lane plays, one number or int32 ``[B]``; -1, the default, draws a task for
            every episode.
        agent_chooses: whether the agent chooses the task at every step: the action is ``{"task_id", "action"}``, and
            episodes start with task 0.
        names: one name per task; by default the names of the environments, or ``"0"``, ``"1"``, ... if some are empty
            or equal.

    >>> from jaxenv.testing import Chain
    >>> env = Multitask((Chain(5), Chain(5)), agent_chooses=True)
    >>> env.action_spec()["task_id"]
    Bounded((), int32, 0, 1, name='task_id')
    """

    envs: Sequence[Environment]
    task: int = -1
    agent_chooses: bool = tree.static(default=False)
    names: Sequence[str] = tree.static(default=())
    name: str = tree.static(default="", kw_only=True)

    def convert(self) -> dict[str, Any]:
        envs = tuple(self.envs) if isinstance(self.envs, list | tuple) else ()
        if not envs or not all(isinstance(env, Environment) for env in envs):
            raise ValueError(f"Multitask: envs must be one or more environments, got {self.envs!r}")
        names = tuple(self.names) if isinstance(self.names, list | tuple) else self.names
        if names == ():
            names = tuple(env.name for env in envs)
            if "" in names or len(set(names)) < len(names):
                names = tuple(map(str, range(len(envs))))
        return {"envs": envs, "names": names}

    def check(self) -> None:
        first = self.envs[0]
        if not isinstance(self.names, tuple) or not all(isinstance(name, str) for name in self.names):
            raise ValueError(f"Multitask: names must be a sequence of strings, got {self.names!r}")
        if len(self.names) != len(self.envs) or len(set(self.names)) < len(self.names):
            raise ValueError(f"Multitask: names must be {len(self.envs)} different names, got {list(self.names)}")
        for number, env in enumerate(self.envs):
            if env.autoreset is not None or has_batch_state(env):
                raise ValueError(f"Multitask: put AutoReset and batch state outside, task {number} is {env}")
            if env.num_envs != first.num_envs:
                raise ValueError(f"Multitask: task 0 has {first.num_envs} lanes and task {number} {env.num_envs}")
            if (env.agent_names, env.turns) != (first.agent_names, first.turns):
                rule = f"agents of all tasks must be those of task {self._label(0)}, {first.agent_names}"
                raise ValueError(f"Multitask: {rule}, got {env.agent_names} of task {self._label(number)}")
            for what in ("observation", "action", "reward", "env_info"):
                a, b = (getattr(one, f"{what}_spec")() for one in (first, env))
                specs.require_equal(
                    a, b, f"Multitask: {what} specs of tasks {self._label(0)} and {self._label(number)}"
                )
        if "task_id" in first.env_info_spec():
            raise ValueError("Multitask: env_info of the tasks already has an entry 'task_id'")
        task = np.asarray(self.task) if is_concrete(self.task) else np.zeros(())
        if np.any((task < -1) | (task >= len(self.envs))):
            raise ValueError(f"Multitask: task must be -1 or one of {len(self.envs)} tasks, got {self.task}")
        if self.agent_chooses and np.any(task != -1) and is_concrete(self.task):
            raise ValueError(f"Multitask: with agent_chooses=True the agent chooses, leave out task, got {self.task}")

    def _find_facts(self) -> Facts:
        inner = [env.facts for env in self.envs]
        restarts = [facts.reset_strategy for facts in inner]
        return dataclasses.replace(
            inner[0],
            name=self.name,
            salt=self.name or type(self).__name__,
            task_names=tuple(self.names),
            alternates=all(facts.alternates for facts in inner),
            reset_strategy="compact" if "compact" in restarts else restarts[0],  # that of the most expensive restarts
            observes_state=all(facts.observes_state for facts in inner),
            agents_lead=all(facts.agents_lead for facts in inner),
            repeats=any(facts.repeats for facts in inner),
            compiles_itself=all(facts.compiles_itself for facts in inner),
        )

    @property
    def _longest_episode(self) -> Any:
        def both(a: Any, b: Any) -> Any:  # an agent that chooses tasks may take steps of both
            return jnp.where(a > INT32_MAX - b, np.int32(INT32_MAX), a + b) if self.agent_chooses else jnp.maximum(a, b)

        return functools.reduce(both, [env._longest_episode for env in self.envs])

    def _label(self, number: int) -> str:
        """Returns the number of a task, with its name if that says more."""
        name = self.names[number]
        return str(number) if name == str(number) else f"{number} ({name})"

    def clock(self, state: Tree) -> Clock:
        return state.clock

    def observation_spec(self) -> Tree:
        return self.envs[0].observation_spec()

    def reward_spec(self) -> specs.Array:
        return self.envs[0].reward_spec()

    def action_spec(self) -> Tree:
        spec = self.envs[0].action_spec()
        chosen = specs.discrete(len(self.envs), name="task_id")
        return {"task_id": chosen, "action": spec} if self.agent_chooses else spec

    def observation_of(self, state: Tree) -> Tree:
        pairs = zip(self.envs, state.task.states, strict=True)
        return _played(state.task.task_id, [env.observation_of(own) for env, own in pairs])

    def picture_of(self, state: Tree, size: tuple[int, int]) -> jax.Array:
        pairs = zip(self.envs, state.task.states, strict=True)
        return _played(state.task.task_id, [env.picture_of(own, size) for env, own in pairs])

    def env_info_of(self, state: Tree) -> dict[str, Tree]:
        infos = [env.env_info_of(own) for env, own in zip(self.envs, state.task.states, strict=True)]
        return {**_played(state.task.task_id, infos), "task_id": jnp.copy(state.task.task_id)}

    @property  # type: ignore[misc]
    def params(self) -> tuple[Any, ...]:
        """The params of every task, ``None`` for one without any."""
        return tuple(getattr(env, "params", None) for env in self.envs)

    def _with_params(self, values: Mapping[str, Any]) -> Self:
        return tree.rebuild(self, envs=tuple(env.with_params(**values) for env in self.envs))

    def _with_lanes(self, num_envs: int) -> Self:
        return tree.rebuild(self, envs=tuple(env._with_num_envs(num_envs) for env in self.envs))

    def close(self) -> None:
        for env in self.envs:
            env.close()

    def __repr__(self) -> str:
        return f"<{self.name or type(self).__name__}>"

    def _own_streams(self, stream: Stream) -> list[Stream]:
        """Returns a stream for each task, which must not share random words."""
        return [random.fold_in(stream, f"Multitask/{number}") for number in range(len(self.envs))]

    def _task_of(self, stream: Stream) -> jax.Array:
        """Returns the number of the task that each lane starts with, int32 ``[B]``."""
        if self.agent_chooses:
            return jnp.zeros(stream.shape, jnp.int32)
        drawn = random.integers(random.fold_in(stream, "Multitask/task"), (), 0, len(self.envs))
        return jnp.where(self.task < 0, drawn, jnp.minimum(self.task, np.int32(len(self.envs) - 1)))  # if traced

    def _starts(self, starts: Starts) -> list[Starts]:
        """Returns the starts of each task's episodes."""
        streams = self._own_streams(starts.clock.stream())
        parts = (starts.inside("levels", number) for number in range(len(self.envs)))
        return [dataclasses.replace(part, keys=(own.k0, own.k1)) for part, own in zip(parts, streams, strict=True)]

    def levels(self) -> Levels:
        inner = [env.levels() for env in self.envs]

        def sample(starts: Starts) -> dict[str, Tree]:
            levels = (of.sample(own) for of, own in zip(inner, self._starts(starts), strict=True))
            return {"task_id": self._task_of(starts.clock.stream()), "levels": tuple(levels)}

        def mutate(level: dict[str, Tree], stream: Stream) -> dict[str, Tree]:
            trios = zip(inner, level["levels"], self._own_streams(stream), strict=True)
            return {**level, "levels": tuple(of.mutate(own, each) for of, own, each in trios)}

        def check(level: dict[str, Tree]) -> None:
            if np.any((np.asarray(level["task_id"]) < 0) | (np.asarray(level["task_id"]) >= len(self.envs))):
                raise ValueError(f"{self}: level.task_id must be one of {len(self.envs)} tasks, got {level['task_id']}")
            for of, own in zip(inner, level["levels"], strict=True):
                of.check(own)

        def of_state(state: Tree) -> Tree:
            raise ValueError(f"{self} cannot start in a state, which does not fix the task that the lane plays next")

        return Levels(sample, mutate, check, of_state)

    def begin(self, starts: Starts, previous: Tree = None) -> tuple[Tree, TimeStep]:
        task_id = drawn = self._task_of(starts.clock.stream())
        if starts.place is not None and not self.agent_chooses:
            given = starts.inside("task_id").values_or_else(lambda: drawn)
            task_id = jnp.clip(given, np.int32(0), np.int32(len(self.envs) - 1))  # traced levels may be out of range
        before = [None] * len(self.envs) if previous is None else previous.task.states
        trios = zip(self.envs, self._starts(starts), before, strict=True)
        states, rows = zip(*(env.begin(own, old) for env, own, old in trios), strict=True)
        return TaskState(starts.clock, Playing(task_id, states)), dataclasses.replace(
            self._row(task_id, list(rows)),
            env_id=jnp.copy(starts.env_id),
            prev_action=specs.zeros(self.action_spec(), starts.env_id.shape),
        )

    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        spec, clock, playing = self.action_spec(), state.clock.tick(), state.task
        given = _actions.conform(spec, action, clock.step.shape[0], str(self))
        task_id, inner = playing.task_id, given
        if self.agent_chooses:
            acts = _actions.clip_discrete(spec, given)
            task_id, inner = acts["task_id"], acts["action"]
        stepped = [env.proceed(own, inner) for env, own in zip(self.envs, playing.states, strict=True)]
        pairs = enumerate(zip(stepped, playing.states, strict=True))
        states = tuple(tree.where(task_id == number, new, old) for number, ((new, _), old) in pairs)
        return TaskState(clock, Playing(task_id, states)), dataclasses.replace(
            self._row(task_id, [row for _, row in stepped]),
            env_id=jnp.copy(clock.env_id),
            prev_action=_actions.finite(given),
        )

    def _row(self, task_id: jax.Array, rows: list[TimeStep]) -> TimeStep:
        """Selects the row of the task that each lane plays."""
        row = _played(task_id, rows)
        return dataclasses.replace(row, env_info={**row.env_info, "task_id": jnp.copy(task_id)})


def _played(task_id: jax.Array, options: list[Any]) -> Any:
    """Selects, in each lane, the tree of the task that the lane plays from ``options``, one tree per task."""
    chosen = options[0]
    for number, option in enumerate(options[1:], start=1):
        chosen = tree.where(task_id == number, option, chosen)
    return chosen
