"""The environment under test, and the one compiled rollout that most checks read."""

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.environment import Environment
from jaxenv.random import Clock
from jaxenv.task import Task
from jaxenv.testing.compare import host, is_key, steps
from jaxenv.testing.report import Failure, NotApplicable
from jaxenv.timestep import StepType, TimeStep
from jaxenv.tree import Tree
from jaxenv.wrapper import Wrapper, layers
from jaxenv.wrappers import AutoReset, BatchWrapper, FixedResetKey, GuardNonFinite, TimeLimit

LANES = 7
MORE_LANES = 11
# Limits of so many lengths that the lanes soon end one by one; every other lane goes on until its task ends.
NO_LIMIT = 10**6
LIMITS = np.array([1, NO_LIMIT, 4, NO_LIMIT, 7, NO_LIMIT, 10], np.int32)


# The environment is an argument, so that environments of equal configuration share what is compiled.


@jax.jit
def start(env: Environment, keys: jax.Array, env_id: jax.Array) -> tuple[Tree, TimeStep]:
    """``reset`` with one key per lane."""
    return env.reset(keys, env_id)


@jax.jit
def step(env: Environment, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
    """``step``."""
    return env.step(state, action)


@jax.jit
def run(env: Environment, state: Tree, timestep: TimeStep, actions: Tree) -> tuple[Tree, TimeStep]:
    """Steps through ``actions`` ``[T, B, ...]``: states and rows ``[T + 1, B, ...]``, the given ones first."""

    def one_step(carry, action):
        carry = env.step(carry[0], action)
        return carry, carry

    _, later = jax.lax.scan(one_step, (state, timestep), actions)
    return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), (state, timestep), later)


@jax.jit
def replay(env: Environment, states: Tree, actions: Tree) -> tuple[Tree, TimeStep]:
    """One step from each of ``states`` ``[T, B, ...]``: the states and rows that it leads to, ``[T, B, ...]``."""
    return jax.lax.map(lambda given: env.step(*given), (states, actions))


@dataclasses.dataclass(frozen=True)
class Rollout:
    """What a stack did: ``states`` and ``rows`` ``[T + 1, B, ...]``, ``actions`` ``[T, B, ...]``, in NumPy."""

    states: Tree
    rows: TimeStep
    actions: Tree

    @property
    def before(self) -> Tree:
        """The states from which the steps went out, ``[T, B, ...]``."""
        return steps(self.states, slice(None, -1))

    @property
    def after(self) -> tuple[Tree, TimeStep]:
        """The states and rows to which they led, ``[T, B, ...]``."""
        return steps((self.states, self.rows), slice(1, None))

    @property
    def ends(self) -> np.ndarray:
        """Where an episode ended, bool ``[T + 1, B]``."""
        return np.asarray(self.rows.step_type) == StepType.LAST

    @property
    def of_one_step(self) -> bool:
        """Whether every episode ended on its first step, as those of a bandit do."""
        return not np.any(np.asarray(self.rows.step_type) == StepType.MID)


