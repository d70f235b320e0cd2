"""Rearranges rows of trajectories: shifts them, marks transitions, converts recorded episodes, makes minibatches."""

import functools
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv._util.checks import check_array, check_arrays, check_choice, check_integer, is_concrete, is_known_array
from jaxenv.core._compiled import compiled_once
from jaxenv.core.timestep import StepType, TimeStep, check_timestep
from jaxenv.rollout import Experience

T = TypeVar("T")
TrajectoryMode: TypeAlias = Literal["next_step", "same_step"]
_FEISTEL_ROUNDS = 10


def with_last(timestep: T, last: T) -> T:
    """Appends the TimeStep that follows the rows: leaves ``[T, B, ...]`` and ``[B, ...]`` to ``[T + 1, B, ...]``.

    Works for any tree whose leaves are also in ``last``. ``last`` may hold more, as after ``unroll(fields=...)``.

    >>> import jax.numpy as jnp
    >>> with_last(jnp.array([[1, 2], [3, 4]]), jnp.array([5, 6])).tolist()
    [[1, 2], [3, 4], [5, 6]]
    """
    return _join("with_last", timestep, last, lambda x, end: jnp.concatenate([x, end[None]]))


def next_rows(owner: str, timestep: T, last: T) -> T:
    """Shifts the rows by one, with ``last`` at the end: index t of the leaves ``[T, B, ...]`` holds row t + 1."""
    # A slice of `with_last` would be written to memory as a whole first.
    return _join(owner, timestep, last, lambda x, end: jnp.concatenate([x[1:], end[None]])[: x.shape[0]])


def _join(owner: str, timestep: T, last: T, join_leaf: Callable[[jax.Array, jax.Array], jax.Array]) -> T:
    check_arrays(owner, "timestep", timestep)
    check_arrays(owner, "last", last)
    if timestep is None:
        raise ValueError(f"{owner}: timestep must be a TimeStep or a tree of arrays, got None")
    last_leaves = dict(jax.tree.flatten_with_path(last)[0])

    def join(path: Any, x: Any) -> Any:
        end = last_leaves.get(path)
        if end is None or jnp.shape(end) != jnp.shape(x)[1:]:
            problem = "is missing" if end is None else f"has shape {jnp.shape(end)}"
            fault = f"{tree.path_name(path) or 'the leaf'} {problem} in last"
            raise ValueError(f"{owner}: {fault}, rows have {jnp.shape(x)[1:]}")
        if jnp.result_type(end) != jnp.result_type(x):
            name = tree.path_name(path, "last")
            rule = f"{name} must be {jnp.result_type(x)}, as in the rows"
            raise ValueError(f"{owner}: {rule}, got {jnp.result_type(end)}")
        return join_leaf(x, end)

    return jax.tree_util.tree_map_with_path(join, timestep)


def transition_mask(timestep: TimeStep, last: TimeStep, mode: TrajectoryMode = "next_step") -> jax.Array:
    """Marks the rows whose action led to the next row, bool ``[T, B]``: the transitions to learn from.

    Reward, discount and observation of an action arrive with the next row, so transition t leads from row t to row
    t + 1, and the last one to ``last``. Three kinds of rows start no transition:

    - LAST rows in ``next_step`` mode, whose action is ignored;
    - rows before a FIRST row, such as one at which ``reset_where`` interrupted an episode;
    - rows before an abnormal one (``env_info["abnormal"]``, set by `GuardNonFinite` or by the task itself), whose
      reward and observation are replacements.

    ``step_type`` is read, and ``env_info["abnormal"]`` where present. ``mode`` is the ``AutoReset`` mode in which the
    rows were made: ``"next_step"`` if a FIRST row follows each LAST row, ``"same_step"`` if LAST rows already show the
    first observation of the next episode.
    """
    check_timestep("transition_mask", "timestep", timestep)
    check_timestep("transition_mask", "last", last)
    check_mode("transition_mask", timestep, mode, last)
    mask = next_rows("transition_mask", timestep.step_type, last.step_type) != np.int32(StepType.FIRST)
    if mode == "next_step":
        mask &= timestep.step_type != np.int32(StepType.LAST)
    kept, after = ("abnormal" in row.env_info for row in (timestep, last))
    if kept != after:
        lacks, remedy = ("last", "") if kept else ("the rows", ": keep env_info.abnormal in unroll(fields=...)")
        raise ValueError(f"transition_mask: env_info['abnormal'] must be in both, {lacks} must have it{remedy}")
    if kept:
        mask &= ~next_rows("transition_mask", timestep.env_info["abnormal"], last.env_info["abnormal"])
    return mask


