"""Pictures as half blocks, what terminals can show, and the screen that gives the terminal back."""

import io
import os
import select
import signal
import termios

import numpy as np
import pytest
from rich.console import Console

from jaxenv.canvas import _terminal
from jaxenv.canvas._terminal import Screen, half_blocks, shows_pictures, side

RED, BLUE, GREY = (255, 0, 0), (0, 0, 255), (128, 128, 128)


def printed(picture, colours="truecolor"):
    console = Console(file=io.StringIO(), force_terminal=True, color_system=colours, width=40)
    console.print(half_blocks(np.array(picture, np.uint8)), end="")
    return console.file.getvalue()


def test_the_upper_pixel_is_the_foreground():
    assert printed([[RED], [BLUE]]) == "\x1b[38;2;255;0;0;48;2;0;0;255m▀\x1b[0m\n"


def test_colours_are_written_only_where_they_change():
    line = printed([[RED, RED, BLUE], [BLUE, BLUE, BLUE]])
    assert line == "\x1b[38;2;255;0;0;48;2;0;0;255m▀▀\x1b[0m\x1b[38;2;0;0;255;48;2;0;0;255m▀\x1b[0m\n"


def test_every_pair_of_rows_is_a_line():
    assert [line.count("▀") for line in printed([[RED] * 3] * 4).split("\n")] == [3, 3, 0]


def test_256_colours_are_the_closest_ones():
    assert printed([[RED], [GREY]], "256") == "\x1b[38;5;196;48;5;244m▀\x1b[0m\n"


def test_the_largest_square_is_as_high_as_two_pixels_per_line_and_even():
    assert (side(80, 24), side(31, 24), side(80, 7), side(1, 1)) == (48, 30, 14, 2)


class Terminal(io.TextIOWrapper):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("shown", "environ"),
    [
        (True, {"TERM": "xterm-256color", "COLORTERM": "truecolor"}),
        (True, {"TERM": "screen-256color"}),
        (False, {"TERM": "xterm"}),
        (False, {"TERM": "dumb", "COLORTERM": "truecolor"}),
        (False, {"TERM": "xterm-256color", "NO_COLOR": "1"}),
    ],
)
def test_the_environment_says_whether_a_terminal_shows_pictures(shown, environ):
    console = Console(file=Terminal(io.BytesIO(), encoding="utf-8"), _environ=environ)
    assert shows_pictures(console) == shown


def test_no_picture_without_a_terminal_or_the_half_block():
    environ = {"COLORTERM": "truecolor", "TERM": "xterm"}
    assert not shows_pictures(Console(file=io.StringIO(), _environ=environ))
    assert not shows_pictures(Console(file=Terminal(io.BytesIO(), encoding="latin-1"), _environ=environ))


def test_who_asks_for_a_picture_gets_one_in_spite_of_no_color_and_in_a_file(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stdout", Terminal(io.BytesIO(), encoding="utf-8"))
    monkeypatch.setenv("TERM", "xterm-256color")
    assert not shows_pictures(_terminal.console())
    assert shows_pictures(_terminal.console(asked=True))
    monkeypatch.setenv("TERM", "xterm")
    assert not shows_pictures(_terminal.console(asked=True))
    assert _terminal.console(asked=True, always=True).color_system == "256"
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    assert _terminal.console(always=True).color_system == "truecolor"


@pytest.fixture
def terminal():
    outer, inner = os.openpty()
    with open(inner, "w") as output:
        yield outer, output
    os.close(outer)


def screen_on(output, keyboard):
    return Screen(Console(file=output, force_terminal=True, width=20, height=4), keyboard)


def written(outer):
    """What has been written to the terminal."""
    parts = []
    while select.select([outer], [], [], 0)[0]:
        parts.append(os.read(outer, 10_000).decode())
    return "".join(parts)


@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGINT])
def test_the_screen_gives_the_terminal_back_after_an_error_or_a_signal(terminal, number):
    outer, output = terminal
    before, handler = termios.tcgetattr(output.fileno()), signal.getsignal(signal.SIGTERM)

    def fail(screen):
        assert not termios.tcgetattr(output.fileno())[3] & termios.ECHO
        screen.show("hello")
        if number is not None:
            signal.raise_signal(number)
        raise ZeroDivisionError

    with pytest.raises((ZeroDivisionError, SystemExit)) as error, screen_on(output, output) as screen:
        fail(screen)
    assert number is None or error.value.code == 128 + number
    assert termios.tcgetattr(output.fileno()) == before
    assert signal.getsignal(signal.SIGTERM) == handler
    text = written(outer)
    assert text.startswith("\x1b[?1049h")
    assert "hello" in text
    assert text.endswith("\x1b[?1049l")


def test_what_does_not_fit_is_cut_off(terminal):
    outer, output = terminal
    with screen_on(output, output) as screen:
        assert screen.size == (20, 4)
        screen.show("\n".join(["first", "second", "third", "fourth", "fifth"]))
        text = written(outer)
    assert "fourth" in text
    assert "fifth" not in text


def test_keys_have_names(terminal):
    outer, output = terminal
    with screen_on(output, output) as screen:
        os.write(outer, b"a\x1b[D\x1bOA q\x1b")
        assert [screen.key(1.0) for _ in range(6)] == ["a", "left", "up", "space", "q", "escape"]
        assert screen.key() is None


@pytest.mark.parametrize("keyboard", ["a file", "closed", None])
def test_without_a_keyboard_the_screen_shows_pictures_and_no_keys(terminal, keyboard):
    outer, output = terminal
    stdin = None if keyboard is None else open(os.devnull)  # noqa: SIM115
    if keyboard == "closed":
        stdin.close()
    with screen_on(output, stdin) as screen:
        screen.show("hello")
        assert screen.key() is None
    assert "hello" in written(outer)
    if stdin is not None:
        stdin.close()
