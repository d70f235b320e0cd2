"""The base class that authors of environments subclass."""

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._util import xla
from jaxenv.canvas import Canvas
from jaxenv.core._checks import actions as _actions
from jaxenv.core._checks import declared, returned
from jaxenv.core._declared import check_number, map_declared
from jaxenv.core.environment import Environment
from jaxenv.core.facts import Facts, ResetStrategy
from jaxenv.core.starts import Levels, Starts
from jaxenv.core.timestep import StepType, TaskState, TimeStep, Transition, end_abnormal, restart
from jaxenv.random import Clock, Stream
from jaxenv.tree import Tree


class Task(Environment):
    """One kind of task in a batch of lanes. Implement ``initial``, ``transition``, ``observe`` and two specs.

    This class implements clocks, TimeSteps, checks and everything about episodes. Subclasses are frozen dataclasses
    and pytrees: numeric fields and ``params`` (a `tree.struct`) are leaves, fields declared with ``tree.static()`` are
    structure. Params are read as ``self.params.gravity``: one number for all lanes, or one per lane ``[B]``.

    Attributes:
        num_envs: number of lanes that ``reset(key)`` makes.
        name: the id under which the environment was made.
    """

    num_envs: int = tree.static(default=1, low=1, kw_only=True)
    name: str = tree.static(default="", kw_only=True)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if isinstance(cls.Level, type) and cls.initial is not Task.initial:
            declared.check_takes_level(cls, cls.initial)

    # --- methods that an author writes -------------------------------------------------------------------------------

    if TYPE_CHECKING:  # accepts both signatures

        @abc.abstractmethod
        def initial(self, *args: Any, **kwargs: Any) -> Tree: ...

    else:

        @abc.abstractmethod
        def initial(self, stream: Stream) -> Tree:
            """Draws the task state at the start of an episode, leaves ``[B, ...]``; ``stream`` has a stream per lane.

            A task that declares a ``Level`` implements ``initial(self, stream, level)`` and `sample_level`.
            """

    @abc.abstractmethod
    def transition(self, state: Tree, action: Tree, stream: Stream) -> Transition:
        """Steps the task in all lanes. ``action`` fits ``action_spec``; discrete leaves are within bounds."""

    @abc.abstractmethod
    def observe(self, state: Tree) -> Tree:
        """Observes a task state: returns a tree of arrays ``[B, ...]``."""

    def state_info(self, state: Tree) -> dict[str, Tree]:
        """Returns ``env_info`` entries that describe the state, valid on every row, FIRST included; none by default."""
        return {}

    def draw(self, state: Tree, canvas: Canvas) -> Canvas:
        """Paints the task states of all lanes on a blank canvas, for ``render``. There is no picture by default."""
        raise ValueError(f"render: {self} has no picture, implement draw(state, canvas)")

    def sample_level(self, stream: Stream) -> Tree:
        """Draws the levels of new episodes, leaves ``[B, ...]``; by default the states in which they start.

        A task with a ``Level`` draws it here. What ``initial`` draws besides comes from a folded stream.
        """
        if self.Level is not None:
            raise NotImplementedError(f"{type(self).__name__}: a task with a Level must implement sample_level(stream)")
        return self.initial(stream)

    def mutate_level(self, level: Tree, stream: Stream) -> Tree:
        """Returns levels ``[B, ...]`` with one random edit each, for curricula such as ACCEL. There is no default."""
        raise ValueError(f"{self} has no mutations: implement mutate_level(level, stream)")

    def editor(self, num_steps: int) -> "Task":
        """Returns a task in which an agent builds a level of this one in ``num_steps`` steps, for PAIRED.

        Its states have a field ``level``. There is no default.
        """
        raise ValueError(f"{self} has no editor: implement editor(num_steps)")

    def check_level(self, level: Tree) -> None:
        """Raises a ``ValueError`` for levels in which the task cannot start; the values are known."""

    def carry(self, old: Tree, new: Tree) -> Tree:
        """Combines the last task state and a fresh one into the state that starts an episode; ``new`` by default."""
        return new

    # --- what an author declares: class variables, or properties where they depend on options ------------------------

    # In a task these three replace the properties of `Environment`, which say their meaning.
    agent_names: ClassVar[tuple[str, ...]] = ("agent",)
    turns: ClassVar[bool] = False
    alternates: ClassVar[bool] = True

    reset_strategy: ClassVar[ResetStrategy | Mapping[str, ResetStrategy]] = "select"
    """How `AutoReset` restarts lanes fastest: one strategy, or one per platform with a ``"default"`` entry."""

    Level: ClassVar[type | None] = None
    """The class of the levels in which episodes start, a `tree.struct`; with ``None`` a level is an initial state."""

    summed_entries: ClassVar[frozenset[str]] = frozenset()
    """Entries of a transition's ``env_info`` of which wrappers such as `ActionRepeat` show the sum, not the last."""

    opt_outs: ClassVar[Mapping[str, str]] = {}
    """Properties of ``jaxenv.testing.PROPERTIES`` that the class does not have, each with its reason."""

    action_names: ClassVar[tuple[str, ...]] = ()
    """Names of the values of a discrete action, by which ``jaxenv play`` chooses keys, or of a continuous one."""

    play_fps: ClassVar[int] = 0
    """Steps per second at which a person plays the task; 0 if the task waits for each action."""

    can_diverge: ClassVar[bool] = False
    """Whether ``make`` guards the lanes against non-finite numbers although the actions are discrete."""

    finite_observation: ClassVar[bool] = False
    """Whether a finite state always gives a finite observation, so that a guard need not check it."""

    rounding: ClassVar[float] = 1e-5
    """The largest difference of floats, absolute and relative, between two compilations of a step, for conformance.

    Declare a larger one for a step that amplifies rounding errors. Bytes of an image may differ by its share of 255.
    """

    smooth: ClassVar[bool] = False
    """Whether a step is smooth in params, state and action, so that gradients equal finite differences."""

    @property
    def time_limit(self) -> Any:
        """Steps of an episode, one or int32 ``[B]``: the limit of ids registered with ``limit_follows_params``."""

    def initial_bounds(self) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
        """Returns lower and upper bounds between which ``initial`` draws uniformly, in the order of the state's leaves.

        Tests compare ``initial`` with them. Each bound is one number or ``[B]``; the default, ``None``, declares none.
        """
        return None

    # --- the environment built from it -------------------------------------------------------------------------------

    def begin(self, starts: Starts, previous: Tree = None) -> tuple[TaskState, TimeStep]:
        clock, batch = starts.clock, starts.env_id.shape
        task = self._begun(starts, clock.stream())
        if previous is not None:
            task = self.carry(previous.task, task)
        returned.check_leading(self, "initial", task, batch)
        shapes = returned.transition_shapes(self, task, batch)
        timestep = restart(
            self._observation(task, clock),
            batch_shape=batch,
            reward_shape=shapes.reward.shape[1:],
            prev_action=specs.zeros(self.action_spec(), batch),
            env_id=jnp.copy(starts.env_id),
            env_info=self._env_info(tree.zeros(shapes.env_info), task),
        )
        if self.num_agents > 1:
            returned.check_agents(self, timestep)
        return TaskState(clock, task), timestep

    def _begun(self, starts: Starts, stream: Stream) -> Tree:
        """Returns the task states in which episodes start."""
        if starts.place is None:
            return self._in_level(self._sampled(stream), stream)
        if starts.place.in_state:
            return starts.place.or_else(lambda: self._in_level(self._sampled(stream), stream))
        return self._in_level(starts.place.or_else(lambda: self._sampled(stream)), stream)

    def _sampled(self, stream: Stream) -> Tree:
        level = self.sample_level(stream)
        returned.check_sampled(self, level)
        return tree.strong(level)

    def _in_level(self, level: Tree, stream: Stream) -> Tree:
        if self.Level is None:
            return level
        task = self.initial(stream, level)
        returned.check_returned(self, "initial", "the state", task)
        return tree.strong(task)

    def levels(self) -> Levels:
        return Levels(
            sample=lambda starts: self._sampled(starts.clock.stream()),
            mutate=lambda level, stream: tree.strong(self.mutate_level(level, stream)),
            check=self.check_level,
            of_state=lambda state: state.task,
        )

    def proceed(self, state: TaskState, action: Tree) -> tuple[TaskState, TimeStep]:
        spec = self.action_spec()
        clock = state.clock.tick()
        action = _actions.conform(spec, action, clock.step.shape[0], str(self))
        out = self.transition(state.task, _actions.clip_discrete(spec, action), clock.stream())
        task = returned.checked_state(self, state.task, out.state)
        returned.check_transition(self, out, clock.step.shape)
        if (abnormal := out.env_info.get("abnormal")) is not None:
            task = tree.where(abnormal, state.task, task)
        timestep = TimeStep(
            step_type=jnp.where(out.terminated, np.int32(StepType.LAST), np.int32(StepType.MID)),
            reward=jnp.asarray(out.reward, jnp.float32),
            discount=jnp.where(out.terminated, np.float32(0), np.float32(1)),
            observation=self._observation(task, clock),
            prev_action=_actions.finite(action),
            env_id=clock.env_id,
            env_info=self._env_info(tree.strong(out.env_info), task),
        )
        if abnormal is not None:
            timestep = end_abnormal(abnormal, timestep)
        return xla.unshare(tree.vary_like(clock.env_id, (TaskState(clock, task), timestep)))

    def _observation(self, task: Tree, clock: Clock) -> Tree:
        return returned.cast_observation(self, self.observation_spec(), self.observe(task), clock.env_id.shape[0])

    def _env_info(self, of_transition: dict[str, Tree], task: Tree) -> dict[str, Tree]:
        of_state = tree.strong(self.state_info(task))
        returned.check_entries_of_state(self, of_transition, of_state)
        return {**of_transition, **of_state}

    def clock(self, state: TaskState) -> Clock:
        return state.clock

    def _find_facts(self) -> Facts:
        return Facts(
            name=self.name,
            salt=self.name or type(self).__name__,
            num_envs=self.num_envs,
            task_names=(self.name or "0",),
            agent_names=tuple(self.agent_names),
            turns=self.turns,
            alternates=self.alternates,
            reset_strategy=self.reset_strategy,
        )

    def observation_of(self, state: TaskState) -> Tree:
        return self._observation(state.task, state.clock)

    def picture_of(self, state: TaskState, size: tuple[int, int]) -> jax.Array:
        drawn = self.draw(state.task, Canvas.blank(state.clock.step.shape[0], size))
        returned.check_drawn(self, drawn)
        return drawn.image()

    def env_info_of(self, state: TaskState) -> dict[str, Tree]:
        return tree.strong(self.state_info(state.task))

    def _with_params(self, values: Mapping[str, Any]) -> Self:
        returned.check_names_of_params(self, values)
        return self._accept(tree.rebuild(self, params=tree.rebuild(self.params, **values)) if values else self)

    def _accept(self, changed: Self) -> Self:
        """Checks and converts the leaves of a changed copy, as the constructor does."""
        converted = map_declared(lambda d: check_number(str(self), d), changed)
        returned.check_values_per_lane(converted)
        converted.check()
        return converted

    def _with_lanes(self, num_envs: int) -> Self:
        return tree.rebuild(self, num_envs=num_envs)

    @property
    def _owner(self) -> str:
        return self.name if isinstance(self.name, str) and self.name else type(self).__name__

    def __str__(self) -> str:
        return self._owner

    def __repr__(self) -> str:
        return f"<{self}>"
