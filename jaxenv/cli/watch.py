"""``jaxenv watch``: a trained policy, live in the terminal."""

import argparse
import math
import pathlib
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from jaxenv.canvas import _terminal
from jaxenv.cli._arguments import (
    add_env_settings,
    add_lanes,
    add_seed,
    add_time_limit,
    cut,
    integer,
    one_line,
    settings_of,
)
from jaxenv.cli._parser import Parser
from jaxenv.cli._policies import add_modules, add_policy, load_policy
from jaxenv.training import Trained, _checkpoints
from jaxenv.training._play import Moment, Player

_GAP = 2  # columns between lanes
_LEAST = 16  # pixels along the side of a lane
_LARGEST = 160


def add(command: Parser) -> None:
    """Adds description and arguments."""
    command.description = (
        "Plays the policy of a run of `jaxenv train` in the terminal. While the training still runs, each "
        "episode shows the newest checkpoint. Keys: q quits, space pauses, n starts the next episode, + and - change "
        "the speed."
    )
    command.epilog = "example: jaxenv watch runs/CartPole-v1 --num-envs 4"
    command.add_argument(
        "folder",
        metavar="DIR",
        type=pathlib.Path,
        help="the folder of a run of `jaxenv train`, or baseline:ID[:LEARNER]",
    )
    add_policy(command)
    add_modules(command)
    add_lanes(command, None, "number of lanes, side by side as far as they fit (default: those of one game)")
    command.add_argument(
        "--episodes", metavar="N", type=integer(1), help="quit after N episodes of every lane (default: on q or Ctrl-C)"
    )
    command.add_argument("--fps", metavar="N", type=integer(1), default=30, help="steps per second")
    add_seed(command)
    add_env_settings(command)
    add_time_limit(command)
    command.set_defaults(run=run, parser=command)


def run(args: argparse.Namespace) -> None:
    """Plays episodes until the user quits, and prints the mean return."""
    depth = _terminal.colour_depth(asked=True)
    if not depth:
        args.parser.error(
            "this needs a terminal with colours (COLORTERM=truecolor); a film needs none: "
            f"jaxenv render {args.folder} --out film.gif"
        )
    settings = settings_of(args)
    returns: list[float] = []
    left_out = 0
    try:
        newest = _Newest(args.folder, args.policy_seed, args.modules)
        game = newest.trained.make_env(**settings)
        layout = Layout.fit(args.num_envs or game.num_envs, *_terminal.terminal_size(), game.lanes_per_game)
        env = newest.trained.make_env(layout.lanes, **settings)
        player = Player(env, newest.trained.policy, newest.trained.config.max_eval_steps)
        with _terminal.Screen() as screen:
            screen.show("compiling ...")
            speed = args.fps
            for episode in range(args.episodes or 2**31):
                key = jax.random.fold_in(jax.random.key(args.seed), episode)
                trained = newest()
                pace = _Pace(screen, speed)
                memory = trained.make_memory(layout.lanes)
                for moment in player.episode(key, memory, lambda: Layout.fit(layout.lanes, *screen.size).side):
                    text = frame(trained, moment, Layout.fit(layout.lanes, *screen.size), episode, depth)
                    screen.show(text)
                    if pace.wait():
                        break
                else:
                    returns += moment.total[moment.over].tolist()
                    left_out += int(np.sum(~moment.over))
                speed = pace.fps
                if pace.quit:
                    break
    except (ImportError, OSError, TypeError, ValueError) as error:
        args.parser.error(one_line(error))
    if returns:
        print(f"{len(returns)} episodes, mean return {np.mean(returns):.5g}")
    if left_out:
        reason = "max_eval_steps of the run cut them off"
        print(f"{args.parser.prog}: {left_out} episodes are left out, {reason}", file=sys.stderr)


