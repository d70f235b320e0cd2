"""Rollouts of any length: compiled in chunks, with metrics on the host after each chunk, in constant memory."""

import dataclasses
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxenv import tree
from jaxenv._util import xla
from jaxenv._util.checks import check_integer, check_kind
from jaxenv.core._checks.given import check_devices
from jaxenv.core.bases.stateful import summed_over
from jaxenv.core.environment import Environment, check_environment
from jaxenv.core.lanes import partition_specs
from jaxenv.core.timestep import TimeStep
from jaxenv.random import check_typed
from jaxenv.rollout._iteration import chosen
from jaxenv.rollout._policy import Policy, PolicyLoop, random_policy
from jaxenv.rollout.metrics import Metrics, Totals, merge_totals
from jaxenv.rollout.statistic import to_host

_BLOCK = 50  # rows measured together: the sums over finished episodes are updated once per block
_AXIS = "lanes"  # the mesh axis over which the lanes are spread


@dataclasses.dataclass(frozen=True)
class Chunk:
    """The metrics after a chunk of a `ChunkedRollout`, on the host.

    Attributes:
        rows: rows completed per lane since the start.
        seconds: the time they took, without compilation and reset.
        metrics: metrics of this chunk: of its steps, and of the episodes that ended in it.
        cumulative: the same metrics since the start.
    """

    rows: int
    seconds: float
    metrics: dict[str, Any]
    cumulative: dict[str, Any]


class ChunkedRollout:
    """A rollout of any number of steps that keeps only metrics.

    The constructor compiles. Iterating runs from the start and yields a `Chunk` after each chunk, while the device
    computes the next one.

    Args:
        env: the environment, with an ``AutoReset`` in its stack. Its params are arguments of the compiled program.
        num_steps: rows per lane.
        key: typed key ``()`` or ``Key[B]`` that resets the lanes; the policy draws from the lanes' streams.
        policy: as in `jaxenv.unroll`; random by default.
        metrics: the metrics. In ``same_step`` mode they cannot name entries of `Task.state_info`, which describe the
            next episode on LAST rows; by default they leave these out.
        chunk_steps: rows per lane of a chunk, at most 10,000 by default. A shorter last chunk compiles the step again.
        initial_memory: recurrent state at the start of an episode, leaves ``[B, ...]``.
        devices: number of devices over which the lanes are spread equally; wrappers keep statistics over all lanes. The
            number changes only the rounding of floats.

    Attributes:
        chunks: rows per lane of each chunk.
        compile_seconds: how long compilation took.

    Raises:
        ValueError: if a number is not an integer of at least 1, the environment has no ``AutoReset``, ``metrics``
            measures what the environment does not have, there are fewer ``devices``, or they do not divide the lanes.

    >>> import jax, jaxenv
    >>> env = jaxenv.wrappers.AutoReset(jaxenv.testing.count_to_two())
    >>> rollout = ChunkedRollout(env, 30, jax.random.key(0), chunk_steps=10)
    >>> [chunk.rows for chunk in rollout]
    [10, 20, 30]
    """

    def __init__(
        self,
        env: Environment,
        num_steps: int,
        key: jax.Array,
        *,
        policy: Policy | None = None,
        metrics: Metrics | None = None,
        chunk_steps: int | None = None,
        initial_memory: Any = (),
        devices: int = 1,
    ):
        check_environment("ChunkedRollout", env)
        check_typed(key, "ChunkedRollout: key")
        check_integer("ChunkedRollout", "num_steps", num_steps, 1)
        check_integer("ChunkedRollout", "chunk_steps", 1 if chunk_steps is None else chunk_steps, 1)
        metrics = Metrics() if metrics is None else metrics
        check_kind("ChunkedRollout", "metrics", metrics, Metrics)
        if env.autoreset is None:
            raise ValueError(f"ChunkedRollout: {env} has no AutoReset, so its lanes would not start another episode")
        check_integer("ChunkedRollout", "devices", devices, 1)
        check_devices("ChunkedRollout", env, devices)
        check_integer("ChunkedRollout", "devices", devices, 1, len(jax.devices()))
        if env.num_envs % devices:
            raise ValueError(f"ChunkedRollout: devices must divide num_envs = {env.num_envs}, got {devices}")
        self.chunks = chunk_lengths(num_steps, env.num_envs, chunk_steps)
        started = time.perf_counter()
        program = _Program(random_policy(env) if policy is None else policy, metrics, _AXIS if devices > 1 else None)
        start, advance, inputs = program.start, program.advance, (env, initial_memory, key, None)
        if devices > 1:
            start, advance, inputs = _over_devices(program, env, initial_memory, key, devices)
        lowered = jax.jit(start).lower(*inputs)
        _check_names(env, lowered.out_info[0], metrics)
        compiled = lowered.compile()
        self._start = functools.partial(compiled, *inputs)
        carry = jax.tree.map(
            lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
            lowered.out_info,
            compiled.output_shardings,
        )
        self._advance: dict[int, Callable[..., Any]] = {}
        for length in set(self.chunks):
            chunk = jax.jit(functools.partial(advance, num_steps=length), donate_argnums=2)
            lowered = chunk.lower(*inputs[:2], carry)
            self._advance[length] = functools.partial(lowered.compile(xla.loop_options()), *inputs[:2])
        self.compile_seconds = time.perf_counter() - started

    def __iter__(self) -> Iterator[Chunk]:
        carry = jax.block_until_ready(self._start())
        started = time.perf_counter()
        rows = 0
        previous: Any = None
        for length in [*self.chunks, 0]:
            # The next chunk runs while the host fetches the previous one, so the device never waits.
            current = None
            if length:
                carry, metrics = self._advance[length](carry)
                rows += length
                current = rows, metrics
            if previous is not None:
                completed, metrics = previous[0], to_host(previous[1])
                yield Chunk(completed, time.perf_counter() - started, *metrics)
            previous = current


