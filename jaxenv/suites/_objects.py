"""Makers of lanes for a `GymnasiumEngine` from environments that a program made itself.

They are environments of Gymnasium, dm_env or PettingZoo.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxenv._util.library import import_library, library_of
from jaxenv._util.source import install_command
from jaxenv.specs._from_gymnasium import widest
from jaxenv.suites._pettingzoo_lane import lane_of
from jaxenv.tree import Tree


class Instance:
    """Returns the one existing environment, which cannot travel to another process."""

    def __init__(self, env: Any):
        self.env = env

    def __call__(self) -> Any:
        return self.env

    def __reduce__(self) -> Any:
        raise TypeError("an environment object cannot be copied: pass a function that makes one")


class Maker:
    """Makes environments with Gymnasium's interface and a time limit, by a function of the caller."""

    def __init__(self, make: Callable[[], Any], max_episode_steps: int | None):
        self.make, self.max_episode_steps = make, max_episode_steps

    def __call__(self) -> Any:
        env = self.make()
        library = library_of(env)
        if library is None:
            kinds = "a gymnasium.Env, a dm_env.Environment or a game of PettingZoo"
            raise ValueError(f"load: the function must return {kinds}, got {env!r}")
        if library == "dm_env":
            env = _adapter(env)
        elif library == "pettingzoo":
            env = lane_of(env, f"load: {type(env).__name__}")
        gymnasium = import_library("gymnasium", install_command("gymnasium"))
        return gymnasium.wrappers.TimeLimit(env, self.max_episode_steps) if self.max_episode_steps else env


def _adapter(env: Any) -> Any:
    """Wraps a dm_env environment in Gymnasium's methods. It has no seeds; step types and ends map one to one."""
    gymnasium = import_library("gymnasium", install_command("gymnasium"))

    class FromDmEnv(gymnasium.Env):  # type: ignore[name-defined]
        observation_space = _space(env.observation_spec(), gymnasium.spaces)
        action_space = _space(env.action_spec(), gymnasium.spaces)

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            return env.reset().observation, {}

        def step(self, action: Tree) -> Any:
            row = env.step(action)
            if row.discount not in (0, 1, None) or (row.discount == 0 and not row.last()):
                rule = "the discount must be 1, or 0 on a LAST row: Gymnasium has ends only"
                raise ValueError(f"{type(env).__name__}: {rule}, got {row.discount}")
            terminated = bool(row.last() and row.discount == 0)
            return row.observation, float(row.reward), terminated, bool(row.last()) and not terminated, {}

        def close(self) -> None:
            env.close()

    return FromDmEnv()


def _space(spec: Any, spaces: Any) -> Any:
    """Converts a dm_env spec, or a dict, list or tuple of them, to a space."""
    if isinstance(spec, dict):
        return spaces.Dict({name: _space(inner, spaces) for name, inner in spec.items()})
    if isinstance(spec, list | tuple):
        return spaces.Tuple([_space(inner, spaces) for inner in spec])
    if hasattr(spec, "num_values"):
        return spaces.Discrete(int(spec.num_values), dtype=spec.dtype if spec.dtype.kind == "i" else np.int64)
    if not hasattr(spec, "shape"):
        raise ValueError(f"load: specs must be arrays of dm_env.specs, got {spec!r}")
    dtype = np.dtype(spec.dtype)
    least, most = widest(dtype)
    low, high = getattr(spec, "minimum", least), getattr(spec, "maximum", most)
    low, high = (np.broadcast_to(np.asarray(bound, dtype), spec.shape) for bound in (low, high))
    return spaces.Box(low, high, spec.shape, dtype)