def mask_non_finite(rows: T, valid: jax.Array) -> T:
    """Replaces floats that are not finite by 0 in rows that are not ``valid``: leaves ``[T, B, ...]`` or ``[N, ...]``.

    A row that a loss leaves out may hold a NaN, such as the observation after the end of a task, and its derivative is
    then NaN although its weight is 0. Pass rows through this function before a network reads them for a loss, and
    select with ``jnp.mean(x, where=valid)`` instead of multiplying with the mask.

    >>> import jax.numpy as jnp
    >>> mask_non_finite(jnp.array([[1, jnp.nan], [jnp.nan, 2]]), jnp.array([True, False])).tolist()
    [[1.0, nan], [0.0, 2.0]]
    """

    def mask_leaf(x: Any) -> Any:
        if not jnp.issubdtype(jnp.result_type(x), jnp.inexact):
            return x
        return jnp.where(tree.expand(valid, jnp.ndim(x)) | jnp.isfinite(x), x, jnp.zeros((), jnp.result_type(x)))

    return jax.tree.map(mask_leaf, rows)


def from_episode(
    observation: Any, action: Any, reward: Any, *, terminated: Any = True, policy_info: Any = ()
) -> Experience:
    """Makes whole recorded episodes, such as demonstrations, into the rows of an unroll: leaves ``[T + 1, B, ...]``.

    The rows go from FIRST to LAST and hold step type, reward, discount and observation, as
    ``unroll(fields=["step_type", "reward", "discount", "observation", "action"])`` returns them: a replay buffer takes
    both. The LAST row has an action of zeros, which nothing reads. NaN is refused outside of traces.

    Args:
        observation: leaves ``[T + 1, B, ...]``, the first observation and the one after each action.
        action: leaves ``[T, B, ...]``.
        reward: ``[T, B]`` or ``[T, B, R]``, of each action.
        terminated: whether the task ended the episodes: one bool, or bool ``[B]``. False for an episode that was cut
            off, whose last value bootstraps.
        policy_info: leaves ``[T, B, ...]``; zeros on the LAST row.

    >>> rows = from_episode(np.array([[7], [8], [9]]), np.array([[1], [2]]), np.array([[0.5], [1.5]]))
    >>> rows.timestep.step_type[:, 0].tolist(), rows.timestep.reward[:, 0].tolist(), rows.action[:, 0].tolist()
    ([0, 1, 2], [0.0, 0.5, 1.5], [1, 2, 0])
    """
    check_array("from_episode", "reward", reward)
    check_array("from_episode", "terminated", terminated)
    parts = {"observation": observation, "action": action, "reward": reward, "policy_info": policy_info}
    for name, x in parts.items():
        if name != "policy_info" and not jax.tree.leaves(x):
            raise ValueError(f"from_episode: {name} must hold at least one array, got {x!r}")
        check_numbers("from_episode", name, x)
    reward = jnp.asarray(reward, jnp.float32)
    if reward.ndim < 2 or reward.shape[0] < 1:
        raise ValueError(f"from_episode: reward must be [T, B] or [T, B, R] of at least 1 step, got {reward.shape}")
    steps, lanes = reward.shape[:2]
    for path, leaf in jax.tree.flatten_with_path(parts)[0]:
        axes = (steps + (path[0].key == "observation"), lanes)
        if jnp.shape(leaf)[:2] != axes:
            rule = f"{tree.path_name(path)} must lead with {list(axes)}"
            raise ValueError(f"from_episode: {rule}, got shape {jnp.shape(leaf)}")
    ended = jnp.asarray(terminated)
    if ended.dtype != jnp.bool_ or ended.shape not in ((), (lanes,)):
        rule = f"terminated must be bool or bool[{lanes}]"
        raise ValueError(f"from_episode: {rule}, got {ended.dtype}{list(ended.shape)}")
    kinds = np.full(steps + 1, StepType.MID, np.int32)
    kinds[0], kinds[-1] = StepType.FIRST, StepType.LAST
    unset: Any = ()
    timestep = TimeStep(
        step_type=jnp.broadcast_to(jnp.asarray(kinds)[:, None], (steps + 1, lanes)),
        reward=jnp.concatenate([jnp.zeros_like(reward[:1]), reward]),
        discount=jnp.ones((steps + 1, lanes), jnp.float32).at[-1].set(jnp.where(ended, np.float32(0), np.float32(1))),
        observation=jax.tree.map(jnp.asarray, observation),
        env_info=unset,
    )
    action, policy_info = jax.tree.map(lambda x: jnp.concatenate([x, jnp.zeros_like(x[:1])]), (action, policy_info))
    return Experience(timestep, action, policy_info)