def chunk_lengths(num_steps: int, num_envs: int, chunk_steps: int | None = None) -> list[int]:
    """Splits ``num_steps`` into equal chunks and a shorter last one, for which the step compiles a second time."""
    length = chunk_steps or min(10_000, max(200, 2**20 // num_envs // _BLOCK * _BLOCK))
    rest = num_steps % length
    return [length] * (num_steps // length) + [rest] * (rest > 0)


def _check_names(env: Environment, state: Any, metrics: Metrics) -> None:
    """Raises a ``ValueError`` for ``env_info`` entries that show the next episode on LAST rows."""
    if env.autoreset != "same_step":
        return
    of_state = jax.eval_shape(env.env_info_of, state)
    for name in metrics.env_info or ():
        if {name, name.partition("@")[0].partition(".")[0]} & of_state.keys():
            raise ValueError(
                f"ChunkedRollout: env_info {name!r} describes the state, and in same_step mode LAST rows show the "
                "state of the next episode: use AutoReset(mode='next_step')"
            )


def _over_devices(
    program: "_Program", env: Environment, initial_memory: Any, key: jax.Array, devices: int
) -> tuple[Callable[..., Any], Callable[..., Any], Any]:
    """Returns a program's functions with lanes sharded over devices, and the arguments of ``start`` there."""
    mesh, env = Mesh(np.array(jax.devices()[:devices]), (_AXIS,)), summed_over(env, _AXIS)
    inputs = env, initial_memory, key, jnp.arange(env.num_envs, dtype=jnp.int32)
    specs = partition_specs((env, initial_memory), _AXIS)
    specs_in = *specs, P(_AXIS) if key.ndim else P(), P(_AXIS)
    carry = *partition_specs(env.start_shapes(), _AXIS), specs[1], P(_AXIS), P()

    def advance(*args: Any, num_steps: Any) -> Any:
        function = functools.partial(program.advance, num_steps=num_steps)
        return jax.shard_map(function, mesh=mesh, in_specs=(*specs, carry), out_specs=(carry, P()))(*args)

    start = jax.shard_map(program.start, mesh=mesh, in_specs=specs_in, out_specs=carry)
    return start, advance, jax.device_put(inputs, jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs_in))


@dataclasses.dataclass(frozen=True)
class _Program:
    """The two functions to compile; with an ``axis_name`` they run on the lanes of one shard of a mesh axis."""

    policy: Policy
    metrics: Metrics
    axis_name: str | None

    def start(self, env: Environment, initial_memory: Any, key: jax.Array, env_id: Any) -> Any:
        """Returns the carry before the first chunk."""
        state, timestep = env.reset(key, env_id)
        measured = self.metrics.init(self._measurable(env, state, timestep))
        return state, timestep, tree.strong(initial_memory), measured, self._totals(measured)

    def advance(self, env: Environment, initial_memory: Any, carry: Any, *, num_steps: int) -> Any:
        """Steps all lanes; returns the next carry, and the metrics of these steps and of all so far."""
        *start, memory, measured, cumulative = carry
        memory = memory if jax.tree.leaves(initial_memory) else None
        loop = PolicyLoop.create("ChunkedRollout", env, self.policy, tuple(start), None, initial_memory, memory)

        def step(carry: Any, _: Any) -> Any:
            carry, _ = loop.step(carry)
            return carry, self._measurable(env, *carry[:2])

        def block(carry: Any, size: int) -> Any:
            carry, measured = carry
            steps = chosen("ChunkedRollout", None, step, carry, carry[1].step_type.shape[0])
            carry, rows = jax.lax.scan(step, carry, length=size, unroll=steps)
            return carry, self.metrics.update_rows(measured, rows)

        blocks, rest = divmod(num_steps, _BLOCK)
        carry = (*start, loop.memory), measured
        if blocks:
            carry, _ = jax.lax.scan(lambda carry, _: (block(carry, _BLOCK), None), carry, length=blocks)
        carry, measured = block(carry, rest) if rest else carry
        totals = self._totals(measured)
        cumulative = merge_totals(cumulative, totals)
        metrics = self.metrics.compute(totals), self.metrics.compute(cumulative)
        return (*carry, self.metrics.clear_finished(measured), cumulative), metrics

    def _totals(self, measured: Any) -> Totals:
        """Returns the totals of all lanes, including those of other shards."""
        totals = self.metrics.totals(measured)
        return totals if self.axis_name is None else totals.psum(self.axis_name)

    def _measurable(self, env: Environment, state: Any, timestep: TimeStep) -> TimeStep:
        """Removes the entries that in ``same_step`` mode are measured only if they are named."""
        if self.metrics.env_info is not None or env.autoreset != "same_step":
            return timestep
        hidden = {"final_observation", *jax.eval_shape(env.env_info_of, state)}
        env_info = {name: entry for name, entry in timestep.env_info.items() if name not in hidden}
        return dataclasses.replace(timestep, env_info=env_info)
