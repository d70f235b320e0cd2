"""Learners, each in one readable file: ``from jaxenv.training import ppo``. `load` reads what they have learned.

They need the extra ``training`` (flax, optax), which is why nothing here imports them.
"""

from jaxenv.training.baselines import Baseline as Baseline
from jaxenv.training.baselines import baseline as baseline
from jaxenv.training.baselines import baseline_ids as baseline_ids
from jaxenv.training.presets import preset as preset
from jaxenv.training.trained import Trained as Trained
from jaxenv.training.trained import load as load
