"""Steps of gymnax's environments with all that they draw, for those whose steps are left to chance.

gymnax draws from the key that a step is given. What comes of a key is computed once more beside the step, and fed into
ours.
"""

import contextlib
import functools
import warnings

import jax
import numpy as np

LANES = 2000


@contextlib.contextmanager
def _as_by_default():
    """gymnax mixes dtypes and ranks."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@functools.cache
def peer(id, **options):
    """gymnax's environment; the options are its constructor's."""
    with warnings.catch_warnings(), _as_by_default():
        warnings.simplefilter("ignore")  # it imports plotting libraries
        import gymnax

        return gymnax.make(id, **options)[0]


def spaces(id):
    """Observation shape, dtype and bounds, number of actions or bounds of them, and time limit of gymnax's."""
    env = peer(id)
    with _as_by_default():
        params = env.default_params
        box, actions = env.observation_space(params), env.action_space(params)
        bounds = np.broadcast_to(box.low, box.shape), np.broadcast_to(box.high, box.shape)
        of_actions = getattr(actions, "n", None) or (float(np.max(actions.low)), float(np.max(actions.high)))
        return box.shape, box.dtype, bounds, of_actions, params.max_steps_in_episode


def follow_peer(id, state, actions, draws, seed=0, options=(), **params):
    """gymnax's rows for ``actions [T, B, ...]`` from a batch of its states, without restarts.

    Args:
        id: of gymnax's environment.
        state: fields of its state, each ``[B, ...]``.
        actions: ``[T, B, ...]``.
        draws: ``draws(key, params)``, what one step of one lane draws. One function object compiles once.
        seed: of the keys.
        options: pairs of its constructor's arguments.
        **params: other than by default.

    Returns:
        What was drawn, the next states, observations, rewards and ends, each ``[T, B, ...]``.
    """
    env = peer(id, **dict(options))
    with _as_by_default():
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
    """Counts of what is drawn lie within 4.5 standard deviations of what is expected; nothing impossible occurs."""
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
    """Our bandit's observations, rewards, ends and regrets ``[T, B, ...]``, given what chance adds to each pull."""
    return jax.device_get(_follow_bandit(env, task, actions, noise))
