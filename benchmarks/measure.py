"""Common parts of the benchmarks: compiled rollouts, interleaved timing, the record of the machine and JSON."""

import contextlib
import dataclasses
import datetime
import functools
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv._util.library import default_types

_LOAD_BEFORE = os.getloadavg()  # load of other programs: no benchmark has started at import
PACKAGES = ("jaxenv", "jax", "jaxlib", "numpy", "gymnax", "gymnasium", "envpool", "flashbax")
PACKAGES += ("minigrid", "pygame", "jumanji", "craftax")  # renderers
PACKAGES += ("brax", "xminigrid", "navix", "bsuite", "pandas", "pgx", "jaxmarl", "popgym")
PACKAGES += ("jax-cuda13-plugin", "libtpu")  # compilers


class Unavailable(Exception):
    """States in one line why a peer is not part of a comparison."""


def one_line(error: Exception) -> str:
    """Returns the message of an error without line breaks."""
    return " ".join(str(error).split())


class Row(NamedTuple):
    """Result of one step of a batch, with the same fields on every side. Every leaf is ``[B, ...]``."""

    observation: Any
    action: Any
    reward: Any
    terminated: Any
    truncated: Any
    is_step: Any  # False on rows that only start an episode and are not environment steps


@dataclasses.dataclass(frozen=True)
class Contestant:
    """A rollout that is ready to run.

    Attributes:
        name: Name of the library.
        run: Maps a seed to a dict with ``steps``, ``terminated`` and ``truncated`` (counts or flags of any shape) and
            the other outputs of the rollout. The result is available when the call returns.
        close: Ends worker processes.
        program: What `run` compiles, a function of a typed key; ``None`` if nothing is compiled.
        compile: Compiles the program, unless it is compiled, and returns the seconds that it took. `run` calls it.
    """

    name: str
    run: Callable[[int], dict[str, Any]]
    close: Callable[[], Any] = lambda: None
    program: Callable[[jax.Array], dict[str, Any]] | None = None
    compile: Callable[[], float] | None = None

    @property
    def compile_seconds(self) -> float | None:
        """The time of tracing and compiling; ``None`` if nothing is compiled."""
        return self.compile() if self.compile else None


class Sample(NamedTuple):
    """One timed rollout."""

    seconds: float
    steps: int
    episodes: int


# --- rollouts --------------------------------------------------------------------------------------------------------


def jax_contestant(
    name: str, start: Callable, step: Callable, num_envs: int, num_steps: int, store: bool
) -> Contestant:
    """Returns a rollout of ``num_steps`` steps under JAX, the first reset included.

    Args:
        name: Name of the library.
        start: Maps a typed key to the carry, with every lane at the start of an episode.
        step: Maps the carry to (carry, `Row`).
        num_envs: Number of lanes, B.
        num_steps: Number of steps, T.
        store: Stack whole rows to ``[T, B, ...]``. Otherwise observations, rewards and flags are summed per lane, so
            the compiler cannot skip their computation.
    """

    def one_step(carry, _):
        carry, totals = carry
        carry, row = step(carry)
        totals = {k: totals[k] + v for k, v in _lane_sums(row).items() if k in totals}
        stored = {k: v for k, v in row._asdict().items() if k != "is_step"} if store else {}
        return (carry, totals), stored

    def rollout(key):
        floats = [] if store else ["observation", "reward"]
        integers = ["steps"] if store else ["steps", "terminated", "truncated"]
        totals = {k: jnp.zeros(num_envs, jnp.float32) for k in floats}
        totals |= {k: jnp.zeros(num_envs, jnp.int32) for k in integers}
        carry = start(key), totals
        (_, totals), stored = jax.lax.scan(one_step, carry, length=num_steps)
        return {**totals, **stored}

    return compiled(name, rollout)


def compiled(name: str, program: Callable[[jax.Array], dict[str, Any]]) -> Contestant:
    """Returns a rollout that is compiled at its first run."""

    @functools.cache
    def built() -> tuple[Any, float]:
        started = time.perf_counter()
        with default_types():  # peers rely on JAX's defaults
            executable = jax.jit(program).lower(jax.random.key(0)).compile()
        return executable, time.perf_counter() - started

    def run(seed: int) -> dict[str, Any]:
        return jax.block_until_ready(built()[0](jax.random.key(seed)))

    return Contestant(name, run, program=program, compile=lambda: built()[1])


def _lane_sums(row: Row) -> dict[str, jax.Array]:
    return {
        "observation": sum(_per_lane(leaf) for leaf in jax.tree.leaves(row.observation)),
        "reward": _per_lane(row.reward),
        "steps": row.is_step.astype(jnp.int32),
        "terminated": row.terminated.astype(jnp.int32),
        "truncated": row.truncated.astype(jnp.int32),
    }


def _per_lane(x: jax.Array) -> jax.Array:
    return jnp.sum(x.astype(jnp.float32), axis=tuple(range(1, x.ndim)))


# --- timing ----------------------------------------------------------------------------------------------------------


def time_interleaved(runs: dict[str, Callable[[int], Any]], repeats: int) -> dict[str, list[tuple[float, Any]]]:
    """Returns the seconds and the result of ``repeats`` timed calls of every run, after an untimed call of each.

    A round calls every run once. Each round has its own seed and starts with a different run, so no run has a fixed
    place in the order.
    """
    timed: dict[str, list[tuple[float, Any]]] = {name: [] for name in runs}
    for run in runs.values():
        run(0)
    names = list(runs)
    for i in range(repeats if names else 0):
        first = i % len(names)
        for name in names[first:] + names[:first]:
            started = time.perf_counter()
            result = runs[name](i + 1)
            timed[name].append((time.perf_counter() - started, result))
    return timed


