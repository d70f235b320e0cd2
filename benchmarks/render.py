"""Pictures per second, compared with Gymnasium's and MiniGrid's own renderers.

``python -m benchmarks render --ids CartPole-v1 Taxi-v4 --num-envs 1 64 1024 --sizes 64 84``. See README.md.
"""

import argparse
import dataclasses
import math
import os
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

import jaxenv
from benchmarks import command, measure, tables
from benchmarks.measure import Unavailable, one_line
from benchmarks.ours import rollout

DEFAULT_IDS = (
    "CartPole-v1",
    "MountainCar-v0",
    "Pendulum-v1",
    "Acrobot-v1",
    "FrozenLake-v1",
    "Taxi-v4",
    "CliffWalking-v1",
    "MiniGrid-DoorKey-8x8-v0",
    "MiniGrid-FourRooms-v0",
    "Breakout-MinAtar",
)
_WARM_UP = 16  # random steps before the pictures
_FEW = 16  # pictures of a run of a renderer that draws one at a time


@dataclasses.dataclass(frozen=True)
class Renderer:
    """A renderer that is ready to run.

    Attributes:
        name: the library.
        lanes: pictures of one call.
        size: height and width in pixels.
        start: prepares states for a seed; returns a function that draws them once.
        num_calls: calls of a run.
        rollout: whether a call is a rollout, in which each step draws a picture.
        frames_per_call: pictures of each lane in a call.
    """

    name: str
    lanes: int
    size: tuple[int, int]
    start: Callable[[int], Callable[[], Any]]
    num_calls: int
    rollout: bool = False
    frames_per_call: int = 1

    @property
    def label(self) -> str:
        """A name that tells all renderers of one row apart."""
        return f"{self.name}, {self.lanes} lanes, {self.size[0]}x{self.size[1]}{', rollout' * self.rollout}"

    def run(self, seed: int) -> float:
        """Draws all pictures and returns the seconds per picture."""
        draw = self.start(seed)
        started = time.perf_counter()
        for _ in range(self.num_calls):
            draw()
        return (time.perf_counter() - started) / (self.num_calls * self.lanes * self.frames_per_call)


# --- this library ----------------------------------------------------------------------------------------------------


def ours(id: str, num_envs: int, size: int, num_frames: int) -> Renderer:
    """Draws all lanes by one call of a compiled ``env.render``."""
    env = jaxenv.make(id, num_envs)
    policy = jaxenv.rollout.random_policy(env)

    @jax.jit
    def states(key):
        state, timestep = env.reset(key)
        return jaxenv.unroll(env, policy, state, timestep, _WARM_UP, fields=[])[0][0]

    draw = jax.jit(lambda state: env.render(state, size))

    def start(seed: int) -> Callable[[], Any]:
        state = states(jax.random.key(seed))
        jax.block_until_ready(draw(state))
        return lambda: jax.block_until_ready(draw(state))

    return Renderer("jaxenv", num_envs, (size, size), start, math.ceil(num_frames / num_envs))


def ours_in_rollout(id: str, num_envs: int, size: int, num_frames: int) -> Renderer:
    """Plays random actions with ``PixelObservation``; every row has a picture."""
    num_steps = max(math.ceil(num_frames / num_envs), 2)
    env = jaxenv.make(id, num_envs, wrappers=[("PixelObservation", {"size": size})])
    run = rollout("jaxenv", env, num_steps).run
    return Renderer("jaxenv", num_envs, (size, size), lambda seed: lambda: run(seed), 1, True, num_steps)


# --- peers -----------------------------------------------------------------------------------------------------------