def check_numbers(owner: str, name: str, x: Any) -> None:
    """Raises a ``ValueError`` for a leaf that holds no numbers, and for NaN, which a learner would spread."""
    check_arrays(owner, name, x)
    for path, leaf in jax.tree.flatten_with_path(x)[0]:
        if is_concrete(leaf) and np.any(np.isnan(np.asarray(leaf, np.float64))):
            first = tuple(np.argwhere(np.isnan(np.asarray(leaf, np.float64)))[0].tolist())
            raise ValueError(f"{owner}: {tree.path_name(path, name)} must not be NaN, got nan at {first}")


def minibatches(
    key: jax.Array | random.Stream, batch: T, num_minibatches: int | None = None, *, size: int | None = None
) -> T:
    """Shuffles the leading axis of all leaves and splits it: ``[N, ...]`` to ``[num_minibatches, size, ...]``.

    All leaves are shuffled in the same order. Every entry is used exactly once.

    ``key`` is one typed key, or a stream of shape ``()``. ``num_minibatches`` must divide N. ``size`` is the smallest
    size of a minibatch, instead of their number: the result has ``N // size`` minibatches, for example 8 of 33 entries
    for ``size=32`` and N = 264; this number must divide N.

    >>> import jax
    >>> batch = {"reward": jax.numpy.zeros(264)}
    >>> minibatches(jax.random.key(0), batch, size=32)["reward"].shape
    (8, 33)
    """
    check_arrays("minibatches", "batch", batch)
    shapes = {jnp.shape(x)[:1] for x in jax.tree.leaves(batch)}
    if len(shapes) != 1 or () in shapes:
        raise ValueError(f"minibatches: all leaves must lead with the same axis, got {sorted(shapes)}")
    ((count,),) = shapes
    if size is not None and num_minibatches is None:
        check_integer("minibatches", "size", size, 1, count)
        number = count // size
        reason = f"size {size} makes {number} minibatches"
    elif num_minibatches is not None and size is None:
        check_integer("minibatches", "num_minibatches", num_minibatches, 1)
        number = int(num_minibatches)
        reason = f"num_minibatches is {num_minibatches}"
    else:
        raise ValueError(f"minibatches: pass either num_minibatches or size, got {num_minibatches!r} and {size!r}")
    if count % number:
        near = nearest_divisor(count, number)
        fault = f"{count} entries cannot be split equally, {reason}"
        raise ValueError(f"minibatches: {fault}; {near} minibatches of {count // near} can")
    order = _shuffled(single_stream("minibatches", key), count)
    return jax.tree.map(
        lambda x: jnp.take(x, order, axis=0, mode="clip").reshape(number, count // number, *x.shape[1:]), batch
    )


@functools.partial(compiled_once, static_argnums=1)
def _shuffled(stream: random.Stream, n: int) -> jax.Array:
    """Returns the indices 0 .. n - 1 in pseudo-random order, int32 ``[n]``, for a stream of shape ``()``.

    A sort would take as long on a CPU as a gradient step on the shuffled rows. From n = 256 on, a Feistel network (Luby
    and Rackoff, 1988, doi:10.1137/0217022) maps each index to another number of as many bits. Numbers of n or above are
    mapped again (Black and Rogaway, 2002, "Ciphers with arbitrary finite domains").
    """
    if n < 256:  # few entries are cheap to sort, and have too few bits to mix
        return random.permutation(stream, n)
    low = (n - 1).bit_length() // 2
    high = (n - 1).bit_length() - low
    keys = random.bits(stream, (_FEISTEL_ROUNDS,))

    def permute(x: jax.Array) -> jax.Array:
        left, right = x >> np.uint32(low), x & np.uint32(2**low - 1)
        for number in range(0, _FEISTEL_ROUNDS, 2):
            right ^= _mixed(left, keys[number]) >> np.uint32(32 - low)
            left ^= _mixed(right, keys[number + 1]) >> np.uint32(32 - high)
        return left << np.uint32(low) | right

    index = permute(jnp.arange(n, dtype=jnp.uint32))
    if n < 2 ** (low + high):
        outside = np.uint32(n)
        walk = lambda x: jnp.where(x < outside, x, permute(x))  # noqa: E731
        index = jax.lax.while_loop(lambda x: jnp.any(x >= outside), walk, index)
    return index.astype(jnp.int32)


def _mixed(x: jax.Array, key: jax.Array) -> jax.Array:
    """Maps ``x`` to a random uint32 by the finaliser of MurmurHash3."""
    x = (x ^ key) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> np.uint32(13)) ^ (key >> np.uint32(7))) * np.uint32(0xC2B2AE35)
    return x ^ (x >> np.uint32(16))


