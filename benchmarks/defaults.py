"""Loops as a user writes them, with nothing set: `unroll` and `fold`, and ``jax.lax.scan`` around ``env.step``.

Both sides run purejaxrl's scan: it splits one key before every step, draws the actions with JAX's random
numbers and stores rewards and ends. The policy is uniform or a linear layer.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import jaxenv
from benchmarks import linear, peers
from benchmarks.measure import Contestant, Unavailable, compiled

# Each loop and what it is compared with.
RATIOS = {"unroll": "gymnax", "fold": "gymnax", "scan": "gymnax", "scan, linear": "gymnax, linear"}


def loops(id: str, num_envs: int, num_steps: int, gymnax: bool) -> tuple[list[Contestant], list[str]]:
    """Returns the loops of both libraries, and a note if gymnax is missing. `RATIOS` names those to compare."""
    env = jaxenv.make(id, num_envs=num_envs)
    found = [compiled("unroll", _unroll(env, num_steps)), compiled("fold", _fold(env, num_steps))]
    sides, notes = {"scan": _of_jaxenv(env)}, []
    if gymnax:
        try:
            sides["gymnax"] = _of_gymnax(*peers.gymnax_env(id), num_envs)
        except Unavailable as error:
            notes = [str(error)]
    for name, side in sides.items():
        for policy in ("", ", linear"):
            program = _scan(*side, env.action_spec(), num_envs, num_steps, bool(policy))
            found.append(compiled(name + policy, program))
    return found, notes


def _unroll(env: jaxenv.Environment, num_steps: int) -> Callable[[jax.Array], dict[str, Any]]:
    def program(key):
        policy = jaxenv.rollout.random_policy(env)
        _, rows = jaxenv.unroll(env, policy, *env.reset(key), num_steps, fields=["reward", "step_type"])
        last = rows.timestep.step_type == jaxenv.StepType.LAST
        # The action of a row that ends an episode is not carried out: it restarts the lane.
        return {"steps": jnp.sum(~last), "terminated": jnp.sum(last), "truncated": 0, "reward": rows.timestep.reward}

    return program


def _fold(env: jaxenv.Environment, num_steps: int) -> Callable[[jax.Array], dict[str, Any]]:
    def program(key):
        state, timestep = env.reset(key)
        policy, total = jaxenv.rollout.random_policy(env), jnp.zeros_like(timestep.reward)
        end = jaxenv.rollout.fold(env, policy, lambda x, _, t: x + t.reward, total, state, timestep, num_steps)
        return {"steps": end.steps, "terminated": end.episodes, "truncated": 0, "reward": end.value}

    return program


def _scan(
    reset: Callable, step: Callable, restarts: bool, action_spec: Any, num_envs: int, num_steps: int, has_layer: bool
) -> Callable[[jax.Array], dict[str, Any]]:
    """Returns the loop around a step.

    Args:
        reset: Maps a key to state and observation.
        step: Maps state, actions and a key to state, observation, reward and the end of the episode.
        restarts: Whether the step after an end restarts the lane and carries out no action.
        action_spec: This library's spec of the action.
        num_envs: Number of lanes, B.
        num_steps: Number of steps, T.
        has_layer: Act by a linear layer on the observation, not uniformly.
    """

    def one_step(carry, _):
        weights, state, observation, key = carry
        key, key_action, key_step = jax.random.split(key, 3)
        uniform = lambda n: jax.random.uniform(key_action, (num_envs, n))  # noqa: E731
        if has_layer:
            action = linear.act(action_spec, weights, observation, uniform)
        else:
            action = _uniform(action_spec, key_action, num_envs)
        state, observation, *row = step(state, action, key_step)
        return (weights, state, observation, key), row

    def program(key):
        key, key_reset = jax.random.split(key)
        state, observation = reset(key_reset)
        weights = linear.weights(key, observation, action_spec) if has_layer else ()
        _, (reward, last) = jax.lax.scan(one_step, (weights, state, observation, key), length=num_steps)
        steps = last.size - (jnp.sum(last[:-1]) if restarts else 0)
        return {"steps": steps, "terminated": jnp.sum(last), "truncated": 0, "reward": reward}

    return program


def _uniform(spec: Any, key: jax.Array, num_envs: int) -> jax.Array:
    shape = (num_envs, *spec.shape)
    if spec.is_discrete:
        return jax.random.randint(key, shape, spec.minimum, spec.minimum + spec.num_values, spec.dtype)
    return jax.random.uniform(key, shape, spec.dtype, spec.minimum, spec.maximum)


def _of_jaxenv(env: jaxenv.Environment) -> tuple[Callable, Callable, bool]:
    def reset(key):
        state, timestep = env.reset(key)
        return state, timestep.observation

    def step(state, action, key):
        state, t = env.step(state, action)
        return state, t.observation, t.reward, t.is_last()

    return reset, step, True


def _of_gymnax(env: Any, params: Any, num_envs: int) -> tuple[Callable, Callable, bool]:
    def reset(key):
        observation, state = jax.vmap(env.reset, (0, None))(jax.random.split(key, num_envs), params)
        return state, observation

    def step(state, action, key):
        keys, advance = jax.random.split(key, num_envs), jax.vmap(env.step, (0, 0, 0, None))
        observation, state, reward, terminated, truncated, _ = advance(keys, state, action, params)
        return state, observation, reward, terminated | truncated

    return reset, step, False