class Subject:
    """An environment under test. Everything that costs a compilation is made when first asked for, and kept.

    Args:
        env: the environment as given: with or without ``AutoReset``, of any number of lanes.
        key: one typed key.
        num_steps: how many steps the shared rollout has.
    """

    def __init__(self, env: Environment, key: jax.Array, num_steps: int):
        self.env = env
        self.key = key
        self.num_steps = num_steps

    # --- stacks ------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def given(self) -> Environment:
        """The environment with `LANES` lanes: those that it has, over and over."""
        return self.of_lanes(LANES)

    def of_lanes(self, count: int) -> Environment:
        """The environment with ``count`` lanes."""
        return self.env.take(jnp.arange(count, dtype=jnp.int32) % self.env.num_envs)

    @functools.cached_property
    def stack(self) -> Environment:
        """The environment with restarts, and with time limits by which its lanes get out of phase."""
        return restarting(self.given)

    @functools.cached_property
    def auto_reset(self) -> AutoReset:
        """The ``AutoReset`` in `stack`."""
        for layer in layers(self.stack):
            if isinstance(layer, AutoReset):
                return layer
        raise NotApplicable("the environment restarts its lanes without an AutoReset")

    @property
    def strategy(self) -> str:
        """How `stack` restarts lanes on this platform."""
        declared = self.auto_reset.strategy or self.auto_reset.reset_strategy
        return declared if isinstance(declared, str) else declared.get(jax.default_backend(), declared["default"])

    def variant(self, mode: str, strategy: str | None = None) -> AutoReset:
        """The ``AutoReset`` in `stack` in another mode, with another strategy where one is given."""
        return tree.rebuild(self.auto_reset, mode=mode, strategy=strategy or self.auto_reset.strategy)

    @functools.cached_property
    def opt_outs(self) -> dict[str, str]:
        """The properties that layers of the stack opt out of: name to layer and reason."""
        return {
            name: f"{type(layer).__name__}: {reason}"
            for layer in layers(self.stack)
            for name, reason in layer.opt_outs.items()
        }

    # --- rollouts ----------------------------------------------------------------------------------------------------

    @functools.cached_property
    def keys(self) -> tuple[jax.Array, jax.Array]:
        """Two sets of lane keys, each ``Key[B]``."""
        both = jax.random.split(self.key, 2 * LANES)
        return both[:LANES], both[LANES:]

    @functools.cached_property
    def actions(self) -> tuple[Tree, Tree]:
        """Two sets of random actions, each ``[T, B, ...]``."""
        both = sample_actions(self.stack, self.key, 2 * self.num_steps)
        return steps(both, slice(None, self.num_steps)), steps(both, slice(self.num_steps, None))

    @functools.cached_property
    def rollout(self) -> Rollout:
        """The shared rollout of `stack`: random actions, lanes out of phase.

        Raises:
            Failure: if there are fewer than three steps on which some lanes end and others do not. Checks of what one
                lane does to another would see nothing. Where every episode has one step no lane could do otherwise.
        """
        made = self.roll(self.keys[0], self.actions[0])
        mixed = np.any(made.ends, axis=1) & ~np.all(made.ends, axis=1)
        if mixed.sum() < 3 and not made.of_one_step:
            raise Failure(f"only {mixed.sum()} steps on which some lanes end and others do not: this shows nothing")
        return made

    @functools.cached_property
    def other_rollout(self) -> Rollout:
        """A rollout with other keys and other actions."""
        return self.roll(self.keys[1], self.actions[1])

    def roll(self, keys: jax.Array, actions: Tree, env: Environment | None = None) -> Rollout:
        """A rollout of `stack`, or of another environment with as many lanes, compiled once for each structure."""
        env = self.stack if env is None else env
        states, rows = run(env, *start(env, keys, lane_numbers(len(keys))), actions)
        return Rollout(host(states), host(rows), actions)

    @functools.cached_property
    def eager(self) -> "Eager":
        """What `given` does without compilation, once for all checks: op by op it is slow."""
        return Eager.of(self.given, self.key, steps(self.actions[0], 0))

    def below(self, state: Tree, layer: Environment) -> Tree:
        """The part of a state of `stack` that belongs to one of its layers."""
        for outer in layers(self.stack):
            if outer is layer:
                break
            state = outer.inner(state)  # type: ignore[attr-defined]
        return state

    def clock(self, rollout: Rollout) -> Clock:
        """The lanes' clock, leaves ``[T + 1, B]``."""
        return self.stack.clock(rollout.states)

    def task(self, rollout: Rollout) -> Tree:
        """The task's own state, leaves ``[T + 1, B, ...]``."""
        return self.below(rollout.states, self.stack.unwrapped).task


@dataclasses.dataclass(frozen=True)
class Eager:
    """Two resets and two steps, not compiled, both steps from the state of the first reset.

    Attributes:
        env: the very object that was run.
        before: its attributes and those of its classes before it was run, by layer.
        given: copies of state and action that the steps were given, taken before.
        taken: state and action as they were after the steps.
        resets: what the resets returned.
        steps: what the steps returned.
    """

    env: Environment
    before: list[dict[str, Any]]
    given: Tree
    taken: Tree
    resets: list[tuple[Tree, TimeStep]]
    steps: list[tuple[Tree, TimeStep]]

    @classmethod
    def of(cls, env: Environment, key: jax.Array, action: Tree) -> "Eager":
        """Runs ``env`` with one key and one batch of actions."""
        before = attributes(env)
        resets = [env.reset(key) for _ in range(2)]
        # The action of NumPy, which anybody could write to; the state of JAX, since steps may say ``state.at[...]``.
        copied = jax.tree.map(lambda x: x if is_key(x) else jnp.array(x), resets[0][0])
        taken = (copied, jax.tree.map(np.array, action))
        given = jax.tree.map(lambda x: x if is_key(x) else np.array(x), taken)
        return cls(env, before, given, taken, resets, [env.step(*taken) for _ in range(2)])


