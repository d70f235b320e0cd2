"""Learners, each in one readable file: ``from jaxenv.training import ppo``. `load` reads trained policies.

They need the extra ``training`` (flax, optax), so each is imported where it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from jaxenv.training import _algorithms
from jaxenv.training.baselines import Baseline as Baseline
from jaxenv.training.baselines import baseline as baseline
from jaxenv.training.baselines import baseline_ids as baseline_ids
from jaxenv.training.presets import preset as preset
from jaxenv.training.trained import Trained as Trained
from jaxenv.training.trained import load as load

if TYPE_CHECKING:
    from jaxenv.training import dqn as dqn
    from jaxenv.training import ppo as ppo
    from jaxenv.training import sac as sac
    from jaxenv.training import seeds as seeds
    from jaxenv.training import ued as ued
else:

    def __getattr__(name: str) -> Any:
        if name == "seeds":
            return importlib.import_module(f"{__name__}.seeds")
        if name in _algorithms.MODULES:
            return _algorithms.module(__name__, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
