"""Rollouts that keep no trajectory: fold a function over the rows."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxenv import tree
from jaxenv._util.checks import check_arrays, check_callable, check_integer
from jaxenv.core._moments import Count
from jaxenv.core.environment import Environment
from jaxenv.core.timestep import TimeStep
from jaxenv.rollout._iteration import chosen, while_loop
from jaxenv.rollout._policy import Policy, PolicyLoop
from jaxenv.tree._structure import mismatch


@tree.struct
class Fold:
    """The result of a fold; the next fold can continue from it.

    Attributes:
        value: the folded value.
        state: the environment's state.
        timestep: the TimeStep that belongs to it, ``[B]``; the next fold starts with it.
        memory: recurrent state, ``()`` for a policy without one.
        rows: int32 ``()``, number of calls of ``env.step``, restarts included.
        steps: `Count` ``()``, environment steps of all lanes together; a restart is not a step.
        episodes: `Count` ``()``, episodes that ended, in all lanes together.
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
    policy: Policy,
    fn: Callable[..., Any],
    value: Any,
    state: Any,
    timestep: TimeStep,
    num_steps: int,
    *,
    until: Callable[[Fold], Any] | None = None,
    key: jax.Array | None = None,
    initial_memory: Any = (),
    memory: Any = None,
    steps_per_iteration: int | None = None,
) -> Fold:
    """Steps all lanes ``[B]`` ``num_steps`` times, as `jaxenv.unroll` does, and keeps only a value.

    The loop is a ``jax.lax.scan`` and can be differentiated; with ``until`` it is a ``jax.lax.while_loop``.

    The first episodes to end in a batch are the short ones, so metrics over a number of episodes favour short ones. To
    measure how good a policy is, use `jaxenv.evaluate`, which plays the same number of episodes in every lane.

    ``fn(value, step, next_timestep)`` returns the next value, of the same structure, shapes and dtypes. ``step`` is an
    `Experience` with leaves ``[B, ...]``, ``next_timestep`` the TimeStep that its action leads to; update metrics with
    the latter. To fold several functions, write one over a tuple of values. Inside ``jax.shard_map`` each shard has its
    own value; put values common to all shards into a `jaxenv.tree.Shared`.

    ``until(fold)`` says whether to stop before the next step, bool ``()``, from the `Fold` so far, such as
    ``lambda fold: fold.episodes >= 100``; ``num_steps`` are then the most steps of each lane. All lanes take each step,
    so the steps of all lanes together exceed a limit by less than ``B``. `jaxenv.unroll` describes the other arguments.

    >>> import jax, jaxenv
    >>> env = jaxenv.wrappers.AutoReset(jaxenv.testing.count_to_two())
    >>> metrics = jaxenv.rollout.Metrics()
    >>> @jax.jit
    ... def play(key):
    ...     start = env.reset(key)
    ...     update = lambda state, step, timestep: metrics.update(state, timestep)
    ...     return fold(env, jaxenv.rollout.random_policy(env), update, metrics.init(start[1]), *start, 8)
    >>> found = play(jax.random.key(0))
    >>> int(found.steps), int(found.episodes), found.timestep.observation.tolist()
    (6, 3, [2])
    """
    check_integer("fold", "num_steps", num_steps, 0)
    loop = PolicyLoop.create("fold", env, policy, (state, timestep), key, initial_memory, memory)
    check_callable("fold", "fn", fn, "(value, step, next_timestep)")
    check_arrays("fold", "value", value)

    if until is not None:
        check_callable("fold", "until", until, "(fold)")

    def step(fold: Any, _: Any) -> tuple[Fold, None]:
        (state, timestep, memory), row = loop.step((fold.state, fold.timestep, fold.memory))
        new = tree.strong(fn(fold.value, row, timestep))
        _check_value(fold.value, new)
        new = tree.vary_like(timestep.step_type, new)
        # Counted per lane: a sum over lanes is a launch of its own on a GPU.
        moved, last = (x.astype(jnp.uint32) for x in (~timestep.is_first(), timestep.is_last()))
        return Fold(new, state, timestep, memory, fold.rows + 1, fold.steps + moved, fold.episodes + last), None

    # Inside shard_map a loop carry must vary over the mesh from the start, and each shard counts separately.
    counts: Any = jnp.zeros((), jnp.int32), *[jnp.zeros(timestep.step_type.shape, jnp.uint32)] * 2
    value, counts = tree.vary_like(timestep.step_type, (tree.strong(value), counts))
    start = Fold(value, state, timestep, loop.memory, *counts)
    steps = chosen("fold", steps_per_iteration, step, start, timestep.step_type.shape[0])
    if until is None:
        return _summed(jax.lax.scan(step, start, length=num_steps, unroll=steps)[0])

    def unfinished(fold: Fold) -> jax.Array:
        stop = until(_summed(fold))
        if jnp.shape(stop) or not jnp.issubdtype(jnp.result_type(stop), bool):
            raise ValueError(f"fold: until must return one bool, got {stop!r}")
        return (fold.rows < num_steps) & ~jnp.asarray(stop)

    def kept(fold: Fold, _: Any) -> tuple[Fold, None]:
        return jax.tree.map(functools.partial(jnp.where, unfinished(fold)), step(fold, None)[0], fold), None

    return _summed(while_loop(unfinished, step if steps == 1 else kept, start, steps))


def _summed(fold: Any) -> Fold:
    """Replaces the counts of each lane by those of all lanes."""
    steps, episodes = (Count.sum(x, lambda x: jnp.sum(x, axis=0, dtype=x.dtype)) for x in (fold.steps, fold.episodes))
    return dataclasses.replace(fold, steps=steps, episodes=episodes)


def _check_value(old: Any, new: Any) -> None:
    if (fault := mismatch(old, new, "value")) is not None:
        raise ValueError(f"fold: fn must keep the structure of the value: {fault}")
    for (path, x), y in zip(jax.tree.flatten_with_path(old)[0], jax.tree.leaves(new), strict=True):
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            where = f" of {tree.path_name(path)}" if path else ""
            rule = f"fn must keep the value's type {x.dtype}{list(x.shape)}{where}"
            raise ValueError(f"fold: {rule}, got {y.dtype}{list(y.shape)}")
