"""NAVIX's environments as batched environments: ``jaxenv.make("navix:Navix-DoorKey-8x8-v0", num_envs=8)``."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxenv import specs
from jaxenv._util.checks import check_integer
from jaxenv.core.environment import Environment
from jaxenv.suites._options import library, reporting
from jaxenv.suites._task import Single, Stepped, functions_of, load_task
from jaxenv.tree import Tree

_navix = library("navix")
# Keywords of navix.make and of the environments' constructors. None stands for the value that the id registers.
_ARGUMENTS: dict[str, Any] = dict.fromkeys(
    ("observation_fn", "reward_fn", "termination_fn", "transitions_fn", "action_set")
)
_ARGUMENTS |= {"max_steps": 100, "gamma": 0.99, "penality_coeff": 0.0}
# Families of ids whose starts draw several times from one key.
_KEYS_REUSED = tuple(
    f"Navix-{family}" for family in ("DoorKey-Random", "FourRooms", "GoToDoor", "KeyCorridor", "SimpleCrossing")
)


def ids() -> list[str]:
    """Returns the ids that ``load`` accepts: all ids registered with NAVIX."""
    return sorted(_navix().registry())


def load(name: str, /, num_envs: int | None = None, **kwargs: Any) -> Environment:
    """Builds an environment of NAVIX; keywords of ``navix.make``, such as ``observation_fn``, are accepted.

    ``max_steps``, 100 by default, is the time limit unless ``max_episode_steps`` is given.
    """
    return load_task("navix", name, num_envs, _ARGUMENTS, kwargs)


class NavixSingle(Single):
    """An environment of NAVIX; `single` builds each configuration once.

    Its state is a pair of NAVIX's ``State`` and the number of steps. The state has no rendering cache: this picture of
    the bare grid takes 12 kB per lane for 8 by 8 cells. A step draws it if the observation needs it.
    """

    suite = "navix"
    reset_strategy = "compact"

    def build(self, id: str, arguments: dict[str, Any]) -> None:
        reason = "NAVIX's branches fail the type check of shard_map, they need check_vma=False"
        self.opt_outs = {"sharding_invariant": reason}
        if id.startswith(_KEYS_REUSED):
            self.opt_outs["no_word_reused"] = f"several draws of {id}'s starts share one key"
        # NAVIX only knows the spaces of its own observation functions; the spec describes the actual observations.
        with reporting(self.owner, arguments):
            self.env = _navix().make(id, observation_space=(), **arguments)
        check_integer(self.owner, "max_steps", self.env.max_steps, 1)
        self.limit = int(self.env.max_steps)

    def reset(self, values: Mapping[str, Any], key: jax.Array) -> tuple[Tree, Tree]:
        timestep = self.env.reset(key)
        return self._without_cache(timestep), timestep.observation

    def step(self, values: Mapping[str, Any], key: jax.Array, state: Tree, action: Tree) -> Stepped:
        timestep = self.env._step(self.timestep(state), action)  # step also restarts episodes
        return self._without_cache(timestep), timestep.observation, timestep.reward, timestep.is_termination(), {}

    def timestep(self, state: tuple[Any, jax.Array]) -> Any:
        """NAVIX's Timestep of a state; a step reads the state and the number of steps only."""
        inner, steps = state
        inner = inner.replace(cache=_navix().rendering.cache.RenderingCache.init(inner.grid))
        fields = dict.fromkeys(("observation", "action", "reward", "step_type"), ())
        return _navix().environments.environment.Timestep(t=steps, state=inner, **fields)

    def declared_action(self) -> Tree:
        return specs.discrete(int(self.env.action_space.n), name="action")

    def declared_observation(self) -> Tree:
        observed = self.shapes.observation
        return specs.Bounded(observed.shape, np.uint8, 0, 255, "observation") if observed.dtype == np.uint8 else None

    def _without_cache(self, timestep: Any) -> tuple[Any, jax.Array]:
        return timestep.state.replace(cache=()), timestep.t


single, action_and_limit, docstring = functions_of(NavixSingle)