def nearest_divisor(total: int, target: int) -> int:
    """Returns the divisor of ``total`` that is nearest to ``target``."""
    return min((n for n in range(1, total + 1) if total % n == 0), key=lambda n: abs(n - target))


# --- checks ----------------------------------------------------------------------------------------------------------


def check_mode(
    owner: str, timestep: TimeStep, mode: Any, last: TimeStep | None = None, remedy: str = "pass mode='same_step'"
) -> None:
    """Raises a ``ValueError`` for an unknown mode, and if the rows were made in the other mode.

    Only rows made in ``same_step`` mode hold ``env_info["final_observation"]``. `jaxenv.unroll` may have left it out of
    the rows, but not of the row after them. Outside of traces, ``next_step`` mode is recognised by a FIRST row after
    every LAST row.
    """
    check_choice(owner, "mode", mode, get_args(TrajectoryMode))
    for name, row in (("the rows hold", timestep), ("last holds", last)):
        if mode == "next_step" and row is not None and "final_observation" in row.env_info:
            raise ValueError(f"{owner}: {name} env_info['final_observation'], {remedy}")
    if mode == "same_step" and is_known_array(timestep.step_type) and np.ndim(timestep.step_type) == 2:
        step_type = np.asarray(timestep.step_type)
        ended, first = step_type[:-1] == StepType.LAST, step_type[1:] == StepType.FIRST
        if ended.any() and first[ended].all():
            rule = "the rows must be made in same_step mode, got a FIRST row after every LAST row"
            raise ValueError(f"{owner}: {rule}: leave out final_values and mode for next_step mode")


def check_rows(owner: str, timestep: TimeStep, last: TimeStep) -> None:
    """Raises a ``ValueError`` if a required field is missing, or shapes in ``timestep`` and ``last`` do not match."""
    check_timestep(owner, "timestep", timestep)
    check_timestep(owner, "last", last)
    batch = jnp.shape(timestep.step_type)[1:]
    for field in ("step_type", "reward", "discount"):
        x, y = getattr(timestep, field), getattr(last, field)
        if isinstance(x, tuple):
            raise ValueError(f"{owner}: timestep.{field} is missing, keep it in unroll(fields=...)")
        if jnp.shape(x)[:1] != jnp.shape(timestep.step_type)[:1] or jnp.shape(x)[1:][: len(batch)] != batch:
            fault = f"timestep.{field} has shape {jnp.shape(x)}, timestep.step_type {jnp.shape(timestep.step_type)}"
            raise ValueError(f"{owner}: {fault}: both must lead with [T, B]")
        if jnp.shape(y) != jnp.shape(x)[1:]:
            rule = f"last.{field} must have the shape {jnp.shape(x)[1:]} of a row"
            raise ValueError(f"{owner}: {rule}, got {jnp.shape(y)}")


def single_stream(owner: str, key: Any) -> random.Stream:
    """Returns the stream of one key; raises a ``ValueError`` for a batch of keys."""
    if not isinstance(key, random.Stream):
        random.check_typed(key, f"{owner}: key")
    stream = random.stream(key)
    if stream.shape != ():
        raise ValueError(f"{owner}: key must be one key or a stream of shape (), got shape {stream.shape}")
    return stream
