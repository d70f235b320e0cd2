"""The base class of wrappers: environments that contain another environment."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Self, final, get_args

import jax
import numpy as np

from jaxenv import specs, tree
from jaxenv._util.checks import INT32_MAX, is_concrete
from jaxenv.core import _shapes
from jaxenv.core._checks import declared
from jaxenv.core.environment import Environment, check_environment
from jaxenv.core.facts import Facts
from jaxenv.core.starts import Levels, Starts
from jaxenv.core.timestep import TimeStep
from jaxenv.random import Clock, Stream
from jaxenv.tree import Tree

# Reasons for the position of a wrapper in a stack. A time limit goes outside a wrapper
#   "task": that acts on the task itself,
#   "several_steps": that may take several steps of `env` in one; the clock counts each of them,
#   "hides_ends": that hides ends of `env`.
# "sees_ends": it acts at the ends of episodes, and no wrapper that moves them may stand outside it.
# "batch": it has state of the whole batch, and stands outside `AutoReset`.
Position = Literal["anywhere", "task", "several_steps", "hides_ends", "sees_ends", "batch"]


class Wrapper(Environment):
    """An environment around another one, ``env``; it forwards everything by default. Arrays lead with lanes ``[B]``.

    A wrapper declares the TimeStep fields that it ``owns`` and may rewrite. All other fields pass through
    bit-identical, and outer layers rely on this. ``jaxenv.wrappers`` has bases for wrappers that map one field and for
    wrappers with state.
    """

    env: Environment

    owns: ClassVar[frozenset[str]] = frozenset()
    # The owned fields among observation and reward whose new values still fit the specs of `env`.
    keeps_specs: ClassVar[frozenset[str]] = frozenset()
    # Where the wrapper stands in the order that `jaxenv.stack` states.
    place: ClassVar[Position] = "anywhere"
    # The wrapper in `make(mode="eval")`: "kept", "left_out", or arguments that replace the given ones. `None`: left out
    # if it owns the reward alone, frozen if it has state of the whole batch, otherwise kept.
    in_evaluation: ClassVar[Literal["kept", "left_out"] | Mapping[str, Any] | None] = None
    # Entries of env_info that the wrapper adds: dotted paths of those that lead with the agents [B, A], and names of
    # those that add up over the steps that one action takes.
    agent_entries: ClassVar[frozenset[str]] = frozenset()
    summed_entries: ClassVar[frozenset[str]] = frozenset()
    opt_outs: ClassVar[Mapping[str, str]] = {}  # as `Task.opt_outs`
    # Constructor arguments, if any, with which the wrapper changes nothing, such as a probability of 0.
    noop_kwargs: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        declared.check_wrapper_class(cls, Wrapper, get_args(Position))

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuses arguments without an environment, as in ``wrappers=[FrameStack(num=4)]``."""
        # Copies and unpickling pass no arguments at all.
        if (kwargs and not args and "env" not in kwargs) or (args and is_concrete(args[0])):
            declared.refuse_no_environment(cls, args, kwargs)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        check_environment(type(self).__name__, self.env)
        super().__post_init__()

    def inner(self, state: Tree) -> Tree:
        """Returns the state of ``env`` in a state of the wrapper."""
        return state

    def _stream(self, clock: Clock, purpose: str) -> Stream:
        """Returns a stream for one ``purpose`` of this wrapper, distinct from other wrappers in the stack.

        It depends on the class and on the number of wrappers of this class further inside, not on other wrappers.
        """
        name = type(self).__name__
        ordinal = sum(type(layer).__name__ == name for layer in layers(self.env))
        return clock.stream("wrapper", f"{name}/{ordinal}/{purpose}")

    def facts_of(self, inner: Facts) -> Facts:
        """Returns the facts of the stack, given the facts of ``env``. Override it to change one."""
        return dataclasses.replace(inner, observes_state=inner.observes_state and "observation" not in self.owns)

    @final
    def _find_facts(self) -> Facts:
        return self.facts_of(self.env.facts)

    # --- forwarded to the environment inside -------------------------------------------------------------------------

    def begin(self, starts: Starts, previous: Tree = None) -> tuple[Tree, TimeStep]:
        return self.env.begin(starts, None if previous is None else self.inner(previous))

    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        return self.env.proceed(self.inner(state), action)

    def levels(self) -> Levels:
        levels = self.env.levels()
        return dataclasses.replace(levels, of_state=lambda state: levels.of_state(self.inner(state)))

    def observation_spec(self) -> Tree:
        """Returns the spec of ``env``; for an owned observation shapes and dtypes only, unless the wrapper keeps it."""
        if "observation" in self.owns - self.keeps_specs:
            return specs.unbatched(self.start_shapes()[1].observation)
        return self.env.observation_spec()

    def action_spec(self) -> Tree:
        return self.env.action_spec()

    def reward_spec(self) -> specs.Array:
        """Returns the spec of ``env``; only the shape of an owned reward, unless the wrapper keeps its spec."""
        return super().reward_spec() if "reward" in self.owns - self.keeps_specs else self.env.reward_spec()

    def clock(self, state: Tree) -> Clock:
        return self.env.clock(self.inner(state))

    def observation_of(self, state: Tree) -> Tree:
        return self.env.observation_of(self.inner(state))

    def env_info_of(self, state: Tree) -> dict[str, Tree]:
        return self.env.env_info_of(self.inner(state))

    def picture_of(self, state: Tree, size: tuple[int, int]) -> jax.Array:
        return self.env.picture_of(self.inner(state), size)

    @property
    def _longest_episode(self) -> Any:
        return np.int32(INT32_MAX) if self.place == "hides_ends" else self.env._longest_episode

    @property
    def unwrapped(self) -> Any:
        return self.env.unwrapped

    @property  # type: ignore[misc]
    def params(self) -> Any:
        """The params of the task, each one number for all lanes or one per lane ``[B]``."""
        return self.env.params

    def close(self) -> None:
        self.env.close()

    def _map_task(self, change: Callable[[Any], Any]) -> Self:
        return tree.rebuild(self, env=self.env._map_task(change))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{self.env!r}>"


def layers(env: Environment) -> list[Environment]:
    """Returns the layers of a stack, outermost first and the task last."""
    check_environment("layers", env)
    return [*_shapes.chain(env)]
