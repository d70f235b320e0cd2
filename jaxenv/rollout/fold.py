"""Rollouts that keep no rows: a function folded over them, for so many rows, steps or episodes."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import _xla, tree
from jaxenv.environment import Environment
from jaxenv.rollout.checks import check_whole
from jaxenv.rollout.sums import Count, over_lanes
from jaxenv.rollout.walk import Walk
from jaxenv.timestep import TimeStep


@tree.struct
class Fold:
    """Where a fold ended, ready for the next one, and what it went through.

    Attributes:
        value: what was folded.
        state: of the environment.
        timestep: the TimeStep that goes with it, ``[B]``: the first row of the next fold.
        memory: recurrent state, ``()`` where there is none.
        rows: int32 ``()``, rows of each lane.
        steps: `Count` ``()``, rows after FIRST that all lanes together went on to.
        episodes: `Count` ``()``, those of them that were LAST.
    """

    value: Any
    state: Any
    timestep: TimeStep
    memory: Any
    rows: jax.Array
    steps: Count
    episodes: Count


def fold(
    env: Environment,
    policy: Callable,
    fn: Callable,
    value: Any,
    state: Any,
    timestep: TimeStep,
    num_steps: int,
    *,
    key: jax.Array | None = None,
    initial_memory: Any = (),
    memory: Any = None,
) -> Fold:
    """Steps all lanes ``[B]`` ``num_steps`` times, as `jaxenv.unroll` does, and keeps nothing but a value.

    Args:
        env: the environment.
        policy: as in `jaxenv.unroll`.
        fn: ``fn(value, row, next_timestep)`` gives the next value, of the same structure, shapes and dtypes. ``row`` is
            an `Experience` of one row ``[B]``, ``next_timestep`` what its action led to: metrics are updated with the
            latter. Several functions are one over a tuple of values.
        value: what to begin with. Inside ``jax.shard_map`` each shard has its own; what they share stands in a
            ``jaxenv.tree.Shared``.
        state: the environment's state.
        timestep: the TimeStep that goes with it.
        num_steps: static; the loop is a ``jax.lax.scan`` and can be differentiated.
        key: as in `jaxenv.unroll`.
        initial_memory: likewise.
        memory: likewise.

    Raises:
        ValueError: if ``num_steps`` is no whole number from 0, or where `jaxenv.unroll` raises one.

    >>> import jax, jaxenv
    >>> env = jaxenv.wrappers.AutoReset(jaxenv.testing.mock_012())
    >>> metrics = jaxenv.rollout.Metrics()
    >>> @jax.jit
    ... def play(key):
    ...     start = env.reset(key)
    ...     update = lambda sums, row, timestep: metrics.update(sums, timestep)
    ...     return fold(env, jaxenv.rollout.random_policy(env), update, metrics.init(start[1]), *start, 8)
    >>> found = play(jax.random.key(0))
    >>> int(found.steps), int(found.episodes), found.timestep.observation.tolist()
    (6, 3, [2])
    """
    check_whole("fold", "num_steps", num_steps, 0)
    begun, one_row = _loop("fold", env, policy, fn, value, state, timestep, key, initial_memory, memory)
    return _folded(jax.lax.scan(lambda carry, _: (one_row(carry), None), begun, length=num_steps)[0])


def fold_steps(
    env: Environment,
    policy: Callable,
    fn: Callable,
    value: Any,
    state: Any,
    timestep: TimeStep,
    num_steps: Any,
    *,
    key: jax.Array | None = None,
    initial_memory: Any = (),
    memory: Any = None,
) -> Fold:
    """Steps all lanes ``[B]`` until they took ``num_steps`` steps together: the sum over lanes of rows after FIRST.

    All lanes go on to the end, so that the sum may overshoot by less than ``B``, and never falls short. As TF-Agents'
    ``DynamicStepDriver``.

    Args:
        env: the environment.
        policy: as in `jaxenv.unroll`.
        fn: as in `fold`.
        value: what to begin with.
        state: the environment's state.
        timestep: the TimeStep that goes with it.
        num_steps: a number or int32 ``()``, it may be traced, and is then taken for 0 where it is negative; the loop is
            a ``jax.lax.while_loop``.
        key: as in `jaxenv.unroll`.
        initial_memory: likewise.
        memory: likewise.

    Raises:
        ValueError: as `fold`.
    """
    begun, one_row = _loop("fold_steps", env, policy, fn, value, state, timestep, key, initial_memory, memory)
    goal = _goal("fold_steps", "num_steps", num_steps)
    return _folded(jax.lax.while_loop(lambda carry: carry[-2].below(goal), one_row, begun))


def fold_episodes(
    env: Environment,
    policy: Callable,
    fn: Callable,
    value: Any,
    state: Any,
    timestep: TimeStep,
    num_episodes: Any,
    *,
    key: jax.Array | None = None,
    initial_memory: Any = (),
    memory: Any = None,
) -> Fold:
    """Steps all lanes ``[B]`` until they ended ``num_episodes`` episodes together, at least: LAST rows are counted.

    The episodes that come first in a batch are the short ones, so figures over them favour short episodes. Whoever
    wants to know how good a policy is takes `jaxenv.rollout.evaluate`, in which every lane has the same quota.

    Args:
        env: the environment.
        policy: as in `jaxenv.unroll`.
        fn: as in `fold`.
        value: what to begin with.
        state: the environment's state.
        timestep: the TimeStep that goes with it.
        num_episodes: as ``num_steps`` of `fold_steps`; the loop does not end where no episode does.
        key: as in `jaxenv.unroll`.
        initial_memory: likewise.
        memory: likewise.

    Raises:
        ValueError: as `fold`.
    """
    begun, one_row = _loop("fold_episodes", env, policy, fn, value, state, timestep, key, initial_memory, memory)
    goal = _goal("fold_episodes", "num_episodes", num_episodes)
    return _folded(jax.lax.while_loop(lambda carry: carry[-1].below(goal), one_row, begun))


def _loop(name, env, policy, fn, value, state, timestep, key, initial_memory, memory) -> tuple[tuple, Callable]:
    """What a loop begins with and the body that all three share."""
    walk = Walk.of(name, env, policy, state, key, initial_memory, memory)
    value = _xla.vary_like(timestep.step_type, tree.strong(value))

    def one_row(carry):
        *there, value, rows, steps, episodes = carry
        there, row = walk.step(tuple(there))
        timestep = there[1]
        new = tree.strong(fn(value, row, timestep))
        _check(name, value, new)
        new = _xla.vary_like(timestep.step_type, new)
        return *there, new, rows + 1, _more(steps, ~timestep.is_first()), _more(episodes, timestep.is_last())

    # Inside shard_map each shard counts its own.
    counts = _xla.vary_like(timestep.step_type, (jnp.zeros((), jnp.int32), Count.zeros(), Count.zeros()))
    return (state, timestep, walk.memory, value, *counts), one_row


def _more(count: Count, mask: jax.Array) -> Count:
    return count.plus(Count.sum(mask.astype(jnp.uint32), over_lanes))


def _check(name: str, old: Any, new: Any) -> None:
    if tree.structure(old) != tree.structure(new):
        raise ValueError(f"{name}: fn must keep the value's structure {tree.structure(old)}, got {tree.structure(new)}")
    for (path, x), y in zip(tree.flatten_with_path(old)[0], jax.tree.leaves(new), strict=True):
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            where = f" of {tree.path_name(path)}" if path else ""
            raise ValueError(
                f"{name}: fn must keep the value's type {x.dtype}{list(x.shape)}{where}, got {y.dtype}{list(y.shape)}"
            )


def _goal(name: str, argument: str, number: Any) -> jax.Array:
    if isinstance(number, jax.Array) and not isinstance(number, jax.core.Tracer):
        number = np.asarray(number)
    whole = isinstance(number, int) or jnp.issubdtype(jnp.result_type(number), jnp.integer)
    if isinstance(number, bool) or not whole or np.ndim(number):
        raise ValueError(f"{name}: {argument} must be one whole number, got {number!r}")
    if isinstance(number, jax.core.Tracer):  # what is not below 0 fits, and a loop to a wrapped -1 would never end
        return jnp.maximum(number, jnp.zeros_like(number)).astype(jnp.uint32)
    if not 0 <= number < 2**31:
        raise ValueError(f"{name}: {argument} must be from 0 to {2**31 - 1}, got {number}")
    return jnp.asarray(int(number), jnp.uint32)


def _folded(carry: tuple) -> Fold:
    state, timestep, memory, value, rows, steps, episodes = carry
    return Fold(value, state, timestep, memory, rows, steps, episodes)
