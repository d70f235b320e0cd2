"""Importing other libraries and running their code under the settings that it expects."""

import contextlib
import importlib
from collections.abc import Iterator
from types import ModuleType

import jax


def import_library(name: str, install: str) -> ModuleType:
    """Imports a library on first use; ``install`` is the command that installs it, for the error."""
    # Modules may create arrays when they are imported: with default types, and not inside a trace.
    with outside_traces():
        try:
            return importlib.import_module(name)
        except ImportError as error:
            package = name.partition(".")[0].replace("_", "-")
            raise ImportError(f"{package} is not installed: {install} ({error})") from None


# The classes of environments that a program may make itself, and their libraries.
_ENVIRONMENTS = {
    "gymnasium.core.Env": "gymnasium",
    "dm_env._environment.Environment": "dm_env",
    "pettingzoo.utils.env.ParallelEnv": "pettingzoo",
    "pettingzoo.utils.env.AECEnv": "pettingzoo",
}


def library_of(value: object) -> str | None:
    """Returns the library whose environment ``value`` is: Gymnasium, dm_env or PettingZoo. None of them is imported."""
    names = (f"{cls.__module__}.{cls.__name__}" for cls in type(value).__mro__)
    return next((_ENVIRONMENTS[name] for name in names if name in _ENVIRONMENTS), None)


@contextlib.contextmanager
def default_types() -> Iterator[None]:
    """Runs code under JAX's default settings: implicit promotion of dtypes and ranks, and types of 32 bits."""
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@contextlib.contextmanager
def outside_traces() -> Iterator[None]:
    """Acts like `default_types`, and evaluates immediately even while a function is being traced."""
    with default_types(), jax.ensure_compile_time_eval():
        yield
