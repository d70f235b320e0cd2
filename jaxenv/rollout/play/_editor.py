"""Edits a level as text in a terminal: a cursor, a key per character, files, and games in the level."""

import pathlib
from typing import Any

import jax
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import check_path
from jaxenv.canvas._terminal import Screen, colour_depth
from jaxenv.core.environment import Environment, check_environment
from jaxenv.core.wrapper import Wrapper
from jaxenv.rollout.play import _terminal
from jaxenv.rollout.play._game import Game

_MOVES = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
_COMMANDS = {"p": "play", "s": "save", "q": "quit"}
_CURSOR, _BOLD, _RESET = "\x1b[7m", "\x1b[1m", "\x1b[0m"


class Editor:
    """The text of a level, and a cursor in it.

    Attributes:
        cells: the characters, ``str[rows, columns]``.
        x: column of the cursor.
        y: row of the cursor.
        saved: whether the file holds the text.
        message: what the last command did, or why it failed.
    """

    def __init__(self, env: Environment, key: jax.Array | None, path: Any):
        check_environment("play", env)
        self._env, self._key = env, jax.random.key(0) if key is None else key
        self._path = check_path("play", "edit", path)
        self._form: Any = getattr(env.unwrapped, "text_form", None)
        if self._form is None:
            raise ValueError(f"play: edit needs a task whose levels have a text form, {env.name or env} has none")
        if env.num_envs != 1:
            raise ValueError(f"play: env must have one lane, got num_envs={env.num_envs}")
        self.characters = dict(self._form.characters(env.unwrapped))
        self.saved = self._path.exists()
        text = _read(self._path) if self.saved else self._form.text(env.unwrapped, self._key)
        self._form.with_text(env.unwrapped, text)  # raises for a file that is no level
        self.cells = np.array([list(line) for line in text.strip().splitlines()])
        self.x, self.y, self.message = 0, 0, f"{'read' if self.saved else 'new file'} {self._path}"

    @property
    def name(self) -> str:
        return self._env.name

    @property
    def text(self) -> str:
        return "\n".join("".join(row) for row in self.cells.tolist())

    def press(self, key: str) -> None:
        """Moves the cursor, or places the character of a key; lower case stands for upper case where it is free."""
        self.message = ""
        if key in _MOVES:
            rows, columns = self.cells.shape
            self.x = min(max(self.x + _MOVES[key][0], 0), columns - 1)
            self.y = min(max(self.y + _MOVES[key][1], 0), rows - 1)
            return
        empty = next(iter(self.characters))
        character = empty if key == "space" else key if key in self.characters else key.upper()
        if character in self.characters:
            for group in self._form.single:
                if character in group:
                    self.cells[np.isin(self.cells, list(group))] = empty
            self.cells[self.y, self.x] = character
            self.saved = False

    def game(self) -> Game | None:
        """Returns a game in the level; for a text that is none the message says why."""
        try:
            task = self._form.with_text(self._env.unwrapped, self.text)
            return Game(_with_task(self._env, task), self._key)
        except ValueError as error:
            self.message = str(error)
        return None

    def save(self) -> None:
        """Writes the file, if the text is a level."""
        try:
            self._form.with_text(self._env.unwrapped, self.text)
            self._path.write_text(self.text + "\n", encoding="utf-8")
            self.saved, self.message = True, f"saved {self._path}"
        except (OSError, ValueError) as error:
            self.message = f"not saved: {error}"


def _read(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"play: edit must be a file of text, got {str(path)!r}: {error}") from None


def _with_task(env: Environment, task: Environment) -> Environment:
    """Returns the stack around another task."""
    return tree.rebuild(env, env=_with_task(env.env, task)) if isinstance(env, Wrapper) else task


def edit_in_terminal(editor: Editor, fps: int | None) -> None:
    """Edits until ``q`` or Ctrl-C; the terminal is restored on every exit."""
    depth = colour_depth(asked=True) or 8
    with Screen() as screen:
        _loop(screen, editor, fps, depth)


def _loop(screen: Screen, editor: Editor, fps: int | None, depth: int) -> None:
    warned = False
    while True:
        screen.show(frame(editor))
        key = screen.key(_terminal._POLL)
        if key is None:
            continue
        if key == "q":
            if editor.saved or warned:
                return
            warned, editor.message = True, "not saved: s saves, q again quits"
            continue
        warned = False
        if key == "s":
            editor.save()
        elif key != "p":
            editor.press(key)
        elif (game := editor.game()) is not None:
            screen.show("compiling ...")
            game.compile()
            _terminal._loop(screen, game, game.fps if fps is None else fps, depth)


def frame(editor: Editor) -> str:
    """Returns a frame: the text with the cursor, and the keys next to it."""
    rows = [[f" {character}" for character in row] for row in editor.cells.tolist()]
    rows[editor.y][editor.x] = f" {_CURSOR}{rows[editor.y][editor.x][1]}{_RESET}"
    names = {"← → ↑ ↓": "move", **editor.characters, **_COMMANDS}
    width = max(map(len, names))
    keys = [f"{key:<{width}}  {name}" for key, name in names.items()]
    texts = ["".join(row) for row in rows]
    blank = "  " * len(rows[0])
    height = max(len(texts), len(keys))
    texts, keys = texts + [blank] * (height - len(texts)), keys + [""] * (height - len(keys))
    title = f"{_BOLD}{editor.name}{_RESET}   line {editor.y + 1}, column {editor.x + 1}"
    return "\n".join([title, editor.message, *(f"{text}   {key}" for text, key in zip(texts, keys, strict=True))])
