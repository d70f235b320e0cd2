"""Steps a batch of environments with random actions and prints speed and episode statistics.

example: jaxenv rollout CartPole-v1 --num-envs 4096 --num-steps 1000 --env gravity=3.7
"""

import argparse
import functools
import json
import math
import time
from collections.abc import Callable, Iterator
from typing import Any, cast, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxenv
from jaxenv._util import xla
from jaxenv._util.checks import check_integer
from jaxenv.cli._arguments import add_options, columns, settings_of, simulate_devices
from jaxenv.cli._parser import Parser
from jaxenv.core._checks.given import check_devices
from jaxenv.core.bases.stateful import summed_over
from jaxenv.core.environment import Environment
from jaxenv.core.facts import ResetStrategy
from jaxenv.core.lanes import partition_specs
from jaxenv.core.registry import suite_of
from jaxenv.rollout import Metrics, random_policy, to_host
from jaxenv.rollout._progress import progress

_BLOCK = 50  # rows measured together
_AXIS = "lanes"  # the mesh axis over which the lanes are spread


def add(command: Parser) -> None:
    """Adds the arguments."""
    add_options(command, "id")
    add_options(command, "--num-envs", default=1024)
    add_options(command, "--num-steps", metavar="T", default=1000, help="steps of every lane")
    add_options(command, "--seed")
    add_options(command, "--devices", help="number of devices that share the lanes; on a CPU, N of its threads")
    add_options(command, "--json", "--env", "--max-episode-steps")
    modes, when = ("next_step", "same_step"), "whether an episode starts on the step after the end, or on that step"
    command.add_argument("--autoreset", choices=modes, default=modes[0], help=when)
    strategy = (
        "restart strategy: reset all lanes and select those that ended, do so only on steps where any lane ended, "
        "or reset only the lanes that ended (default: the one that the environment declares)"
    )
    command.add_argument("--reset-strategy", choices=get_args(ResetStrategy), help=strategy)


def run(args: argparse.Namespace) -> None:
    """Plays random actions in chunks and prints the metrics."""
    settings = settings_of(args)
    params = {name: value for name, value in settings.items() if name != "max_episode_steps"}
    simulate_devices(args.devices)
    try:
        if suite_of(args.id) is None:  # `load` would also take the other keywords of `make`
            jaxenv.spec(args.id).make(args.num_envs, **params)
        # Left out unless given, since the suites outside JAX have none.
        strategy = {} if args.reset_strategy is None else {"reset_strategy": args.reset_strategy}
        env = jaxenv.make(args.id, args.num_envs, autoreset=args.autoreset, **strategy, **settings)
        compile_seconds, play = compiled(env, args.num_steps, jax.random.key(args.seed), args.devices)
    except TypeError as error:
        # An argument of the wrong type may fail only when it is used.
        parser: Parser = args.parser
        parser.error(f"{args.id} cannot run with {params}: {error}")
    with progress(args.num_steps) as advance:
        for length, seconds, found in play():  # noqa: B007
            advance(length)
    speed = {"run_seconds": seconds, "steps_per_second": found["steps"] / seconds}
    metrics = {"compile_seconds": compile_seconds, **speed, **found}

    device = jax.devices()[0]
    name = device.platform if device.device_kind == device.platform else f"{device.platform} ({device.device_kind})"
    if args.json:
        options = ("id", "num_envs", "num_steps", "seed", "devices", "max_episode_steps", "autoreset", "reset_strategy")
        given = {option: getattr(args, option) for option in options}
        given["reset_strategy"] = env.reset_strategy  # the one in use
        if args.max_episode_steps is None and suite_of(args.id) is None:
            spec, task = jaxenv.spec(args.id), cast(Any, env.unwrapped)
            limit = task.time_limit if spec.limit_follows_params else spec.max_episode_steps
            given["max_episode_steps"] = np.asarray(limit).tolist()
        print(json.dumps({**given, "params": params, "device": name, **finite(metrics)}))
        return
    count = f"{args.devices} x " if args.devices > 1 else ""
    lanes = f"{args.num_envs} lanes x {args.num_steps} steps"
    print(f"{args.id}, {lanes} on {count}{name}, random actions, seed {args.seed}")
    print(format_metrics(metrics, args.num_envs * args.num_steps))


def compiled(
    env: Environment, num_steps: int, key: jax.Array, devices: int = 1
) -> tuple[float, Callable[[], Iterator[tuple[int, float, dict[str, Any]]]]]:
    """Compiles a rollout of random actions whose lanes are spread over devices.

    Returns the seconds that it took, and a function that plays from the start. It yields after each chunk its number of
    rows per lane, and the seconds and the metrics since the start.
    """
    check_devices("rollout", env, devices)
    check_integer("rollout", "devices", devices, 1, len(jax.devices()))
    if env.num_envs % devices:
        raise ValueError(f"rollout: devices must divide num_envs = {env.num_envs}, got {devices}")
    began = time.perf_counter()
    env_id = jnp.arange(env.num_envs, dtype=jnp.int32)
    first, advance, inputs = _over_devices(env, key, env_id, devices)
    lowered = jax.jit(first).lower(*inputs)
    start = lowered.compile()
    carry = jax.tree.map(
        lambda x, at: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=at), lowered.out_info, start.output_shardings
    )
    chunks, programs = chunk_lengths(num_steps, env.num_envs), {}
    for length in set(chunks):
        chunk = jax.jit(functools.partial(advance, length=length), donate_argnums=1).lower(inputs[0], carry)
        programs[length] = chunk.compile(xla.loop_options())
    seconds = time.perf_counter() - began

    def play() -> Iterator[tuple[int, float, dict[str, Any]]]:
        carry = jax.block_until_ready(start(*inputs))
        began = time.perf_counter()
        for length in chunks:
            carry, metrics = programs[length](inputs[0], carry)
            metrics = to_host(metrics)
            yield length, time.perf_counter() - began, metrics

    return seconds, play


