"""Plays in a terminal: half blocks, and keys without Enter."""

import os
import sys
import time
from collections.abc import Sequence

from jaxenv.canvas._terminal import Screen, colour_depth, fit, half_blocks
from jaxenv.rollout.play._controls import WAIT, Control
from jaxenv.rollout.play._game import Game

_SIGNS = {"left": "←", "right": "→", "up": "↑", "down": "↓"}
_LARGEST = 96  # pixels of a picture: more would only slow the terminal down
_POLL = 0.25  # s between looks at the size of the terminal
_PANEL = 34  # columns of the text next to the picture
_BOLD, _RESET = "\x1b[1m", "\x1b[0m"


def check_terminal() -> None:
    """Raises a ``ValueError`` unless stdin and stdout are a terminal that can show pictures."""
    for stream, name in ((sys.stdin, "stdin"), (sys.stdout, "stdout")):
        if not stream.isatty():
            raise ValueError(f"play: {name} must be a terminal")
    if os.environ.get("TERM") == "dumb":
        raise ValueError("play: the terminal must show pictures, got TERM=dumb")


def play_in_terminal(game: Game, fps: int) -> None:
    """Plays until ``q`` or Ctrl-C; the terminal is restored on every exit."""
    depth = colour_depth(asked=True) or 8
    print("compiling ...", end="\r", file=sys.stderr, flush=True)
    game.compile()
    with Screen() as screen:
        _loop(screen, game, fps, depth)


def _loop(screen: Screen, game: Game, fps: int, depth: int) -> None:
    keys = {key: control for control in game.controls for key in control.keys}
    held: Control | None = None  # the action repeated in real time; without one the clock stops
    due = time.monotonic()
    shown = None
    while True:
        now = (screen.size, game.episode, game.step, held)
        if now != shown:
            screen.show(frame(game, screen.size, depth, held, fps))
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


def frame(game: Game, size: tuple[int, int], depth: int, held: Control | None, fps: int) -> str:
    """Returns a frame for a terminal of this size: the picture, and the text next to it or below it."""
    columns, lines = size
    beside, below = _panel(game, held, fps), _footer(game, held, fps, columns)
    # The picture is as large as possible, unless the text next to it would have too many lines.
    over_text, next_to_text = fit(columns, lines - len(below))[1], fit(columns - _PANEL - 2, lines)[1]
    if next_to_text <= over_text or len(beside) > lines:
        return "\n".join([*_picture(game, min(over_text, _LARGEST), depth), *below])
    picture = _picture(game, min(next_to_text, _LARGEST), depth)
    width = min(next_to_text, _LARGEST) // 2 * 2
    texts = [*beside, *[""] * (len(picture) - len(beside))]
    blank = " " * width
    picture += [blank] * (len(texts) - len(picture))
    return "\n".join(f"{left}  {text}" for left, text in zip(picture, texts, strict=True))


def _picture(game: Game, pixels: int, depth: int) -> list[str]:
    """Returns the picture, or the observation where there is none, padded to the width of a picture."""
    pixels = pixels // 2 * 2
    if game.has_picture:
        return half_blocks(game.picture(max(pixels, 8)), depth).split("\n")
    return [line[:pixels].ljust(pixels) for line in game.observation(pixels).split("\n")[: pixels // 2]]


def _panel(game: Game, held: Control | None, fps: int) -> list[str]:
    """Returns the text next to the picture: a line per key."""
    status = game.status[0].split("   ")
    table = [(_signs(c), c.name + (" <" if c is held else "")) for c in game.controls]
    table += _commands(game, fps)
    width = max(len(keys) for keys, _ in table)
    lines = [f"{_BOLD}{game.name}{_RESET}", "", *status, _notice(game, held, fps), ""]
    return [*lines, *(f"{keys:<{width}}  {name}"[:_PANEL] for keys, name in table)]


def _footer(game: Game, held: Control | None, fps: int, columns: int) -> list[str]:
    """Returns the text below the picture: the status and the keys in as few lines as possible."""
    keys = [*((_signs(control), control.name) for control in game.controls), *_commands(game, fps)]
    name, *status = _flowed([game.name, *game.status[0].split("   ")], columns)
    name = name.replace(game.name, f"{_BOLD}{game.name}{_RESET}", 1)
    return [name, *status, _notice(game, held, fps), *_flowed([f"{key} {name}" for key, name in keys], columns)]


def _flowed(parts: Sequence[str], columns: int) -> list[str]:
    """Joins the parts to lines of at most ``columns`` characters."""
    lines = [parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + 3 + len(part) > columns:
            lines.append(part)
        else:
            lines[-1] += f"   {part}"
    return lines


def _commands(game: Game, fps: int) -> list[tuple[str, str]]:
    waits = any(WAIT[0] in control.keys for control in game.controls)
    return [*([(WAIT[0], "pause")] if fps and not waits else []), ("r", "restart"), ("q", "quit")]


def _notice(game: Game, held: Control | None, fps: int) -> str:
    """Says how the episode ended, or why nothing moves."""
    return f"{_BOLD}{game.status[1] or ('the next key starts the clock' if fps and held is None else '')}{_RESET}"


def _signs(control: Control) -> str:
    """Returns the keys of a control as text; the full stop, an alias of the space bar, is left out."""
    return " ".join(_SIGNS.get(key, key) for key in control.keys if key != ".")
