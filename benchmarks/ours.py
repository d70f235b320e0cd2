"""Rollouts of this library under its random policy."""

import functools
import math

import jax
import numpy as np

import jaxenv
from benchmarks.measure import Contestant, Row, jax_contestant

EPISODES = 3  # a run lasts at least so many mean episodes
LANE_STEPS = 2**20  # and takes at least so many steps of single lanes, so that its time can be read


def ours(id: str, num_envs: int, num_steps: int, store: bool) -> Contestant:
    """This library, as ``make`` builds it."""
    return rollout("jaxenv", jaxenv.make(id, num_envs=num_envs), num_steps, store)


def rollout(name: str, env: jaxenv.Environment, num_steps: int, store: bool = False, seeds: int = 0) -> Contestant:
    """A rollout of any stack; with ``seeds`` of so many at once, under ``vmap``.

    The action is drawn at the end of the loop's body and carried, on all sides of a comparison: so it is an array that
    the step reads, as that of a learner is, and not something that the compiler works out again in every consumer.
    """
    policy = jaxenv.rollout.random_policy(env)

    def act(state, timestep):
        return policy(timestep, jaxenv.rollout.policy_stream(env, state))

    def start(key):
        state, timestep = env.reset(key)
        return state, timestep, act(state, timestep)

    def step(carry):
        state, _, action = carry
        state, t = env.step(state, action)
        row = Row(t.observation, action, _paid(t), t.terminated, t.truncated, ~t.is_first())
        return (state, t, act(state, t)), row

    if not seeds:
        return jax_contestant(name, start, step, env.num_envs, num_steps, store)

    def step_all(carry):
        carry, row = jax.vmap(step)(carry)
        return carry, jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), row)

    start_all = jax.vmap(start)
    return jax_contestant(
        name, lambda key: start_all(jax.random.split(key, seeds)), step_all, seeds * env.num_envs, num_steps, store
    )


def _paid(t: jaxenv.TimeStep) -> jax.Array:
    """The reward, with it what ``EpisodeStatistics`` reports: what nobody reads is not computed."""
    if "episode" not in t.env_info:
        return t.reward
    episode = t.env_info["episode"]
    return t.reward + episode["return"] + episode["length"].astype(np.float32) + episode["truncated"].astype(np.float32)


def default_num_steps(id: str, num_envs: int) -> int:
    """Steps for at least three mean episodes of a random policy, begun by FIRST rows, and a time that can be read."""
    return max(math.ceil(EPISODES * (_mean_length(id) + 1)), math.ceil(LANE_STEPS / num_envs))


@functools.cache
def _mean_length(id: str) -> float:
    env = jaxenv.make(id, num_envs=64)
    played = jaxenv.evaluate(env, jaxenv.rollout.random_policy(env), jax.random.key(0), max_steps=5000)
    return float(played.lengths.mean())
