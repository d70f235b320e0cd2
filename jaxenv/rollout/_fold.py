"""Rollouts that keep no trajectory: fold a function over the rows, up to a number of rows, steps or episodes."""

from collections.abc import Callable
from typing import Any

import jax.core
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import check_arrays, check_callable, check_integer
from jaxenv.core._count import Count
from jaxenv.core.environment import Environment
from jaxenv.core.timestep import TimeStep
from jaxenv.rollout._iteration import chosen
from jaxenv.rollout._policy import Policy
from jaxenv.rollout._policy_loop import PolicyLoop
from jaxenv.tree import Tree
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
    key: jax.Array | None = None,
    initial_memory: Any = (),
    memory: Any = None,
    steps_per_iteration: int | None = None,
) -> Fold:
    """Steps all lanes ``[B]`` ``num_steps`` times, as `jaxenv.unroll` does, and keeps only a value.

    Args:
        env: the environment.
        policy: as in `jaxenv.unroll`.
        fn: ``fn(value, step, next_timestep)`` returns the next value, of the same structure, shapes and dtypes.
            ``step`` is an `Experience` with leaves ``[B, ...]``, ``next_timestep`` the TimeStep that its action leads
            to; update metrics with the latter. To fold several functions, write one over a tuple of values.
        value: the initial value. Inside ``jax.shard_map`` each shard has its own; put values common to all shards into
            a `jaxenv.tree.Shared`.
        state: the environment's state.
        timestep: the TimeStep that belongs to it.
        num_steps: static; the loop is a ``jax.lax.scan`` and can be differentiated.
        key: as in `jaxenv.unroll`.
        initial_memory: as in `jaxenv.unroll`.
        memory: as in `jaxenv.unroll`.
        steps_per_iteration: as in `jaxenv.unroll`.

    Raises:
        ValueError: if ``num_steps`` is not an integer of at least 0 or ``steps_per_iteration`` not one of at least 1,
            if ``fn`` changes the structure, a shape or a dtype of the value, or where `jaxenv.unroll` raises one.

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
    init, body = _make_loop("fold", env, policy, fn, value, state, timestep, key, initial_memory, memory)
    step = lambda carry, _: (body(carry), None)  # noqa: E731
    steps = chosen("fold", steps_per_iteration, step, init, timestep.step_type.shape[0])
    return _as_fold(jax.lax.scan(step, init, length=num_steps, unroll=steps)[0])


def fold_steps(
    env: Environment,
    policy: Policy,
    fn: Callable[..., Any],
    value: Any,
    state: Any,
    timestep: TimeStep,
    num_steps: Any,
    *,
    key: jax.Array | None = None,
    initial_memory: Any = (),
    memory: Any = None,
) -> Fold:
    """Steps all lanes ``[B]`` until they have taken at least ``num_steps`` steps together; a restart is not a step.

    All lanes are stepped until the end, so the sum may exceed ``num_steps`` by less than ``B``. ``num_steps`` is an
    integer or int32 ``()``, which may be traced; a negative traced number counts as 0. The loop is a
    ``jax.lax.while_loop``. `fold` describes all other arguments and the errors.
    """
    init, body = _make_loop("fold_steps", env, policy, fn, value, state, timestep, key, initial_memory, memory)
    limit = _limit("fold_steps", "num_steps", num_steps)
    return _as_fold(jax.lax.while_loop(lambda carry: carry[-2].is_below(limit), body, init))


def fold_episodes(
    env: Environment,
    policy: Policy,
    fn: Callable[..., Any],
    value: Any,
    state: Any,
    timestep: TimeStep,
    num_episodes: Any,
    *,
    max_steps: Any = None,
    key: jax.Array | None = None,
    initial_memory: Any = (),
    memory: Any = None,
) -> Fold:
    """Steps all lanes ``[B]`` until they have ended at least ``num_episodes`` episodes together.

    An episode counts on its LAST row.

    The first episodes to end in a batch are the short ones, so metrics over them favour short episodes. To measure how
    good a policy is, use `jaxenv.rollout.evaluate`, which plays the same number of episodes in every lane.

    With ``max_steps``, a number of steps of all lanes together, the loop stops after these even if fewer episodes
    ended; without, it does not terminate if episodes never end. Both numbers are like ``num_steps`` of `fold_steps`.
    `fold` describes all other arguments and the errors.
    """
    init, body = _make_loop("fold_episodes", env, policy, fn, value, state, timestep, key, initial_memory, memory)
    limit = _limit("fold_episodes", "num_episodes", num_episodes)
    limit_steps = None if max_steps is None else _limit("fold_episodes", "max_steps", max_steps)

    def unfinished(carry: tuple[Any, ...]) -> jax.Array:
        *_, steps, episodes = carry
        return episodes.is_below(limit) & (True if limit_steps is None else steps.is_below(limit_steps))

    return _as_fold(jax.lax.while_loop(unfinished, body, init))


def _make_loop(
    owner: str,
    env: Environment,
    policy: Callable[..., Any],
    fn: Callable[..., Any],
    value: Any,
    state: Tree,
    timestep: TimeStep,
    key: jax.Array | None,
    initial_memory: Any,
    memory: jax.Array | None,
) -> tuple[tuple[Any, ...], Callable[..., Any]]:
    """Returns the initial carry of a fold, and the loop body from carry to carry."""
    loop = PolicyLoop.create(owner, env, policy, (state, timestep), key, initial_memory, memory)
    check_callable(owner, "fn", fn, "(value, step, next_timestep)")
    check_arrays(owner, "value", value)
    value = tree.vary_like(timestep.step_type, tree.strong(value))

    def body(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        inner: Any
        *inner, value, rows, steps, episodes = carry
        inner, step = loop.step(tuple(inner))
        timestep = inner[1]
        new = tree.strong(fn(value, step, timestep))
        _check_value(owner, value, new)
        new = tree.vary_like(timestep.step_type, new)
        return *inner, new, rows + 1, steps + _count(~timestep.is_first()), episodes + _count(timestep.is_last())

    # Inside shard_map each shard counts separately.
    counts = tree.vary_like(timestep.step_type, (jnp.zeros((), jnp.int32), Count.zeros(), Count.zeros()))
    return (state, timestep, loop.memory, value, *counts), body


def _as_fold(carry: tuple[Any, ...]) -> Fold:
    state, timestep, memory, value, rows, steps, episodes = carry
    return Fold(value, state, timestep, memory, rows, steps, episodes)


def _count(mask: jax.Array) -> Count:
    return Count.sum(mask.astype(jnp.uint32), lambda x: jnp.sum(x, axis=0, dtype=x.dtype))


def _check_value(owner: str, old: Any, new: Any) -> None:
    if (fault := mismatch(old, new, "value")) is not None:
        raise ValueError(f"{owner}: fn must keep the structure of the value: {fault}")
    for (path, x), y in zip(tree.flatten_with_path(old)[0], jax.tree.leaves(new), strict=True):
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            where = f" of {tree.path_name(path)}" if path else ""
            raise ValueError(
                f"{owner}: fn must keep the value's type {x.dtype}{list(x.shape)}{where}, got {y.dtype}{list(y.shape)}"
            )


def _limit(owner: str, argument: str, number: Any) -> jax.Array:
    """Returns the number of steps or episodes after which a loop stops, uint32 ``()``."""
    if isinstance(number, jax.core.Tracer):
        if number.ndim or not jnp.issubdtype(number.dtype, jnp.integer):
            raise ValueError(f"{owner}: {argument} must be an integer, got {number!r}")
        # A wrapped negative number would be huge, and the loop would not end.
        return jnp.maximum(number, jnp.zeros_like(number)).astype(jnp.uint32)
    if isinstance(number, jax.Array | np.ndarray) and number.ndim == 0:
        number = np.asarray(number)[()]
    check_integer(owner, argument, number, 0)
    return jnp.asarray(int(number), jnp.uint32)
