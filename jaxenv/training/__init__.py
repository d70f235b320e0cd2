"""Learners, each in one readable file: ``from jaxenv.training import ppo``. `load` reads trained policies.

They need the extra ``training`` (flax, optax), so each is imported where it is first used.
"""

import importlib as _importlib
import typing as _typing

from jaxenv.training import _algorithms
from jaxenv.training.baselines import Baseline as Baseline
from jaxenv.training.baselines import baseline as baseline
from jaxenv.training.baselines import baseline_ids as baseline_ids
from jaxenv.training.presets import preset as preset
from jaxenv.training.trained import Trained as Trained
from jaxenv.training.trained import load as load

if _typing.TYPE_CHECKING:
    from jaxenv.training import alphazero as alphazero
    from jaxenv.training import dqn as dqn
    from jaxenv.training import paired as paired
    from jaxenv.training import ppo as ppo
    from jaxenv.training import sac as sac
    from jaxenv.training import seeds as seeds
    from jaxenv.training import self_play as self_play
    from jaxenv.training import ued as ued
else:

    def __getattr__(name: str) -> _typing.Any:
        if name in ("paired", "seeds"):
            return _importlib.import_module(f"{__name__}.{name}")
        if name in _algorithms.MODULES:
            return _algorithms.module(__name__, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
