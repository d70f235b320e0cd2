"""Restart, step and shard some lanes of a batch."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from jaxenv import random, tree
from jaxenv._util.checks import check_arrays, check_mask, check_text
from jaxenv.core._checks import given as _checks
from jaxenv.core._compiled import self_compiling
from jaxenv.core._declared import declared_leaves
from jaxenv.core.bases.stateful import BatchWrapper
from jaxenv.core.environment import Environment, check_environment
from jaxenv.core.starts import Place, Starts, next_episodes
from jaxenv.core.timestep import TimeStep
from jaxenv.core.wrapper import layers
from jaxenv.tree import Tree


def reset_where(
    env: Environment,
    state: Tree,
    timestep: TimeStep,
    mask: jax.Array,
    key: jax.Array | None = None,
    *,
    level: Tree = None,
    from_state: Tree = None,
) -> tuple[Tree, TimeStep]:
    """Restarts the lanes of ``mask``, bool ``[B]``, and returns the whole batch; the other lanes are untouched.

    ``state`` and ``timestep`` are the current ones of any environment, in particular of one without ``AutoReset``.
    Without a ``key`` each lane continues with the next episode of its own stream. With one typed key or ``Key[B]`` the
    restarted lanes get new keys and start at episode 0. Either way the lanes keep state that outlives an episode
    (`Task.carry`, statistics of the batch); only ``env.reset`` discards it. The restarted lanes start in ``level`` or
    ``from_state``, leaves ``[B, ...]``, as for ``reset``.
    """
    check_environment("reset_where", env)
    if key is not None:
        random.check_typed(key, "reset_where: key")
    with _checks.explained("reset_where", env, state, timestep=timestep, mask=mask):
        place = _checks.given_place("reset_where", env, env.clock(state).env_id.shape[0], level, from_state)
        return _restarted(env, state, timestep, mask, key, place)


@self_compiling
def _restarted(
    env: Environment, state: Tree, timestep: TimeStep, mask: jax.Array, key: jax.Array | None, place: Place | None
) -> tuple[Tree, TimeStep]:
    clock = env.clock(state)
    check_mask("reset_where", mask, clock.env_id.shape[0])
    if env.lanes_per_game > 1:
        rule = "the agents of a game restart together: restart games inside AgentsAsLanes, or by AutoReset"
        raise ValueError(f"reset_where: {rule}, got {env}")
    starts = next_episodes(clock)
    if key is not None:
        starts = Starts(env._lane_words(key, clock.env_id), clock.env_id, jnp.zeros_like(clock.episode))
    fresh = tree.detach(env.begin(starts.at(place), state))
    if (fault := _checks.difference(env, fresh, state, timestep)) is not None:
        raise ValueError(f"reset_where: {fault}")
    return tree.where(mask, fresh, (state, timestep))


def step_where(
    env: Environment, state: Tree, timestep: TimeStep, action: Tree, mask: jax.Array
) -> tuple[Tree, TimeStep]:
    """Steps the lanes of ``mask``, bool ``[B]``, and returns the whole batch; the others keep their state and row.

    The clock of a lane counts only the steps that it takes, so its episodes do not depend on the steps on which it
    waits. A waiting lane repeats its last row, which metrics, replay and losses must leave out by ``mask``. Every lane
    is computed, whether it waits or not: a step costs as much as ``env.step``. ``state`` and ``timestep`` are the
    current ones, and ``action`` holds an action for every lane; the actions of waiting lanes are ignored.

    Raises:
        ValueError: at trace time, if an argument does not fit, if a wrapper with batch state that is not frozen would
            learn from the rows of waiting lanes, or if the lanes are in an engine outside JAX, which steps all of them.

    >>> import jax.numpy as jnp, jaxenv
    >>> env = jaxenv.testing.Chain(num_envs=2)
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> state, timestep = step_where(env, state, timestep, jnp.array([1, 1]), jnp.array([True, False]))
    >>> timestep.observation.tolist(), timestep.step_type.tolist()
    ([1, 0], [1, 0])
    """
    check_environment("step_where", env)
    check_arrays("step_where", "mask", mask)
    if env.facts.outside_jax:
        raise ValueError(f"step_where: {env} cannot let lanes wait: one engine outside JAX steps all of them")
    with _checks.explained("step_where", env, state):
        check_mask("step_where", mask, env.clock(state).env_id.shape[0])
    for layer in layers(env):
        if isinstance(layer, BatchWrapper) and not layer.frozen:
            problem = f"{type(layer).__name__} would learn from the rows of waiting lanes: build it with frozen=True"
            raise ValueError(f"step_where: {problem}, or the stack by make(mode='eval')")
    stepped = env._step_lanes(state, action, mask)
    if (fault := _checks.difference(env, stepped, state, timestep)) is not None:
        raise ValueError(f"step_where: {fault}")
    return tree.where(mask, stepped, (state, timestep))


def partition_specs(values: Tree, axis_name: str = "lanes") -> Tree:
    """Returns the partition spec of every leaf: leaves with an axis of lanes are sharded, shared leaves replicated.

    In an `Environment` the values per lane are sharded, in any other tree all leaves outside of `jaxenv.tree.Shared`,
    which marks for example the statistics of ``NormalizeObservation``. A trajectory ``[T, B]`` without statistics needs
    no function: its spec is ``P(None, "lanes")``.

    ``values`` is an environment, a state, a row, a policy's memory, or a tree of these; arrays or their shapes. The
    result has its structure, for ``jax.shard_map``, or for ``jax.device_put`` as ``NamedSharding(mesh, spec)``.

    >>> import jax.numpy as jnp, jaxenv
    >>> env = jaxenv.make("CartPole-v1", num_envs=8, length=jnp.linspace(0.5, 1, 8))
    >>> specs = partition_specs(env)
    >>> specs.params.length == P("lanes"), specs.params.gravity == P()
    (True, True)
    >>> state, timestep = partition_specs(env.start_shapes())
    >>> timestep.observation == P("lanes")
    True
    """
    check_text("partition_specs", "axis_name", axis_name)
    check_arrays("partition_specs", "values", values)

    def of_node(node: Any) -> Any:
        if isinstance(node, Environment):
            per_lane = [d.per_lane for d in declared_leaves(node)]
            leaves, structure = jax.tree.flatten(node)
            assert len(per_lane) == len(leaves), "every leaf of an environment is declared"
            return jax.tree.unflatten(structure, [P(axis_name) if x else P() for x in per_lane])
        spec = P() if tree.is_shared(node) and not isinstance(node, tree.Grouped) else P(axis_name)
        return jax.tree.map(lambda _: spec, node)

    return jax.tree.map(of_node, values, is_leaf=lambda node: isinstance(node, Environment) or tree.is_shared(node))