def _over_devices(env: Environment, key: jax.Array, env_id: jax.Array, devices: int) -> tuple[Any, Any, Any]:
    """Returns `_start` and `_advance` with lanes sharded over devices, and the arguments of `_start` there."""
    if devices == 1:
        return _start, _advance, (env, key, env_id)
    env = summed_over(env, _AXIS)
    mesh = Mesh(np.array(jax.devices()[:devices]), (_AXIS,))
    of_env, carry = partition_specs(env, _AXIS), (*partition_specs(env.start_shapes(), _AXIS), P(_AXIS))

    def advance(env: Environment, rows: Any, length: int) -> Any:
        function = functools.partial(_advance, length=length, axis_name=_AXIS)
        return jax.shard_map(function, mesh=mesh, in_specs=(of_env, carry), out_specs=(carry, P()))(env, rows)

    specs = of_env, P(), P(_AXIS)
    start = jax.shard_map(_start, mesh=mesh, in_specs=specs, out_specs=carry)
    at = jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs)
    return start, advance, jax.device_put((env, key, env_id), at)


def _start(env: Environment, key: jax.Array, env_id: jax.Array) -> Any:
    state, timestep = env.reset(key, env_id)
    return state, timestep, _metrics(env).init(timestep)


def _metrics(env: Environment) -> Metrics:
    # In same_step mode a LAST row shows the entries of the next episode.
    return Metrics(env_info=() if env.autoreset == "same_step" else None)


def _advance(env: Environment, carry: Any, length: int, axis_name: str | None = None) -> tuple[Any, dict[str, Any]]:
    """Takes ``length`` steps; returns the next carry, and the metrics since the start."""
    policy, metrics = random_policy(env), _metrics(env)

    def block(carry: Any, size: int) -> Any:
        state, timestep, measured = carry
        (state, timestep, _), rows = jaxenv.unroll(env, policy, state, timestep, size)
        return state, timestep, metrics.update_rows(measured, rows.timestep)

    blocks, rest = divmod(length, _BLOCK)
    carry = jax.lax.scan(lambda carry, _: (block(carry, _BLOCK), None), carry, length=blocks)[0] if blocks else carry
    carry = block(carry, rest) if rest else carry
    _, timestep, measured = carry
    totals = metrics.totals(metrics.update(measured, timestep))  # the newest row is not in a block yet
    return carry, metrics.compute(totals if axis_name is None else totals.psum(axis_name))


def chunk_lengths(num_steps: int, num_envs: int) -> list[int]:
    """Splits ``num_steps`` into equal chunks and a shorter last one, for which the step compiles a second time."""
    length = min(10_000, max(200, 2**20 // num_envs // _BLOCK * _BLOCK))
    rest = num_steps % length
    return [length] * (num_steps // length) + [rest] * (rest > 0)


def format_metrics(metrics: dict[str, Any], rows: int) -> str:
    """Formats the metrics of a rollout of ``rows`` rows in all lanes as aligned text."""

    def number(value: Any, spec: str = ".2f") -> str:
        return ", ".join(format(x, spec) for x in (value if isinstance(value, list) else [value]))  # of a vector reward

    def mean_and_std(name: str) -> str:
        if not metrics["episodes"]:
            return "no episode finished"
        return f"{number(metrics[f'{name}_mean'])}, standard deviation {number(metrics[f'{name}_std'])}"

    restarts = rows - metrics["steps"]
    lines = {
        "compile time": f"{metrics['compile_seconds']:.2f} s",
        "run time": f"{metrics['run_seconds']:.3f} s",
        "environment steps": f"{metrics['steps']:,}" + (f" (and {restarts:,} restarts)" if restarts else ""),
        "steps per second": f"{metrics['steps_per_second']:,.0f}",
        "episodes finished": f"{metrics['episodes']:,}",
        "  by termination": f"{metrics['terminated']:,}",
        "  by truncation": f"{metrics['truncated']:,}",
        "mean return": mean_and_std("return"),
        "mean length": mean_and_std("length"),
        "reward per step": number(metrics["reward_per_step"], ".4g") if metrics["steps"] else "no step",
    }
    return "\n".join(f"  {line.rstrip()}" for line in columns([[*line] for line in lines.items()], left=2))


def finite(metrics: dict[str, Any]) -> dict[str, Any]:
    """Replaces NaN and infinity, which JSON does not have, by ``None``."""
    return {n: None if isinstance(x, float) and not math.isfinite(x) else x for n, x in metrics.items()}
