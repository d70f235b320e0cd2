"""Checks that a wrapper changes only the fields it owns."""

import dataclasses

import jax

from jaxenv.core.timestep import TimeStep
from jaxenv.core.wrapper import Wrapper


def check_owned(wrapper: Wrapper, given: TimeStep, row: TimeStep) -> None:
    """Raises a ``ValueError`` at trace time if ``row`` differs from ``given`` in a field that the wrapper does not own.

    A wrapper that owns the observation also owns ``env_info["final_observation"]``.
    """
    if "observation" in wrapper.owns:
        given, row = _without_final(given), _without_final(row)
    for field in dataclasses.fields(TimeStep):
        before, after = (jax.tree.leaves(getattr(t, field.name)) for t in (given, row))
        same = len(before) == len(after) and all(a is b for a, b in zip(before, after, strict=True))
        if not same and field.name not in wrapper.owns:
            raise ValueError(
                f"{type(wrapper).__name__}.after: it changes {field.name} and owns "
                f"{', '.join(sorted(wrapper.owns)) or 'nothing'}: add {field.name!r} to owns"
            )


def _without_final(timestep: TimeStep) -> TimeStep:
    env_info = {name: entry for name, entry in timestep.env_info.items() if name != "final_observation"}
    return dataclasses.replace(timestep, env_info=env_info)
