"""Environments of this library for trainers and tools that were written for another one.

Each function is in a module of its own, which imports the other library when it is first used.
"""

import importlib
from typing import Any

_MODULES = {
    "batch": "jaxenv.interop._batch",
    "from_dm_timestep": "jaxenv.interop.dm_env",
    "host": "jaxenv.interop._host",
    "to_brax": "jaxenv.interop.brax",
    "to_dm_env": "jaxenv.interop.dm_env",
    "to_dm_timestep": "jaxenv.interop.dm_env",
    "to_gymnasium": "jaxenv.interop.gymnasium",
    "to_gymnasium_vector": "jaxenv.interop.gymnasium",
    "to_gymnax": "jaxenv.interop.gymnax",
    "to_stable_baselines3": "jaxenv.interop.stable_baselines3",
    "to_stoa": "jaxenv.interop.stoa",
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}, it has {', '.join(__all__)}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(module.rpartition(".")[2] for module in _MODULES.values())})
