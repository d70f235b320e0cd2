"""Gymnasium's vector environments, which hold the lanes of a `HostEnvironment` outside JAX."""

import contextlib
import dataclasses
import importlib
import multiprocessing
import os
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from jaxenv import specs
from jaxenv._util.library import library_of
from jaxenv.specs._from_gymnasium import spec_of
from jaxenv.suites._engine import Engine, EngineSpecs, cast
from jaxenv.suites._options import library
from jaxenv.tree import Tree

gymnasium = library("gymnasium")


@dataclasses.dataclass(frozen=True)
class Maker:
    """Makes one lane: an environment of Gymnasium from ``given``, an environment or a function that makes one.

    Environments of dm_env and PettingZoo are adapted. ``max_episode_steps`` is a time limit around the environment.
    """

    given: Any
    owner: str
    max_episode_steps: int | None = None

    @property
    def has_one(self) -> bool:
        """Whether ``given`` is the one environment, which is not copied and belongs to the program."""
        return library_of(self.given) is not None

    def __call__(self) -> Any:
        env = self.given if self.has_one else self.given()
        return _lanes().lane_of(env, self.owner, self.max_episode_steps)

    def __reduce__(self) -> Any:
        if self.has_one:
            raise TypeError("an environment object cannot be copied: pass a function that makes one")
        return Maker, (self.given, self.owner, self.max_episode_steps)


@dataclasses.dataclass(eq=False)
class GymnasiumEngine(Engine):
    """A vector environment of Gymnasium; its workers are processes with ``vectorization="async"``."""

    make: Callable[..., Any]  # a `Maker`; with "native" it makes a vector environment of ``num_envs`` lanes
    vectorization: str  # "async", "sync" or "native"
    timeout: float  # seconds that the workers have for a step, a reset or a picture
    context: str  # the start method of the worker processes

    def __post_init__(self) -> None:
        super().__post_init__()
        self._env: Any = None
        self._finalizer: Any = None

    @property
    def _running(self) -> bool:
        return self._env is not None

    def _find_specs(self) -> EngineSpecs:
        """Reads the specs from an environment that is made and closed for it; infos have no fixed structure."""
        native = self.vectorization == "native"
        env = self.make(num_envs=1) if native else self.make()
        observed = env.single_observation_space if native else env.observation_space
        acted = env.single_action_space if native else env.action_space
        if not (isinstance(self.make, Maker) and self.make.has_one):
            env.close()
        observation, action = (
            spec_of(space, gymnasium().spaces, f"{self.owner}: {name}")
            for name, space in (("observation", observed), ("action", acted))
        )
        game = env.unwrapped
        if not hasattr(game, "jaxenv_agents"):
            return EngineSpecs(observation, action, {}, render_mode=env.render_mode)
        names, turns = game.jaxenv_agents
        shown: Any = observation  # what `_pettingzoo_lanes` shows
        if not turns:  # an agent that has left observes zeros
            shown["observation"] = jax.tree.map(_with_zero, shown["observation"])
        of_state = tuple(name for name in shown["info"] if name != "agent_terminated")
        return EngineSpecs(shown["observation"], action, shown["info"], names, turns, of_state, env.render_mode)

    # --- episodes ----------------------------------------------------------------------------------------------------

    def _restart(self, seeds: list[int]) -> tuple[Tree, Mapping[str, Any]]:
        if self._env is None:
            self._start()
        # A native vector environment takes one seed for all lanes.
        shown, _ = self._env.reset(seed=seeds[0] if self.vectorization == "native" else seeds)
        return (shown["observation"], shown["info"]) if self.specs.reward_shape else (shown, {})

    def _advance(self, action: Tree) -> tuple[Tree, Any, Any, Any, Mapping[str, Any]]:
        shown, reward, terminated, truncated, _ = self._env.step(cast(self._env.single_action_space, action))
        if self.specs.reward_shape:
            return shown["observation"], shown["reward"], terminated, truncated, shown["info"]
        return shown, reward, terminated, truncated, {}

    def _pictures(self) -> Any:
        return self._env.render()

    # --- workers -----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        vector = gymnasium().vector
        mode = vector.AutoresetMode.NEXT_STEP
        if self.vectorization == "native":
            self._env = self.make(num_envs=self.num_envs)
        elif self.vectorization == "sync":
            # Observations are copied on the way to JAX.
            self._env = vector.SyncVectorEnv([self.make] * self.num_envs, copy=False, autoreset_mode=mode)
        else:
            if self.context == "forkserver":
                multiprocessing.set_forkserver_preload(["__main__", _lanes().__name__])  # imported once for all workers
            workers = _lanes().Workers
            self._env = workers.__new__(workers)  # known to `_stop` before its processes start
            self._env.__init__([self.make] * self.num_envs, self.context, self.timeout)
        if self._env.metadata.get("autoreset_mode") not in (mode, mode.value):
            raise ValueError(f"{self.owner} must restart lanes on the next step, as {mode} does")
        self._finalizer = weakref.finalize(self, _free, self._env, os.getpid())

    def _reason(self, error: Exception) -> str:
        reason = self._env.reason(error) if isinstance(self._env, _lanes().Workers) else None
        return reason or super()._reason(error)

    def _stop(self) -> None:
        env, self._env = self._env, None
        if self._finalizer is not None:
            self._finalizer.detach()
            self._finalizer = None
        if env is not None:
            _free(env, os.getpid())


def _lanes() -> Any:
    """Returns the module of lanes, which imports Gymnasium."""
    return importlib.import_module("jaxenv.suites._gymnasium_lanes")


def _free(env: Any, pid: int) -> None:
    """Kills worker processes without asking them, since one may hang; closes other vector environments."""
    if os.getpid() != pid:  # a fork of the process that started them
        return
    with contextlib.suppress(Exception):
        env.kill() if isinstance(env, _lanes().Workers) else env.close()


def _with_zero(spec: specs.Array) -> specs.Array:
    """Extends the bounds of a spec to zero."""
    if not isinstance(spec, specs.Bounded):
        return spec
    return spec.replace(minimum=np.minimum(spec.minimum, 0), maximum=np.maximum(spec.maximum, 0))