def gymnasium(id: str, size: int) -> Renderer:
    """Draws one environment of Gymnasium by its own ``render``, or a MiniGrid one with cells as large as ours.

    Raises:
        Unavailable: if it cannot be imported or lacks the id.
    """
    name = "minigrid" if id.startswith("MiniGrid") else "gymnasium"
    try:
        import gymnasium

        if name == "minigrid":
            import minigrid  # noqa: F401
        else:
            os.environ.setdefault("SDL_AUDIODRIVER", "dummy")  # no complaints where there is no sound card
            import pygame  # noqa: F401
    except ImportError as error:
        raise Unavailable(f"{name} cannot draw: {error}") from None
    if id not in gymnasium.registry:
        raise Unavailable(f"{name} has no {id}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env = gymnasium.make(id, render_mode="rgb_array")
    env.reset(seed=0)

    def draw() -> np.ndarray:
        if name == "gymnasium":
            return env.render()
        task: Any = env.unwrapped
        return task.get_frame(tile_size=size // max(task.width, task.height))

    def start(seed: int) -> Callable[[], Any]:
        env.reset(seed=seed)
        env.action_space.seed(seed)
        for _ in range(_WARM_UP):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()
        return draw

    return Renderer(name, 1, draw().shape[:2], start, _FEW)


# --- the comparison --------------------------------------------------------------------------------------------------


def compare(
    id: str, num_envs: Sequence[int], sizes: Sequence[int], num_frames: int, repeats: int, peers: bool = True
) -> dict[str, Any]:
    """Runs all renderers of one id, interleaved, and returns a row of the result file."""
    renderers, notes = [], []
    for lanes in num_envs:
        renderers += [ours(id, lanes, size, num_frames) for size in sizes]
        renderers += [ours_in_rollout(id, lanes, size, num_frames) for size in sizes]
    if peers:
        try:
            renderers.append(gymnasium(id, sizes[0]))
        except Unavailable as error:
            notes.append(str(error))
    timed = measure.time_interleaved({r.label: r.run for r in renderers}, repeats)
    results = {}
    for r in renderers:
        seconds = [s for _, s in timed[r.label]]
        rate = 1 / statistics.median(seconds)
        results[r.label] = {
            "name": r.name,
            "lanes": r.lanes,
            "size": list(r.size),
            "rollout": r.rollout,
            "frames_per_second": rate,
            "pixels_per_second": rate * r.size[0] * r.size[1],
            "seconds_per_frame": seconds,
        }
    return {"id": id, "contestants": results, "notes": notes}


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """Formats the results as an aligned table."""
    lines = [
        {**result, "id": "" if number else row["id"]}
        for row in rows
        for number, result in enumerate(row["contestants"].values())
    ]
    shown = tables.columns(
        lines,
        ("id", "id"),
        ("library", "name"),
        ("what", lambda result: "rollout" if result["rollout"] else "render"),
        ("lanes", "lanes"),
        ("pixels", lambda result: "{} x {}".format(*result["size"])),
        ("pictures/s", lambda result: f"{result['frames_per_second']:,.3g}"),
        ("Mpixel/s", lambda result: f"{result['pixels_per_second'] / 1e6:,.3g}"),
    )
    title = "Pictures of all lanes per second, and million pixels per second. Higher is better."
    return "\n".join([title, shown, *tables.notes(rows)])


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_ids(DEFAULT_IDS, help="environments to draw")
    parser.add_argument("--all-ids", action="store_true", help="draw every environment, without peers")
    help = "sides of the square pictures"
    parser.add_argument("--sizes", nargs="+", type=command.positive, default=[64, 84], metavar="S", help=help)
    parser.add_argument("--no-peers", action="store_true", help="this library alone")
    parser.add_sizes(num_envs=[1, 64, 1024], num_steps=1024, steps="pictures of a run, over all lanes")


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compares the renderers of every id."""
    peers = not (args.no_peers or args.all_ids)
    for id in jaxenv.ids() if args.all_ids else args.ids:
        try:
            yield compare(id, args.num_envs, args.sizes, args.num_steps, args.repeats, peers)
        except (Unavailable, ValueError) as error:  # a task may need larger pictures
            yield {"id": id, "contestants": {}, "notes": [f"{id}: {one_line(error)}"]}
