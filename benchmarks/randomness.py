"""Tests the words of ``jaxenv.random`` with dieharder, in the orders in which environments use them.

``python -m benchmarks randomness --json result.json``. See docs/evidence/randomness.md. Requires the Debian package
dieharder.
"""

import argparse
import contextlib
import functools
import hashlib
import inspect
import math
import pathlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

from benchmarks import command, tables
from benchmarks.measure import Unavailable
from jaxenv import random
from jaxenv.random import Clock, Stream

WORDS = 2**20  # words per chunk, which one call of a compiled function computes
LANES = 1024
SALTS = 4096
EPISODE = 500  # steps per episode in the orders of a single lane
SEED = 20260
ROUNDS = inspect.signature(random.threefry2x32).parameters["rounds"].default
CONTROL_ROUNDS = 4  # rounds of the deliberately bad generator
WEAK, FAILED = 0.005, 1e-6  # thresholds on the distance of a p-value from 0 or 1, as in dieharder

# --- orders ----------------------------------------------------------------------------------------------------------


def lanes(chunk: jax.Array) -> jax.Array:
    """Returns one word of lanes 0 to 1023 at each step; episodes have 16 to 512 steps, depending on the lane."""
    now = chunk * (WORDS // LANES) + jnp.arange(WORDS // LANES, dtype=jnp.uint32)[:, None]
    power = 4 + jnp.arange(LANES, dtype=jnp.uint32) % 6
    return _word(_clock(LANES, now >> power, now & ((1 << power) - 1)).stream())


def resets(chunk: jax.Array) -> jax.Array:
    """Returns four words of lanes 0 to 1023 at step 0 of each episode, as a reset draws them."""
    episode = chunk * (WORDS // LANES // 4) + jnp.arange(WORDS // LANES // 4, dtype=jnp.uint32)[:, None]
    words = random.separate_bits(_clock(LANES, episode, jnp.zeros_like(episode)).stream(), 4)
    return jnp.stack(words, -1)


def steps(chunk: jax.Array) -> jax.Array:
    """Returns one word of a single lane at each step, in episodes of 500 steps."""
    now = chunk * WORDS + jnp.arange(WORDS, dtype=jnp.uint32)
    return _word(_clock(1, now // EPISODE, now % EPISODE).stream())


def salts(chunk: jax.Array) -> jax.Array:
    """Returns one word of a single lane under each of 4096 static salts (numbers and consumer names) at each step."""
    now = chunk * (WORDS // SALTS) + jnp.arange(WORDS // SALTS, dtype=jnp.uint32)[:, None]
    k0, k1 = _salted()
    return _word(Stream(k0, k1, now // EPISODE, now % EPISODE))


def blocks(chunk: jax.Array) -> jax.Array:
    """Returns one draw of 2^20 words at each step: the first words of blocks 0 to 524287, then their second words."""
    clock = _clock(1, chunk[None] // EPISODE, chunk[None] % EPISODE)
    return random.bits(clock.stream(), (WORDS,))


def keys(chunk: jax.Array) -> jax.Array:
    """Returns the first word of ``jax.random.key(0)``, ``key(1)``, ``key(2)`` and so on."""
    seeds = chunk * WORDS + jnp.arange(WORDS, dtype=jnp.uint32)
    return _word(random.stream(jax.vmap(jax.random.key)(seeds)))


ORDERS: dict[str, Callable[[jax.Array], jax.Array]] = {
    f.__name__: f for f in (lanes, resets, steps, salts, blocks, keys)
}


def _clock(num_lanes: int, episode: jax.Array, step: jax.Array) -> Clock:
    env_id = jnp.arange(num_lanes, dtype=jnp.int32)
    return Clock(random.lane_words(jax.random.key(SEED), env_id), env_id, episode, step)


def _word(stream: Stream) -> jax.Array:
    return random.bits(stream)


@functools.cache
def _salted() -> tuple[np.ndarray, np.ndarray]:
    """Returns key words ``uint32[SALTS]`` of one lane under each salt: half numbers, half names of consumers."""
    with jax.ensure_compile_time_eval():
        k0, k1 = np.asarray(jax.random.key_data(jax.random.key(SEED)))[:, None]
    stream = Stream(k0, k1, k0 * 0, k0 * 0)
    names: list[int | str] = [i // 2 if i % 2 else f"StickyActions/{i // 2}/transition" for i in range(SALTS)]
    folded = [random.fold_in(stream, name) for name in names]
    return np.concatenate([s.k0 for s in folded]), np.concatenate([s.k1 for s in folded])


def chunks(order: str) -> Iterator[memoryview]:
    """Yields the words of an order as bytes. Each chunk is computed while the previous one is read."""
    make = jax.jit(lambda number: ORDERS[order](number))  # a new function, so no compiled program is reused
    ahead = make(jnp.uint32(0))
    for number in range(1, 2**32 // WORDS):
        chunk, ahead = ahead, make(jnp.uint32(number))
        yield memoryview(np.asarray(chunk).reshape(-1)).cast("B")


@contextlib.contextmanager
def fewer_rounds(rounds: int) -> Iterator[None]:
    """Replaces the generator, in programs compiled within the context, with one of ``rounds`` rounds."""
    with mock.patch.object(random, "threefry2x32", functools.partial(random.threefry2x32, rounds=rounds)):
        yield


# --- dieharder -------------------------------------------------------------------------------------------------------


class Trial(NamedTuple):
    """Settings of one call of dieharder; 0 stands for dieharder's default.

    The battery omits tests that dieharder lists as suspect or as not to be used (5, 6, 7, 14), and 201, 204 and 208.
    """

    number: int
    psamples: int = 100
    ntuple: int = 0
    tsamples: int = 0


BATTERY = (
    Trial(0),
    Trial(1, psamples=50),
    Trial(2, psamples=20),
    *(Trial(n) for n in (3, 4, 8, 9, 10, 11, 12)),
    Trial(13, psamples=50),
    Trial(15),
    Trial(16, psamples=50),
    Trial(17, psamples=20, tsamples=1_000_000),
    Trial(100),
    Trial(101, psamples=20),
    Trial(102, psamples=20),
    Trial(200, psamples=50, ntuple=2),
    Trial(200, psamples=30, ntuple=5),
    Trial(202, psamples=50),
    Trial(203, ntuple=3, tsamples=100_000),
    *(Trial(n, psamples=1) for n in (205, 206, 207, 209)),  # one large sample each
)


class Line(NamedTuple):
    """One statistic of a test: the output of dieharder, and the p-value and assessment computed from its samples.

    dieharder's own p-value over the samples (``dieharder_p``) is not used. It evaluates their distance from the uniform
    distribution at i / (n + 1) only, instead of on both sides of each step. For few samples the distance is then too
    small and the p-value too large: with 20 samples, dieharder's AES generator is WEAK in 7% of the cases and
    occasionally FAILED.
    """

    name: str
    ntuple: int
    tsamples: int
    psamples: int
    dieharder_p: float
    dieharder_assessment: str
    p: float
    assessment: str


def line(printed: Sequence[str], samples: Sequence[float]) -> Line:
    """Builds a statistic from the cells of dieharder's line and the p-values of its samples."""
    name, ntuple, tsamples, psamples, p, dieharder_assessment = printed
    if len(samples) != int(psamples):
        raise RuntimeError(f"dieharder printed {len(samples)} of {psamples} samples of {name}")
    own = samples[0] if len(samples) == 1 else float(scipy.stats.kstest(samples, "uniform").pvalue)
    edge = min(own, 1 - own)
    assessment = "FAILED" if edge < FAILED else "WEAK" if edge < WEAK else "PASSED"
    return Line(name, int(ntuple), int(tsamples), int(psamples), float(p), dieharder_assessment, own, assessment)


def dieharder_version() -> str:
    """Returns the version in dieharder's banner.

    Raises:
        Unavailable: If dieharder is not installed.
    """
    if shutil.which("dieharder") is None:
        raise Unavailable("dieharder is missing: on Debian and Ubuntu, apt-get install dieharder")
    banner = subprocess.run(["dieharder", "-l"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"dieharder version (\S+)", banner)
    return found[1] if found else "unknown"


def run_trial(test: Trial, source: Iterator[memoryview]) -> tuple[list[Line], int]:
    """Runs one test on the next words of ``source``.

    Returns:
        The lines that dieharder printed, and the number of words written to it (whole chunks).

    Raises:
        RuntimeError: If dieharder printed no result.
    """
    # 504: name, ntuple, tsamples, psamples, p-value, assessment; 65536: the p-value of each sample.
    command = f"dieharder -g 200 -d {test.number} -p {test.psamples} -D {504 + 65536} -c |".split()
    command += ["-n", str(test.ntuple)] if test.ntuple else []
    command += ["-t", str(test.tsamples)] if test.tsamples else []
    num_words = 0
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for chunk in source:
                process.stdin.write(chunk)
                num_words += WORDS
        except BrokenPipeError:  # dieharder has read enough words
            num_words += WORDS
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        printed = process.stdout.read().decode()
    found: list[tuple[list[str], list[float]]] = []
    for row in printed.splitlines():
        cells = [cell.strip() for cell in row.split("|")]
        if len(cells) == 6:
            found.append((cells, []))
        elif len(cells) == 3 and found:
            found[-1][1].append(float(cells[1]))
    lines = [line(cells, samples) for cells, samples in found]
    if not lines:
        raise RuntimeError(f"dieharder printed no result for test {test.number}: {printed.strip()!r}")
    return lines, num_words


def run_with_rerun(test: Trial, source: Iterator[memoryview]) -> tuple[list[dict[str, Any]], int]:
    """Runs a test, and reruns it on new words with four times the samples if a statistic is WEAK.

    One p-value in a hundred of a good generator is WEAK. The second assessment counts; the first is recorded too.
    """
    lines, num_words = run_trial(test, source)
    rows = [{"test": test.number, "statistic": i, **one._asdict()} for i, one in enumerate(lines)]
    if any(one.assessment == "WEAK" for one in lines):
        longer = test._replace(psamples=4 * test.psamples)
        if test.psamples == 1:
            longer = test._replace(tsamples=4 * lines[0].tsamples)
        again, more = run_trial(longer, source)
        num_words += more
        for row, one in zip(rows, again, strict=True):
            if row["assessment"] == "WEAK":
                row["again"] = {k: getattr(one, k) for k in ("tsamples", "psamples", "p", "assessment")}
    return rows, num_words


def verdict(row: dict[str, Any]) -> str:
    """Returns the assessment that counts."""
    return row.get("again", row)["assessment"]


def run(order: str, battery: Sequence[Trial], seconds: float, words: float) -> dict[str, Any]:
    """Runs the battery on one order of words. No test starts after ``seconds`` seconds or ``words`` words."""
    source, started, num_words, rows, left_out = chunks(order), time.perf_counter(), 0, [], []
    for test in battery:
        if time.perf_counter() - started > seconds or num_words > words:
            left_out.append(test.number)
            continue
        found, more = run_with_rerun(test, source)
        num_words += more
        rows += found
        for row in found:
            if row["assessment"] != "PASSED":
                second = "; rerun: p {p:.3g} {assessment}".format(**row["again"]) if "again" in row else ""
                print(f"  {row['name']} {row['ntuple']}: p {row['p']:.3g} {row['assessment']}{second}", file=sys.stderr)
    return {
        "order": order,
        "meaning": " ".join((ORDERS[order].__doc__ or "").split()),
        "seconds": round(time.perf_counter() - started, 1),
        "words": num_words,
        "left_out": left_out,
        "results": rows,
    }


# --- command line ----------------------------------------------------------------------------------------------------


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """Formats a line per order: the number of p-values, and how many are WEAK, WEAK again in the rerun, and FAILED."""

    def count(of: Callable[[dict[str, Any]], bool]) -> Callable[[dict[str, Any]], int]:
        return lambda row: sum(map(of, row["results"]))

    return tables.columns(
        rows,
        ("order", "order"),
        ("words", lambda row: f"{row['words']:.2g}"),
        ("p-values", lambda row: len(row["results"])),
        ("passed", count(lambda line: verdict(line) == "PASSED")),
        ("weak", count(lambda line: line["assessment"] == "WEAK")),
        ("weak again", count(lambda line: verdict(line) == "WEAK")),
        ("failed", count(lambda line: verdict(line) == "FAILED")),
        ("p < 0.1", count(lambda line: line["p"] < 0.1)),
        ("p > 0.9", count(lambda line: line["p"] > 0.9)),
        ("seconds", lambda row: f"{row['seconds']:.0f}"),
    )


def options(parser: command.Parser) -> None:
    """Adds the options."""
    numbers = sorted({test.number for test in BATTERY})
    parser.add_argument("--orders", nargs="+", choices=list(ORDERS), default=list(ORDERS), help="orders of the words")
    parser.add_argument("--test", nargs="+", type=int, choices=numbers, default=numbers, help="dieharder's numbers")
    help = "start no test of an order after this time"
    parser.add_argument("--seconds", type=float, metavar="S", help=help)
    help = "start no test of an order after this number of words"
    parser.add_argument("--words", type=float, metavar="N", help=help)
    help = f"test a generator with few rounds (without a value: {CONTROL_ROUNDS}), which must fail"
    parser.add_argument("--control", type=int, nargs="?", const=CONTROL_ROUNDS, metavar="ROUNDS", help=help)


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Runs the battery on every order."""
    setting = {"generator": f"threefry2x32, {args.control or ROUNDS} rounds", "dieharder": dieharder_version()}
    setting["source_sha256"] = hashlib.sha256(pathlib.Path(random.__file__).read_bytes()).hexdigest()
    battery = [test for test in BATTERY if test.number in args.test]
    with contextlib.nullcontext() if args.control is None else fewer_rounds(args.control):
        for order in args.orders:
            yield run(order, battery, args.seconds or math.inf, args.words or math.inf) | setting


def failed(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> bool:
    """Returns whether a test FAILED, or with ``--control`` whether none did."""
    return any(verdict(line) == "FAILED" for row in rows for line in row["results"]) == (args.control is None)