def sample_interleaved(contestants: Sequence[Contestant], repeats: int) -> dict[str, list[Sample]]:
    """Times rollouts with `time_interleaved` and counts their steps and episodes."""
    samples: dict[str, list[Sample]] = {c.name: [] for c in contestants}

    def counted(run: Callable[[int], dict[str, Any]]) -> Callable[[int], dict[str, Any]]:
        # Drops whole trajectories, which would otherwise occupy memory until the last run.
        return lambda seed: {k: v for k, v in run(seed).items() if k in ("steps", "terminated", "truncated")}

    for name, timed in time_interleaved({c.name: counted(c.run) for c in contestants}, repeats).items():
        for seconds, result in timed:
            steps, *ends = (_count(result[k]) for k in ("steps", "terminated", "truncated"))
            samples[name].append(Sample(seconds, steps, sum(ends)))
    return samples


def _count(x: Any) -> int:
    return int(np.asarray(x).sum(dtype=np.int64))


def summary(contestant: Contestant, samples: Sequence[Sample]) -> dict[str, Any]:
    """Returns all measurements of one contestant, for the JSON file."""
    return {
        "steps_per_second": statistics.median(s.steps / s.seconds for s in samples),
        "compile_seconds": contestant.compile_seconds,
        "seconds": [s.seconds for s in samples],
        "steps": [s.steps for s in samples],
        "episodes": [s.episodes for s in samples],
    }


def available(*makers: Callable[[], Contestant]) -> tuple[list[Contestant], list[str]]:
    """Makes the contestants, and a note on each that is `Unavailable`."""
    found, notes = [], []
    for make in makers:
        try:
            found.append(make())
        except Unavailable as error:
            notes.append(str(error))
    return found, notes


def compared(contestants: Sequence[Contestant], notes: Sequence[str], repeats: int) -> dict[str, Any]:
    """Times rollouts, interleaved, and returns the end of a row of the result file. One that does not fit is a note."""
    fit, notes = [], list(notes)
    for contestant in contestants:
        try:
            contestant.run(0)
            fit.append(contestant)
        except jax.errors.JaxRuntimeError as error:  # too large for the memory of the device
            notes.append(f"{contestant.name}: {str(error).splitlines()[0][:200]}")
    samples = sample_interleaved(fit, repeats)
    for contestant in contestants:
        contestant.close()
    sides = {c.name: summary(c, samples[c.name]) for c in fit}
    return {"contestants": sides, "ratios": ratios(sides), "notes": notes}


def sides(timed: dict[str, list[tuple[float, Any]]], work: float, per_second: str) -> dict[str, dict[str, Any]]:
    """Returns the contestants of a row whose runs all do as much work: the median rate, and the seconds."""
    seconds = {name: [s for s, _ in samples] for name, samples in timed.items()}
    return {name: {per_second: work / statistics.median(all), "seconds": all} for name, all in seconds.items()}


def ratios(sides: dict[str, dict[str, Any]], per_second: str = "steps_per_second") -> dict[str, float]:
    """Returns the speed of jaxenv divided by the others' speeds; empty without jaxenv."""
    mine = sides.get("jaxenv", {}).get(per_second)
    return {name: mine / side[per_second] for name, side in sides.items() if name != "jaxenv"} if mine else {}


def copy_bandwidth(num_bytes: int = 2**28, repeats: int = 5) -> float:
    """Returns the best rate, in bytes per second, at which the device reads and writes a large array in an update."""
    # The update is in place, so the time does not include allocation.
    update = jax.jit(lambda x: x + np.float32(1), donate_argnums=0)
    x = jax.block_until_ready(update(jnp.zeros(num_bytes // 4, jnp.float32)))
    best = 0.0
    for _ in range(repeats):
        started = time.perf_counter()
        x = jax.block_until_ready(update(x))
        best = max(best, 2 * num_bytes / (time.perf_counter() - started))
    return best


# --- records ---------------------------------------------------------------------------------------------------------


def record() -> dict[str, Any]:
    """Returns the conditions of a measurement: date, commit, device, processor, load before and after, versions."""
    versions = {}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    device = jax.devices()[0]
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": _git("rev-parse", "HEAD"),
        "library_differs_from_commit": bool(_git("status", "--porcelain", "--", "jaxenv")),
        "device": f"{device.platform}: {device.device_kind}",
        "device_count": jax.device_count(),
        "cpu": _cpu_model(),
        "cpu_count": os.cpu_count(),
        "load_average_before": [round(x, 2) for x in _LOAD_BEFORE],
        "load_average_after": [round(x, 2) for x in os.getloadavg()],
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "nproc": os.environ.get("NPROC", ""),  # number of XLA's CPU threads, if set
        "python": platform.python_version(),
        "versions": versions,
    }


@functools.cache
def _git(*arguments: str) -> str | None:
    root = pathlib.Path(__file__).parents[1]
    try:
        return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _cpu_model() -> str:
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def write_json(path: pathlib.Path, content: dict[str, Any]) -> None:
    """Writes a result file, each list of numbers on one line."""
    text = json.dumps(content, indent=1)
    # Strings contain no line breaks, so only lists match.
    joined = re.sub(r"\[\n *([^\[\]{}]*)\n *\]", lambda found: "[" + re.sub(r"\n *", " ", found[1]) + "]", text)
    path.write_text(joined + "\n")
