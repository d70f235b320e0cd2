"""Plays in a terminal: half blocks, and keys without Enter."""

import sys
import textwrap
import time

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from jaxenv.canvas._terminal import Screen, half_blocks, side
from jaxenv.rollout.play._game import WAIT, Control, Game

_SIGNS = {"left": "←", "right": "→", "up": "↑", "down": "↓", ".": ""}  # "." is an alias of the space bar
_LARGEST = 96  # pixels of a picture: more would only slow the terminal down
_POLL = 0.25  # s between looks at the size of the terminal
_PANEL = 34  # columns of the text next to the picture


def play_in_terminal(game: Game, fps: int) -> None:
    """Plays until ``q`` or Ctrl-C; the terminal is restored on every exit."""
    print("compiling ...", end="\r", file=sys.stderr, flush=True)
    game.compile()
    with Screen() as screen:
        _loop(screen, game, fps)


def _loop(screen: Screen, game: Game, fps: int) -> None:
    keys = {key: control for control in game.controls for key in control.keys}
    held: Control | None = None  # the action repeated in real time; without one the clock stops
    due = time.monotonic()
    shown = None
    while True:
        now = (screen.size, game.episode, game.step, held)
        if now != shown:
            screen.show(frame(game, screen.size, held, fps))
            shown = now
        running = bool(fps) and held is not None and not game.end
        key = screen.key(max(due - time.monotonic(), 0.0) if running else _POLL)
        if key == "q":
            return
        if key == "r":
            game.restart()
            held = None
        chosen = keys.get(key, None if key in WAIT else held) if key else held  # waiting stops the clock
        if not fps and key is not None and chosen is not None:
            game.take(chosen)
        elif fps:
            if chosen is not held and not running:
                due = time.monotonic()
            held = chosen
            if held is not None and time.monotonic() >= due:
                game.take(held)
                due = max(due + 1 / fps, time.monotonic())


def frame(game: Game, size: tuple[int, int], held: Control | None, fps: int) -> RenderableType:
    """Returns a frame for a terminal of this size: the picture, and the text next to it or below it."""
    columns, lines = size
    idle = "the next key starts the clock" if fps and held is None else ""
    status, notice = game.status[0].split("   "), game.status[1] or idle
    keys = [
        (" ".join(filter(None, (_SIGNS.get(k, k) for k in c.keys))), c.name + " <" * (c is held)) for c in game.controls
    ]
    if fps and not any(WAIT[0] in control.keys for control in game.controls):
        keys.append((WAIT[0], "pause"))
    keys += [("r", "restart"), ("q", "quit")]
    # The picture is as large as possible, unless the text next to it would have too many lines.
    below = [*_flowed([game.name, *status], columns), notice, *_flowed([f"{k} {name}" for k, name in keys], columns)]
    over_text, next_to_text = side(columns, lines - len(below)), side(columns - _PANEL - 2, lines)
    if next_to_text <= over_text or len(status) + len(keys) + 4 > lines:
        text = Text("\n".join(below), no_wrap=True)
        text.highlight_words([notice or game.name], "bold")
        return Group(_picture(game, min(over_text, _LARGEST)), text)
    table = Table.grid(padding=(0, 2))
    for row in keys:
        table.add_row(*row)
    panel = Group(Text(game.name, "bold"), "", *status, Text(notice, "bold"), "", table)
    page, pixels = Table.grid(padding=(0, 2)), min(next_to_text, _LARGEST)
    page.add_column(width=pixels)
    page.add_column(width=_PANEL)
    page.add_row(_picture(game, pixels), panel)
    return page


def _picture(game: Game, pixels: int) -> RenderableType:
    """Returns the picture, or the observation where there is none."""
    if game.has_picture:
        return half_blocks(game.picture(max(pixels, 8)))
    return Text("\n".join(game.observation(pixels).split("\n")[: pixels // 2]), no_wrap=True)


def _flowed(parts: list[str], columns: int) -> list[str]:
    """Joins the parts to lines of at most ``columns`` characters."""
    return textwrap.wrap("   ".join(part.replace(" ", "\u00a0") for part in parts), columns)
