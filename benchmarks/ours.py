"""Rollouts of this library under its random policy or a linear one."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from benchmarks import linear
from benchmarks.measure import Contestant, Row, Unavailable, jax_contestant, one_line
from jaxenv import specs, tree

EPISODES = 3  # minimal duration of a run in mean episodes
LANE_STEPS = 2**20  # minimal number of steps of a run over all lanes, so that it is long enough to time
SUITE_STEPS = 256  # of an environment of another library, whose steps may take long
STORED_BYTES = 2**29  # of the observations of a run that stores them, at most, if one step does not take more


# What a rollout does with its observations -> how it is compared.
LOOPS = {
    "sums": "adds them up",
    "stored": "returns them in whole trajectories [T, B], compared with a broadcast",
    "linear": "acts by a linear layer on them, compared with the product alone",
}


def rollout_of_id(id: str, num_envs: int, num_steps: int, loop: str = "sums") -> Contestant:
    """Returns a rollout of this library with the stack that ``make`` builds, in one of the `LOOPS`.

    Raises:
        Unavailable: If a suite is not installed.
    """
    try:
        env = jaxenv.make(id, num_envs=num_envs)
    except ImportError as error:  # of a suite
        raise Unavailable(one_line(error)) from None
    if loop == "linear":
        return _linear_rollout(env, num_steps)
    return rollout("jaxenv", env, num_steps, loop == "stored")


def rollout(
    name: str,
    env: jaxenv.Environment,
    num_steps: int,
    store: bool = False,
    policy: jaxenv.rollout.Policy | None = None,
) -> Contestant:
    """Returns a rollout of any stack, without a ``policy`` under the random one.

    On all sides of a comparison the action is drawn at the end of the loop body and carried. The step thus reads it
    from an array, as it would read the action of a learner, and the compiler cannot recompute it in every consumer.
    """
    chosen = jaxenv.rollout.random_policy(env) if policy is None else policy

    def act(state, timestep):
        return chosen(timestep, jaxenv.rollout.policy_stream(env, state))

    def start(key):
        state, timestep = env.reset(key)
        return state, timestep, act(state, timestep)

    def step(carry):
        state, _, action = carry
        state, t = env.step(state, action)
        row = Row(t.observation, action, _reward_and_statistics(t), t.terminated, t.truncated, ~t.is_first())
        return (state, t, act(state, t)), row

    found = jax_contestant(name, start, step, env.num_envs, num_steps, store)
    return dataclasses.replace(found, close=env.close)


def _linear_rollout(env: jaxenv.Environment, num_steps: int) -> Contestant:
    """Returns the rollout of a learner: it carries state and TimeStep, and acts by the `linear` policy."""
    spec = env.action_spec()

    def start(key):
        state, timestep = env.reset(key)
        return linear.weights(key, timestep.observation, spec), state, timestep

    def step(carry):
        weights, state, timestep = carry
        stream = jaxenv.rollout.policy_stream(env, state)
        action = linear.act(spec, weights, timestep.observation, lambda n: jaxenv.random.uniform(stream, (n,)))
        state, t = env.step(state, action)
        # The next product reads the observation.
        row = Row((), action, _reward_and_statistics(t), t.terminated, t.truncated, ~t.is_first())
        return (weights, state, t), row

    return jax_contestant("jaxenv", start, step, env.num_envs, num_steps, store=False)


def product(id: str, num_envs: int, num_steps: int) -> Contestant:
    """Returns a loop of nothing but the matrix product of the `linear` policy of ``id``: the share that all sides have.

    The observations are floats that stay the same.
    """
    env = jaxenv.make(id, num_envs=num_envs)
    observation = linear.flat(specs.zeros(env.observation_spec(), num_envs))

    def start(key):
        one = jax.random.normal(key, (num_envs, 1))
        return linear.weights(key, observation, env.action_spec()), jnp.broadcast_to(one, observation.shape)

    def step(carry):
        weights, observation = carry
        # Each product depends on the one before, so that the compiler cannot move it out of the loop.
        outputs = jnp.max(observation @ weights, axis=0)
        flag = jnp.zeros(num_envs, bool)
        return (weights + np.float32(1e-6) * outputs, observation), Row((), (), outputs[:1], flag, flag, ~flag)

    return jax_contestant("product", start, step, num_envs, num_steps, store=False)


def broadcast(id: str, num_envs: int, num_steps: int) -> Contestant:
    """Returns a loop that stores rows of the shapes of ``id``, each filled with one word per lane.

    It is the limit of storing trajectories on this machine: a loop that computes nothing writes as many bytes.
    """
    env = jaxenv.make(id, num_envs=num_envs)
    t = env.start_shapes()[1]

    def step(word):
        # As little arithmetic as keeps the compiler from moving the rows out of the loop.
        word = word * np.uint32(1664525) + np.uint32(1013904223)
        flag = word >= np.uint32(2**31)

        def filled(x):
            return jnp.broadcast_to(tree.expand(flag, x.ndim), x.shape).astype(x.dtype)

        observation, action = jax.tree.map(filled, (t.observation, specs.batched(env.action_spec(), num_envs)))
        return word, Row(observation, action, filled(t.reward), flag, flag, jnp.ones_like(flag))

    return jax_contestant(
        "broadcast", lambda key: jax.random.bits(key, (num_envs,)), step, num_envs, num_steps, store=True
    )


def observation_bytes(id: str) -> int:
    """Returns the number of bytes of one observation."""
    leaves = jax.tree.leaves(jaxenv.make(id).start_shapes()[1].observation)
    return sum(x.size * x.dtype.itemsize for x in leaves)


def _reward_and_statistics(t: jaxenv.TimeStep) -> jax.Array:
    """Adds the report of ``EpisodeStatistics`` to the reward, since the compiler removes results that are not read."""
    if "episode" not in t.env_info:
        return t.reward
    episode = t.env_info["episode"]
    return t.reward + episode["return"] + episode["length"].astype(np.float32) + episode["truncated"].astype(np.float32)


def default_num_steps(id: str, num_envs: int, loop: str = "sums") -> int:
    """Returns the number of steps of a run: at least three mean episodes of a random policy, with their FIRST rows.

    Where observations are stored, there are at most as many steps as `STORED_BYTES` hold. Suites run `SUITE_STEPS`.
    """
    if ":" in id:
        return SUITE_STEPS
    num_steps = max(math.ceil(EPISODES * (_mean_length(id) + 1)), math.ceil(LANE_STEPS / num_envs))
    return min(num_steps, max(1, STORED_BYTES // (num_envs * observation_bytes(id)))) if loop == "stored" else num_steps


@functools.cache
def _mean_length(id: str) -> float:
    env = jaxenv.make(id, num_envs=64)
    policy, longest = jaxenv.rollout.random_policy(env), 5000
    play = jax.jit(lambda key: jaxenv.evaluate(env, policy, key, max_steps=longest))
    evaluation = play(jax.random.key(0))
    return float(jnp.where(evaluation.finished, evaluation.lengths, longest).mean())
