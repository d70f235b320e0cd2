"""Loading and running gymnax's environments for the tests of the suite."""

import jax
import numpy as np

import jaxenv
from jaxenv import specs
from jaxenv.core.wrapper import layers

LANES = 8
# The ids of gymnax but MNISTBandit-bsuite, whose data gymnax downloads.
IDS = (
    *("Acrobot-v1", "Asterix-MinAtar", "BernoulliBandit-misc", "Breakout-MinAtar", "CartPole-v1"),
    *("Catch-bsuite", "DeepSea-bsuite", "DiscountingChain-bsuite", "FourRooms-misc", "Freeway-MinAtar"),
    *("FrozenLake-misc", "GaussianBandit-misc", "MemoryChain-bsuite", "MetaMaze-misc", "MountainCar-v0"),
    *("MountainCarContinuous-v0", "Pendulum-v1", "PointRobot-misc", "Pong-misc", "Reacher-misc"),
    *("Seaquest-MinAtar", "SimpleBandit-bsuite", "SpaceInvaders-MinAtar", "Swimmer-misc", "UmbrellaChain-bsuite"),
)


def load(id, num_envs=LANES, **kwargs):
    return jaxenv.make(f"gymnax:{id}", num_envs, **kwargs)


@jax.jit
def start(env, key):
    return env.reset(key)


@jax.jit
def play(env, state, actions):
    """The last state and the trajectory ``[T, B]`` for actions ``[T, B, ...]``."""
    return jax.lax.scan(env.step, state, actions)


def rollout(env, num_steps, actions=None, key=0):
    """The FIRST rows, the last state and the trajectory of ``num_steps`` random or given actions."""
    if actions is None:
        actions = jax.device_get(specs.sample(env.action_spec(), jax.random.key(1), (num_steps, env.num_envs)))
    state, first = start(env, jax.random.key(key))
    return first, *play(env, state, actions)


def bare(id, num_envs, **kwargs):
    """The task at the bottom of the stack."""
    return layers(load(id, num_envs, **kwargs))[-1]


def task_of(state):
    """The task's own state within the state of a stack."""
    while not hasattr(state, "task"):
        state = state.inner
    return state.task


def zeros(function, *arguments):
    """Zeros in the structure that ``function(*arguments)`` returns."""
    return jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), jax.eval_shape(function, *arguments))


def kinds(shapes):
    """Shape, dtype and weak type of every leaf."""
    return [(s.shape, s.dtype, getattr(s, "weak_type", False)) for s in jax.tree.leaves(shapes)]
