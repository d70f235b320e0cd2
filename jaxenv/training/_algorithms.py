"""The learners by name.

A learner is a module like ppo.py, with ``Config``, ``make_train`` and ``make_policy``. Its ``Learner`` has the fields
``params`` and ``statistics``. The names of its ``Losses``, a ``tree.struct``, become columns of a run.
"""

import importlib
from typing import Any

from jaxenv import specs
from jaxenv._util import source
from jaxenv._util.checks import check_choice
from jaxenv.core import Environment, Task
from jaxenv.training.config import RunConfig

MODULES = {name: f"jaxenv.training.{name}" for name in ("ppo", "dqn", "sac", "ued", "self_play", "alphazero")}


def module(owner: str, name: str) -> Any:
    """Imports the module of a learner; raises a ``ValueError`` for an unknown name."""
    check_choice(owner, "algorithm", name, tuple(MODULES))
    try:
        return importlib.import_module(MODULES[name])
    except ModuleNotFoundError as missing:
        if missing.name in ("flax", "mctx", "optax"):
            raise source.missing("jaxenv.training", missing, "training") from missing
        raise


def name_of(owner: str, config: Any) -> str:
    """Returns the name of the learner whose config this is."""
    for name, path in MODULES.items():
        if isinstance(config, RunConfig) and type(config).__module__ == path:
            return name
    raise ValueError(f"{owner}: config must be a learner's config, such as ppo.Config(), got {config!r}")


def made_for(env: Environment) -> dict[str, str]:
    """Returns the learners that are made for the kind of task that ``env`` plays, with what they do."""
    task = env.unwrapped
    if env.turns:
        return {
            "self_play": "PPO against a league of its past selves",
            "alphazero": "search, and a network that learns from it",
        }
    if isinstance(task, Task) and (isinstance(task.Level, type) or hasattr(type(task), "parse_levels")):
        return {"ued": "PPO on levels that a curriculum chooses"}
    return {}


def suited(action_spec: Any) -> str:
    """Chooses a learner by the action spec: SAC for bounded floats, PPO for all others."""
    one = specs.is_spec(action_spec) and isinstance(action_spec, specs.Bounded)
    return "sac" if one and not action_spec.is_discrete else "ppo"
