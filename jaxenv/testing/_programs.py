"""The compiled programs that the checks share, and the shapes of what they return."""

import jax
import jax.numpy as jnp

from jaxenv import specs
from jaxenv.environment import Environment
from jaxenv.testing._compare import to_numpy
from jaxenv.timestep import TimeStep
from jaxenv.tree import Tree

# The environment is an argument, so that environments with equal configuration share the compiled code.


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
    """Steps through ``actions`` ``[T, B, ...]``: states and rows ``[T + 1, B, ...]``, starting with the given ones."""

    def one_step(carry, action):
        carry = env.step(carry[0], action)
        return carry, carry

    _, later = jax.lax.scan(one_step, (state, timestep), actions)
    return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), (state, timestep), later)


@jax.jit
def replay(env: Environment, states: Tree, actions: Tree) -> tuple[Tree, TimeStep]:
    """One step from each of ``states`` ``[T, B, ...]``: the next states and rows, ``[T, B, ...]``."""
    return jax.lax.map(lambda given: env.step(*given), (states, actions))


def lane_numbers(count: int) -> jax.Array:
    """0 to count - 1, int32: the ``env_id`` of the lanes."""
    return jnp.arange(count, dtype=jnp.int32)


def sample_actions(env: Environment, key: jax.Array, num_steps: int) -> Tree:
    """Random actions ``[T, B, ...]`` from the action spec, as NumPy arrays."""
    spec, shape = env.action_spec(), (num_steps, env.num_envs)
    return to_numpy(jax.jit(lambda key: specs.sample(spec, key, shape))(key))


def output_shapes(env: Environment) -> tuple[Tree, Tree]:
    """Shapes and dtypes of the outputs of ``reset`` and ``step``, as two trees; nothing is compiled."""
    of_reset = jax.eval_shape(lambda env, key: env.reset(key), env, jax.random.key(0))
    of_step = jax.eval_shape(lambda env, *args: env.step(*args), env, of_reset[0], action_shapes(env))
    return of_reset, of_step


def action_shapes(env: Environment) -> Tree:
    """Shapes and dtypes of a batch of actions."""
    return jax.tree.map(lambda s: jax.ShapeDtypeStruct((env.num_envs, *s.shape), s.dtype), env.action_spec())
