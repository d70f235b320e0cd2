"""The player in a terminal: the loop with scripted keys, frames of several sizes, and a game in a pseudo-terminal."""

import io
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time

import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

import jaxenv
from jaxenv.interop import batch
from jaxenv.rollout.play import _terminal
from jaxenv.rollout.play._game import Game, controls

fcntl = pytest.importorskip("fcntl")


def text_of(content, size):
    """The lines that a terminal of this size shows, without colours and without blanks at the ends of lines."""
    console = Console(file=io.StringIO(), width=size[0], height=size[1])
    console.print(content)
    return "\n".join(line.rstrip() for line in console.file.getvalue().split("\n")).rstrip()


class Script:
    """A screen whose keys are written in advance; it records the frames."""

    def __init__(self, *keys, size=(80, 24)):
        self.size, self.keys, self.frames = size, [*keys, "q"], []

    def show(self, content):
        self.frames.append(text_of(content, self.size))

    def key(self, timeout):
        return self.keys.pop(0)


@pytest.fixture(scope="module")
def lake():
    return Game(jaxenv.make("FrozenLake-v1", is_slippery=False))


@pytest.fixture
def plain_pictures(monkeypatch):
    """Pictures that cost no compilation: one character per cell."""
    monkeypatch.setattr(Game, "picture", lambda game, side: np.zeros((side, side, 3), np.uint8))


def test_every_key_is_one_step_where_the_environment_waits(lake, plain_pictures):
    lake.restart()
    screen = Script("down", None, "x", "d")
    _terminal._loop(screen, lake, 0)
    assert (lake.step, lake.end) == (2, "terminated")
    assert "terminated after 2 steps" in screen.frames[-1]
    assert len(screen.frames) == 3  # the start and two steps: keys without a meaning show nothing new


def test_r_restarts(lake, plain_pictures):
    lake.restart()
    episode = lake.episode
    _terminal._loop(Script("down", "r"), lake, 0)
    assert (lake.step, lake.episode) == (0, episode + 1)


def test_real_time_repeats_the_last_action_and_pauses(monkeypatch, plain_pictures):
    game = Game(jaxenv.make("CartPole-v1"))
    monkeypatch.setattr(_terminal.time, "monotonic", iter(range(1000)).__next__)  # every look at the clock is a second
    screen = Script(None, None, "left", None, None, "space", None, None)
    _terminal._loop(screen, game, 20)
    assert game.step == 3  # with "left" and twice without a key; neither before it nor during the pause
    assert "the next key starts the clock" in screen.frames[0]
    assert "left <" in screen.frames[1]


@pytest.mark.parametrize("size", [(80, 24), (140, 40), (40, 60), (200, 20), (30, 12)])
def test_a_frame_fits_the_terminal_and_shows_keys_and_status(lake, plain_pictures, size):
    lake.restart()
    text = text_of(_terminal.frame(lake, size, None, 0), size).replace("\u00a0", " ")
    lines = text.split("\n")
    assert len(lines) <= size[1]
    assert max(map(len, lines)) <= size[0]
    for part in ("FrozenLake-v1", "step 0", "return 0", "← a 0", "up", "restart", "quit"):
        assert part in text
    assert text.count("▀") >= 16  # there is a picture


def test_the_table_of_keys_names_every_action(lake, monkeypatch, plain_pictures):
    monkeypatch.setattr(lake, "controls", controls(jaxenv.make("Seaquest-MinAtar")))
    lines = text_of(_terminal.frame(lake, (80, 24), None, 0), (80, 24)).split("\n")
    for line in ("space 0  nothing", "← a 1    left", "f 5      fire", "q        quit"):
        assert any(shown.endswith(f"▀  {line}") for shown in lines)


@pytest.mark.parametrize(("size", "rows"), [((81, 24), 20), ((131, 40), 20), ((200, 60), 20), ((200, 60), 1)])
def test_the_text_next_to_an_observation_starts_in_one_column(size, rows):
    wide = jnp.arange(20 * rows, dtype=jnp.float32).reshape(1, rows, 20) * 1.098
    env = batch(lambda key: (wide[0], wide[0]), lambda s, a, k: (s, s, 0.0, False), action=jaxenv.specs.discrete(3))
    game = Game(env)
    lines = text_of(_terminal.frame(game, size, None, 0), size).split("\n")
    starts = {line.index(text) for line in lines for text in ("batch", "r  ", "q  ") if f"  {text}" in line}
    assert len(starts) == 1
    numbers = re.findall(r"[\d.]+", " ".join(line[: min(starts)] for line in lines))
    written = {f"{x:.3f}".rstrip("0") for x in wide.reshape(-1).tolist()}
    assert {number.rstrip("0") for number in numbers} <= written  # none is cut


def test_the_keys_that_do_not_fit_next_to_the_picture_are_below_it(plain_pictures):
    task = batch(
        lambda k: (0.0, jnp.zeros(2)), lambda s, a, k: (s, jnp.zeros(2), 0.0, False), action=jaxenv.specs.discrete(20)
    )
    lines = text_of(_terminal.frame(Game(task), (100, 24), None, 0), (100, 24)).split("\n")
    assert len(lines) <= 24
    assert "q\u00a0quit" in lines[-1]


PROGRAM = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # Ctrl-C comes from the terminal that controls the process
from jaxenv.cli import main
sys.argv = ["jaxenv", "play", "FrozenLake-v1", "--env", "is_slippery=false"]
sys.exit(main())
"""


def test_a_game_in_a_terminal_shows_pictures_and_gives_the_terminal_back():
    terminal, inner = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(terminal)
    environ = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": ""}
    environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=inner, stdout=inner, stderr=inner, env=environ, start_new_session=True
    ) as process:
        text = until(terminal, "quit")
        assert "\x1b[?1049h" in text  # the alternate screen
        assert re.search(r"\x1b\[38;2;\d+;\d+;\d+;48;2;\d+;\d+;\d+m▀", text)
        assert not termios.tcgetattr(terminal)[3] & termios.ECHO
        os.write(terminal, b"\x1b[B")
        until(terminal, "step 1")
        os.write(terminal, b"d")
        until(terminal, "terminated after 2 steps")
        os.write(terminal, b"r")
        until(terminal, "episode 2")
        os.write(terminal, b"\x03")  # Ctrl-C
        until(terminal, "\x1b[?1049l")
        assert process.wait(60) == 130
    assert termios.tcgetattr(terminal) == before
    os.close(terminal)
    os.close(inner)


def until(terminal, text):
    """What the terminal shows up to a text."""
    shown, limit = "", time.monotonic() + 120
    while text not in shown:
        assert time.monotonic() < limit, shown
        if select.select([terminal], [], [], 1)[0]:
            shown += os.read(terminal, 1 << 16).decode(errors="ignore")
    return shown
