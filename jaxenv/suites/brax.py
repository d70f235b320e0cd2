"""Brax's environments as batched environments: ``jaxenv.make("brax:ant", num_envs=8)``.

The time limit is 1000 steps. Brax's wrappers would restart every episode of a lane in the same state.
"""

from typing import Any

from jaxenv.core.environment import Environment
from jaxenv.suites._options import arguments_of, check_known, library, reporting
from jaxenv.suites._task import BraxLike, functions_of, load_task

_brax = library("brax", "brax.envs")
# Arguments of all environments that their constructors pass on.
_PASSED_ON = {"n_frames": 0, "debug": False}


def ids() -> list[str]:
    """Returns the ids that ``load`` accepts: all ids registered with Brax."""
    return sorted(_brax()._envs)


def load(name: str, /, num_envs: int | None = None, **kwargs: Any) -> Environment:
    """Builds a Brax environment; keywords are also arguments of Brax's constructor, such as ``backend="generalized"``.

    ``max_episode_steps``, 1000 by default, is Brax's ``episode_length``.
    """
    check_known("brax", name, _brax()._envs)
    named, takes_any = arguments_of(_brax()._envs[name])
    return load_task("brax", name, num_envs, {**(_PASSED_ON if takes_any else {}), **named}, kwargs)


class BraxSingle(BraxLike):
    """A Brax environment without wrappers; `single` builds each configuration once."""

    suite = "brax"
    limit = 1000  # the default episode_length of brax.envs.create and of Brax's trainers

    def build(self, id: str, arguments: dict[str, Any]) -> None:
        with reporting(self.owner, arguments):
            self.env = _brax().get_environment(id, **arguments)
        if id == "fast":
            reason = "all episodes of fast start in the same state"
            self.opt_outs = dict.fromkeys(("lanes_differ", "episodes_differ"), reason)
        elif self.env.backend == "generalized":
            reason = "the solver of the back end fails the type check of shard_map, it needs check_vma=False"
            self.opt_outs = {"sharding_invariant": reason}


single, action_and_limit, docstring = functions_of(BraxSingle)
