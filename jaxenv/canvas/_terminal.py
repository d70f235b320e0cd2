"""Shows pictures in a terminal, by `rich`: half-block characters, and a full screen with keys.

Every character cell shows two pixels, one above the other: the upper half block in the foreground colour on the
background colour. A cell is about twice as high as wide, so the pixels are square.
"""

import contextlib
import functools
import itertools
import os
import re
import select
import signal
import sys
import time
from typing import Any, TextIO

import numpy as np
from rich.color import Color
from rich.console import Console, RenderableType
from rich.live import Live
from rich.segment import Segment, Segments
from rich.style import Style

_PICTURES = ("256", "truecolor")  # systems of colours that show pictures


def console(asked: bool = False, always: bool = False) -> Console:
    """Returns the console on stdout.

    If the user ``asked`` for a picture, it has colours in spite of ``NO_COLOR``. With ``always`` it writes pictures
    even to a file, and to terminals that do not say which colours they have.
    """
    found = Console(no_color=False if asked else None)
    if always and not shows_pictures(found):
        return Console(no_color=False, force_terminal=True, color_system="256" if found.is_terminal else "truecolor")
    return found


def shows_pictures(console: Console) -> bool:
    """Returns whether a console has the colours of a picture, the half block, and a user who wants colours."""
    return console.color_system in _PICTURES and not console.no_color and console.encoding.startswith("utf")


def side(columns: int, lines: int) -> int:
    """Returns the side in pixels, an even number, of the largest square that fits into columns and lines."""
    return max(min(columns, 2 * lines) // 2 * 2, 2)


def half_blocks(picture: np.ndarray) -> Segments:
    """Returns a picture, uint8 ``[H, W, 3]`` of an even height, as lines of half blocks to print."""
    segments = []
    for upper, lower in zip(picture[::2].tolist(), picture[1::2].tolist(), strict=True):
        pixels = zip(map(tuple, upper), map(tuple, lower), strict=True)
        segments += [Segment("▀" * len(list(run)), _style(*pair)) for pair, run in itertools.groupby(pixels)]
        segments.append(Segment.line())
    return Segments(segments)


@functools.lru_cache(maxsize=4096)
def _style(upper: tuple[int, int, int], lower: tuple[int, int, int]) -> Style:
    return Style(color=Color.from_rgb(*upper), bgcolor=Color.from_rgb(*lower))


# --- the whole screen -------------------------------------------------------------------------------------------------

_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Z])|.", re.DOTALL)
_NAMES = {"\x1b[A": "up", "\x1b[B": "down", "\x1b[C": "right", "\x1b[D": "left", "\x1b": "escape", " ": "space"}


class Screen:
    """The whole terminal, as a context manager: the alternate screen without cursor, and keys without echo.

    The terminal is restored on every exit: at the end of the block, on an error, on Ctrl-C and other signals that end
    the process. Ctrl-Z does nothing.
    """

    def __init__(self, output: Console | None = None, keyboard: TextIO | None = None):
        self._console = console(asked=True, always=True) if output is None else output
        self._live = Live(console=self._console, screen=True, auto_refresh=False)
        self._keyboard = sys.stdin if keyboard is None else keyboard
        self._stack = contextlib.ExitStack()
        self._pending: list[str] = []  # keys that were read and not yet asked for
        self._has_keys = False

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        return self._console.size.width, self._console.size.height

    def __enter__(self) -> "Screen":
        def leave(number: int, _: Any) -> None:
            raise SystemExit(128 + number)

        with contextlib.suppress(ValueError):  # not in the main thread
            for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGTSTP"):
                if number := getattr(signal, name, None):
                    before = signal.signal(number, signal.SIG_IGN if name == "SIGTSTP" else leave)
                    self._stack.callback(signal.signal, number, before)
        with contextlib.suppress(ImportError):  # Windows
            import termios
            import tty

            # The keyboard is no terminal, or the standard input was closed.
            with contextlib.suppress(AttributeError, OSError, ValueError, termios.error):
                mode = termios.tcgetattr(self._keyboard.fileno())
                tty.setcbreak(self._keyboard.fileno())
                self._stack.callback(termios.tcsetattr, self._keyboard.fileno(), termios.TCSADRAIN, mode)
                self._has_keys = True
        self._stack.enter_context(self._live)
        return self

    def __exit__(self, *_: Any) -> None:
        self._stack.close()

    def show(self, content: RenderableType) -> None:
        """Replaces the content of the screen; what does not fit is cut off."""
        self._live.update(content, refresh=True)

    def key(self, timeout: float = 0.0) -> str | None:
        """Returns the next key, such as ``"a"``, ``"left"`` or ``"space"``; None after ``timeout`` seconds."""
        if not self._has_keys:
            time.sleep(timeout)
            return None
        if not self._pending and select.select([self._keyboard.fileno()], [], [], timeout)[0]:
            read = os.read(self._keyboard.fileno(), 1024).decode(errors="ignore")
            self._pending = _SEQUENCE.findall(read) or ["q"]  # the keyboard has gone
        if not self._pending:
            return None
        code = self._pending.pop(0)
        return _NAMES.get(code.replace("\x1bO", "\x1b["), code)
