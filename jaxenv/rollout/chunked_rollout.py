"""Rollouts of any length: compiled chunk by chunk, figures on the host after each, memory that does not grow."""

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from jaxenv.environment import Environment
from jaxenv.rollout.checks import check_whole
from jaxenv.rollout.metrics import Metrics, to_host
from jaxenv.rollout.policy import random_policy
from jaxenv.rollout.progress import progress
from jaxenv.rollout.totals import merge_totals
from jaxenv.rollout.walk import Walk
from jaxenv.rollout.writers import Writer

# Rows that are measured together: their episodes go from row to row, but the sums are touched once for all.
_BLOCK = 50


@dataclasses.dataclass(frozen=True)
class Chunk:
    """What is known on the host after a chunk of a `ChunkedRollout`.

    Attributes:
        rows: how many rows each lane has behind it.
        seconds: how long that took on the device, compilation and the reset not counted.
        figures: of this chunk: its steps, and the episodes that ended in it.
        so_far: the same from the start.
    """

    rows: int
    seconds: float
    metrics: dict[str, Any]
    cumulative: dict[str, Any]


class ChunkedRollout:
    """A rollout of all lanes over any number of steps, of which nothing is kept but figures.

    The constructor compiles; iterating runs, from the start each time, and gives a `Chunk` after each chunk, while the
    device is at work on the next one. Calling it runs to the end with a progress bar and returns the last ``so_far``.

    Args:
        env: the environment, an ``AutoReset`` in it. Its params are arguments of the compiled program.
        num_steps: rows of each lane.
        key: typed key ``()`` or ``Key[B]`` that lanes are reset with; the policy draws from the lanes' own streams.
        policy: as in `jaxenv.unroll`, random by default.
        metrics: what to measure. In a ``same_step`` environment no entries of `Environment.state_info`: LAST rows show
            those of the next episode.
        chunk_steps: rows of a chunk; by default as many as take moments, of equal size where that is possible.
        initial_memory: recurrent state at the start of an episode, leaves ``[B, ...]``.

    Attributes:
        chunks: rows of each chunk.
        compile_seconds: how long that took.

    Raises:
        ValueError: for numbers that are not whole or below 1, an environment without ``AutoReset``, or metrics that it
            cannot take.

    >>> import jax, jaxenv
    >>> env = jaxenv.wrappers.AutoReset(jaxenv.testing.mock_012())
    >>> run = ChunkedRollout(env, 30, jax.random.key(0), chunk_steps=10)
    >>> [chunk.rows for chunk in run]
    [10, 20, 30]
    """

    def __init__(
        self,
        env: Environment,
        num_steps: int,
        key: jax.Array,
        *,
        policy: Callable | None = None,
        metrics: Metrics | None = None,
        chunk_steps: int | None = None,
        initial_memory: Any = (),
    ):
        check_whole("ChunkedRollout", "num_steps", num_steps, 1)
        check_whole("ChunkedRollout", "chunk_steps", 1 if chunk_steps is None else chunk_steps, 1)
        metrics = Metrics() if metrics is None else metrics
        if not isinstance(metrics, Metrics):
            raise ValueError(f"ChunkedRollout: metrics must be a Metrics, got {metrics!r}")
        if env.autoreset is None:
            raise ValueError(
                f"ChunkedRollout: {env} has no AutoReset, so its lanes would not go on to the next episode"
            )
        self.chunks = chunk_lengths(num_steps, env.num_envs, chunk_steps)
        begun = time.perf_counter()
        program = _Program(random_policy(env) if policy is None else policy, metrics, initial_memory)
        lowered = jax.jit(program.start).lower(env, key)
        _check_names(env, lowered.out_info[0], metrics)
        self._start = functools.partial(lowered.compile(), env, key)
        self._advance: dict[int, Callable] = {}
        for length in set(self.chunks):
            chunk = jax.jit(functools.partial(program.advance, num_steps=length), donate_argnums=1)
            self._advance[length] = functools.partial(chunk.lower(env, lowered.out_info).compile(), env)
        self.compile_seconds = time.perf_counter() - begun

    def __iter__(self) -> Iterator[Chunk]:
        carry = jax.block_until_ready(self._start())
        begun = time.perf_counter()
        rows = 0
        before: Any = None
        for length in [*self.chunks, 0]:
            # One chunk is under way while the one before is fetched, so that the device never waits for the host.
            after = None
            if length:
                carry, figures = self._advance[length](carry)
                rows += length
                after = rows, figures
            if before is not None:
                done, found = before[0], to_host(before[1])
                yield Chunk(done, time.perf_counter() - begun, *found)
            before = after

    def __call__(self, writers: Sequence[Callable[[int, dict[str, Any]], None]] = ()) -> dict[str, Any]:
        """Runs to the end and returns the figures of the whole run, with ``run_seconds`` and ``steps_per_second``.

        Args:
            writers: each is called after every chunk with the steps of all lanes so far and the figures of the chunk:
                `Table`, `CSV`, `TensorBoard`, or a function of your own. Those three are closed at the end.
        """
        with contextlib.ExitStack() as stack:
            for writer in writers:
                if isinstance(writer, Writer):
                    stack.enter_context(writer)
            done = stack.enter_context(progress(sum(self.chunks)))
            rows = 0
            for chunk in self:
                for writer in writers:
                    writer(chunk.cumulative["steps"], chunk.metrics)
                done(chunk.rows - rows)
                rows = chunk.rows
        return {
            "run_seconds": chunk.seconds,
            "steps_per_second": chunk.cumulative["steps"] / chunk.seconds,
            **chunk.cumulative,
        }


