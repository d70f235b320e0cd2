"""bsuite's experiments by their ids, on this library's own environments: ``jaxenv.make("bsuite:catch/3", num_envs=8)``.

The 468 settings of ``bsuite.sweep.SWEEP``, with their noise and their scales of rewards. Nothing has to be installed.
``tests/suites/test_bsuite.py`` compares all settings with bsuite's.

Paper: Osband et al. (2020), "Behaviour Suite for Reinforcement Learning", arXiv:1908.03568.
"""

import dataclasses
import functools
import inspect
import operator
from typing import Any

import numpy as np

from jaxenv._util.checks import check_text
from jaxenv._util.names import did_you_mean
from jaxenv.core import Environment, registry
from jaxenv.tree import Tree
from jaxenv.wrappers.stack._make import make


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One of the 23 experiments."""

    env_id: str  # the environment of this library
    settings: tuple[dict[str, Any], ...]  # params and options of each; scales of noise and reward belong to wrappers
    num_episodes: int  # the length of a run
    tags: tuple[str, ...]  # the capabilities that bsuite counts its score for; the first is its type


_LENGTHS = (*range(1, 11), 12, 14, 17, 20, 25, *range(30, 101, 10))
_SIZES = range(10, 51, 2)
_SCALES = {"noise_scale": (0.1, 0.3, 1.0, 3.0, 10.0), "reward_scale": (0.001, 0.03, 1.0, 30.0, 1000.0)}
_ALIKE: tuple[dict[str, Any], ...] = ({},) * 20  # bsuite's differ in their seed, which it redraws in every run


def _swept(**settings: Any) -> tuple[dict[str, Any], ...]:
    """Returns one setting for each value of the setting that is a sequence."""
    ((name, values),) = [(name, values) for name, values in settings.items() if isinstance(values, range | tuple)]
    return tuple({**settings, name: value} for value in values)


EXPERIMENTS = {
    "bandit": Experiment("SimpleBandit-bsuite", _swept(mapping_seed=range(20)), 10_000, ("basic",)),
    "mnist": Experiment("MNISTBandit-bsuite", _ALIKE, 10_000, ("basic", "generalization")),
    "catch": Experiment("Catch-bsuite", _ALIKE, 10_000, ("basic", "credit_assignment")),
    "mountain_car": Experiment("MountainCar-bsuite", _ALIKE, 1_000, ("basic", "generalization")),
    "cartpole": Experiment("CartPole-bsuite", _ALIKE, 1_000, ("basic", "credit_assignment", "generalization")),
    "deep_sea": Experiment("DeepSea-bsuite", _swept(size=_SIZES, mapping_seed=42), 10_000, ("exploration",)),
    "deep_sea_stochastic": Experiment(
        "DeepSeaStochastic-bsuite", _swept(size=_SIZES, mapping_seed=42), 10_000, ("exploration", "noise")
    ),
    "cartpole_swingup": Experiment(
        "CartPoleSwingup-bsuite",
        tuple({"height_threshold": n / 20, "x_reward_threshold": 1 - n / 20} for n in range(20)),
        1_000,
        ("exploration", "generalization"),
    ),
    "umbrella_length": Experiment(
        "UmbrellaChain-bsuite", _swept(chain_length=_LENGTHS, n_distractor=20), 10_000, ("credit_assignment", "noise")
    ),
    "umbrella_distract": Experiment(
        "UmbrellaChain-bsuite", _swept(n_distractor=_LENGTHS, chain_length=20), 10_000, ("credit_assignment", "noise")
    ),
    "discounting_chain": Experiment(
        "DiscountingChain-bsuite", _swept(mapping_seed=range(20)), 1_000, ("credit_assignment",)
    ),
    "memory_len": Experiment("MemoryChain-bsuite", _swept(memory_length=_LENGTHS, num_bits=1), 10_000, ("memory",)),
    "memory_size": Experiment(
        "MemoryChain-bsuite", _swept(num_bits=_LENGTHS[:17], memory_length=2), 10_000, ("memory",)
    ),
}
# Each of the basic experiments once more, with noisy and with scaled rewards.
for _name, _basic in list(EXPERIMENTS.items())[:5]:
    for _setting, _scales in _SCALES.items():
        _kind = "noise" if _setting == "noise_scale" else "scale"
        EXPERIMENTS[f"{_name}_{_kind}"] = dataclasses.replace(
            _basic,
            settings=tuple({**rest, _setting: scale} for scale in _scales for rest in _basic.settings[:4]),
            tags=(_kind, *_basic.tags[1:][-1:]),
        )


def ids() -> list[str]:
    """Returns the 468 ids that ``load`` accepts, ``experiment/setting``."""
    return [f"{name}/{i}" for name, experiment in EXPERIMENTS.items() for i in range(len(experiment.settings))]


def experiment(name: str) -> tuple[Experiment, dict[str, Any]]:
    """Returns the experiment of an id, and its setting."""
    check_text("bsuite", "name", name)
    title, _, index = name.partition("/")
    if title not in EXPERIMENTS:
        if title in registry.ids():
            raise ValueError(f"bsuite: {title!r} is an id of this library, load it without the prefix")
        hint = did_you_mean(title, EXPERIMENTS, otherwise=f"the experiments are {', '.join(EXPERIMENTS)}")
        raise ValueError(f"bsuite: no experiment {title!r}, {hint}")
    found = EXPERIMENTS[title]
    if not (index.isdecimal() and str(int(index)) == index and int(index) < len(found.settings)):
        last = len(found.settings) - 1
        raise ValueError(f"bsuite: {title!r} has the settings {title}/0 to {title}/{last}, got {name!r}")
    return found, found.settings[int(index)]


def docstring(name: str) -> str:
    """Returns the setting, and the first sentence of its environment's docstring."""
    found, setting = experiment(name)
    given = ", ".join(f"{key}={value}" for key, value in setting.items()) or "default settings"
    summary = f"{found.env_id} with {given}; a run has {found.num_episodes:,} episodes."
    about = inspect.getdoc(inspect.getmodule(registry.spec(found.env_id).environment)) or ""
    return "\n\n".join([summary, about.split("\n\n")[0]])


