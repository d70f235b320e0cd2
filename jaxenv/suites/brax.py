"""Brax's environments as batched environments: ``jaxenv.make("brax:ant", num_envs=8)``.

The time limit is 1000 steps. Brax's wrappers would restart every episode of a lane in the same state.
"""

import inspect
from typing import Any

from jaxenv._util.library import import_library, outside_traces
from jaxenv._util.source import install_command
from jaxenv.core.environment import Environment
from jaxenv.suites._options import arguments_of, check_known, reporting, thaw
from jaxenv.suites._single import BraxLike, action_and_limit_of, one_per_arguments
from jaxenv.suites._task import load_task

# The default episode_length of brax.envs.create and of Brax's trainers.
_LIMIT = 1000
# Arguments of all environments that their constructors pass on.
_PASSED_ON = {"n_frames": 0, "debug": False}


def ids() -> list[str]:
    """Returns the ids that ``load`` accepts: all ids registered with Brax."""
    return sorted(_brax()._envs)


def docstring(name: str) -> str:
    """Returns Brax's docstring of an environment."""
    check_known("brax", name, _brax()._envs)
    text = inspect.cleandoc(vars(_brax()._envs[name]).get("__doc__") or "")
    return text.removeprefix("### Description").strip()


def load(name: str, /, num_envs: int | None = None, **kwargs: Any) -> Environment:
    """Builds a Brax environment; keywords are also arguments of Brax's constructor, such as ``backend="generalized"``.

    ``max_episode_steps``, 1000 by default, is Brax's ``episode_length``.
    """
    check_known("brax", name, _brax()._envs)
    if "episode_length" in kwargs:
        rule = "episode_length is the time limit, pass max_episode_steps to load"
        raise ValueError(f"brax:{name}: {rule}, got {kwargs['episode_length']!r}")
    named, takes_any = arguments_of(_brax()._envs[name])
    return load_task("brax", single, name, num_envs, {**(_PASSED_ON if takes_any else {}), **named}, kwargs)


class BraxSingle(BraxLike):
    """A Brax environment without wrappers; `single` builds each configuration once."""

    limit = _LIMIT

    def __init__(self, name: str, options: tuple[Any, ...]):
        check_known("brax", name, _brax()._envs)
        self.owner = f"brax:{name}"
        arguments = {key: thaw(value) for key, value in options}
        with outside_traces(), reporting(self.owner, arguments):
            self.env = _brax().get_environment(name, **arguments)
        if name == "fast":
            reason = "all episodes of fast start in the same state"
            self.opt_outs = dict.fromkeys(("lanes_differ", "episodes_differ"), reason)
        elif self.env.backend == "generalized":
            reason = "the solver of the back end fails the type check of shard_map, it needs check_vma=False"
            self.opt_outs = {"sharding_invariant": reason}


single = one_per_arguments(BraxSingle)
action_and_limit = action_and_limit_of(single)


def _brax() -> Any:
    return import_library("brax.envs", install_command("brax"))
