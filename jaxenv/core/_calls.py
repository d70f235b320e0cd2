"""The calls of an environment, as programs that are compiled outside of traces."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._util import xla
from jaxenv._util.programs import programs_of
from jaxenv.core._checks import actions as _actions
from jaxenv.core._checks import given as _checks
from jaxenv.core._compiled import self_compiling
from jaxenv.core.starts import Place, Starts
from jaxenv.core.timestep import TimeStep
from jaxenv.tree import Tree


@self_compiling
def first_episodes(env: Any, key: jax.Array, env_id: jax.Array | None, place: Place | None) -> tuple[Tree, TimeStep]:
    """Starts the first episodes, for arguments of ``reset`` that have been checked."""
    starts = starts_at(env, key, env_id).at(place)
    _checks.check_lanes(env, starts.env_id.shape[0])
    state, timestep = env.begin(starts)
    return xla.unshare(tree.vary_like(starts.env_id, (state, timestep)))


def starts_at(env: Any, key: jax.Array, env_id: jax.Array | None) -> Starts:
    """Returns the first episodes of the lanes, in new levels."""
    if env_id is None:
        env_id = jnp.arange(key.shape[0] if key.ndim else env.num_envs, dtype=jnp.int32)
    words = env._lane_words(key, env_id)
    env_id = tree.vary_like(words[0], env_id)  # seeds over a mesh: each shard has all lane numbers, and its own keys
    return Starts(words, env_id, jnp.zeros_like(env_id))


def _proceed(env: Any, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
    stepped: tuple[Tree, TimeStep] = env.proceed(state, action)
    return stepped


def _check_action(env: Any, state: Tree, action: Tree) -> None:
    """Raises a ``ValueError`` for a discrete action out of range in a lane that does not ignore its action."""
    if (bounds := env.__dict__.get("_action_bounds")) is None:  # computed once, as a spec takes longer than a step
        object.__setattr__(env, "_action_bounds", bounds := _actions.discrete_bounds(env.action_spec()))
    if not _actions.are_legal(bounds, action):
        anything = specs.zeros(env.action_spec(), env.clock(state).env_id.shape)
        _, timestep = programs_of(env).jitted(_proceed)(tree.flatten(env)[0], state, anything)
        _actions.check_values(bounds, action, ~np.asarray(timestep.is_first()), env)


next_step = self_compiling(_proceed, check=_check_action)  # ``env.step``


@functools.lru_cache(maxsize=64)
def renderer(size: tuple[int, int]) -> Callable[[Any, Tree], jax.Array]:
    """Returns ``env.render`` for pictures of one size."""

    def render(env: Any, state: Tree) -> jax.Array:
        picture: jax.Array = env.picture_of(state, size)
        return picture

    return self_compiling(render)
