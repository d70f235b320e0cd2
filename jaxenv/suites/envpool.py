"""EnvPool's environments as batched environments: ``jaxenv.make("envpool:Pong-v5", num_envs=8)``.

They run outside JAX, in a pool of C++ threads that steps all lanes together. Under ``jit`` a step is one ordered
``io_callback`` for the whole batch.
"""

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxenv import specs
from jaxenv.core.environment import Environment
from jaxenv.specs._from_gymnasium import spec_of
from jaxenv.suites._engine import Engine, EngineSpecs
from jaxenv.suites._engine import HostEnvironmentError as HostEnvironmentError
from jaxenv.suites._host import split_keywords, stack_around
from jaxenv.suites._options import check_known, library
from jaxenv.tree import Tree

_envpool = library("envpool")
# EnvPool counts steps in int32, and has no "no limit".
_NO_LIMIT = 2**31 - 1
# Families and tasks of EnvPool 1.2 that never read max_episode_steps.
_OWN_ENDS = {"highway", "jumanji", "pgx", "Blackjack", "Catch", "CliffWalking", "CliffWalkingSlippery"}
# Tasks of highway that show a limit and never end.
_ENDLESS = {"LaneKeeping", "lane-keeping"}
# Jumanji's tasks with a time limit. All others end by the task; EnvPool shows the longest game.
_JUMANJI_LIMITS = {
    *("Cleaner", "Connector", "LevelBasedForaging", "MMST", "Maze", "PacMan", "RobotWarehouse", "RubiksCube"),
    *("RubiksCube-partly-scrambled", "SlidingTilePuzzle", "Snake", "Sokoban", "Tetris"),
}
# Arguments of EnvPool that this module decides.
_OWN = {
    "batch_size": "all lanes are stepped together",
    "env_seed": "lanes are seeded by the key of reset",
    "seed": "lanes are seeded by the key of reset",
}


def ids() -> list[str]:
    """Returns the ids that ``load`` accepts: all ids registered with EnvPool."""
    return sorted(_envpool().list_all_envs())


def docstring(name: str) -> str:
    """Returns the family of an environment, such as ``"atari"``: EnvPool says no more in Python."""
    check_known("envpool", name, _envpool().list_all_envs())
    return _family(name)


def action_and_limit(name: str) -> tuple[Tree, int | None]:
    """Returns the action spec and the time limit of an environment without making it."""
    return _engine(name, 1, {}).specs.action, _limit(name)


def load(name: str, /, num_envs: int | None = None, **kwargs: Any) -> Environment:
    """Builds an EnvPool environment of one agent. Every reset starts a pool, of a fixed number of lanes.

    ``max_episode_steps`` is EnvPool's time limit, 0 for none; it is refused where EnvPool does not read it. Wrappers
    stand outside the restarts, and ``autoreset`` is ``"next_step"``. Keywords of ``envpool.make``, such as
    ``num_threads``, and of the environment are accepted too.
    """
    owner = f"envpool:{name}"
    check_known("envpool", name, _envpool().list_all_envs())
    options, arguments = split_keywords(owner, num_envs, kwargs)
    limit = options.max_episode_steps
    for option in sorted(arguments.keys() & _OWN.keys()):
        raise ValueError(f"{owner}: {option} must be left out, {_OWN[option]}, got {arguments[option]!r}")
    if limit is not None:
        if not _follows_limit(name):
            instead = ", pass duration, in seconds" if _family(name) == "highway" else ""
            rule = f"EnvPool does not read max_episode_steps in this environment, leave it out{instead}"
            raise ValueError(f"{owner}: {rule}, got {limit!r}")
        arguments["max_episode_steps"] = int(limit) or _NO_LIMIT
    return stack_around(_engine(name, int(num_envs or 1), arguments), num_envs, options)


def _family(name: str) -> str:
    return _envpool().registration.registry.specs[name][0].removeprefix("envpool.")


def _task(name: str) -> str:
    """Returns the id without namespace and version."""
    return name.rpartition("/")[2].rpartition("-v")[0]


def _follows_limit(name: str) -> bool:
    return _task(name) == "Sokoban" or not {_family(name), _task(name)} & _OWN_ENDS


