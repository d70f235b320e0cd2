"""Shows pictures in a terminal: half-block characters, the abilities of the terminal, and a full screen with keys.

Every character cell shows two pixels, one above the other: the upper half block in the foreground colour on the
background colour. A cell is about twice as high as wide, so the pixels are square.
"""

import atexit
import contextlib
import os
import re
import select
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any, Literal, TextIO

import numpy as np

Depth = Literal[0, 8, 24]

_TRUE_COLOUR = ("direct", "kitty", "alacritty", "foot", "ghostty", "wezterm", "iterm")
_PROGRAMS = ("iTerm.app", "vscode", "WezTerm", "ghostty", "Hyper", "rio", "WarpTerminal")
_RESET = "\x1b[0m"


def colour_depth(
    stream: TextIO | None = None, environ: Mapping[str, str] | None = None, *, asked: bool = False
) -> Depth:
    """Returns the bits of colour that half blocks may use: 24, 8 (256 colours), or 0 for no picture.

    There is no picture outside a terminal, if ``TERM`` is ``dumb``, if the encoding lacks the half block, or if the
    user set ``NO_COLOR`` (https://no-color.org) and has not ``asked`` for a picture.
    """
    stream = sys.stdout if stream is None else stream
    environ = os.environ if environ is None else environ
    term = environ.get("TERM", "")
    if not stream.isatty() or (environ.get("NO_COLOR") and not asked) or term == "dumb" or not has_half_blocks(stream):
        return 0
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit") or environ.get("TERM_PROGRAM") in _PROGRAMS:
        return 24
    if "WT_SESSION" in environ or any(name in term for name in _TRUE_COLOUR):
        return 24
    return 8 if "256" in term else 0


def has_half_blocks(stream: TextIO) -> bool:
    """Returns whether the encoding of a stream has the half-block character."""
    try:
        "\u2580".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def terminal_size() -> tuple[int, int]:
    """Returns columns and lines of the terminal; 80 and 24 where they are unknown."""
    columns, lines = shutil.get_terminal_size((80, 24))
    return columns, lines


def fit(columns: int, lines: int, shape: tuple[int, int] = (1, 1)) -> tuple[int, int]:
    """Returns the largest size in pixels, height and width, that fits into free columns and lines of two pixels each.

    Only the ratio of ``shape``, height and width, counts. The height is even; they are at least 2 and 1.
    """
    height, width = shape
    scale = min(columns / width, 2 * lines / height)
    return max(int(height * scale) // 2 * 2, 2), max(int(width * scale), 1)


def half_blocks(picture: np.ndarray, depth: int = 24) -> str:
    r"""Returns a picture as lines of half blocks with ANSI colours, joined by line feeds.

    Args:
        picture: uint8 ``[H, W, 3]``. Where H is odd, the lower half of the last line stays empty.
        depth: bits of colour, 24 or 8.

    Returns:
        ``ceil(H / 2)`` lines of W characters. Every line ends with a reset of the colours.

    Raises:
        ValueError: for another shape, dtype or depth.

    >>> half_blocks(np.array([[[255, 0, 0]], [[0, 0, 255]]], np.uint8))
    '\x1b[38;2;255;0;0;48;2;0;0;255m▀\x1b[0m'
    """
    picture = np.asarray(picture)
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
        raise ValueError(f"half_blocks: picture must be uint8[H, W, 3], got {picture.dtype}{list(picture.shape)}")
    if depth not in (8, 24):
        raise ValueError(f"half_blocks: depth must be 8 or 24, got {depth!r}")
    codes = _codes(picture, depth)
    lines = []
    for top in range(0, len(codes), 2):
        upper = codes[top]
        lower = codes[top + 1] if top + 1 < len(codes) else [None] * len(upper)
        lines.append(_line(upper, lower))
    return "\n".join(lines)


def _line(upper: list[Any], lower: list[Any]) -> str:
    """Returns one line, with colours written only where they change."""
    parts, front, back = [], None, None
    for above, below in zip(upper, lower, strict=True):
        if above == below and above == back:
            parts.append(" ")
            continue
        changes = []
        if above != front:
            changes.append(f"38;{above}")
            front = above
        if below != back:
            changes.append("49" if below is None else f"48;{below}")
            back = below
        parts.append(f"\x1b[{';'.join(changes)}m\u2580" if changes else "\u2580")
    return "".join(parts) + _RESET


def _codes(picture: np.ndarray, depth: int) -> list[list[str]]:
    """Returns the parameters of the ANSI colour of every pixel."""
    if depth == 24:
        return [[f"2;{r};{g};{b}" for r, g, b in row] for row in picture.tolist()]
    return [[f"5;{index}" for index in row] for row in _palette_indices(picture).tolist()]


def _palette_indices(picture: np.ndarray) -> np.ndarray:
    """Returns the closest of the terminal's 240 fixed colours: a cube of 6 x 6 x 6, and 24 greys."""
    levels = np.array([0, 95, 135, 175, 215, 255])
    pixels = picture.astype(np.int32)
    steps = np.abs(pixels[..., None] - levels).argmin(-1)
    cube = 16 + steps @ np.array([36, 6, 1])
    grey = np.clip(np.round((pixels.mean(-1) - 8) / 10), 0, 23).astype(np.int32)
    distance_to_cube = ((pixels - levels[steps]) ** 2).sum(-1)
    distance_to_grey = ((pixels - (8 + 10 * grey)[..., None]) ** 2).sum(-1)
    return np.where(distance_to_grey < distance_to_cube, 232 + grey, cube)


# --- the whole screen -------------------------------------------------------------------------------------------------

_NAMES = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    "\x1b[H": "home",
    "\x1b[F": "end",
    "\x1b[3~": "delete",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\x1b": "escape",
    "\r": "enter",
    "\n": "enter",
    "\t": "tab",
    " ": "space",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x03": "q",  # Ctrl-C where it sends no signal
}
_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Z])|.", re.DOTALL)
# The alternate screen, without cursor and line wrap.
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J", "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"


