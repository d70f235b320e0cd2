"""Adding to and sampling from a replay buffer, beside flashbax: rows a second and bytes a row.

Every side gets rows in its own layout, time first or lanes first, with the same fields. A timed run is one compiled
loop of adds into a donated buffer, of draws that are all written out, or of changes of priorities. Items are the
transitions of flashbax's item buffer, which hold the next observation beside each.
"""

import argparse
import dataclasses
import functools
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import command, measure
from benchmarks.peers import Unavailable
from jaxenv import data
from jaxenv.rollout import Experience
from jaxenv.timestep import TimeStep

LOOP = 16  # adds or draws in a timed run

# Name -> shape and dtype of an observation, lanes, rows kept of a lane.
ROWS = {
    "cart-pole": ((4,), np.float32, 1024, 1024),
    "image": ((84, 84, 1), np.uint8, 64, 256),
}
# Name -> what is done, with how many rows at a time, or windows of how many rows; None: of all rows.
WORK = {
    "add-1": ("add", 1, 0),
    "add-32": ("add", 32, 0),
    "sample-256x2": ("sample", 256, 2),
    "sample-32x64": ("sample", 32, 64),
    "prioritised-add-1": ("add", 1, 2),
    "prioritised-sample-256x2": ("sample", 256, 2),
    "prioritised-update-256": ("update", 256, 2),
}


@dataclasses.dataclass(frozen=True)
class Side:
    """One library's buffer, filled.

    Attributes:
        state: the buffer.
        add: (state, block of rows) -> state.
        sample: (state, key) -> a batch.
        update: (state, batch) -> state, where sampling is prioritised.
        block: rows to add.
        bytes_per_row: of the whole buffer, over the rows that it keeps.
    """

    state: Any
    add: Callable
    sample: Callable
    update: Callable | None
    block: Any
    bytes_per_row: float


def _block(kind: str, num_rows: int, num_envs: int) -> dict[str, np.ndarray]:
    """Rows ``[T, B, ...]`` of the fields that a learner off the policy needs."""
    shape, dtype, *_ = ROWS[kind]
    generator = np.random.default_rng(0)
    return {
        "step_type": np.ones((num_rows, num_envs), np.int32),
        "reward": generator.random((num_rows, num_envs), np.float32),
        "discount": np.ones((num_rows, num_envs), np.float32),
        "observation": (100 * generator.random((num_rows, num_envs, *shape), np.float32)).astype(dtype),
        "action": generator.integers(0, 2, (num_rows, num_envs), np.int32),
    }


def _sizes(kind: str, scale: int) -> tuple[int, int]:
    _, _, num_envs, capacity = ROWS[kind]
    return max(num_envs // scale, 1), max(capacity // scale, 64)


def _side(state, add, sample, update, block, rows) -> Side:
    """Fills the buffer once, so that every add is one over old rows, and counts its bytes."""
    total = sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(state))
    count = jax.tree.leaves(block)[0].shape
    times = rows // math.prod(count[:2]) + 1
    state = jax.jit(lambda s, b: jax.lax.fori_loop(0, times, lambda _, s: add(s, b), s))(state, block)
    return Side(state, add, sample, update, block, total / rows)


def ours(kind: str, work: str, scale: int = 1) -> Side:
    """This library's buffer."""
    doing, number, length = WORK[work]
    num_envs, capacity = _sizes(kind, scale)
    prioritised = {"sampling": data.PrioritizedSampling(0.6, length)} if work.startswith("prioritised") else {}
    replay = data.Replay(capacity, num_envs, **prioritised)
    fields = jax.tree.map(jnp.asarray, _block(kind, number if doing == "add" else 32, num_envs))
    action = fields.pop("action")
    block = Experience(TimeStep(**fields), action)

    def sample(state, stream):
        return replay.sample(state, stream, number, length)

    def update(state, batch):
        return replay.update_priorities(state, batch, batch.experience.timestep.reward[:, 0])

    return _side(replay.init(block), replay.add, sample, update, block, capacity * num_envs)


def flashbax(kind: str, work: str, scale: int = 1) -> Side:
    """The trajectory buffer of flashbax, or its prioritised one.

    Raises:
        Unavailable: if flashbax cannot be imported.
    """
    library = _flashbax()
    doing, number, length = WORK[work]
    num_envs, capacity = _sizes(kind, scale)
    settings: dict[str, Any] = {
        "add_batch_size": num_envs,
        "sample_batch_size": number,
        "sample_sequence_length": max(length, 1),
        "period": 1,
        "min_length_time_axis": max(length, 1),
        "max_length_time_axis": capacity,
    }
    if work.startswith("prioritised"):
        make = functools.partial(library.make_prioritised_trajectory_buffer, priority_exponent=0.6)
        settings["device"] = jax.default_backend()
    else:
        make = library.make_trajectory_buffer
    buffer = make(**settings)
    fields = _block(kind, number if doing == "add" else 32, num_envs)
    block = {name: jnp.asarray(np.swapaxes(x, 0, 1)) for name, x in fields.items()}
    state = buffer.init(jax.tree.map(lambda x: x[0, 0], block))

    def update(state, batch):
        return buffer.set_priorities(state, batch.indices, batch.experience["reward"][:, 0])

    return _side(state, buffer.add, buffer.sample, update, block, capacity * num_envs)


