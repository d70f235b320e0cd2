"""What the tests of the probes share: recorded games of ALF's classes, and our steps from given states.

``alf.npz`` holds games of ALF's ``NoisyArray``, ``StochasticWithRiskyBranch`` and ``BouncingSquares`` (its commits
3d29b85, 3bea035 and 7399e12), played with NumPy's seed 0, for ALF cannot be installed beside this library.
"""

import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from jaxenv import tree


@functools.cache
def games():
    """The recorded arrays by name."""
    with np.load(pathlib.Path(__file__).with_name("alf.npz")) as arrays:
        return dict(arrays)


def bare(id, num_envs=1, **options):
    """Our environment alone: no time limit, no restarts, no clipping."""
    return jaxenv.spec(id).make(num_envs, **options)


@jax.jit
def _reset(env, key, number):
    return env.reset(key, number)


def reset(env, lanes, seed=0):
    """State and first row of as many lanes."""
    return _reset(env, jax.random.key(seed), np.arange(lanes, dtype=np.int32))


@jax.jit
def _follow(env, state, actions):
    return jax.lax.scan(lambda state, action: _both(env.step(state, action)), state, actions)[1]


def _both(stepped):
    return stepped[0], stepped


def follow(env, state, actions):
    """States and TimeSteps after each of ``actions [T, B, ...]``."""
    return jax.device_get(_follow(env, state, actions))


@jax.jit
def _placed(env, task):
    state, _ = env.reset(jax.random.key(1), jnp.arange(len(jax.tree.leaves(task)[0]), dtype=jnp.int32))
    return tree.rebuild(state, task=task)


def placed(env, task):
    """A state of our bare environment whose lanes stand in given task states."""
    return _placed(env, task)
