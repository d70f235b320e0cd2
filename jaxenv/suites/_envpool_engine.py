"""EnvPool's pools, which hold the lanes of a `HostEnvironment` outside JAX in threads of C++."""

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxenv import specs
from jaxenv._util.library import import_library
from jaxenv._util.source import install_command
from jaxenv.specs._from_gymnasium import spec_of
from jaxenv.suites._engine import Engine, EngineSpecs
from jaxenv.tree import Tree

# Entries of infos that number lanes and players.
_NUMBERING = ("env_id", "players.")


def envpool() -> Any:
    return import_library("envpool", install_command("envpool"))


@dataclasses.dataclass(eq=False)
class EnvPoolEngine(Engine):
    """A pool of EnvPool that steps all lanes together; its workers are threads.

    EnvPool takes seeds when a pool is made, so a reset makes a pool.

    Attributes:
        id: an id of EnvPool.
        arguments: keywords of ``envpool.make``.
        truncates_at: the step whose ends are truncations although EnvPool calls them terminations.
    """

    id: str
    arguments: Mapping[str, Any]
    truncates_at: int | None

    seeds_below = 2**31  # the generators take int32, and -1 means the clock for Atari

    def __post_init__(self) -> None:
        super().__post_init__()
        self._pool: Any = None

    @property
    def _running(self) -> bool:
        return self._pool is not None

    def _find_specs(self) -> EngineSpecs:
        spec = envpool().make_spec(self.id, **self.arguments)
        spaces = import_library("gymnasium", install_command("envpool")).spaces
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Gymnasium's, about bounds that lose digits in float32
            observation = spec_of(spec.observation_space, spaces, f"{self.owner}: observation")
            action = spec_of(spec.action_space, spaces, f"{self.owner}: action")
        info = {
            name.removeprefix("info:"): specs.Array(
                [n for n in array.shape if n != -1], jax.dtypes.canonicalize_dtype(array.dtype)
            )
            for name, array in spec.state_array_spec.items()
            if name.startswith("info:") and not name.removeprefix("info:").startswith(_NUMBERING)
        }
        info["elapsed_step"] = specs.Array((), np.int32)
        observation = jax.tree.map(_without_false_bound, observation)
        return EngineSpecs(observation, action, info, render_mode=self.arguments.get("render_mode"))

    def _restart(self, seeds: list[int]) -> tuple[Tree, Mapping[str, Any]]:
        self._stop()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pool = envpool().make_gymnasium(self.id, num_envs=self.num_envs, env_seed=seeds, **self.arguments)
            row = pool.reset()
        self._pool = pool
        return row

    def _advance(self, action: Tree) -> tuple[Tree, Any, Any, Any, Mapping[str, Any]]:
        observation, reward, terminated, truncated, info = self._pool.step(action)
        if self.truncates_at is not None:
            late = info["elapsed_step"] >= self.truncates_at
            terminated, truncated = terminated & ~late, truncated | (terminated & late)
        return observation, reward, terminated, truncated, info

    def _pictures(self) -> Any:
        return self._pool.render(env_ids=np.arange(self.num_envs))

    def _stop(self) -> None:
        self._pool = None  # its destructor joins the threads


def _without_false_bound(spec: specs.Array) -> specs.Array:
    """Corrects the spec of an observation: EnvPool shows the smallest positive float where it means "no bound"."""
    if isinstance(spec, specs.Bounded) and spec.dtype.kind == "f":
        tiny = np.finfo(spec.dtype).tiny
        if np.all((spec.minimum >= 0) & (spec.minimum <= tiny) & (spec.maximum >= np.finfo(spec.dtype).max)):
            return specs.Array(spec.shape, spec.dtype, spec.name)
    return spec
