"""The compiled programs that the checks share, and the shapes of their results."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._util.programs import eval_shape, jitted, programs_of
from jaxenv.core.environment import Environment
from jaxenv.core.timestep import TimeStep
from jaxenv.testing._compare import to_numpy
from jaxenv.tree import Tree
from jaxenv.tree._typed_keys import is_key

# Most of the time of a check is compilation. With less optimised code and XLA's older emitters it takes a third of it.
_QUICK = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}


def quick(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Jits a module-level function whose first argument is an environment, for compilation in little time.

    The environment is an argument, so that environments with equal configuration share the compiled code. Traces call
    the function itself, since JAX refuses the options there.
    """

    @functools.wraps(function)
    def call(env: Environment, *args: Any) -> Any:
        if any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves((env, args))):
            return function(env, *args)
        program = programs_of(env).jitted(function, compiler_options=quick_options(), **options)
        return program(jax.tree.leaves(env), *args)

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


@quick
def start(env: Environment, keys: jax.Array, env_id: jax.Array) -> tuple[Tree, TimeStep]:
    """Calls ``reset`` with one key for all lanes, or one per lane."""
    return env.reset(keys, env_id)


@quick
def take(env: Environment, index: jax.Array) -> Environment:
    """Calls ``take`` with ``index``, int32 ``[K]``; eagerly, each of its operations would be compiled."""
    return env.take(index)


def run(env: Environment, state: Tree, timestep: TimeStep, actions: Tree) -> tuple[Tree, TimeStep]:
    """Steps through ``actions`` ``[T, B, ...]``: states and rows ``[T + 1, B, ...]`` of NumPy, from the given ones."""
    first = to_numpy((state, timestep))
    later = run_on(env, first[0], actions)
    return jax.tree.map(lambda x, rest: _numbers(x).concatenate([x[None], rest]), first, later)


def run_on(env: Environment, state: Tree, actions: Tree) -> tuple[Tree, TimeStep]:
    """Steps through ``actions`` ``[T, B, ...]``: states and rows ``[T, B, ...]`` of NumPy."""
    num_steps = len(jax.tree.leaves(actions)[0])
    given = jax.tree.map(lambda x: _numbers(x).broadcast_to(x, (num_steps, *x.shape)), to_numpy(state))
    return to_numpy(_steps(env, state, given, np.zeros(num_steps, bool), actions))


def replay(env: Environment, states: Tree, actions: Tree) -> tuple[Tree, TimeStep]:
    """Takes one step from each of ``states`` ``[T, B, ...]``: the next states and rows ``[T, B, ...]`` of NumPy."""
    num_steps = len(jax.tree.leaves(actions)[0])
    first = jax.tree.map(lambda x: x[0], states)
    return to_numpy(_steps(env, first, states, np.ones(num_steps, bool), actions))


@quick
def _steps(env: Environment, state: Tree, given: Tree, uses_given: jax.Array, actions: Tree) -> tuple[Tree, TimeStep]:
    """Steps from ``given[t]`` where ``uses_given[t]``, else from the last state: one program for `run` and `replay`."""

    def one_step(state: Tree, inputs: tuple[Any, jax.Array, jax.Array]) -> tuple[Any, ...]:
        given, uses_given, action = inputs
        after = env.step(jax.tree.map(lambda x, y: jnp.where(uses_given, x, y), given, state), action)
        return after[0], after

    return jax.lax.scan(one_step, state, (given, uses_given, actions))[1]


def replayed(env: Environment, states: Tree, actions: Tree) -> tuple[Tree, TimeStep]:
    """Acts as `replay` inside of a trace."""
    return jax.lax.map(lambda given: env.step(*given), (states, actions))


def take_keys(keys: jax.Array, index: Any) -> jax.Array:
    """Returns ``keys[index]``; unlike JAX's own indexing it compiles nothing for each index."""
    return jax.random.wrap_key_data(np.asarray(jax.random.key_data(keys))[index], impl=jax.random.key_impl(keys))


def _numbers(x: Any) -> Any:
    """Returns the module whose functions apply to an array: JAX for typed keys, otherwise NumPy."""
    return jnp if is_key(x) else np


def lane_numbers(count: int) -> np.ndarray:
    """Returns 0 to count - 1, int32: the ``env_id`` of the lanes."""
    return np.arange(count, dtype=np.int32)


def sample(spec: Tree, key: jax.Array, shape: tuple[int, ...]) -> Tree:
    """Draws random values from a tree of specs, as NumPy arrays."""
    return to_numpy(_sample(tree.Static(spec), key, shape))


@functools.partial(jax.jit, static_argnums=(0, 2))
def _sample(spec: tree.Static, key: jax.Array, shape: tuple[int, ...]) -> Tree:
    return specs.sample(spec.value, key, shape)


def output_shapes(env: Environment) -> tuple[Tree, Tree]:
    """Returns shapes and dtypes of the outputs of ``reset`` and ``step``, as two trees; nothing is compiled."""
    of_reset = eval_shape(lambda env, key: env.reset(key), env, jax.random.key(0))
    of_step = eval_shape(lambda env, *args: env.step(*args), env, of_reset[0], action_shapes(env))
    return of_reset, of_step


def action_shapes(env: Environment) -> Tree:
    """Returns shapes and dtypes of a batch of actions."""
    return jax.tree.map(lambda s: jax.ShapeDtypeStruct((env.num_envs, *s.shape), s.dtype), env.action_spec())


def equations(jaxpr: Any) -> Iterator[Any]:
    """Yields all equations of a jaxpr and of the jaxprs nested in it."""
    for equation in jaxpr.eqns:
        yield equation
        for value in jax.tree.leaves(equation.params, is_leaf=_is_jaxpr):
            if _is_jaxpr(value):
                yield from equations(getattr(value, "jaxpr", value))


def _is_jaxpr(value: Any) -> bool:
    return hasattr(value, "eqns") or hasattr(getattr(value, "jaxpr", None), "eqns")