def chunk_lengths(num_steps: int, num_envs: int, most: int | None = None) -> list[int]:
    """Chunk lengths that add up to ``num_steps``: all alike where a divisor allows it, else all but the last."""
    given, most = most, min(num_steps, most or min(10_000, max(200, 2**20 // num_envs)))
    length = next(n for n in range(most, 0, -1) if num_steps % n == 0)
    if given or length < most / 4:  # a prime, say
        length = most
    rest = num_steps % length
    return [length] * (num_steps // length) + ([rest] if rest else [])


def blocks(num_steps: int) -> tuple[int, int]:
    """Rows of each block that a chunk is cut into, and of the shorter one at its end; 0 where there is none.

    >>> blocks(200), blocks(60), blocks(101)
    ((50, 0), (30, 0), (50, 1))
    """
    most = min(num_steps, _BLOCK)
    size = next(n for n in range(most, 0, -1) if num_steps % n == 0)
    # Another block compiles the environment's step once more: worth it only where all blocks would be short.
    return (size, 0) if size >= most / 4 else (most, num_steps % most)


def _check_names(env: Environment, state: Any, metrics: Metrics) -> None:
    """Refuses to measure what an environment shows of the next episode where one ends."""
    if env.autoreset != "same_step":
        return
    of_state = jax.eval_shape(env.info_of_state, state)
    for name in metrics.env_info:
        if {name, name.partition("@")[0].partition(".")[0]} & of_state.keys():
            raise ValueError(
                f"ChunkedRollout: env_info {name!r} describes the state, and LAST rows of same_step streams show the "
                "state of the next episode: use AutoReset(mode='next_step')"
            )


@dataclasses.dataclass(frozen=True)
class _Program:
    """The two functions that are compiled."""

    policy: Callable
    metrics: Metrics
    initial_memory: Any

    def start(self, env: Environment, key: jax.Array) -> Any:
        state, timestep = env.reset(key)
        sums = self.metrics.init(timestep)
        return state, timestep, self.initial_memory, sums, self.metrics.totals(sums)

    def advance(self, env: Environment, carry: Any, *, num_steps: int) -> Any:
        """Steps all lanes: the carry to go on from; and the figures of these steps, and of all so far."""
        state, timestep, memory, sums, so_far = carry
        recurrent = bool(jax.tree.leaves(self.initial_memory))
        walk = Walk.of(
            "ChunkedRollout", env, self.policy, state, None, self.initial_memory, memory if recurrent else None
        )

        def step(carry, _):
            carry, _ = walk.step(carry)
            return carry, self.metrics.measured(carry[1])

        def block(carry, _, size):
            carry, sums = carry
            carry, rows = jax.lax.scan(step, carry, length=size)
            return (carry, self.metrics.update_rows(sums, rows)), None

        size, rest = blocks(num_steps)
        begun = (state, timestep, walk.memory), sums
        done, _ = jax.lax.scan(functools.partial(block, size=size), begun, length=num_steps // size)
        carry, sums = block(done, None, size=rest)[0] if rest else done
        totals = self.metrics.totals(sums)
        so_far = merge_totals(so_far, totals)
        figures = self.metrics.compute(totals), self.metrics.compute(so_far)
        return (*carry, self.metrics.clear_finished(sums), so_far), figures
