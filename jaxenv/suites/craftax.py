"""Craftax's environments as batched environments: ``jaxenv.make("craftax:Craftax-Symbolic-v1", num_envs=8)``.

Craftax itself reports its time limit as a termination, and its auto-reset hides the last observation.
"""

import contextlib
import sys
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxenv import specs
from jaxenv._util.checks import INT32_MAX
from jaxenv.core.environment import Environment
from jaxenv.suites._options import check_known, library, reporting
from jaxenv.suites._task import Single, Stepped, functions_of, is_numeric, load_task, params_struct, spec_of, values_of
from jaxenv.tree import Tree

_craftax = library("craftax", "craftax.craftax_env")
# Craftax has no registry. The rules of the two tasks are the same for symbols and pixels.
_IDS = ("Craftax-Classic-Pixels-v1", "Craftax-Classic-Symbolic-v1", "Craftax-Pixels-v1", "Craftax-Symbolic-v1")


def ids() -> list[str]:
    """Returns the ids that ``load`` accepts: Craftax's environments without auto-reset."""
    _craftax()
    return list(_IDS)


def docstring(name: str) -> str:
    """Returns an empty text: Craftax documents no environment."""
    check_known("craftax", name, ids())
    return ""


def action_and_limit(name: str) -> tuple[Tree, int | None]:
    """Returns the action spec and the time limit of an environment without tracing a step or loading textures."""
    check_known("craftax", name, ids())
    built = single(name.replace("Pixels", "Symbolic"), ())
    return built.action_spec.value, built.limit


def load(name: str, /, num_envs: int | None = None, **kwargs: Any) -> Environment:
    """Builds an environment of Craftax.

    Fields of Craftax's ``EnvParams`` are params; fields of its ``StaticEnvParams`` and ``fractal_noise_angles`` are
    options. ``max_episode_steps`` is Craftax's ``max_timesteps``.
    """
    built = single(name, ())
    constructor = values_of(built.env.static_env_params) | {"fractal_noise_angles": None}
    return load_task("craftax", name, num_envs, constructor, kwargs)


class CraftaxSingle(Single):
    """An environment of Craftax whose own time limit is out of reach; `single` builds each configuration once."""

    suite, limit_name = "craftax", "max_timesteps"
    reset_strategy = "compact"
    opt_outs = {
        "no_word_reused": "the world generator splits a key from which it has drawn",
        "sharding_invariant": "Craftax's loops fail the type check of shard_map, they need check_vma=False",
    }

    def build(self, id: str, arguments: dict[str, Any]) -> None:
        angles = {name: arguments.pop(name) for name in ("fractal_noise_angles",) if name in arguments}
        # Craftax prints that it loads its textures.
        with reporting(self.owner, arguments), contextlib.redirect_stdout(sys.stderr):
            self.env = _craftax().make_craftax_env_from_name(id, auto_reset=False)
            if arguments:
                self.env = type(self.env)(self.env.static_env_params.replace(**arguments))
            self.env_params = self.env.default_params.replace(**angles)
        self.limit = int(self.env_params.max_timesteps)
        numbers = {name: np.asarray(value) for name, value in values_of(self.env_params).items() if is_numeric(value)}
        del numbers["max_timesteps"]
        self.params = params_struct(self.owner, self.options, numbers)
        self._start = jax.jit(self._begin)  # traced once for all platforms

    def reset(self, values: Mapping[str, Any], key: jax.Array) -> tuple[Tree, Tree]:
        # XLA:CPU (jaxlib 0.10.2) compiles the noise of a batch of more than 8 worlds wrongly, and one world at a time
        # is several times faster there. A loop over vmapped lanes has no gradient; the gradient of a start is 0 anyway.
        one_by_one = jax.custom_batching.sequential_vmap(self._start)
        values = jax.lax.stop_gradient(values)
        return jax.lax.platform_dependent(values, key, cpu=one_by_one, default=self._start)

    def _begin(self, values: Any, key: jax.Array) -> Any:
        observation, state = self.env.reset_env(key, self._env_params(values))
        return state, observation

    def step(self, values: Mapping[str, Any], key: jax.Array, state: Tree, action: Tree) -> Stepped:
        observation, state, reward, terminated, _ = self.env.step_env(key, state, action, self._env_params(values))
        # Of the step, not of the state: in same_step mode a LAST row has the achievements of the episode that ends.
        return state, observation, reward, terminated, {"achievements": state.achievements}

    def declared_action(self) -> Tree:
        return specs.discrete(self.env.num_actions, name="action")

    def declared_observation(self) -> Tree:
        if self.owner == "craftax:Craftax-Symbolic-v1":  # health and experience, in tenths, exceed the bound of 1
            return None
        return spec_of(self.env.observation_space(self.env_params), "observation")

    def _env_params(self, values: Mapping[str, Any]) -> Any:
        return self.env_params.replace(**values, max_timesteps=INT32_MAX)


single, *_ = functions_of(CraftaxSingle)
