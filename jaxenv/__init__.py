"""Batched reinforcement learning environments as pure functions under JAX."""

import importlib
import importlib.util
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from jaxenv._api import *  # noqa: F403
else:

    def __getattr__(name: str):
        """Imports a public name when it is first used, so that the command's help does without JAX.

        A package is imported alone, since the modules of the library import packages from here; all other names come
        together.
        """
        if not name.startswith("_") and name not in _FUNCTIONS and importlib.util.find_spec(f"{__name__}.{name}"):
            return importlib.import_module(f"{__name__}.{name}")
        if not name.startswith("_") or name == "__all__":
            found = _public()
            globals().update(found)
            if name in found:
                return found[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *_public()})

    def _public() -> dict[str, object]:
        found = vars(importlib.import_module(f"{__name__}._api"))
        names = [name for name in found if not name.startswith("_")]
        return {name: found[name] for name in names} | {"__all__": names}

    _FUNCTIONS = {"partition_specs", "play", "reset_where", "step_where"}