class Screen:
    """The whole terminal, as a context manager: the alternate screen without cursor, and keys without echo.

    The terminal is restored on every exit: at the end of the block, on an error, on Ctrl-C and other signals that end
    the process, and while Ctrl-Z suspends it. Signals keep their meaning, so Ctrl-C ends the program as before.

    >>> with Screen() as screen:  # doctest: +SKIP
    ...     screen.show(half_blocks(picture))
    ...     key = screen.key(timeout=0.1)
    """

    def __init__(self, output: TextIO | None = None, keyboard: TextIO | None = None):
        self._output = sys.stdout if output is None else output
        self._keyboard = sys.stdin if keyboard is None else keyboard
        self._open = False
        self._pending: list[str] = []
        self._shown: tuple[tuple[int, int], list[str]] = (0, 0), []
        self._old_mode: Any = None
        self._old_handlers: dict[int, Any] = {}

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines, as of now."""
        with contextlib.suppress(OSError, ValueError):
            columns, lines = os.get_terminal_size(self._output.fileno())
            if columns and lines:  # 0 where the terminal does not know its size
                return columns, lines
        return terminal_size()

    def __enter__(self) -> "Screen":
        atexit.register(self.close)
        for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGTSTP", "SIGCONT"):
            number = getattr(signal, name, None)
            with contextlib.suppress(ValueError):  # not in the main thread
                if number is not None:
                    self._old_handlers[number] = signal.signal(number, self._on_signal)
        self.open()
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        self._old_handlers.clear()
        atexit.unregister(self.close)

    def open(self) -> None:
        """Takes over the terminal."""
        if self._open:
            return
        self._open = True
        with contextlib.suppress(ImportError):  # Windows
            import termios
            import tty

            # The keyboard is no terminal, or the standard input was closed.
            with contextlib.suppress(AttributeError, OSError, ValueError, termios.error):
                self._old_mode = termios.tcgetattr(self._keyboard.fileno())
                tty.setcbreak(self._keyboard.fileno())
        self._shown = (0, 0), []
        self._write(_ENTER)

    def close(self) -> None:
        """Restores the terminal. Does nothing if it is not taken over."""
        if not self._open:
            return
        self._open = False
        self._write(_LEAVE)
        if self._old_mode is not None:
            import termios

            with contextlib.suppress(OSError, ValueError, termios.error):
                termios.tcsetattr(self._keyboard.fileno(), termios.TCSADRAIN, self._old_mode)
            self._old_mode = None

    def show(self, text: str) -> None:
        """Replaces the content of the screen. Lines that do not fit are cut off; unchanged lines are not rewritten."""
        columns, height = self.size
        lines = text.split("\n")[:height]
        shown = self._shown[1] if self._shown[0] == (columns, height) else None
        parts = ["\x1b[2J"] if shown is None else []
        for number, line in enumerate(lines):
            if shown is None or number >= len(shown) or shown[number] != line:
                parts.append(f"\x1b[{number + 1};1H{line}\x1b[K")
        if shown is not None and len(lines) < len(shown):
            parts.append(f"\x1b[{len(lines) + 1};1H\x1b[J")
        self._shown = (columns, height), lines
        # Mode 2026 shows the frame at once; terminals that do not know it ignore it.
        self._write(f"\x1b[?2026h{''.join(parts)}\x1b[?2026l")

    def key(self, timeout: float = 0.0) -> str | None:
        """Returns the next key, such as ``"a"``, ``"left"`` or ``"space"``; None after ``timeout`` seconds."""
        if not self._pending:
            if self._old_mode is None:  # no keyboard
                time.sleep(timeout)
                return None
            ready, _, _ = select.select([self._keyboard.fileno()], [], [], timeout)
            if not ready:
                return None
            read = os.read(self._keyboard.fileno(), 1024)
            if not read:  # the keyboard has gone
                return "q"
            self._pending = _SEQUENCE.findall(read.decode(errors="ignore"))
        if not self._pending:
            return None
        code = self._pending.pop(0)
        return _NAMES.get(code.replace("\x1bO", "\x1b["), code)

    def _write(self, text: str) -> None:
        # A signal may arrive in the middle of a write, which Python's own buffers do not allow.
        data = text.encode(self._output.encoding or "utf-8", errors="replace")
        with contextlib.suppress(OSError, ValueError):  # the terminal has gone
            while data:
                data = data[os.write(self._output.fileno(), data) :]

    def _on_signal(self, number: int, frame: Any) -> None:
        if number == getattr(signal, "SIGCONT", None):
            self.open()
            return
        self.close()
        if number == getattr(signal, "SIGTSTP", None):
            os.kill(os.getpid(), signal.SIGSTOP)
            return
        before = self._old_handlers[number]
        if callable(before):
            before(number, frame)
        elif before != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
