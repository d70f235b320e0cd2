"""Trajectories of gymnax's stochastic environments together with their draws.

gymnax draws from the key passed to a step. The tests compute the same draws from the same key and pass them to ours.
"""

import functools

import jax
import numpy as np

from tests.envs.misc.gymnax_rollouts import default_promotion, peer

LANES = 2000


def spaces(id):
    """gymnax's observation shape, dtype and bounds, number of actions or their bounds, and time limit."""
    env = peer(id)
    with default_promotion():
        params = env.default_params
        box, actions = env.observation_space(params), env.action_space(params)
        bounds = np.broadcast_to(box.low, box.shape), np.broadcast_to(box.high, box.shape)
        of_actions = getattr(actions, "n", None) or (float(np.max(actions.low)), float(np.max(actions.high)))
        return box.shape, box.dtype, bounds, of_actions, params.max_steps_in_episode


def follow_peer(id, state, actions, draws, seed=0, options=(), **params):
    """Steps gymnax's environment with ``actions [T, B, ...]`` from a batch of its states, without restarts.

    Args:
        id: gymnax's id.
        state: the fields of its state, each ``[B, ...]``.
        actions: ``[T, B, ...]``.
        draws: ``draws(key, params)`` returns the draws of one step of one lane. Each function object compiles once.
        seed: the seed of the keys.
        options: pairs of constructor arguments.
        **params: params that differ from the defaults.

    Returns:
        Draws, next states, observations, rewards and terminations, each ``[T, B, ...]``.
    """
    env = peer(id, **dict(options))
    with default_promotion():
        params = env.default_params.replace(**params)
        state = type(jax.eval_shape(env.reset_env, jax.random.key(0), params)[1])(**state)
        return jax.device_get(_follow_peer(env, draws, state, actions, np.uint32(seed), params))


@functools.partial(jax.jit, static_argnums=(0, 1))
def _follow_peer(env, draws, state, actions, seed, params):
    def one(state, action, key):
        observation, state, reward, terminated, _ = env.step_env(key, state, action, params)
        return state, (draws(key, params), state, observation, reward, terminated)

    def all_lanes(carry, action):
        key, state = carry
        key, key_step = jax.random.split(key)
        state, row = jax.vmap(one)(state, action, jax.random.split(key_step, action.shape[0]))
        return (key, state), row

    return jax.lax.scan(all_lanes, (jax.random.key(seed), state), actions)[1]


def assert_counts_fit(counts, expected, what="counts"):
    """Compares counts of draws with expectations to within 4.5 standard deviations; the impossible must not occur."""
    counts, expected = np.asarray(counts, float), np.asarray(expected, float)
    assert not np.any(counts[expected == 0]), f"{what}: the impossible occurred"
    off = np.abs(counts - expected) - 4.5 * np.sqrt(expected)
    worst = np.unravel_index(np.argmax(off), off.shape)
    assert off[worst] <= 0, f"{what}: {counts[worst]:.0f} at {worst}, expected {expected[worst]:.1f}"


@jax.jit
def _follow_bandit(env, task, actions, noise):
    def one(task, row):
        out = env.advance(task, *row)
        return out.state, (env.observe(out.state), out.reward, out.terminated, out.env_info["regret"])

    return jax.lax.scan(one, task, (actions, noise))[1]


def follow_bandit(env, task, actions, noise):
    """Our bandit's observations, rewards, terminations and regrets ``[T, B, ...]``, given the noise of each pull."""
    return jax.device_get(_follow_bandit(env, task, actions, noise))
