"""Common parts of the tests of the probes: recorded episodes of ALF's environments, and steps from given states.

``alf.npz`` contains episodes of ALF's ``NoisyArray``, ``StochasticWithRiskyBranch`` and ``BouncingSquares`` (commits
3d29b85, 3bea035 and 7399e12), recorded with NumPy's seed 0 because ALF cannot be installed together with this library.
"""

import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from jaxenv import tree


@functools.cache
def recordings():
    """Returns the recorded arrays by name."""
    with np.load(pathlib.Path(__file__).with_name("alf.npz")) as arrays:
        return dict(arrays)


def bare(id, num_envs=1, **options):
    """Returns our environment without time limit, restarts and clipping."""
    return jaxenv.spec(id).make(num_envs, **options)


@jax.jit
def _reset(env, key, number):
    return env.reset(key, number)


def reset(env, lanes, seed=0):
    """Returns the state and the first rows of ``lanes`` lanes."""
    return _reset(env, jax.random.key(seed), np.arange(lanes, dtype=np.int32))


@jax.jit
def _follow(env, state, actions):
    return jax.lax.scan(lambda state, action: _both(env.step(state, action)), state, actions)[1]


def _both(stepped):
    return stepped[0], stepped


def follow(env, state, actions):
    """Returns the states and TimeSteps after each of ``actions``, ``[T, B, ...]``."""
    return jax.device_get(_follow(env, state, actions))


@jax.jit
def _placed(env, task):
    state, _ = env.reset(jax.random.key(1), jnp.arange(len(jax.tree.leaves(task)[0]), dtype=jnp.int32))
    return tree.rebuild(state, task=task)


def placed(env, task):
    """Returns a state of our bare environment with the given task states."""
    return _placed(env, task)