def attributes(env: Environment) -> list[dict[str, Any]]:
    """The attributes of every layer and of its class, as they are now."""
    return [{**vars(type(layer)), **vars(layer)} for layer in layers(env)]


def restarting(env: Environment, limits: np.ndarray = LIMITS) -> Environment:
    """A stack with the time limit of each lane in ``limits`` and an ``AutoReset``: its own ones where it has them."""
    if isinstance(env, AutoReset):
        return tree.rebuild(env, env=limited(env.env, limits))
    if isinstance(env, Wrapper) and (env.autoreset is not None or isinstance(env, BatchWrapper)):
        return tree.rebuild(env, env=restarting(env.env, limits))
    return AutoReset(limited(env, limits)) if env.autoreset is None else env


def limited(env: Environment, limits: np.ndarray) -> Environment:
    """A stack whose ``TimeLimit`` has the given limits; one is put where ``make`` would put it if it has none."""
    if isinstance(env, TimeLimit):
        return tree.rebuild(env, duration=limits)
    has_one = any(isinstance(layer, TimeLimit) for layer in layers(env))
    if isinstance(env, Wrapper) and (has_one or not _stands_inside_limits(env)):
        return tree.rebuild(env, env=limited(env.env, limits))
    return TimeLimit(env, limits)


def _stands_inside_limits(layer: Wrapper) -> bool:
    return layer.multi_step or layer.removes_ends or isinstance(layer, GuardNonFinite | FixedResetKey)


def with_strategy(env: Environment, strategy: str | None) -> Environment:
    """The stack with its ``AutoReset`` restarting lanes by another strategy."""
    return _at_restarts(env, lambda restarts: tree.rebuild(restarts, strategy=strategy), tree.rebuild)


def in_mode(env: Environment, mode: str) -> Environment:
    """The stack with its ``AutoReset`` in another mode; wrappers outside of it may refuse that by a ``ValueError``."""
    return _at_restarts(env, lambda restarts: tree.rebuild(restarts, mode=mode), dataclasses.replace)


def without_restarts(env: Environment) -> Environment:
    """The stack without its ``AutoReset``."""
    return _at_restarts(env, lambda restarts: restarts.env, tree.rebuild)


def _at_restarts(env: Environment, change: Callable[[AutoReset], Environment], rebuild: Callable) -> Environment:
    """The stack with its ``AutoReset`` changed; ``rebuild`` makes the wrappers outside anew, checked or not."""
    if isinstance(env, AutoReset):
        return change(env)
    return rebuild(env, env=_at_restarts(env.env, change, rebuild)) if isinstance(env, Wrapper) else env


def lane_numbers(count: int) -> jax.Array:
    """0 .. count - 1, int32: the lanes' ``env_id``."""
    return jnp.arange(count, dtype=jnp.int32)


def sample_actions(env: Environment, key: jax.Array, num_steps: int) -> Tree:
    """Random actions ``[T, B, ...]`` from the action spec, in NumPy."""
    spec, shape = env.action_spec(), (num_steps, env.num_envs)
    return host(jax.jit(lambda key: specs.sample(spec, key, shape))(key))


def shapes(env: Environment) -> tuple[Tree, Tree]:
    """Shapes and dtypes of what ``reset`` and ``step`` return, as two trees; nothing is compiled."""
    first = jax.eval_shape(lambda env, key: env.reset(key), env, jax.random.key(0))
    later = jax.eval_shape(lambda env, *given: env.step(*given), env, first[0], action_shapes(env))
    return first, later


def action_shapes(env: Environment) -> Tree:
    """Shapes and dtypes of a batch of actions."""
    return jax.tree.map(lambda s: jax.ShapeDtypeStruct((env.num_envs, *s.shape), s.dtype), env.action_spec())


def counted(name: str, function: Any, counts: Counter) -> Any:
    """``function`` under ``jit``, counting in ``counts[name]`` how often it is traced."""

    def traced(*given):
        counts[name] += 1
        return function(*given)

    return jax.jit(traced)


def carries(env: Environment) -> bool:
    """Whether the task in a stack keeps something across episodes."""
    return isinstance(env.unwrapped, Task) and type(env.unwrapped).carry is not Task.carry
