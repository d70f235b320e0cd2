"""Rollouts that keep their trajectory."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import check_integer, check_names
from jaxenv._util.names import did_you_mean, meaning
from jaxenv.core.environment import Environment
from jaxenv.core.timestep import TimeStep
from jaxenv.rollout._iteration import chosen, limited_by_launches
from jaxenv.rollout._policy import Policy, PolicyLoop
from jaxenv.rollout.experience import Experience


def unroll(
    env: Environment,
    policy: Policy,
    state: Any,
    timestep: TimeStep,
    num_steps: int,
    *,
    key: jax.Array | None = None,
    initial_memory: Any = (),
    memory: Any = None,
    fields: Sequence[str] | None = None,
    steps_per_iteration: int | None = None,
) -> tuple[tuple[Any, TimeStep, Any], Experience]:
    """Steps all lanes ``num_steps`` times in a ``jax.lax.scan``.

    The trajectory starts with the given ``timestep``. The returned one starts the next unroll, so consecutive unrolls
    neither lose nor repeat a TimeStep.

    Args:
        env: the environment.
        policy: ``policy(timestep, stream)``, or ``policy(timestep, stream, memory)`` if ``initial_memory`` is given;
            returns an action or a `PolicyStep`. ``stream`` is a `jaxenv.random.Stream`, one per lane.
        state: the environment's state.
        timestep: the TimeStep that belongs to it.
        num_steps: T, static, at least 0.
        key: a typed key (or ``Key[B]``) for the policy's random numbers; by default the lanes' own keys.
        initial_memory: recurrent state at the start of an episode, leaves ``[B, ...]``; a lane's memory is reset to it
            wherever ``env.episode_starts(timestep)``.
        memory: recurrent state to continue with, ``initial_memory`` by default, and only together with it. The policy
            keeps its structure.
        fields: fields to keep: names of TimeStep fields, ``"action"``, ``"policy_info"``, and dotted paths below them
            such as ``"observation.camera"``. Everything by default. In ``same_step`` mode ``"observation"`` needs
            ``"env_info.final_observation"`` too, the only place of an episode's last observation.
        steps_per_iteration: at least 1, the steps in one iteration of the compiled loop: ``unroll`` of
            ``jax.lax.scan``. By default `jaxenv.rollout.steps_per_iteration` chooses: 1 on a CPU, 4 on a GPU where
            these save launches. The loop compiles for longer. Results are the same up to the compiler's rounding.

    Returns:
        ``(state, timestep, memory)`` to continue from, and an `Experience`.
    """
    check_integer("unroll", "num_steps", num_steps, 0)
    if fields is not None:
        check_names("unroll", "fields", fields)
    paths = None if fields is None else [_full_path(field) for field in fields]
    loop = PolicyLoop.create("unroll", env, policy, (state, timestep), key, initial_memory, memory)
    if env.autoreset == "same_step" and paths is not None:
        _check_final_observation(paths)

    def one_step(carry: tuple[Any, TimeStep, Any], _: Any) -> tuple[tuple[Any, TimeStep, Any], Experience]:
        carry, row = loop.step(carry)
        row = jax.tree.map(_flat, row if paths is None else tree.select_fields(row, paths))
        return carry, _packed(row, num_envs) if limited_by_launches(num_envs) else row

    carry, num_envs = (state, timestep, loop.memory), timestep.step_type.shape[0]
    steps = chosen("unroll", steps_per_iteration, one_step, carry, num_envs)
    carry, rows = jax.lax.scan(one_step, carry, length=num_steps, unroll=steps)
    return carry, jax.tree.map(_restored, _unpacked(rows), is_leaf=lambda x: isinstance(x, _Flat))


# The dtypes whose leaves [B] a GPU stores in one array -> the dtype of this array.
_STACKED: dict[Any, str] = {
    np.dtype(given): stored
    for given, stored in (("int32", "int32"), ("uint32", "int32"), ("bool", "int32"), ("float32", "float32"))
}


@tree.struct
class _Packed:
    """A row whose leaves ``[B]`` are stacked to ``[k, B]``, by dtype; ``[T, k, B]`` behind the scan."""

    stacked: dict[str, jax.Array]
    others: list[jax.Array]
    dtypes: tuple[Any, ...] = tree.static()  # of every leaf that is stacked; None for the others
    structure: Any = tree.static()


def _packed(row: Any, num_envs: int) -> Any:
    """Stacks the numbers and flags of a row: on a GPU every stored array is a launch of its own in each step."""
    leaves, structure = jax.tree.flatten(row)
    dtypes = tuple(x.dtype if x.shape == (num_envs,) and x.dtype in _STACKED else None for x in leaves)
    groups: dict[str, list[jax.Array]] = {}
    for x, dtype in zip(leaves, dtypes, strict=True):
        if dtype is not None:
            groups.setdefault(_STACKED[dtype], []).append(x.astype(_STACKED[dtype]))
    others = [x for x, dtype in zip(leaves, dtypes, strict=True) if dtype is None]
    return _Packed({name: jnp.stack(x) for name, x in groups.items()}, others, dtypes, structure)


def _unpacked(rows: Any) -> Any:
    if not isinstance(rows, _Packed):
        return rows
    arrays = {name: iter(x.swapaxes(0, 1)) for name, x in rows.stacked.items()}
    others = iter(rows.others)
    leaves = [next(others) if dtype is None else next(arrays[_STACKED[dtype]]).astype(dtype) for dtype in rows.dtypes]
    return rows.structure.unflatten(leaves)


@tree.struct
class _Flat:
    """A leaf ``[B, ...]`` in the form in which the scan stores it."""

    values: jax.Array  # [B, n] or [B]; [T, B, n] or [T, B] behind the scan
    shape: tuple[int, ...] = tree.static()  # the trailing axes
    dtype: Any = tree.static()


def _flat(x: jax.Array) -> jax.Array | _Flat:
    """Merges the trailing axes of an image of bytes or flags; other leaves stay as they are, except flags on a TPU.

    A scan that stores ``[T, B, n]`` is faster. XLA:CPU (jaxlib 0.10.2) stores along the last axis of an image, a few
    bytes at a time: a step of MiniGrid took 1.3 times as long. For a TPU v5e XLA (jaxlib 0.11.2) keeps bytes ``[T, B,
    7, 7, 3]`` in tiles of 32 steps and copies the whole array at every step. Images of floats have no such costs. Flags
    ``[T, B]`` do: on a TPU they are stored as words.
    """
    if x.dtype == bool and x.ndim == 1 and jax.default_backend() == "tpu":
        return _Flat(x.astype(jnp.int32), (), x.dtype)
    if x.ndim <= 2 or x.dtype.itemsize > 1:
        return x
    return _Flat(x.reshape(x.shape[0], -1), x.shape[1:], x.dtype)


def _restored(x: jax.Array | _Flat) -> jax.Array:
    return x.values.reshape(x.values.shape[:2] + x.shape).astype(x.dtype) if isinstance(x, _Flat) else x


def _full_path(field: str) -> str:
    head = field.split(".")[0]
    short, full = ([f.name for f in dataclasses.fields(cls)] for cls in (TimeStep, Experience))
    if head not in short + full:
        known = short + full[1:]
        hint = meaning(head, r"timestep\.") or did_you_mean(head, known, f"the fields are {', '.join(known)}")
        raise ValueError(f"unroll: no field {field!r}, {hint}")
    return f"timestep.{field}" if head in short else field


def _check_final_observation(paths: Sequence[str]) -> None:
    """Raises a ``ValueError`` for observations of ``same_step`` mode without those that ended the episodes."""
    observed = any(f"{path}.".startswith("timestep.observation.") for path in paths)
    final = "timestep.env_info.final_observation."
    if observed and not any(f"{path}.".startswith(final) or path == "timestep.env_info" for path in paths):
        fault = "in same_step mode 'observation' lacks the last one of every episode"
        raise ValueError(f"unroll: {fault}, add 'env_info.final_observation' to the fields")
