"""Levels: what an episode starts in, as data with a leading axis ``[B]``."""

from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from jaxenv import random, tree
from jaxenv.core._checks import given as _checks
from jaxenv.core._compiled import self_compiling, starts_at
from jaxenv.core.environment import Environment, check_environment
from jaxenv.core.starts import Place, Starts
from jaxenv.core.timestep import TimeStep
from jaxenv.core.wrapper import Wrapper, layers
from jaxenv.random import Stream
from jaxenv.tree import Tree

E = TypeVar("E", bound=Environment)


def sample_level(env: Environment, key: jax.Array, env_id: jax.Array | None = None) -> Tree:
    """Samples the levels in which ``env.reset(key, env_id)`` starts: leaves ``[B, ...]``.

    A level is what the task declares as its ``Level``, else the state in which its episode starts. Under
    ``ResampleParams`` it is a dict of ``"params"`` and ``"level"``, in a `Multitask` a tuple with one level per task.

    ``key`` is one typed key, or ``Key[B]``, and ``env_id`` int32 ``[B]``, as for ``reset``.

    >>> import jaxenv
    >>> env = jaxenv.make("FrozenLake-v1", num_envs=3)
    >>> level = sample_level(env, jax.random.key(0))
    >>> state, timestep = env.reset(jax.random.key(1), level=level)
    """
    check_environment("sample_level", env)
    random.check_typed(key, "sample_level: key")
    if env_id is None:
        random.check_lane_keys(key, env.num_envs)
    else:
        env_id = _checks.lane_numbers(env, env_id)
    with _checks.explained("sample_level", env):
        return _sampled(env, key, env_id)


def mutate_level(env: Environment, level: Tree, key: jax.Array) -> Tree:
    """Edits each of the levels ``[B, ...]`` of ``env`` once at random, as its task must declare by ``mutate_level``."""
    check_environment("mutate_level", env)
    random.check_one("mutate_level", key)
    level = _checks.place_of_levels("mutate_level", env, level).values
    with _checks.explained("mutate_level", env):
        mutated = _mutated(env, level, key)
    return _checks.place_of_levels("mutate_level: the result", env, mutated).values


class InPlaces(Wrapper):
    """Starts episodes in given levels or states, those that no layer outside gives another place. Owns nothing.

    `with_level` and `jaxenv.wrappers.LevelReplay` put it into a stack, directly inside ``AutoReset``.
    """

    level: Any = tree.lanes_leaf()  # or parts of states
    given: Any = tree.lanes_leaf(default=None)  # bool [B], the lanes that have a place; None for all
    in_state: bool = tree.static(default=False)

    in_evaluation = "kept"

    def begin(self, starts: Starts, previous: Tree = None) -> tuple[Tree, TimeStep]:
        return super().begin(starts.else_at(Place(self.level, self.given, self.in_state)), previous)


def starting_at(env: E, place: Place) -> E:
    """Returns the stack whose episodes start in ``place`` unless another place is given: adds an `InPlaces`."""
    if isinstance(env, Wrapper) and (env.autoreset or env.place == "batch" or env.lanes_per_game > 1):
        return tree.rebuild(env, env=starting_at(env.env, place))
    inside: Any = InPlaces(env, place.values, place.given, place.in_state)
    return inside


def with_level(self: E, level: Tree) -> E:
    """Returns the environment in which every episode of lane i starts in level i, unless another level is given.

    Levels are leaves ``[B, ...]``, as `jaxenv.sample_level` returns them. `jaxenv.wrappers.LevelReplay` changes them
    while lanes play.

    Raises:
        ValueError: for levels of another task, structure, shape or dtype, or that the task refuses; and for a layer
            that chooses the states in which episodes start.
    """
    given = starting_at(self, _checks.place_of_levels("with_level", self, level))
    for layer in layers(given):
        layer.check()
    return given


def given_places(env: Environment) -> InPlaces | None:
    """Returns the layer that holds the levels that `with_level` gave, if there is one."""
    return next((layer for layer in layers(env) if isinstance(layer, InPlaces)), None)


def refuse_given_levels(owner: str, env: Environment, hint: str) -> None:
    """Raises a ``ValueError`` for episodes that start in given levels, which ``owner`` would drop; ends in ``hint``."""
    if given_places(env) is not None:
        rule = "env must not start in levels of its own, which no episode would use"
        raise ValueError(f"{owner}: {rule}, {env} does: {hint}")


@self_compiling
def _sampled(env: Environment, key: jax.Array, env_id: jax.Array | None) -> Tree:
    starts = starts_at(env, key, env_id)
    _checks.check_lanes(env, starts.env_id.shape[0])
    return env.levels().sample(starts)


@self_compiling
def _mutated(env: Environment, level: Tree, key: jax.Array) -> Tree:
    lanes = jnp.arange(jax.tree.leaves(level)[0].shape[0], dtype=jnp.int32)
    words = random.lane_words(key, lanes, salt="mutate_level")
    zero = jnp.zeros(lanes.shape, jnp.uint32)
    return env.levels().mutate(level, Stream(*words, zero, zero))