def flashbax_items(kind: str, work: str, scale: int = 1) -> Side:
    """The item buffer of flashbax, filled with transitions: each holds its next observation too.

    Raises:
        Unavailable: if flashbax cannot be imported, or for windows of more than one transition.
    """
    library = _flashbax()
    doing, number, length = WORK[work]
    if length > 2 or work.startswith("prioritised"):
        raise Unavailable("items hold one transition each")
    num_envs, capacity = _sizes(kind, scale)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what every add must have, which its own items have
        buffer = library.make_item_buffer(
            max_length=capacity * num_envs,
            min_length=1,
            sample_batch_size=number,
            add_sequences=True,
            add_batches=True,
        )
    fields = _block(kind, number if doing == "add" else 32, num_envs)
    fields["next_observation"] = fields["observation"]
    block = {name: jnp.asarray(np.swapaxes(x, 0, 1)) for name, x in fields.items()}
    state = buffer.init(jax.tree.map(lambda x: x[0, 0], block))
    return _side(state, buffer.add, buffer.sample, None, block, capacity * num_envs)


def _flashbax() -> Any:
    try:
        import flashbax
    except ImportError as error:
        raise Unavailable(f"flashbax cannot be imported ({error}): pip install 'jaxenv[benchmarks]'") from None
    return flashbax


SIDES: dict[str, Callable[..., Side]] = {"jaxenv": ours, "flashbax": flashbax, "flashbax items": flashbax_items}


def _runner(side: Side, doing: str) -> tuple[Callable[[int], Any], float]:
    """A timed run, and the seconds that it took to compile."""

    def add(state, block, key):
        return jax.lax.fori_loop(0, LOOP, lambda _, s: side.add(s, block), state), ()

    def sample(state, block, key):
        # Every batch is written out, over the one before: fresh memory for each would be what is measured.
        keys = jax.random.split(key, LOOP)
        batch = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(side.sample, state, key))
        return state, jax.lax.fori_loop(0, LOOP, lambda i, _: side.sample(state, keys[i]), batch)

    def update(state, block, key):
        assert side.update is not None
        batch = side.sample(state, key)
        return jax.lax.fori_loop(0, LOOP, lambda _, s: side.update(s, batch), state), ()

    function = {"add": add, "sample": sample, "update": update}[doing]
    begun = time.perf_counter()
    compiled = jax.jit(function, donate_argnums=0).lower(side.state, side.block, jax.random.key(0)).compile()
    seconds = time.perf_counter() - begun
    # The buffer lives in here alone: the next run takes what the last one gave back.
    kept = [side.state]

    def run(seed: int) -> None:
        state, found = jax.block_until_ready(compiled(kept.pop(), side.block, jax.random.key(seed)))
        kept.append(state)
        del found

    return run, seconds


def compare(kind: str, work: str, repeats: int, scale: int = 1) -> dict[str, Any]:
    """Times every side in turn: a row of the result file. Ratios are rates of this library over the peer's."""
    doing, number, length = WORK[work]
    num_envs, _ = _sizes(kind, scale)
    runs, compiling, memory, notes = {}, {}, {}, []
    for name, make in SIDES.items():
        try:
            side = make(kind, work, scale)
        except Unavailable as reason:
            if name != "flashbax items":
                notes.append(f"no comparison: {reason}")
            continue
        memory[name] = side.bytes_per_row
        runs[name], compiling[name] = _runner(side, doing)
    rows = LOOP * {"add": number * num_envs, "sample": number * max(length, 1), "update": number}[doing]
    timed = measure.times_in_turn(runs, repeats)
    seconds = {name: [s for s, _ in samples] for name, samples in timed.items()}
    rates = {name: statistics.median(rows / s for s in samples) for name, samples in seconds.items()}
    return {
        "rows": kind,
        "work": work,
        "num_envs": num_envs,
        "contestants": {
            name: {
                "rows_per_second": rates[name],
                "bytes_per_row": memory[name],
                "compile_seconds": compiling[name],
                "seconds": seconds[name],
            }
            for name in runs
        },
        "ratios": {name: rates["jaxenv"] / rates[name] for name in runs if name != "jaxenv"},
        "notes": notes,
    }


def report(rows: Sequence[dict[str, Any]]) -> str:
    """The figures as an aligned table."""
    header = ["rows", "work", "lanes"]
    for name in SIDES:
        header += [name, "bytes"] if name == "jaxenv" else [name, "ratio", "bytes"]
    lines = []
    for row in rows:
        line = [row["rows"], row["work"], str(row["num_envs"])]
        for name in SIDES:
            figures, ratio = row["contestants"].get(name), row["ratios"].get(name)
            line.append(measure.millions(figures["rows_per_second"]) if figures else "-")
            if name != "jaxenv":
                line.append(f"{ratio:.2f}x" if ratio else "-")
            line.append(f"{figures['bytes_per_row']:.1f}" if figures else "-")
        lines.append(line)
    notes = sorted({note for row in rows for note in row["notes"]})
    title = "Million rows a second, and bytes a row of the buffer; ratio: jaxenv over the peer."
    return "\n".join([title, measure.table(header, lines), *(f"note: {note}" for note in notes)])


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The settings from the command line; bad ones end the program with status 2 and one line."""
    parser = command.Parser("replay", __doc__)
    parser.add_argument(
        "--rows", nargs="+", choices=list(ROWS), default=list(ROWS), metavar="ROWS", help="what is stored"
    )
    parser.add_argument(
        "--work", nargs="+", choices=list(WORK), default=list(WORK), metavar="WORK", help="what is done"
    )
    parser.add_argument(
        "--scale", type=command.positive, default=1, metavar="N", help="an N-th of the lanes, and of the rows kept"
    )
    parser.add_argument("--repeats", type=command.positive, default=15, metavar="R", help="timed runs of each")
    parser.add_json()
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Times the sides, prints the table and writes the file."""
    args, rows = parse(arguments), []
    for kind in args.rows:
        for work in args.work:
            print(f"{kind}, {work} ...", file=sys.stderr)
            rows.append(compare(kind, work, args.repeats, args.scale))
    return command.finish("replay", args, rows, report, repeats=args.repeats, loop=LOOP)
