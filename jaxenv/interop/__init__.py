"""Adapters that export environments of this library to trainers and tools of other libraries.

Each function has a separate module, which imports the other library on first use; without it an ``ImportError`` names
the command that installs it. Functions take an environment, or an id with options of `jaxenv.make`.
Adapters of one lane for a trainer's ``vmap`` take environments without ``AutoReset``, without state of the whole batch
and without params per lane. What a library cannot express, such as a vector reward, is a ``ValueError``.
"""

import ast
import importlib
from typing import TYPE_CHECKING, Any

from jaxenv._util.names import explained

if TYPE_CHECKING:  # the public names: type checkers read this block, and so does the code below
    from jaxenv.interop._adapter import host as host
    from jaxenv.interop._batch import batch as batch
    from jaxenv.interop.brax import to_brax as to_brax
    from jaxenv.interop.dm_env import to_dm_env as to_dm_env
    from jaxenv.interop.gymnasium import to_gymnasium as to_gymnasium
    from jaxenv.interop.gymnasium import to_gymnasium_vector as to_gymnasium_vector
    from jaxenv.interop.gymnax import to_gymnax as to_gymnax
    from jaxenv.interop.jaxmarl import to_jaxmarl as to_jaxmarl
    from jaxenv.interop.mctx import mcts_policy as mcts_policy
    from jaxenv.interop.mctx import playouts as playouts
    from jaxenv.interop.mctx import to_mctx as to_mctx
    from jaxenv.interop.pettingzoo import to_pettingzoo as to_pettingzoo
    from jaxenv.interop.stable_baselines3 import to_stable_baselines3 as to_stable_baselines3
    from jaxenv.interop.stoa import to_stoa as to_stoa
else:
    _listing = next(x for x in ast.parse(__spec__.loader.get_source(__name__)).body if isinstance(x, ast.If))
    _MODULES = {node.names[0].name: node.module for node in _listing.body}
    __all__ = sorted(_MODULES)

    def __getattr__(name: str) -> Any:
        if f"{__name__}.{name}" in _MODULES.values() and not name.startswith("_"):
            return importlib.import_module(f"{__name__}.{name}")
        if name not in _MODULES:
            message = f"module {__name__!r} has no attribute {name!r}, it has {', '.join(__all__)}"
            raise AttributeError(explained(message, name, ""))
        return getattr(importlib.import_module(_MODULES[name]), name)

    def __dir__() -> list[str]:
        return __all__
