"""Rollouts of any length: compiled chunk by chunk, figures on the host after each, memory that does not grow."""

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from jaxenv.environment import Environment
from jaxenv.rollout.metrics import Metrics, to_host
from jaxenv.rollout.policy import random_policy
from jaxenv.rollout.progress import progress
from jaxenv.rollout.sinks import Sink
from jaxenv.rollout.totals import merge_totals
from jaxenv.rollout.walk import Walk

# Rows that are measured together: their episodes go from row to row, but the sums are touched once for all.
_BLOCK = 50


@dataclasses.dataclass(frozen=True)
class Chunk:
    """What is known on the host after a chunk of a `LongRun`.

    Attributes:
        rows: how many rows each lane has behind it.
        seconds: how long that took on the device, compilation and the reset not counted.
        figures: of this chunk: its steps, and the episodes that ended in it.
        so_far: the same from the start.
    """

    rows: int
    seconds: float
    figures: dict[str, Any]
    so_far: dict[str, Any]


class LongRun:
    """A rollout of all lanes over any number of steps, of which nothing is kept but figures.

    The constructor compiles; iterating runs, from the start each time, and gives a `Chunk` after each chunk, while the
    device is at work on the next one. Calling it runs to the end with a progress bar and returns the last ``so_far``.

    Args:
        env: the environment, an ``AutoReset`` in it. Its params are arguments of the compiled program.
        num_steps: rows of each lane.
        key: typed key ``()`` or ``Key[B]`` that lanes are reset with; the policy draws from the lanes' own streams.
        policy: as in `jaxenv.unroll`, random by default.
        metrics: what to measure.
        chunk_steps: rows of a chunk; by default as many as take moments, of equal size where that is possible.
        initial_memory: recurrent state at the start of an episode, leaves ``[B, ...]``.

    Attributes:
        chunks: rows of each chunk.
        compile_seconds: how long that took.

    Raises:
        ValueError: for numbers below 1, or an environment without ``AutoReset``.

    >>> import jax, jaxenv
    >>> env = jaxenv.wrappers.AutoReset(jaxenv.testing.mock_012())
    >>> run = LongRun(env, 30, jax.random.key(0), chunk_steps=10)
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
        for name, number in (("num_steps", num_steps), ("chunk_steps", 1 if chunk_steps is None else chunk_steps)):
            if number < 1:
                raise ValueError(f"LongRun: {name} must be at least 1, got {number}")
        if env.autoreset is None:
            raise ValueError(f"LongRun: {env} has no AutoReset, so its lanes would not go on to the next episode")
        self.chunks = chunk_lengths(num_steps, env.num_envs, chunk_steps)
        begun = time.perf_counter()
        program = _Program(random_policy(env) if policy is None else policy, metrics or Metrics(), initial_memory)
        lowered = jax.jit(program.start).lower(env, key)
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

    def __call__(self, sinks: Sequence[Callable[[int, dict[str, Any]], None]] = ()) -> dict[str, Any]:
        """Runs to the end and returns the figures of the whole run, with ``run_seconds`` and ``steps_per_second``.

        Args:
            sinks: each is called after every chunk with the steps of all lanes so far and the figures of the chunk:
                `Table`, `CSV`, `TensorBoard`, or a function of your own. Those three are closed at the end.
        """
        with contextlib.ExitStack() as stack:
            for sink in sinks:
                if isinstance(sink, Sink):
                    stack.enter_context(sink)
            done = stack.enter_context(progress(sum(self.chunks)))
            rows = 0
            for chunk in self:
                for sink in sinks:
                    sink(chunk.so_far["steps"], chunk.figures)
                done(chunk.rows - rows)
                rows = chunk.rows
        return {
            "run_seconds": chunk.seconds,
            "steps_per_second": chunk.so_far["steps"] / chunk.seconds,
            **chunk.so_far,
        }


def chunk_lengths(num_steps: int, num_envs: int, most: int | None = None) -> list[int]:
    """Chunk lengths that add up to ``num_steps``: all alike where a divisor allows it, else all but the last."""
    given, most = most, min(num_steps, most or min(10_000, max(200, 2**20 // num_envs)))
    length = next(n for n in range(most, 0, -1) if num_steps % n == 0)
    if given or length < most / 4:  # a prime, say
        length = most
    rest = num_steps % length
    return [length] * (num_steps // length) + ([rest] if rest else [])


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
        walk = Walk.of("LongRun", env, self.policy, state, None, self.initial_memory, memory if recurrent else None)

        def step(carry, _):
            carry, _ = walk.step(carry)
            return carry, self.metrics.measured(carry[1])

        def block(carry, _):
            carry, sums = carry
            carry, rows = jax.lax.scan(step, carry, length=size)
            return (carry, self.metrics.update_rows(sums, rows)), None

        size = max(n for n in range(1, _BLOCK + 1) if num_steps % n == 0)
        begun = (state, timestep, walk.memory), sums
        (carry, sums), _ = jax.lax.scan(block, begun, length=num_steps // size)
        totals = self.metrics.totals(sums)
        so_far = merge_totals(so_far, totals)
        figures = self.metrics.compute(totals), self.metrics.compute(so_far)
        return (*carry, self.metrics.anew(sums), so_far), figures
