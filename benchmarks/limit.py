"""CartPole compared with the same work in hand-written C, one thread each.

The system's compiler compiles ``cart_pole.c`` at run time. Both sides draw from the same streams, follow the same
policy and restart lanes by the same rule, so their episodes must agree.
"""

import argparse
import contextlib
import ctypes
import functools
import os
import pathlib
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

import jaxenv
from benchmarks import command, measure
from benchmarks.measure import Contestant
from benchmarks.ours import default_num_steps, rollout_of_id
from benchmarks.peers import Unavailable

ID = "CartPole-v1"
SALTS = ("rollout", "policy")  # salts of the stream from which a policy draws
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math")
_SOURCE = pathlib.Path(__file__).with_name("cart_pole.c")
# Fields of `Lanes` in cart_pole.c, in order.
_FIELDS = {
    **dict.fromkeys(("x", "x_dot", "theta", "theta_dot"), np.float32),
    **dict.fromkeys(("k0", "k1", "episode", "step"), np.uint32),
    **dict.fromkeys(("ended", "action"), np.int32),
    **dict.fromkeys(("observation", "reward"), np.float32),
    **dict.fromkeys(("steps", "terminated", "truncated"), np.int32),
}


@functools.cache
def program() -> ctypes.CDLL:
    """Compiles the rollout and loads it.

    Raises:
        Unavailable: If there is no C compiler, or the source does not compile.
    """
    compiler = next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)
    if compiler is None:
        raise Unavailable("no C compiler found (cc, gcc, clang)")
    folds = {"NAME": (ID,), "POLICY": SALTS}
    salts = [f"-D{name}_{word}(k)={_folded(word, *salts)}" for name, salts in folds.items() for word in (0, 1)]
    # By default GCC uses only half of the width of AVX-512 registers.
    wide = ["-mprefer-vector-width=512"] if platform.machine() in ("x86_64", "AMD64") else []
    with tempfile.TemporaryDirectory() as folder:
        library = pathlib.Path(folder) / "cart_pole.so"
        line = [compiler, *FLAGS, *wide, *salts, "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-lm"]
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode != 0:
            raise Unavailable(f"{compiler} does not compile cart_pole.c: {done.stderr.strip().partition(chr(10))[0]}")
        return ctypes.CDLL(str(library))


def _folded(word: int, *salts: str) -> str:
    """Returns the C expression for a key word ``k`` after ``jaxenv.random.fold_in`` of all ``salts``."""
    folded = "(k)"
    for salt in salts:
        folded = f"(({folded} ^ {jaxenv.random._digest(salt)[word]}u) * GOLDEN)"
    return folded


def in_c(num_envs: int, num_steps: int) -> Contestant:
    """Returns the rollout in C; its result has the same sums per lane as this library's.

    Raises:
        Unavailable: If it cannot be compiled.
    """
    rollout = program().rollout
    rollout.restype = None
    limit = jaxenv.spec(ID).max_episode_steps
    lanes = {name: np.empty(num_envs, dtype) for name, dtype in _FIELDS.items()}
    pointers = (ctypes.c_void_p * len(lanes))(*(x.ctypes.data for x in lanes.values()))

    def run(seed: int) -> dict[str, Any]:
        rollout(pointers, num_envs, num_steps, limit, ctypes.c_uint32(seed))
        return {k: lanes[k].copy() for k in ("observation", "reward", "steps", "terminated", "truncated")}

    return Contestant("C", run)


@contextlib.contextmanager
def one_processor() -> Iterator[bool]:
    """Pins this thread, and all threads that it starts, to one processor.

    JAX is pinned as well if its backend has not started. Yields whether the system supports pinning.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield False
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield True
    finally:
        os.sched_setaffinity(0, before)


def compare(num_envs: int, num_steps: int, repeats: int) -> dict[str, Any]:
    """Runs both sides, interleaved, and returns a row of the result file."""
    sides, notes = measure.available(
        lambda: rollout_of_id(ID, num_envs, num_steps),
        lambda: in_c(num_envs, num_steps),
    )
    row = {"id": ID, "num_envs": num_envs, "num_steps": num_steps} | measure.compared(sides, notes, repeats)
    for result in row["contestants"].values():
        result["steps_per_episode"] = sum(result["steps"]) / max(sum(result["episodes"]), 1)
    return row


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """Formats the results as an aligned table."""
    length = functools.partial(measure.side, entry="steps_per_episode", text="{:.3f}".format)
    shown = measure.columns(
        rows,
        ("lanes", "num_envs"),
        ("steps", "num_steps"),
        ("jaxenv", measure.side("jaxenv")),
        ("C", measure.side("C")),
        ("of C", measure.ratio("C", ".0%")),
        ("steps per episode: jaxenv", length("jaxenv")),
        ("C", length("C")),
    )
    title = f"{ID}, million environment steps per second, one thread each; of C: jaxenv's percentage of the speed of C."
    return "\n".join([title, shown, *measure.notes(rows)])


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_sizes(num_envs=[64, 2048, 16384], num_steps=None)


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compares both sides for every number of lanes, on one processor."""
    with one_processor() as pinned, jax.default_device(jax.devices("cpu")[0]):
        note = "JAX was pinned to one processor" if pinned else "this system cannot pin JAX to one processor"
        for num_envs in args.num_envs:
            row = compare(num_envs, args.num_steps or default_num_steps(ID, num_envs), args.repeats)
            yield row | {"notes": [note, *row["notes"]]}
