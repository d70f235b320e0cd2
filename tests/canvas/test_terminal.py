"""Pictures as half blocks, what terminals can show, and the screen that gives the terminal back."""

import io
import os
import select
import termios

import numpy as np
import pytest

from jaxenv.canvas._terminal import Screen, colour_depth, fit, half_blocks

RED, BLUE, GREY = (255, 0, 0), (0, 0, 255), (128, 128, 128)


def picture(*rows):
    return np.array(rows, np.uint8)


def test_the_upper_pixel_is_the_foreground():
    assert half_blocks(picture([RED], [BLUE])) == "\x1b[38;2;255;0;0;48;2;0;0;255m▀\x1b[0m"


def test_colours_are_written_only_where_they_change():
    line = half_blocks(picture([RED, RED, BLUE], [BLUE, BLUE, BLUE]))
    assert line == "\x1b[38;2;255;0;0;48;2;0;0;255m▀▀ \x1b[0m"


def test_an_odd_height_leaves_the_lower_half_empty():
    lines = half_blocks(picture([RED], [RED], [BLUE])).split("\n")
    assert lines[1] == "\x1b[38;2;0;0;255m▀\x1b[0m"


def test_256_colours_are_the_closest_ones():
    assert half_blocks(picture([RED], [GREY]), 8) == "\x1b[38;5;196;48;5;244m▀\x1b[0m"


@pytest.mark.parametrize("wrong", [np.zeros((2, 2), np.uint8), np.zeros((2, 2, 3))])
def test_half_blocks_refuses_what_is_no_picture(wrong):
    with pytest.raises(ValueError, match="half_blocks: picture must"):
        half_blocks(wrong)


def test_fit_keeps_the_ratio_and_an_even_height():
    assert fit(80, 24) == (48, 48)
    assert fit(30, 24) == (30, 30)
    assert fit(80, 24, (1, 2)) == (40, 80)


class Terminal(io.TextIOWrapper):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("depth", "environ"),
    [
        (24, {"TERM": "xterm-256color", "COLORTERM": "truecolor"}),
        (24, {"TERM": "xterm-kitty"}),
        (8, {"TERM": "screen-256color"}),
        (0, {"TERM": "xterm"}),
        (0, {"TERM": "dumb", "COLORTERM": "truecolor"}),
        (0, {"TERM": "xterm-256color", "NO_COLOR": "1"}),
    ],
)
def test_colour_depth_follows_the_environment(depth, environ):
    assert colour_depth(Terminal(io.BytesIO(), encoding="utf-8"), environ) == depth


def test_no_picture_without_a_terminal_or_the_half_block():
    environ = {"COLORTERM": "truecolor"}
    assert colour_depth(io.StringIO(), environ) == 0
    assert colour_depth(Terminal(io.BytesIO(), encoding="latin-1"), environ) == 0


@pytest.fixture
def terminal():
    outer, inner = os.openpty()
    with open(inner, "w") as output:
        yield outer, output
    os.close(outer)


def written(outer):
    """What has been written to the terminal."""
    parts = []
    while select.select([outer], [], [], 0)[0]:
        parts.append(os.read(outer, 10_000).decode())
    return "".join(parts)


def test_the_screen_gives_the_terminal_back_after_an_error(terminal):
    outer, output = terminal
    before = termios.tcgetattr(output.fileno())

    def fail(screen):
        assert not termios.tcgetattr(output.fileno())[3] & termios.ECHO
        screen.show("hello")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), Screen(output, output) as screen:
        fail(screen)
    assert termios.tcgetattr(output.fileno()) == before
    text = written(outer)
    assert text.startswith("\x1b[?1049h")
    assert "hello" in text
    assert text.endswith("\x1b[?1049l")


def test_only_lines_that_change_are_written_again(terminal):
    outer, output = terminal
    with Screen(output, output) as screen:
        screen.show("title\nfirst\nlast")
        written(outer)
        screen.show("title\nsecond")
        assert written(outer) == "\x1b[?2026h\x1b[2;1Hsecond\x1b[K\x1b[3;1H\x1b[J\x1b[?2026l"


def test_keys_have_names(terminal):
    outer, output = terminal
    with Screen(output, output) as screen:
        os.write(outer, b"a\x1b[D\x1bOA q\x1b")
        assert [screen.key(1.0) for _ in range(6)] == ["a", "left", "up", "space", "q", "escape"]
        assert screen.key() is None


@pytest.mark.parametrize("keyboard", ["a file", "closed", None])
def test_without_a_keyboard_the_screen_shows_pictures_and_no_keys(terminal, keyboard):
    outer, output = terminal
    stdin = None if keyboard is None else open(os.devnull)  # noqa: SIM115
    if keyboard == "closed":
        stdin.close()
    with Screen(output, stdin) as screen:
        screen.show("hello")
        assert screen.key() is None
    assert "hello" in written(outer)
    if stdin is not None:
        stdin.close()
