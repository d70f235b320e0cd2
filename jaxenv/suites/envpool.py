"""EnvPool's environments as batched environments: ``jaxenv.load("envpool:Pong-v5", num_envs=8)``.

They run outside JAX, in a pool of C++ threads that steps all lanes together. Under ``jit`` a step is one ordered
``io_callback`` for the whole batch.

``tests/suites/test_envpool.py`` compares episodes with EnvPool's own loop; ``docs/suites/envpool.md`` has the mapping.
"""

from typing import Any

from jaxenv.core.environment import Environment
from jaxenv.suites._engine import HostEnvironmentError as HostEnvironmentError
from jaxenv.suites._envpool_engine import EnvPoolEngine, envpool
from jaxenv.suites._host_stack import split_keywords, stack_around
from jaxenv.suites._options import check_known
from jaxenv.tree import Tree

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
    return sorted(envpool().list_all_envs())


def docstring(name: str) -> str:
    """Returns the family of an environment, such as ``"atari"``: EnvPool says no more in Python."""
    check_known("envpool", name, envpool().list_all_envs())
    return _family(name)


def action_and_limit(name: str) -> tuple[Tree, int | None]:
    """Returns the action spec and the time limit of an environment without making it."""
    return _engine(name, 1, {}).specs.action, _limit(name)


def load(
    name: str,
    /,
    num_envs: int | None = None,
    **kwargs: Any,
) -> Environment:
    """Builds an EnvPool environment with its stack of wrappers. Every reset starts a pool.

    Args:
        name: an id that is registered with EnvPool, of an environment with one agent.
        num_envs: the number of lanes, fixed: ``reset`` makes this many.
        **kwargs: ``max_episode_steps``, EnvPool's time limit, 0 for none, which is refused where EnvPool does not read
            it; ``wrappers``, which stand outside the restarts, ``clip_action`` and ``mode``, as for `jaxenv.make`;
            ``autoreset``, which is ``"next_step"``; keywords of ``envpool.make``, such as ``num_threads``, and the
            environment's own.

    Raises:
        ImportError: if EnvPool is not installed.
        ValueError: for an unknown id, a keyword or a value that is refused, an environment of several agents, or a
            wrapper that must stand inside the restarts.
    """
    owner = f"envpool:{name}"
    check_known("envpool", name, envpool().list_all_envs())
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
    return envpool().registration.registry.specs[name][0].removeprefix("envpool.")


def _task(name: str) -> str:
    """Returns the id without namespace and version."""
    return name.rpartition("/")[2].rpartition("-v")[0]


def _follows_limit(name: str) -> bool:
    """Returns whether EnvPool ends episodes at ``max_episode_steps``."""
    return _task(name) == "Sokoban" or not {_family(name), _task(name)} & _OWN_ENDS


def _limit(name: str) -> int | None:
    """Returns the time limit of an id."""
    limit = envpool().make_spec(name).config.max_episode_steps
    endless = _task(name) in _ENDLESS or (_family(name) == "jumanji" and _task(name) not in _JUMANJI_LIMITS)
    return limit if 0 < limit < _NO_LIMIT and not endless else None


def _engine(name: str, num_envs: int, arguments: dict[str, Any]) -> EnvPoolEngine:
    """Makes an engine and finds its specs."""
    truncates_at = _limit(name) if _family(name) == "jumanji" and not _follows_limit(name) else None
    given = arguments.get("max_episode_steps", _limit(name) if _follows_limit(name) else truncates_at)
    limit = None if given == _NO_LIMIT else given
    engine = EnvPoolEngine(f"envpool:{name}", num_envs, limit, name, arguments, truncates_at)
    try:
        players = envpool().make_spec(name, **arguments).config.max_num_players
        engine.specs  # noqa: B018
    except Exception as error:  # of EnvPool's C++ code, and of libraries that it misses
        raise ValueError(f"{engine.owner}: envpool rejects {arguments}: {str(error) or type(error).__name__}") from None
    if players > 1:
        raise ValueError(f"{engine.owner}: environments of several agents are not supported, it has {players}")
    return engine
