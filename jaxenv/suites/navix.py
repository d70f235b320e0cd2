"""NAVIX's environments as batched environments: ``jaxenv.load("navix:Navix-DoorKey-8x8-v0", num_envs=8)``.

Starts, transitions, observations and rewards are computed by NAVIX, written for one lane. Time limits and restarts are
those of this library.

``tests/suites/test_navix.py`` compares episodes with NAVIX's own loop; ``docs/suites/navix.md`` lists the mapping.
"""

import functools
import inspect
from typing import Any

import numpy as np

from jaxenv import specs
from jaxenv._library import import_library, outside_traces
from jaxenv._source import install_command
from jaxenv.environment import Environment
from jaxenv.suites._options import check_known, reporting, thaw
from jaxenv.suites._single import Single
from jaxenv.suites._task import load_task
from jaxenv.tree import Tree

# Keywords of navix.make and of the environments' ``create``, with their defaults; None stands for those of the id.
_ARGUMENTS: dict[str, Any] = dict.fromkeys(
    ("observation_fn", "reward_fn", "termination_fn", "transitions_fn", "action_set", "observation_space")
)
_ARGUMENTS |= {"max_steps": 100, "gamma": 0.99, "penality_coeff": 0.0}


def ids() -> list[str]:
    """The ids that ``load`` accepts: all that are registered with NAVIX."""
    return sorted(_navix().registry())


def docstring(name: str) -> str:
    """What NAVIX says about one of its environments."""
    return inspect.cleandoc(vars(type(single(name, ()).env)).get("__doc__") or "")


def action_and_limit(name: str) -> tuple[Tree, int | None]:
    """The action spec and the time limit of an environment, found without tracing a step."""
    built = single(name, ())
    return built.action_spec.value, built.limit


def load(name: str, /, num_envs: int = 1, **kwargs) -> Environment:
    """Builds an environment of NAVIX with its stack of wrappers, as `jaxenv.make` does for this library's own.

    Args:
        name: an id of NAVIX.
        num_envs: the number of lanes that ``reset(key)`` makes.
        **kwargs: keywords of `jaxenv.make`; keywords of ``navix.make``, such as ``observation_fn``. ``max_steps``, 100
            by default, is the time limit unless ``max_episode_steps`` is given.

    Raises:
        ImportError: if NAVIX is not installed.
        ValueError: for an unknown id or keyword, listing the valid ones, or for an invalid value.
    """
    check_known("navix", name, _navix().registry())
    return load_task("navix", single, name, num_envs, _ARGUMENTS, kwargs)


class NavixSingle(Single):
    """An environment of NAVIX; `single` builds each configuration once.

    Attributes:
        env: the suite's object.
    """

    reset_strategy = "compact"

    def __init__(self, id: str, options: tuple):
        self.owner = f"navix:{id}"
        arguments = {name: thaw(value) for name, value in options}
        with outside_traces(), reporting(self.owner, arguments):
            self.env = _navix().make(id, **arguments)
        self.limit = int(self.env.max_steps)

    def reset(self, values, key):
        timestep = self.env.reset(key)
        return timestep, timestep.observation

    def step(self, values, key, state, action):
        timestep = self.env._step(state, action)  # step restarts episodes
        return timestep, timestep.observation, timestep.reward, timestep.is_termination(), {}

    def declared_action(self):
        return specs.discrete(int(self.env.action_space.n), name="action")

    def declared_observation(self):
        space = self.env.observation_space
        if space.maximum < 255:  # NAVIX declares 9 kinds of cells, and shows more
            return None
        return specs.Bounded(space.shape, space.dtype, np.asarray(space.minimum), np.asarray(space.maximum))


@functools.cache
def single(id: str, options: tuple) -> NavixSingle:
    """The environment of an id and its options; the same object for equal arguments."""
    check_known("navix", id, _navix().registry())
    return NavixSingle(id, options)


def _navix() -> Any:
    return import_library("navix", install_command("navix"))
