"""Environments of this library for trainers and tools that were written for another one.

Each function is in a module of its own, which imports the other library when it is first used.
"""

import importlib
from typing import Any

_MODULES = {"to_gymnax": "jaxenv.interop.gymnax"}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}, it has {', '.join(__all__)}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "gymnax"]
