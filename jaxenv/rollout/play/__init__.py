"""Play an environment with the keyboard in a terminal."""

import os
import sys

import jax

from jaxenv._util import source
from jaxenv._util.checks import check_integer
from jaxenv.core.environment import Environment
from jaxenv.rollout.play._game import Game
from jaxenv.rollout.play._game import action_names as action_names


def play(
    env: Environment, key: jax.Array | None = None, fps: int | None = None, level: str | os.PathLike[str] | None = None
) -> None:
    """Plays one lane of an environment with the keyboard, in the terminal.

    The key table names the key of every action; ``r`` restarts the episode and ``q`` quits. In real time the last
    action is repeated until the next key; otherwise the environment waits for a key before each step.

    Args:
        env: an environment with one lane (``num_envs=1``) whose action is one discrete number, or up to two continuous
            ones, without ``same_step`` restarts. Without a picture, the observation is shown as text.
        key: the key of ``env.reset``; ``jax.random.key(0)`` by default.
        fps: steps per second, 0 to wait for a key before each step; by default the task's ``play_fps``.
        level: a file of text with the level to play, for tasks whose levels have a text form: FrozenLake, AMaze, and
            grid worlds of walls, lava, a locked door and its key. A file that does not exist is written first, with the
            level of ``key``, to be changed in an editor.
    """
    if fps is not None:
        check_integer("play", "fps", fps, 0)
    hint = "; in a notebook jaxenv.film(env, policy) shows episodes" if "ipykernel" in sys.modules else ""
    for stream, name in ((sys.stdin, "stdin"), (sys.stdout, "stdout")):
        if not stream.isatty():
            raise ValueError(f"play: {name} must be a terminal{hint}")
    if os.environ.get("TERM") == "dumb":
        raise ValueError("play: the terminal must show pictures, got TERM=dumb")
    try:
        from jaxenv.rollout.play import _terminal
    except ImportError as missing:
        raise source.missing("play", missing, "cli") from missing
    game = Game(env, key, level)
    _terminal.play_in_terminal(game, game.fps if fps is None else fps)