class _Newest:
    """The newest checkpoint of a folder, read where the file has changed."""

    def __init__(self, folder: pathlib.Path, seed: int | None, modules: Sequence[str] = ()):
        self._arguments = folder, seed, modules
        self._version = _checkpoints.version(folder)
        self.trained = load_policy(*self._arguments)

    def __call__(self) -> Trained:
        version = _checkpoints.version(self._arguments[0])
        if version != self._version:
            self._version = version
            self.trained = load_policy(*self._arguments)
        return self.trained


class _Pace:
    """Keeps the frame rate and reads keys."""

    def __init__(self, screen: _terminal.Screen, fps: int):
        self._screen, self.fps = screen, fps
        self._due = time.monotonic()
        self.quit = False

    def wait(self) -> bool:
        """Waits until the next frame is due; returns True if the episode should stop."""
        self._due = max(self._due + 1 / self.fps, time.monotonic())
        paused = False
        while paused or time.monotonic() < self._due:
            key = self._screen.key(0.1 if paused else max(self._due - time.monotonic(), 0))
            if key in ("q", "escape", "n"):
                self.quit = key != "n"
                return True
            if key == "space":
                paused = not paused
            if key in ("+", "=", "-"):
                self.fps = max(self.fps // 2, 1) if key == "-" else min(self.fps * 2, 960)
                self._due = time.monotonic()
        return False


# --- the screen -------------------------------------------------------------------------------------------------------


class Layout(NamedTuple):
    """Lanes in rows and columns: the largest pictures that fit, or as many lanes as fit."""

    lanes: int  # the number of lanes shown
    columns: int  # the number of lanes side by side
    side: int  # pixels along the side of a picture
    width: int  # columns of the terminal

    @classmethod
    def fit(cls, lanes: int, width: int, height: int, per_game: int = 1) -> "Layout":
        """Returns the layout for a terminal of ``width`` columns and ``height`` lines, of whole games."""

        def side(lanes: int, columns: int) -> int:
            rows = math.ceil(lanes / columns)
            across = (width + _GAP) // columns - _GAP
            down = (height - 2) // rows - 1  # a title, a line of keys, and a caption below each lane
            return min(across, 2 * down, _LARGEST) // 2 * 2

        for count in range(lanes, 0, -per_game):
            columns = max(range(1, count + 1), key=lambda n: side(count, n))
            if side(count, columns) >= _LEAST or count <= per_game:
                return cls(count, columns, max(side(count, columns), 8), width)
        raise AssertionError


def frame(trained: Trained, moment: Moment, layout: Layout, episode: int, depth: int) -> str:
    """Formats the whole screen as text."""
    steps = f"{trained.steps:,} of {trained.config.total_steps:,} steps"
    title = f"{trained.config.env_id}  seed {trained.seed}, trained for {steps}, return {trained.eval_return:.5g}"
    lines = ["\x1b[1m" + cut(title, layout.width) + "\x1b[0m"]
    for first in range(0, layout.lanes, layout.columns):
        lanes = range(first, min(first + layout.columns, layout.lanes))
        pictures = [_terminal.half_blocks(np.asarray(moment.picture[lane]), depth).split("\n") for lane in lanes]
        lines += [(" " * _GAP).join(parts) for parts in zip(*pictures, strict=True)]
        lines.append((" " * _GAP).join(_caption(moment, lane, layout.side) for lane in lanes))
    lines.append(
        "\x1b[2m" + cut(f"episode {episode + 1}   q quit  space pause  n next  +- speed", layout.width) + "\x1b[0m"
    )
    return "\n".join(lines)


def _caption(moment: Moment, lane: int, width: int) -> str:
    step, reward, total = (getattr(moment, name)[lane] for name in ("step", "reward", "total"))
    forms = (
        f"step {step}  reward {reward:.4g}  return {total:.5g}",
        f"step {step}  return {total:.5g}",
        f"{step}  {total:.5g}",
    )
    text = next((form for form in forms if len(form) <= width), forms[-1])
    padded = cut(text, width).ljust(width)
    return f"\x1b[2m{padded}\x1b[0m" if moment.over[lane] else padded
