"""Plays the policy of a run of `jaxenv train` in the terminal. While the training still runs, each episode shows the
newest checkpoint. Keys: q quits, space pauses, n starts the next episode, + and - change the speed.

example: jaxenv watch runs/CartPole-v1 --num-envs 4
"""

import argparse
import math
import sys
import time
from typing import NamedTuple

import jax
import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from jaxenv.canvas import _terminal
from jaxenv.canvas._grid import Moment
from jaxenv.cli._arguments import add_options, load_policy, settings_of
from jaxenv.cli._parser import Parser
from jaxenv.rollout._film import Reel
from jaxenv.training import Trained, _checkpoints

_GAP = 2  # columns between games
_LEAST = 16  # pixels along the side of a game
_LARGEST = 160


def add(command: Parser) -> None:
    """Adds the arguments."""
    add_options(command, "folder", "--policy-seed", "--module")
    lanes = "number of lanes; their games stand side by side as far as they fit (default: those of one game)"
    add_options(command, "--num-envs", help=lanes)
    episodes = "quit after N episodes of every game (default: on q or Ctrl-C)"
    add_options(command, "--episodes", metavar="N", help=episodes)
    add_options(command, "--fps", "--seed", "--env", "--max-episode-steps")


def run(args: argparse.Namespace) -> None:
    """Plays episodes until the user quits, and prints the mean return."""
    console = _terminal.console(asked=True)
    if not _terminal.shows_pictures(console):
        args.parser.error(
            "this needs a terminal with colours (COLORTERM=truecolor); a film needs none: "
            f"jaxenv render {args.folder} --out film.gif"
        )
    settings, version = settings_of(args), _checkpoints.version(args.folder)
    trained = load_policy(args.folder, args.policy_seed, args.modules)
    env = trained.make_env(args.num_envs, **settings)
    per_game = env.lanes_per_game
    layout = Layout.fit(env.num_envs // per_game, console.width, console.height)
    env = trained.make_env(layout.games * per_game, **settings)
    policy, limit = trained.policy, trained.config.max_eval_steps or 2**31 - 1
    reels: dict[int, Reel] = {}  # by the size of a picture
    returns: list[float] = []
    left_out = 0
    with _terminal.Screen(console) as screen:
        screen.show("compiling ...")
        pace = _Pace(screen, args.fps)
        for episode in range(args.episodes or 2**31):
            if version != (version := _checkpoints.version(args.folder)):
                trained = load_policy(args.folder, args.policy_seed, args.modules)
            layout = Layout.fit(layout.games, *screen.size)  # the terminal may have another size now
            if (side := layout.side) not in reels:
                reels[side] = Reel("watch", env, policy, (side, side), max_steps=limit)
            key = jax.random.fold_in(jax.random.key(args.seed), episode)
            for moment in reels[side].play(key, trained.make_memory(env.num_envs)):
                screen.show(frame(trained, moment, layout, episode))
                if pace.wait():
                    break
            else:
                returns += moment.total[moment.over].tolist()
                left_out += int(np.sum(~moment.over))
            if pace.quit:
                break
    if returns:
        print(f"{len(returns)} episodes, mean return {np.mean(returns):.5g}")
    if left_out:
        reason = "max_eval_steps of the run cut them off"
        print(f"{args.parser.prog}: {left_out} episodes are left out, {reason}", file=sys.stderr)


class _Pace:
    """Keeps the frame rate and reads keys."""

    def __init__(self, screen: _terminal.Screen, fps: int):
        self._screen, self._fps = screen, fps
        self._due = time.monotonic()
        self.quit = False

    def wait(self) -> bool:
        """Waits until the next frame is due; returns True if the episode should stop."""
        self._due = max(self._due + 1 / self._fps, time.monotonic())
        paused = False
        while paused or time.monotonic() < self._due:
            key = self._screen.key(0.1 if paused else max(self._due - time.monotonic(), 0))
            if key in ("q", "escape", "n"):
                self.quit = key != "n"
                return True
            if key == "space":
                paused = not paused
            if key in ("+", "=", "-"):
                self._fps = max(self._fps // 2, 1) if key == "-" else min(self._fps * 2, 960)
                self._due = time.monotonic()
        return False


# --- the screen -------------------------------------------------------------------------------------------------------


class Layout(NamedTuple):
    """Games in rows and columns: the largest pictures that fit, or as many games as fit."""

    games: int  # the number of games shown
    columns: int  # the number of games side by side
    side: int  # pixels along the side of a picture

    @classmethod
    def fit(cls, games: int, width: int, height: int) -> "Layout":
        """Returns the layout for a terminal of ``width`` columns and ``height`` lines."""

        def side(games: int, columns: int) -> int:
            rows = math.ceil(games / columns)
            across = (width + _GAP) // columns - _GAP
            down = (height - 2) // rows - 1  # a title, a line of keys, and a caption below each game
            return min(_terminal.side(across, down), _LARGEST)

        for count in range(games, 0, -1):
            columns = max(range(1, count + 1), key=lambda n: side(count, n))
            if side(count, columns) >= _LEAST or count == 1:
                return cls(count, columns, max(side(count, columns), 8))
        raise AssertionError


def frame(trained: Trained, moment: Moment, layout: Layout, episode: int) -> RenderableType:
    """Returns the content of the screen."""
    steps = f"{trained.steps:,} of {trained.config.total_steps:,} steps"
    title = f"{trained.config.env_id}  seed {trained.seed}, trained for {steps}, return {trained.eval_return:.5g}"
    grid = Table.grid(padding=(0, _GAP, 0, 0))
    for _ in range(layout.columns):
        grid.add_column(width=layout.side)
    for first in range(0, layout.games, layout.columns):
        games = range(first, min(first + layout.columns, layout.games))
        grid.add_row(*(_terminal.half_blocks(moment.picture[game]) for game in games))
        grid.add_row(*(_caption(moment, game) for game in games))
    keys = f"episode {episode + 1}   q quit  space pause  n next  +- speed"
    return Group(Text(title, "bold", no_wrap=True, overflow="ellipsis"), grid, Text(keys, "dim", no_wrap=True))


def _caption(moment: Moment, game: int) -> RenderableType:
    text = f"step {moment.step[game]}  return {moment.total[game]:.5g}"
    return Text(text, "dim" if moment.over[game] else "", no_wrap=True, overflow="ellipsis")
