"""Adding to and sampling from a replay buffer, compared with flashbax: rows per second and bytes per row.

All sides store the same fields, each in its own layout (time first or lanes first). A timed run is one compiled loop
that adds blocks to a donated buffer, samples batches, or updates priorities. "flashbax items" is its item buffer, which
stores transitions: every item includes its next observation. "board" is the image of MinAtar's Seaquest; in
"packed-board" jaxenv stores it as bits.
"""

import argparse
import dataclasses
import functools
import itertools
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import command, measure, tables
from benchmarks.measure import Unavailable
from jaxenv import data
from jaxenv._util.source import install_command
from jaxenv.core.timestep import TimeStep
from jaxenv.rollout import Experience

LOOP = 16  # iterations of a timed run

# Name -> shape and dtype of an observation, lanes, rows kept per lane, options of `data.Replay`.
ROWS: dict[str, tuple[tuple[int, ...], Any, int, int, dict[str, bool]]] = {
    "cart-pole": ((4,), np.float32, 1024, 1024, {}),
    "image": ((84, 84, 1), np.uint8, 64, 256, {}),
    "board": ((10, 10, 10), np.bool_, 64, 1024, {}),
    "packed-board": ((10, 10, 10), np.bool_, 64, 1024, {"pack_bits": True}),
}
# Name -> operation, rows per added block or windows per batch, and rows per window (0: the buffer has no windows).
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
        state: The buffer.
        add: Maps (state, block of rows) to the state.
        sample: Maps (state, key) to a batch.
        update: Maps (state, batch) to the state; used only if sampling is prioritised.
        block: Rows to add.
        bytes_per_row: Size of the buffer divided by the number of rows that it keeps.
    """

    state: Any
    add: Callable
    sample: Callable
    update: Callable | None
    block: Any
    bytes_per_row: float


def _block(kind: str, num_rows: int, num_envs: int) -> dict[str, np.ndarray]:
    """Returns rows ``[T, B, ...]`` with the fields that an off-policy learner needs."""
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
    _, _, num_envs, capacity, _ = ROWS[kind]
    return max(num_envs // scale, 1), max(capacity // scale, 64)


def _side(state, add, sample, update, block, rows) -> Side:
    """Fills the buffer, so that every timed add overwrites old rows, and counts its bytes."""
    total = sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(state))
    count = jax.tree.leaves(block)[0].shape
    times = rows // math.prod(count[:2]) + 1
    state = jax.jit(lambda s, b: jax.lax.fori_loop(0, times, lambda _, s: add(s, b), s))(state, block)
    return Side(state, add, sample, update, block, total / rows)


def ours(kind: str, work: str, scale: int = 1) -> Side:
    """Returns the buffer of this library."""
    operation, number, length = WORK[work]
    num_envs, capacity = _sizes(kind, scale)
    sampling: Any = data.PrioritizedSampling(0.6, length) if work.startswith("prioritised") else data.UniformSampling()
    replay = data.Replay(capacity, num_envs, sampling=sampling, **ROWS[kind][-1])
    fields = jax.tree.map(jnp.asarray, _block(kind, number if operation == "add" else 32, num_envs))
    action = fields.pop("action")
    block = Experience(TimeStep(**fields), action)

    def sample(state, stream):
        return replay.sample(state, stream, number, length)

    def update(state, batch):
        return replay.update_priorities(state, batch, batch.experience.timestep.reward[:, 0])

    return _side(replay.init(block), replay.add, sample, update, block, capacity * num_envs)


def flashbax(kind: str, work: str, scale: int = 1) -> Side:
    """Returns flashbax's trajectory buffer, or its prioritised one.

    Raises:
        Unavailable: If flashbax cannot be imported.
    """
    library = _flashbax()
    operation, number, length = WORK[work]
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
    fields = _block(kind, number if operation == "add" else 32, num_envs)
    block = {name: jnp.asarray(np.swapaxes(x, 0, 1)) for name, x in fields.items()}
    state = buffer.init(jax.tree.map(lambda x: x[0, 0], block))

    def update(state, batch):
        return buffer.set_priorities(state, batch.indices, batch.experience["reward"][:, 0])

    return _side(state, buffer.add, buffer.sample, update, block, capacity * num_envs)


def flashbax_items(kind: str, work: str, scale: int = 1) -> Side:
    """Returns flashbax's item buffer, filled with transitions that include their next observation.

    Raises:
        Unavailable: If flashbax cannot be imported, or windows have more than one transition.
    """
    library = _flashbax()
    operation, number, length = WORK[work]
    if length > 2 or work.startswith("prioritised"):
        raise Unavailable("an item is one transition")
    num_envs, capacity = _sizes(kind, scale)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the buffer warns about settings that its own examples use
        buffer = library.make_item_buffer(
            max_length=capacity * num_envs,
            min_length=1,
            sample_batch_size=number,
            add_sequences=True,
            add_batches=True,
        )
    fields = _block(kind, number if operation == "add" else 32, num_envs)
    fields["next_observation"] = fields["observation"]
    block = {name: jnp.asarray(np.swapaxes(x, 0, 1)) for name, x in fields.items()}
    state = buffer.init(jax.tree.map(lambda x: x[0, 0], block))
    return _side(state, buffer.add, buffer.sample, None, block, capacity * num_envs)


def _flashbax() -> Any:
    try:
        import flashbax
    except ImportError as error:
        raise Unavailable(f"flashbax cannot be imported ({error}): {install_command('benchmarks')}") from None
    return flashbax


SIDES: dict[str, Callable[..., Side]] = {"jaxenv": ours, "flashbax": flashbax, "flashbax items": flashbax_items}


def _runner(side: Side, operation: str) -> tuple[Callable[[int], Any], float]:
    """Returns the function of a timed run and its compile time in seconds."""

    def add(state, block, key):
        return jax.lax.fori_loop(0, LOOP, lambda _, s: side.add(s, block), state), ()

    def sample(state, block, key):
        # Every batch overwrites the one before it, so the time does not include allocation.
        keys = jax.random.split(key, LOOP)
        batch = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(side.sample, state, key))
        return state, jax.lax.fori_loop(0, LOOP, lambda i, _: side.sample(state, keys[i]), batch)

    def update(state, block, key):
        assert side.update is not None
        batch = side.sample(state, key)
        return jax.lax.fori_loop(0, LOOP, lambda _, s: side.update(s, batch), state), ()

    function = {"add": add, "sample": sample, "update": update}[operation]
    started = time.perf_counter()
    compiled = jax.jit(function, donate_argnums=0).lower(side.state, side.block, jax.random.key(0)).compile()
    seconds = time.perf_counter() - started
    # The buffer is donated to each run, which returns it for the next one.
    kept = [side.state]

    def run(seed: int) -> None:
        state, result = jax.block_until_ready(compiled(kept.pop(), side.block, jax.random.key(seed)))
        kept.append(state)
        del result

    return run, seconds


def compare(kind: str, work: str, repeats: int, scale: int = 1) -> dict[str, Any]:
    """Times all sides, interleaved, and returns a row of the result file.

    Ratios are the rate of this library divided by the peer's.
    """
    operation, number, length = WORK[work]
    num_envs, _ = _sizes(kind, scale)
    runs, compiling, memory, notes = {}, {}, {}, []
    for name, make in SIDES.items():
        try:
            side = make(kind, work, scale)
        except Unavailable as error:
            if name != "flashbax items":
                notes.append(f"no comparison: {error}")
            continue
        memory[name] = side.bytes_per_row
        runs[name], compiling[name] = _runner(side, operation)
    rows = LOOP * {"add": number * num_envs, "sample": number * max(length, 1), "update": number}[operation]
    sides = measure.sides(measure.time_interleaved(runs, repeats), rows, "rows_per_second")
    for name, side in sides.items():
        side |= {"bytes_per_row": memory[name], "compile_seconds": compiling[name]}
    sizes = {"rows": kind, "work": work, "num_envs": num_envs}
    return sizes | {"contestants": sides, "ratios": measure.ratios(sides, "rows_per_second"), "notes": notes}


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """Formats the results as an aligned table."""
    found: list[tuple[str, Any]] = []
    for name in SIDES:
        found.append((name, tables.side(name, "rows_per_second")))
        found += [("ratio", tables.ratio(name, ".2f"))] if name != "jaxenv" else []
        found.append(("bytes", tables.side(name, "bytes_per_row", "{:.1f}".format)))
    shown = tables.columns(rows, ("rows", "rows"), ("work", "work"), ("lanes", "num_envs"), *found)
    title = "Million rows per second, and bytes per row; ratio: how many times faster jaxenv is than the peer."
    return "\n".join([title, shown, *tables.notes(rows)])


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS), help="kinds of rows")
    parser.add_argument("--work", nargs="+", choices=list(WORK), default=list(WORK), help="operations")
    help = "divide the lanes and the rows kept by N"
    parser.add_argument("--scale", type=command.positive, default=1, metavar="N", help=help)
    parser.add_repeats(15)


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compares every operation on every kind of rows."""
    for kind, work in itertools.product(args.rows, args.work):
        yield compare(kind, work, args.repeats, args.scale)
