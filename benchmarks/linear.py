"""The linear policy of a benchmark: one layer on the flattened observation plus noise, the same code on all sides.

Gumbel noise and the largest output make a discrete action, Gaussian noise within the bounds a continuous one.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs


def flat(observation: Any) -> jax.Array:
    """Returns the observations of all lanes as float32 ``[B, F]``."""
    leaves = [x.reshape(x.shape[0], -1) for x in jax.tree.leaves(observation)]
    return jnp.concatenate([_floats(x) for x in leaves], axis=1)


def weights(key: jax.Array, observation: Any, action_spec: Any) -> jax.Array:
    """Draws the weights ``[F, N]`` from the key of a run, equal on all sides.

    Args:
        key: Key of the run.
        observation: Observations ``[B, ...]``, or their shapes.
        action_spec: This library's spec of the action.
    """
    inputs = sum(math.prod(x.shape[1:]) for x in jax.tree.leaves(observation))
    outputs = sum(_outputs(spec) for spec in jax.tree.leaves(action_spec))
    drawn = jax.random.normal(jax.random.fold_in(key, 1), (inputs, outputs), jnp.float32)
    return drawn / np.float32(math.sqrt(inputs))


def act(action_spec: Any, weights: jax.Array, observation: Any, uniform: Callable[[int], jax.Array]) -> Any:
    """Returns the actions of all lanes.

    Args:
        action_spec: This library's spec of the action.
        weights: The layer, ``[F, N]``.
        observation: Observations ``[B, ...]``.
        uniform: Maps N to the random numbers of this step, float32 ``[B, N]`` in [0, 1).
    """
    leaves, structure = jax.tree.flatten(action_spec)
    splits = np.cumsum([_outputs(spec) for spec in leaves])[:-1]
    # Within the open interval, so that the noise is finite.
    words = jnp.maximum(uniform(weights.shape[1]), np.float32(2**-25))
    pairs = zip(leaves, *(jnp.split(x, splits, axis=1) for x in (flat(observation) @ weights, words)), strict=True)
    return jax.tree.unflatten(structure, [_action(*pair) for pair in pairs])


def _floats(x: jax.Array) -> jax.Array:
    # XLA:CPU (jaxlib 0.10.2) moves a conversion of flags in front of the reshape, and then divides to find the place of
    # each: 3600 flags took 8 microseconds.
    return jnp.where(x, np.float32(1), np.float32(0)) if x.dtype == bool else x.astype(jnp.float32)


def _outputs(spec: specs.Bounded) -> int:
    """Returns the outputs of an action: one for each value of a discrete element, one for a continuous element."""
    return math.prod(spec.shape) * (spec.num_values if spec.is_discrete else 1)


def _action(spec: specs.Bounded, outputs: jax.Array, uniform: jax.Array) -> jax.Array:
    if spec.is_discrete:
        gumbel = -jnp.log(-jnp.log(uniform))
        chosen = jnp.argmax((outputs + gumbel).reshape(-1, *spec.shape, spec.num_values), axis=-1)
        return chosen.astype(spec.dtype) + spec.minimum
    gaussian = np.float32(np.sqrt(2)) * jax.lax.erf_inv(2 * uniform - 1)
    low, high = spec.minimum, spec.maximum
    action = (outputs + gaussian).reshape(-1, *spec.shape) * ((high - low) / 2) + (high + low) / 2
    return jnp.clip(action, low, high)
