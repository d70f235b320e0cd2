"""Many steps of a whole batch in one compiled loop."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax

from jaxenv import tree
from jaxenv.environment import Environment
from jaxenv.rollout.checks import check_whole
from jaxenv.rollout.walk import Experience, Walk
from jaxenv.timestep import TimeStep


def unroll(
    env: Environment,
    policy: Callable,
    state: Any,
    timestep: TimeStep,
    num_steps: int,
    *,
    key: jax.Array | None = None,
    initial_memory: Any = (),
    memory: Any = None,
    fields: Sequence[str] | None = None,
) -> tuple[tuple[Any, TimeStep, Any], Experience]:
    """Steps all lanes ``num_steps`` times: ``num_steps * B`` environment steps, by ``jax.lax.scan``.

    The first row is the ``timestep`` passed in, and the one returned is the first row of the next unroll, so that
    consecutive unrolls neither lose nor repeat a row.

    Args:
        env: the environment.
        policy: ``policy(timestep, key)``, or ``policy(timestep, key, memory)`` where ``initial_memory`` is given;
            returns an action or a `PolicyStep`. ``key`` is a stream per lane (see ``jaxenv.random``).
        state: the environment's state.
        timestep: the TimeStep that goes with it.
        num_steps: T, static.
        key: a typed key (or ``Key[B]``) for the policy's draws; by default they come from the lanes' own streams.
        initial_memory: recurrent state at the start of an episode, leaves ``[B, ...]``; it is put back by mask
            wherever ``env.starts(timestep)``.
        memory: recurrent state to go on with, ``initial_memory`` by default.
        fields: what to stack: names of TimeStep fields, ``"action"``, ``"policy_info"``, and dotted paths below them
            such as ``"observation.camera"``. Everything by default.

    Returns:
        ``(state, timestep, memory)`` to go on from, and an `Experience`.

    Raises:
        ValueError: for an unknown field, a policy whose memory changes its structure, or ``num_steps`` that is no whole
            number from 0.
    """
    check_whole("unroll", "num_steps", num_steps, 0)
    if isinstance(fields, str):
        raise ValueError(f"unroll: fields must be a sequence of names, got the text {fields!r}: write [{fields!r}]")
    paths = None if fields is None else [_full_path(field) for field in fields]
    walk = Walk.of("unroll", env, policy, state, key, initial_memory, memory)

    def one_step(carry, _):
        carry, row = walk.step(carry)
        return carry, row if paths is None else tree.select_fields(row, paths)

    return jax.lax.scan(one_step, (state, timestep, walk.memory), length=num_steps)


def _full_path(field: str) -> str:
    head = field.split(".")[0]
    short, full = ([f.name for f in dataclasses.fields(cls)] for cls in (TimeStep, Experience))
    if head not in short + full:
        raise ValueError(f"unroll: no field {field!r}, the fields are {', '.join(short + full[1:])}")
    return f"timestep.{field}" if head in short else field
