"""Play an environment with the keyboard in a terminal, or with buttons in a notebook."""

import os
import sys
from typing import Any

import jax

from jaxenv._util.checks import check_integer
from jaxenv.core.environment import Environment
from jaxenv.rollout.play._controls import action_names as action_names
from jaxenv.rollout.play._editor import Editor, edit_in_terminal
from jaxenv.rollout.play._game import Game
from jaxenv.rollout.play._notebook import player
from jaxenv.rollout.play._terminal import check_terminal, play_in_terminal


def play(
    env: Environment, key: jax.Array | None = None, fps: int | None = None, edit: str | os.PathLike[str] | None = None
) -> Any:
    """Plays one lane of an environment: with the keyboard in a terminal, with buttons in a notebook.

    The key table names the key of every action. In the terminal, ``r`` restarts the episode and ``q`` quits. In real
    time the last action is repeated until the next key; otherwise the environment waits for a key before each step.

    Args:
        env: an environment with one lane (``num_envs=1``) whose action is one discrete number, or up to two continuous
            ones. It is played without a picture if it has none.
        key: the key of ``env.reset``; ``jax.random.key(0)`` by default.
        fps: steps per second, 0 to wait for a key before each step; by default the task's ``play_fps``. A notebook
            always waits.
        edit: a file of text, which a terminal shows as a level to edit and play; a new file begins with the level of
            ``key``. For tasks whose levels have a text form: FrozenLake, AMaze, and grid worlds of walls, lava, a
            locked door and its key.

    Returns:
        The widget to display, in a notebook; nothing in a terminal.

    Raises:
        ValueError: for several lanes, an action that keys cannot choose, restarts in ``same_step`` mode, where there
            is neither a terminal nor a notebook, or for an ``edit`` that is not a level of the task.
        ImportError: if ipywidgets is not installed, in a notebook.
    """
    if fps is not None:
        check_integer("play", "fps", fps, 0)
    if edit is not None:
        check_terminal()
        edit_in_terminal(Editor(env, key, edit), fps)
        return None
    if _in_notebook():
        return player(Game(env, key))
    check_terminal()
    game = Game(env, key)
    play_in_terminal(game, game.fps if fps is None else fps)
    return None


def _in_notebook() -> bool:
    """Returns whether the code runs in the kernel of a notebook, which can show widgets."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")
