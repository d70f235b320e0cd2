"""The environments of a stack as data: the base of their classes, and what a stack knows about itself."""

import abc
import dataclasses
import inspect
import sys
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias, dataclass_transform, final

import jax.core
import jax.numpy as jnp

from jaxenv import tree
from jaxenv.core._declared import check_number, check_static, hashable, map_declared


@dataclass_transform(
    frozen_default=True,
    eq_default=False,
    field_specifiers=(tree.static, tree.leaf, tree.key_leaf, tree.lanes_leaf, tree.shared_leaf),
)
class Module:
    """A frozen dataclass with identity equality, registered as a pytree.

    Every subclass becomes a dataclass without a decorator. Numeric fields and params are leaves, fields declared with
    ``tree.static()`` are structure. The constructor converts numbers to strong int32 or float32 and checks them. JAX
    rebuilds the object from its leaves without running the constructor.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            rule = "declare its arguments as fields, such as size: int = jaxenv.tree.static(default=5)"
            raise TypeError(f"{cls.__name__}: an environment must not define __init__, it is a dataclass: {rule}")
        for name in _annotated(cls):
            default = vars(cls).get(name)
            is_object = dataclasses.is_dataclass(default) and not isinstance(default, type | dataclasses.Field)
            if is_object and jax.tree_util.all_leaves([default]):
                kind = type(default).__name__
                raise TypeError(f"{cls.__name__}: {name} must be a pytree: declare {kind} with @jaxenv.tree.struct")
        dataclasses.dataclass(frozen=True, eq=False, repr=False)(cls)
        tree.register_unchecked(cls)

    def __post_init__(self) -> None:
        for name, value in self.convert().items():
            object.__setattr__(self, name, value)
        owner = self._owner
        converted = map_declared(lambda d: check_number(owner, d), self)
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(converted, field.name)
            if field.metadata.get("static"):
                if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value)):
                    rule = "must be known while tracing, since it is part of the program"
                    raise ValueError(f"{owner}: {field.name} {rule}, got a traced {jnp.result_type(value)}")
                value = check_static(owner, field, hashable(value))
            object.__setattr__(self, field.name, value)
        self.check()

    @property
    def _owner(self) -> str:
        """The name with which errors about arguments start."""
        return type(self).__name__

    def convert(self) -> dict[str, Any]:
        """Fields that the constructor stores in another form than given, or derives from others: name to value."""
        return {}

    def check(self) -> None:
        """Checks the constructor's arguments; raises a ``ValueError`` naming class, argument and value."""


def _annotated(cls: type) -> Iterable[str]:
    """Returns the names that the body of a class annotates; no annotation is evaluated."""
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF)
    return inspect.get_annotations(cls)


AutoResetMode: TypeAlias = Literal["next_step", "same_step"] | None
ResetStrategy: TypeAlias = Literal["select", "cond", "compact"]


@dataclasses.dataclass(frozen=True, eq=False)
class Facts:
    """The facts of a stack. A task states them; each layer around it maps the facts of the layer inside.

    `Environment` has a property for each fact that users read, with its meaning.
    """

    name: str = ""
    salt: str = ""  # of the random streams of the lanes
    num_envs: int = 1
    task_names: tuple[str, ...] = ("0",)
    agent_names: tuple[str, ...] = ("agent",)
    turns: bool = False
    alternates: bool = True
    lanes_per_game: int = 1
    autoreset: AutoResetMode = None
    reset_strategy: ResetStrategy | Mapping[str, ResetStrategy] = "select"
    observes_state: bool = True
    agents_lead: bool = True  # observations of agents that act at once lead with the agents
    repeats: bool = False  # a step of the stack may be several steps of the task
    outside_jax: bool = False  # the lanes are in an engine outside JAX, which resets all of them together
    compiles_itself: bool = True  # `reset` and `step` run as compiled programs outside of traces


class WithFacts(Module):
    """Has the facts of a stack as properties."""

    batched: ClassVar[bool] = True

    @property
    def facts(self) -> Facts:
        """The record of the properties below, computed once."""
        if (facts := self.__dict__.get("_facts")) is None:
            object.__setattr__(self, "_facts", facts := self._find_facts())
        return facts

    @abc.abstractmethod
    def _find_facts(self) -> Facts: ...

    @property
    def name(self) -> str:
        """The id under which the environment was made."""
        return self.facts.name

    @property
    def num_envs(self) -> int:
        """Number of lanes that ``reset(key)`` makes; all other methods take it from their arrays."""
        return self.facts.num_envs

    @property
    def task_names(self) -> tuple[str, ...]:
        """The names of the tasks that lanes play, one unless it is a `Multitask`. A task without a name is ``"0"``."""
        return self.facts.task_names

    @property
    @final
    def num_tasks(self) -> int:
        """The number of tasks: 1 unless it is a `Multitask`."""
        return len(self.task_names)

    @property
    def agent_names(self) -> tuple[str, ...]:
        """The names of the agents of a lane. With several, rewards lead with ``[B, A]``, one column per agent.

        Observations, actions and the entries of ``env_info`` lead with ``[B, A]``, too, unless the agents take `turns`.
        """
        return self.facts.agent_names

    @property
    @final
    def num_agents(self) -> int:
        """The number of agents of a lane, A."""
        return len(self.agent_names)

    @property
    def turns(self) -> bool:
        """Whether the agents move in turns: ``env_info["player"]`` (int32 ``[B]``) says whose move the row shows.

        Observation and action then belong to the agent to move, and have no axis of agents.
        """
        return self.facts.turns

    @property
    def alternates(self) -> bool:
        """Whether every move of a game of turns passes the turn. If not, an agent may move several times in a row."""
        return self.facts.alternates

    @property
    def lanes_per_game(self) -> int:
        """The number of lanes, one after another, that play one game; 1 unless agents are lanes, as `AgentsAsLanes`.

        Levels, states to start in, params and limits then have one value per game, not per lane.
        """
        return self.facts.lanes_per_game

    @property
    def autoreset(self) -> AutoResetMode:
        """The mode of the ``AutoReset`` in this stack, or ``None``."""
        return self.facts.autoreset

    @property
    def reset_strategy(self) -> ResetStrategy | Mapping[str, ResetStrategy]:
        """The restart strategy in use: one name, or one per platform with a ``"default"`` entry.

        Without ``AutoReset`` it is the fastest one, as the task declares it.
        """
        return self.facts.reset_strategy

    @property
    def observes_state(self) -> bool:
        """Whether every row's observation is a function of the state alone, which ``observation_of`` computes."""
        return self.facts.observes_state
