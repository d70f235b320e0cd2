"""Stacks under test: changes to them, the compiled programs that the checks share, and the shapes of their results."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._util.programs import eval_shape, jitted, programs_of
from jaxenv.core._declared import Declared, declared_leaves, map_declared
from jaxenv.core.environment import Environment
from jaxenv.core.multitask import Multitask
from jaxenv.core.task import Task
from jaxenv.core.timestep import TimeStep
from jaxenv.core.wrapper import Wrapper, layers
from jaxenv.specs._trees import fit_fault
from jaxenv.testing._compare import to_numpy
from jaxenv.testing.report import Failure
from jaxenv.tree import Tree
from jaxenv.tree._typed_keys import is_key
from jaxenv.wrappers import AutoReset, TimeLimit, stack

E = TypeVar("E", bound=Environment)

LANES = 7
# A prime, above the range of 8-bit integers and the lanes that one block of a compact restart starts.
MANY_LANES = 307
# Different time limits make lanes end at different times; every other lane runs until its task ends.
NO_LIMIT = 10**6
LIMITS = np.array([1, NO_LIMIT, 4, NO_LIMIT, 7, NO_LIMIT, 10], np.int32)
# Most of the time of a check is compilation. With less optimised code and XLA's older emitters it takes a third of it.
_QUICK = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}


def quick(function: Callable[..., Any]) -> Callable[..., Any]:
    """Acts as `jitted`, for compilation in little time; JAX refuses its options inside of a trace."""

    @functools.wraps(function)
    def call(env: Environment, *args: Any) -> Any:
        return programs_of(env).jitted(function, compiler_options=quick_options())(jax.tree.leaves(env), *args)

    return call


@functools.cache
def quick_options() -> dict[str, Any]:
    """Returns the options of the compiler; none where it does not know them."""
    if jax.default_backend() == "cpu":
        with contextlib.suppress(Exception):
            jax.jit(lambda: 0, compiler_options=_QUICK)()
            return _QUICK
    return {}


@jitted
def step(env: Environment, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
    """Calls ``step``, compiled as users compile it; other checks compare the other programs with this one."""
    return env.step(state, action)


def start(env: Environment, keys: jax.Array, env_id: np.ndarray | None = None) -> tuple[Tree, TimeStep]:
    """Calls ``reset`` with one key for all lanes, or one per lane: the state and the rows of NumPy."""
    return to_numpy(_start(env, keys, np.arange(env.num_envs, dtype=np.int32) if env_id is None else env_id))


@quick
def _start(env: Environment, keys: jax.Array, env_id: jax.Array) -> tuple[Tree, TimeStep]:
    return env.reset(keys, env_id)


@quick
def take(env: Environment, index: jax.Array) -> Environment:
    """Calls ``take`` with ``index``, int32 ``[K]``; eagerly, each of its operations would be compiled."""
    return env.take(index)


def run(env: Environment, state: Tree, timestep: TimeStep, actions: Tree) -> tuple[Tree, TimeStep]:
    """Steps through ``actions`` ``[T, B, ...]``: states and rows ``[T + 1, B, ...]`` of NumPy, from the given ones."""
    first = to_numpy((state, timestep))
    return jax.tree.map(lambda x, rest: _numbers(x).concatenate([x[None], rest]), first, run_on(env, first[0], actions))


def run_on(env: Environment, state: Tree, actions: Tree) -> tuple[Tree, TimeStep]:
    """Steps through ``actions`` ``[T, B, ...]``: states and rows ``[T, B, ...]`` of NumPy."""
    num_steps = len(jax.tree.leaves(actions)[0])
    given = jax.tree.map(lambda x: _numbers(x).broadcast_to(x, (num_steps, *x.shape)), to_numpy(state))
    return to_numpy(_steps(env, state, given, np.array(False), actions))


def replay(env: Environment, states: Tree, actions: Tree) -> tuple[Tree, TimeStep]:
    """Takes one step from each of ``states`` ``[T, B, ...]``: the next states and rows ``[T, B, ...]`` of NumPy."""
    first = jax.tree.map(lambda x: x[0], states)
    return to_numpy(_steps(env, first, states, np.array(True), actions))


@quick
def _steps(env: Environment, state: Tree, given: Tree, uses_given: jax.Array, actions: Tree) -> tuple[Tree, TimeStep]:
    """Steps from ``given[t]`` if ``uses_given``, else from the last state: one program for `run` and `replay`."""

    def one_step(state: Tree, inputs: tuple[Any, jax.Array]) -> tuple[Any, ...]:
        given, action = inputs
        after = env.step(jax.tree.map(lambda x, y: jnp.where(uses_given, x, y), given, state), action)
        return after[0], after

    return jax.lax.scan(one_step, state, (given, actions))[1]


def replayed(env: Environment, states: Tree, actions: Tree) -> tuple[Tree, TimeStep]:
    """Acts as `replay` inside of a trace."""
    return jax.lax.map(lambda given: env.step(*given), (states, actions))


def _numbers(x: Any) -> Any:
    """Returns the module whose functions apply to an array: JAX for typed keys, otherwise NumPy."""
    return jnp if is_key(x) else np


def sample(spec: Tree, key: jax.Array, shape: tuple[int, ...]) -> Tree:
    return to_numpy(_sample(tree.Static(spec), key, shape))


@functools.partial(jax.jit, static_argnums=(0, 2))
def _sample(spec: tree.Static, key: jax.Array, shape: tuple[int, ...]) -> Tree:
    return specs.sample(spec.value, key, shape)


def output_shapes(env: Environment) -> tuple[Tree, Tree]:
    """Returns shapes and dtypes of the outputs of ``reset`` and ``step``, as two trees; nothing is compiled."""
    of_reset = eval_shape(lambda env, key: env.reset(key), env, jax.random.key(0))
    return of_reset, eval_shape(lambda env, *args: env.step(*args), env, of_reset[0], action_shapes(env))


def require_rows_match_specs(env: Environment, level: str = "") -> None:
    """Raises a `Failure` unless rows have the structure, shapes and dtypes of ``time_step_spec``."""
    spec = specs.unbatched(specs.batched(env.time_step_spec(), 0))  # without bounds
    for method, (_, timestep) in zip(("reset", "step"), output_shapes(env), strict=True):
        if (fault := fit_fault(spec, timestep, (LANES,))) is not None:
            raise Failure(f"{method}{level}: {fault}")


def action_shapes(env: Environment) -> Tree:
    return jax.tree.map(lambda s: jax.ShapeDtypeStruct((env.num_envs, *s.shape), s.dtype), env.action_spec())


# --- changes to a stack -----------------------------------------------------------------------------------------------


def with_restarts(env: Environment, limits: np.ndarray = LIMITS) -> Environment:
    """Adds one time limit per lane and an ``AutoReset`` where `jaxenv.stack` places them."""
    for layer in layers(env):
        if isinstance(layer, AutoReset):
            return with_autoreset(env, env=with_limits(layer.env, limits))
    if env.autoreset is not None:
        return env
    env = with_limits(env, limits)
    return stack.assemble(*stack.split(env, env.unwrapped))


def with_limits(env: Environment, limits: np.ndarray = LIMITS) -> Environment:
    """Puts these limits in the outermost ``TimeLimit``, or in one added where `jaxenv.stack` places it."""
    task, added = stack.split(env, env.unwrapped)
    if places := [place for place, wrapper in enumerate(added) if isinstance(wrapper, TimeLimit)]:
        added[places[-1]] = tree.rebuild(added[places[-1]], duration=limits, follows_params=False)
        return stack.assemble(task, added, autoreset=None)
    return stack.assemble(task, added, limits, autoreset=None)


def in_mode(env: Environment, mode: str) -> Environment:
    """Sets the mode of ``AutoReset`` in a stack; a wrapper outside of it may raise a ``ValueError``."""
    return with_autoreset(env, dataclasses.replace, mode=mode)


def with_autoreset(env: Environment, rebuild: Callable[..., Any] = tree.rebuild, /, **changes: Any) -> Environment:
    """Changes the ``AutoReset`` of a stack; ``rebuild`` rebuilds the wrappers outside, with or without checks."""
    if isinstance(env, AutoReset):
        return tree.rebuild(env, **changes)
    return rebuild(env, env=with_autoreset(env.env, rebuild, **changes)) if isinstance(env, Wrapper) else env


def per_lane(env: E, *, varied: bool, only: str | None = None) -> tuple[E, list[str]]:
    """Gives shared values (all, or ``only`` one name) per lane; returns the stack and the names of the values.

    With ``varied`` they differ between lanes: floats by up to a tenth, integers by one if the classes accept that.
    """
    names: list[str] = []

    def spread(d: Declared) -> np.ndarray:
        name = d.path.split(".")[-1]
        if d.per_lane or d.dtype is None or only not in (None, name):
            return d.value
        names.append(name)
        values = np.broadcast_to(np.asarray(d.value, d.dtype), (LANES, *np.shape(d.value))).copy()
        if varied and d.dtype.kind == "f":
            values *= tree.expand(1 - np.arange(LANES, dtype=np.float32) / (10 * LANES), values.ndim)
        return values

    integers = [d.path for d in declared_leaves(env) if not d.per_lane and d.dtype is not None and d.dtype.kind == "i"]
    env = map_declared(spread, env)
    for path in integers if varied else ():
        env = _with_varied_integer(env, path)
    return env, names


def _with_varied_integer(env: E, path: str) -> E:
    """Adds one to an integer in every other lane, unless a class refuses that."""

    def add(d: Declared) -> Any:
        return d.value + tree.expand(np.arange(LANES, dtype=np.int32) % 2, d.value.ndim) if d.path == path else d.value

    changed = map_declared(add, env)
    try:
        for layer in layers(changed):
            layer.check()
    except ValueError:
        return env
    return changed


def carries(env: Environment) -> bool:
    """Returns whether the task, or one of several, keeps part of its state across episodes."""
    task = env.unwrapped
    if isinstance(task, Multitask):
        return any(carries(one) for one in task.envs)
    return isinstance(task, Task) and type(task).carry is not Task.carry