def _limit(name: str) -> int | None:
    limit = _envpool().make_spec(name).config.max_episode_steps
    endless = _task(name) in _ENDLESS or (_family(name) == "jumanji" and _task(name) not in _JUMANJI_LIMITS)
    return limit if 0 < limit < _NO_LIMIT and not endless else None


def _engine(name: str, num_envs: int, arguments: dict[str, Any]) -> "EnvPoolEngine":
    truncates_at = _limit(name) if _family(name) == "jumanji" and not _follows_limit(name) else None
    given = arguments.get("max_episode_steps", _limit(name) if _follows_limit(name) else truncates_at)
    limit = None if given == _NO_LIMIT else given
    engine = EnvPoolEngine(f"envpool:{name}", num_envs, limit, name, arguments, truncates_at)
    try:
        players = _envpool().make_spec(name, **arguments).config.max_num_players
        engine.specs  # noqa: B018
    except Exception as error:  # of EnvPool's C++ code, and of libraries that it misses
        raise ValueError(f"{engine.owner}: envpool rejects {arguments}: {str(error) or type(error).__name__}") from None
    if players > 1:
        raise ValueError(f"{engine.owner}: environments of several agents are not supported, it has {players}")
    return engine


# Entries of infos that number lanes and players.
_NUMBERING = ("env_id", "players.")


@dataclasses.dataclass(eq=False)
class EnvPoolEngine(Engine):
    """A pool of EnvPool that steps all lanes together; its workers are threads.

    EnvPool takes seeds when a pool is made, so a reset makes a pool.
    """

    id: str
    arguments: Mapping[str, Any]  # of ``envpool.make``
    truncates_at: int | None  # the step whose ends are truncations although EnvPool calls them terminations

    seeds_below = 2**31  # the generators take int32, and -1 means the clock for Atari

    def _find_specs(self) -> EngineSpecs:
        spec = _envpool().make_spec(self.id, **self.arguments)
        spaces = library("envpool", "gymnasium")().spaces
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Gymnasium's, about bounds that lose digits in float32
            observation = spec_of(spec.observation_space, spaces, f"{self.owner}: observation")
            action = spec_of(spec.action_space, spaces, f"{self.owner}: action")
        shown = {name.removeprefix("info:"): x for name, x in spec.state_array_spec.items() if name.startswith("info:")}
        info = {
            name: specs.Array([n for n in x.shape if n != -1], jax.dtypes.canonicalize_dtype(x.dtype))
            for name, x in shown.items()
            if not name.startswith(_NUMBERING)
        }
        info["elapsed_step"] = specs.Array((), np.int32)
        observation = jax.tree.map(_without_false_bound, observation)
        return EngineSpecs(observation, action, info, render_mode=self.arguments.get("render_mode"))

    def _restart(self, seeds: list[int]) -> tuple[Tree, Mapping[str, Any]]:
        self._stop()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pool = _envpool().make_gymnasium(self.id, num_envs=self.num_envs, env_seed=seeds, **self.arguments)
            row = pool.reset()
        self._env = pool  # its destructor joins the threads
        return row

    def _advance(self, action: Tree) -> tuple[Tree, Any, Any, Any, Mapping[str, Any]]:
        observation, reward, terminated, truncated, info = self._env.step(action)
        if self.truncates_at is not None:
            late = info["elapsed_step"] >= self.truncates_at
            terminated, truncated = terminated & ~late, truncated | (terminated & late)
        return observation, reward, terminated, truncated, info

    def _pictures(self) -> Any:
        return self._env.render(env_ids=np.arange(self.num_envs))


def _without_false_bound(spec: specs.Array) -> specs.Array:
    """Corrects the spec of an observation: EnvPool shows the smallest positive float where it means "no bound"."""
    if isinstance(spec, specs.Bounded) and spec.dtype.kind == "f":
        tiny = np.finfo(spec.dtype).tiny
        if np.all((spec.minimum >= 0) & (spec.minimum <= tiny) & (spec.maximum >= np.finfo(spec.dtype).max)):
            return specs.Array(spec.shape, spec.dtype, spec.name)
    return spec
