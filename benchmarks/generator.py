"""Random words per second in a compiled loop: this library's generator, JAX's generators, and Philox.

The result of a run is the exclusive or of all words of each lane, so the compiler cannot skip any of them.
"""

import argparse
import functools
import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import command, measure
from jaxenv import random

WORDS = 4  # words per lane and step: one block of Philox, two of Threefry


# --- generators: (key of the seed, step) -> WORDS arrays uint32[B] ---------------------------------------------------


def threefry(rounds: int, num_envs: int) -> Callable:
    """Returns a generator that is Threefry-2x32 of lane and step; ``jaxenv.random`` uses 13 rounds."""
    lane = jnp.arange(num_envs, dtype=jnp.uint32)

    def draw(key, step):
        k0, k1 = jax.random.key_data(key)
        if rounds == 13:
            stream = random.Stream(lane ^ k0, lane + k1, jnp.zeros_like(lane), lane * 0 + step)
            return random.separate_bits(stream, WORDS)
        counter = lane * 0 + step
        blocks = [random.threefry2x32(lane ^ k0, lane + k1, np.uint32(j), counter, rounds) for j in range(WORDS // 2)]
        return [word for block in blocks for word in block]

    return draw


def philox(rounds: int, num_envs: int) -> Callable:
    """Returns a generator that is Philox-4x32 of lane and step."""
    lane = jnp.arange(num_envs, dtype=jnp.uint32)

    def draw(key, step):
        k0, k1 = jax.random.key_data(key)
        zero = jnp.zeros_like(lane)
        return philox4x32((lane ^ k0, lane + k1), (lane * 0 + step, zero, zero, zero), rounds)

    return draw


def philox4x32(key: tuple, counter: tuple, rounds: int) -> tuple:
    """Maps two key words and four counter words to four random words, elementwise, by Philox-4x32.

    Salmon et al. (2011), doi:10.1145/2063384.2063405. The upper words of products are computed from 16-bit products,
    since JAX disables 64-bit integers by default.
    """
    (k0, k1), (x0, x1, x2, x3) = key, counter
    a, b = np.uint32(0xD2511F53), np.uint32(0xCD9E8D57)
    for i in range(rounds):
        if i:
            k0, k1 = k0 + np.uint32(0x9E3779B9), k1 + np.uint32(0xBB67AE85)
        high_a, low_a = random.high_product(x0, a), x0 * a
        high_b, low_b = random.high_product(x2, b), x2 * b
        x0, x1, x2, x3 = high_b ^ x1 ^ k0, low_b, high_a ^ x3 ^ k1, low_a
    return x0, x1, x2, x3


def jax_bits(impl: str, num_envs: int) -> Callable:
    """Returns a generator that calls ``jax.random.bits`` with a key folded with the step."""

    def draw(key, step):
        words = jax.random.key_data(key)
        typed = jax.random.wrap_key_data(words if impl == "threefry2x32" else jnp.tile(words, 2), impl=impl)
        return list(jax.random.bits(jax.random.fold_in(typed, step), (WORDS, num_envs)))

    return draw


GENERATORS: dict[str, Callable[[int], Callable]] = {
    "jaxenv.random": functools.partial(threefry, 13),
    "Threefry-2x32-20": functools.partial(threefry, 20),
    "Philox-4x32-7": functools.partial(philox, 7),
    "Philox-4x32-10": functools.partial(philox, 10),
    "jax.random threefry": functools.partial(jax_bits, "threefry2x32"),
    "jax.random rbg": functools.partial(jax_bits, "rbg"),
}


# --- comparison ------------------------------------------------------------------------------------------------------


def compare(num_envs: int, num_steps: int, repeats: int) -> dict[str, Any]:
    """Runs all generators, interleaved, and returns a row of the result file.

    Ratios are the rate of ``jaxenv.random`` divided by the rates of the others.
    """
    runs = {name: _compiled(make(num_envs), num_envs, num_steps) for name, make in GENERATORS.items()}
    words = num_envs * num_steps * WORDS
    timed = {n: [seconds for seconds, _ in t] for n, t in measure.time_interleaved(runs, repeats).items()}
    rates = {name: words / statistics.median(seconds) for name, seconds in timed.items()}
    return {
        "num_envs": num_envs,
        "num_steps": num_steps,
        "contestants": {n: {"words_per_second": rates[n], "seconds": timed[n]} for n in rates},
        "ratios": {name: rates["jaxenv.random"] / rate for name, rate in rates.items() if name != "jaxenv.random"},
        "notes": [],
    }


def _compiled(draw: Callable, num_envs: int, num_steps: int) -> Callable[[int], jax.Array]:
    def rollout(key):
        def one_step(total, step):
            return functools.reduce(jnp.bitwise_xor, draw(key, step), total), None

        steps = jnp.arange(num_steps, dtype=jnp.uint32)
        return jax.lax.scan(one_step, jnp.zeros(num_envs, jnp.uint32), steps)[0]

    compiled = jax.jit(rollout).lower(_key(0)).compile()
    return lambda seed: jax.block_until_ready(compiled(_key(seed)))


def _key(seed: int) -> jax.Array:
    return jax.random.key(seed, impl="threefry2x32")


def report(rows: Sequence[dict[str, Any]]) -> str:
    """Formats the results as an aligned table."""
    header = ["generator", *(f"{row['num_envs']} lanes" for row in rows)]
    lines = [
        [name, *(measure.millions(row["contestants"][name]["words_per_second"]) for row in rows)] for name in GENERATORS
    ]
    return "\n".join([f"Million words per second, {WORDS} words per lane and step.", measure.table(header, lines)])


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the settings; an invalid one ends the program with status 2 and a one-line message."""
    parser = command.Parser("generator", __doc__)
    parser.add_sizes(num_envs=[64, 2048, 16384], num_steps=None)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison, prints the table and writes the file."""
    args, rows = parse(arguments), []
    for num_envs in args.num_envs:
        print(f"{num_envs} lanes ...", file=sys.stderr)
        rows.append(compare(num_envs, args.num_steps or max(2**22 // num_envs, 64), args.repeats))
    return command.finish("generator", args, rows, report, repeats=args.repeats, words=WORDS)
