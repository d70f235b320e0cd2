"""Trajectories ``[T, B, ...]`` of gymnax's environments and of ours from given states, for comparison."""

import contextlib
import functools
import warnings

import jax
import jax.numpy as jnp
import pytest

import jaxenv
from jaxenv import tree


@functools.cache
def peer(id, **options):
    """gymnax's environment; the options are constructor arguments. The test is skipped without gymnax."""
    with warnings.catch_warnings(), default_promotion():
        warnings.simplefilter("ignore")  # gymnax imports plotting libraries
        return pytest.importorskip("gymnax").make(id, **options)[0]


@contextlib.contextmanager
def default_promotion():
    """JAX's default promotion, on which gymnax relies."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def follow_peer(env, state, actions, **params):
    """Steps gymnax's environment with ``actions [T, B, ...]`` from a batch of its states, without restarts.

    Returns:
        The next states, observations, rewards and terminations, each ``[T, B, ...]``.
    """
    # Params are arguments, so that one compilation serves all of them.
    with default_promotion():
        return jax.device_get(_follow_peer(env, state, actions, env.default_params.replace(**params)))


@functools.partial(jax.jit, static_argnums=0)
def _follow_peer(env, state, actions, params):
    key = jax.random.key(0)  # unused: these steps are deterministic

    def advance(state, action):
        observation, state, reward, terminated, _ = env.step_env(key, state, action, params)
        return state, (state, observation, reward, terminated)

    return jax.lax.scan(jax.vmap(advance), state, actions)[1]


@jax.jit
def _follow(env, task, actions):
    lanes = actions.shape[1]
    state, _ = env.reset(jax.random.key(0), jnp.arange(lanes, dtype=jnp.int32))

    def advance(state, action):
        state, timestep = env.step(state, action)
        return state, (state.task, timestep.observation, timestep.reward, timestep.terminated)

    return jax.lax.scan(advance, tree.rebuild(state, task=task), actions)[1]


def follow(env, task, actions):
    """Steps our bare environment from a batch of task states; returns the same as `follow_peer`."""
    return jax.device_get(_follow(env, task, actions))


def bare(id, num_envs=1, **options):
    """Our environment without time limit, restarts and clipping."""
    return jaxenv.spec(id).make(num_envs, **options)


@jax.jit
def _starts(env, key, number):
    return env.reset(key, number)[0].task


def starts(env, lanes=10_000):
    """The initial task states of ``lanes`` lanes."""
    return jax.device_get(_starts(env, jax.random.key(3), jnp.arange(lanes, dtype=jnp.int32)))