def action_and_limit(name: str) -> tuple[Tree, int | None]:
    """Returns the action spec and the time limit of an environment."""
    found, _ = experiment(name)
    return registry.spec(found.env_id).make().action_spec(), registry.spec(found.env_id).max_episode_steps


def load(name: str, /, num_envs: int | None = None, **kwargs: Any) -> Environment:
    """Builds the environment of a setting, such as ``"deep_sea/4"``; keywords are also what the setting does not fix.

    Noise and scales are wrappers of the reward, innermost; ``mode="eval"`` leaves them out. bsuite's counters, such as
    ``total_regret``, are in ``timestep.env_info`` and count the rewards of the task itself.
    """
    found, setting = experiment(name)
    if fixed := sorted(setting.keys() & kwargs.keys()):
        rule = f"{fixed[0]} is {setting[fixed[0]]!r} in this setting"
        raise ValueError(f"bsuite:{name}: {rule}, load {found.env_id!r} to choose it")
    setting, own = dict(setting), []
    if (scale := setting.pop("noise_scale", None)) is not None:
        own.append(("RewardNoise", {"scale": scale}))
    if (scale := setting.pop("reward_scale", None)) is not None:
        own.append(("TransformReward", {"fn": functools.partial(operator.mul, np.float32(scale))}))
    given = kwargs.pop("wrappers", ())
    if not isinstance(given, str):  # otherwise `make` raises the error
        given = [*own, *given]
    spec = dataclasses.replace(registry.spec(found.env_id), id=f"bsuite:{name}")
    return make(spec, num_envs, wrappers=given, **setting, **kwargs)
