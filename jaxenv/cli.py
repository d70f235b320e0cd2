"""The command ``jaxenv``: what there is, how fast it runs, and whether it keeps its promises.

Results go to stdout, the progress bar and errors to stderr. Faulty input ends with one line and exit code 2.
"""

import argparse
import contextlib
import dataclasses
import functools
import importlib
import json
import math
import os
import pathlib
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, get_args

import jax
import numpy as np

import jaxenv
from jaxenv import registry, rollout, specs, tree
from jaxenv.environment import Environment, ResetStrategy
from jaxenv.rollout.statistics import EpisodeTotals, summarise
from jaxenv.testing import PROPERTIES, Report, check_env
from jaxenv.testing.report import Status


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code.

    It is 0, 1 for a failed check, 2 for faulty input, 130 for Ctrl-C, 141 for a closed pipe.

    Args:
        argv: the arguments, those of the process by default.
    """
    if argv is None:
        signal.signal(signal.SIGINT, _quit)
    parser = _parser()
    try:
        try:
            args = parser.parse_args(argv)
            args.run(args)
        finally:
            sys.stdout.flush()
    except SystemExit as stop:  # argparse: --help, --version and faulty usage
        return int(stop.code or 0)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `jaxenv list | head -1`
        # Python flushes stdout once more on its way out; what is left has to go somewhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return 0


def _quit(*_) -> NoReturn:
    """Ends the process on Ctrl-C without unwinding.

    JAX loses a KeyboardInterrupt raised in one of its callbacks, and may crash at exit with a compilation cut short.
    """
    if sys.stderr.isatty():
        os.write(sys.stderr.fileno(), b"\x1b[?25h\n")  # the progress bar hides the cursor
    os._exit(130)


# --- list ------------------------------------------------------------------------------------------------------------


def _list(args: argparse.Namespace) -> None:
    rows: list[dict[str, Any]] = []
    for name in registry.ids():
        spec = registry.spec(name)
        env = spec.make()
        rows.append(
            {
                "id": name,
                "observation": _spec_text(env.observation_spec()),
                "action": _spec_text(env.action_spec()),
                "max_episode_steps": spec.max_episode_steps,
                "reward_threshold": spec.reward_threshold,
            }
        )
    if args.json:
        print(json.dumps(rows, indent=2))
        return
    table = [("id", "observation", "action", "limit")]
    table += [(r["id"], r["observation"], r["action"], str(r["max_episode_steps"] or "none")) for r in rows]
    widths = [max(len(row[column]) for row in table) for column in range(3)]
    for *left, limit in table:
        cells = [cell.ljust(width) for cell, width in zip(left, widths, strict=True)]
        print("  ".join([*cells, limit.rjust(len("limit"))]))


def _spec_text(spec: Any) -> str:
    """A tree of specs in a few words: ``float32[4]``, ``int32 0 .. 1``, ``{camera: uint8[84, 84, 3], speed: ...}``."""
    if not specs.is_spec(spec):
        named = isinstance(spec, dict) or dataclasses.is_dataclass(spec)
        parts = ((f"{n}: " if named else "") + _spec_text(tree.get_field(spec, n)) for n in tree.child_names(spec))
        return "{" + ", ".join(parts) + "}"
    text = f"{spec.dtype}{list(spec.shape) if spec.shape else ''}"
    if isinstance(spec, specs.Bounded) and spec.is_bounded and spec.dtype.kind != "b":
        low, high = np.unique(spec.minimum), np.unique(spec.maximum)
        if low.size == high.size == 1:
            text += f" {low[0]:g} .. {high[0]:g}"
    return text


# --- rollout ---------------------------------------------------------------------------------------------------------


def _rollout(args: argparse.Namespace) -> None:
    params = dict(_parameter(text, args.parser) for text in args.set)
    try:
        if ":" not in args.id:  # of this library: no keyword of `make` may pass for a parameter
            registry.spec(args.id).make(args.num_envs, **params)
        env = registry.load(args.id, args.num_envs, autoreset=args.autoreset, reset=args.reset, **params)
        program = _compile(env, args.num_steps, jax.random.key(args.seed))
    except ValueError as fault:
        args.parser.error(_one_line(fault))
    except TypeError as fault:
        # A constructor argument of the wrong type shows only where it is used.
        args.parser.error(f"{args.id} cannot run with {params}: {_one_line(fault)}")
    figures = {"compile_seconds": program.seconds, **_run(program)}

    device = jax.devices()[0]
    name = device.platform if device.device_kind == device.platform else f"{device.platform} ({device.device_kind})"
    if args.json:
        given = {n: getattr(args, n) for n in ("id", "num_envs", "num_steps", "seed", "autoreset", "reset")}
        print(json.dumps({**given, "params": params, "device": name, **_finite(figures)}))
        return
    print(f"{args.id}, {args.num_envs} lanes x {args.num_steps} steps on {name}, random actions, seed {args.seed}")
    print(_block(figures, args.num_envs * args.num_steps))


@dataclasses.dataclass(frozen=True)
class _Program:
    """A rollout, compiled: ``start()`` gives a carry, ``advance[length](carry)`` the next one and totals."""

    start: Callable
    advance: dict[int, Callable]
    chunks: list[int]
    seconds: float


def _compile(env: Environment, num_steps: int, key: jax.Array) -> _Program:
    """Compiles the start and one chunk (two where ``num_steps`` cannot be cut into equal ones)."""
    chunks = _chunks(num_steps, env.num_envs)
    begun = time.perf_counter()
    lowered = jax.jit(_start).lower(env, key)
    advance: dict[int, Callable] = {}
    for length in set(chunks):
        chunk = jax.jit(functools.partial(_advance, num_steps=length), donate_argnums=1)
        advance[length] = functools.partial(chunk.lower(env, lowered.out_info).compile(), env)
    start = functools.partial(lowered.compile(), env, key)
    return _Program(start, advance, chunks, time.perf_counter() - begun)


def _run(program: _Program) -> dict[str, Any]:
    """Runs a compiled rollout and sums up its episodes; no trajectory is stored."""
    carry = jax.block_until_ready(program.start())
    finished: list[EpisodeTotals] = []
    with _progress(sum(program.chunks)) as done:
        begun = time.perf_counter()
        before: tuple[int, EpisodeTotals] | None = None
        for length in program.chunks:
            carry, totals = program.advance[length](carry)
            # One chunk is under way while the one before is fetched, so that the device never waits for the host.
            if before is not None:
                finished.append(_fetched(before[1]))
                done(before[0])
            before = length, totals
        jax.block_until_ready(carry)
        seconds = time.perf_counter() - begun
    if before is not None:
        finished.append(_fetched(before[1]))
    figures = summarise(finished)
    return {"run_seconds": seconds, "steps_per_second": figures["steps"] / seconds, **figures}


def _start(env: Environment, key: jax.Array):
    state, timestep = env.reset(key)
    return state, timestep, EpisodeTotals.zeros(env.num_envs)


def _advance(env: Environment, carry, *, num_steps: int):
    """Steps all lanes ``num_steps`` times: the carry to go on from, and the totals of these steps."""
    policy = rollout.random_policy(env)
    state, timestep, totals = carry

    def one_step(carry, _):
        state, timestep, totals = carry
        state, timestep = env.step(state, policy(timestep, rollout.policy_stream(env, state)))
        return (state, timestep, totals.add(timestep)), None

    (state, timestep, totals), _ = jax.lax.scan(one_step, (state, timestep, totals), length=num_steps)
    return (state, timestep, totals.started_anew()), totals


def _fetched(totals: EpisodeTotals) -> EpisodeTotals:
    """Totals on the host, the lanes already added up in float64: a long run keeps a few numbers a chunk."""
    return jax.tree.map(lambda x: np.asarray(x, np.float64).sum(), totals)


def _chunks(num_steps: int, num_envs: int) -> list[int]:
    """Chunk lengths that add up to ``num_steps``: all alike where a divisor allows it, else all but the last."""
    most = min(num_steps, 10_000, max(200, 2**20 // num_envs))
    length = next(n for n in range(most, 0, -1) if num_steps % n == 0)
    if length < most / 4:  # a prime, say
        length = most
    rest = num_steps % length
    return [length] * (num_steps // length) + ([rest] if rest else [])


@contextlib.contextmanager
def _progress(total: int, what: str = "steps") -> Iterator[Callable[[int], None]]:
    """A bar on stderr, fed with numbers of ``what``; nothing where stderr is no terminal or rich is not installed."""
    progress: Any = None
    if sys.stderr.isatty():
        with contextlib.suppress(ImportError):
            from rich.console import Console
            from rich.progress import Progress

            progress = Progress(console=Console(stderr=True), transient=True)
    if progress is None:
        yield lambda count: None
        return
    with progress:
        task = progress.add_task(what, total=total)
        yield lambda count: progress.advance(task, count)


def _block(figures: dict[str, Any], rows: int) -> str:
    """The figures as aligned text."""

    def spread(what: str) -> str:
        if not figures["episodes"]:
            return "no episode finished"
        return f"{figures[f'{what}_mean']:.2f}, standard deviation {figures[f'{what}_std']:.2f}"

    starts = rows - figures["steps"]
    lines = {
        "compile time": f"{figures['compile_seconds']:.2f} s",
        "run time": f"{figures['run_seconds']:.3f} s",
        "environment steps": f"{figures['steps']:,}" + (f" ({starts:,} more rows began an episode)" if starts else ""),
        "steps per second": f"{figures['steps_per_second']:,.0f}",
        "episodes finished": f"{figures['episodes']:,}",
        "  by termination": f"{figures['terminated']:,}",
        "  by truncation": f"{figures['truncated']:,}",
        "mean return": spread("return"),
        "mean length": spread("length"),
    }
    width = max(map(len, lines))
    return "\n".join(f"  {name.ljust(width)}  {value}" for name, value in lines.items())


def _one_line(fault: Exception) -> str:
    return " ".join(str(fault).split())


def _finite(figures: dict[str, Any]) -> dict[str, Any]:
    """JSON knows no NaN and no infinity: null stands for them."""
    return {n: None if isinstance(x, float) and not math.isfinite(x) else x for n, x in figures.items()}


# --- check -----------------------------------------------------------------------------------------------------------


def _check(args: argparse.Namespace) -> None:
    if bool(args.id) == args.all:
        args.parser.error("one ID is required, or --all")
    numbers = sorted(set(args.properties)) or list(PROPERTIES)
    if unknown := [n for n in numbers if n not in PROPERTIES]:
        args.parser.error(f"no property {unknown[0]}, the properties are {', '.join(map(str, PROPERTIES))}")
    try:
        envs = [registry.load(id) for id in (registry.ids() if args.all else [args.id])]
    except ValueError as fault:
        args.parser.error(_one_line(fault))
    with contextlib.suppress(RuntimeError):  # too late where something was computed before; then 17 says so
        jax.config.update("jax_num_cpu_devices", 4)
    reports: list[Report] = []
    seconds: list[float] = []
    with _progress(len(envs) * len(numbers), "checks") as done:
        for env in envs:
            begun = time.perf_counter()
            key = jax.random.key(args.seed)
            reports.append(check_env(env, key=key, properties=numbers, progress=lambda _: done(1)))
            seconds.append(time.perf_counter() - begun)
    if args.json:
        print(json.dumps([_as_data(*pair) for pair in zip(reports, seconds, strict=True)]))
    elif args.markdown:
        print(_as_markdown(reports, seconds, numbers))
    else:
        print("\n\n".join(map(str, reports)))
    if not all(report.ok for report in reports):
        raise SystemExit(1)


def _as_data(report: Report, seconds: float) -> dict[str, Any]:
    return {"target": report.target, "seconds": round(seconds, 1), "results": list(map(dataclasses.asdict, report))}


def _as_markdown(reports: list[Report], seconds: list[float], numbers: list[int]) -> str:
    """A row per environment with the numbers of what did not simply pass, and a row per property."""
    lines = ["| environment | passed | failed | not applicable | opted out | seconds |", "|---|---|---|---|---|---|"]
    for report, took in zip(reports, seconds, strict=True):
        of = {s: [str(r.number) for r in report if r.status is s] for s in Status}
        told = [", ".join(of[s]) or "-" for s in (Status.FAILED, Status.NOT_APPLICABLE, Status.OPTED_OUT)]
        lines.append(f"| `{report.target}` | {len(of[Status.PASSED])} | {' | '.join(told)} | {took:.0f} |")
    lines += ["", "| | property | what is promised |", "|---|---|---|"]
    lines += [f"| {n} | {PROPERTIES[n].name} | {PROPERTIES[n].says} |" for n in numbers]
    return "\n".join(lines)


# --- bench -----------------------------------------------------------------------------------------------------------


def _bench(args: argparse.Namespace) -> None:
    root = pathlib.Path(jaxenv.__file__).parents[1]
    if not (root / "benchmarks" / "__main__.py").is_file():
        args.parser.error("the benchmarks are not installed with the library: run this in a clone of its repository")
    sys.path.insert(0, str(root))
    raise SystemExit(importlib.import_module("benchmarks.__main__").main(args.arguments))


# --- arguments -------------------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line; the usage is a ``--help`` away."""

    def __init__(self, **kwargs):
        super().__init__(allow_abbrev=False, **kwargs)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n")


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """Shows defaults, but no "(default: None)" or "(default: [])"."""

    def _get_help_string(self, action):
        untold = action.default is None or action.default is False or action.default == []
        return action.help if untold else super()._get_help_string(action)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="jaxenv", description="Batched JAX environments from the command line.")
    parser.add_argument("--version", action="version", version=f"jaxenv {jaxenv.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)

    command = commands.add_parser(
        "list",
        help="show every environment: id, observation, action, time limit",
        description="Shows every environment: id, observation and action of one lane, time limit in steps.",
        formatter_class=_Help,
    )
    command.add_argument("--json", action="store_true", help="print a JSON array instead")
    command.set_defaults(run=_list, parser=command)

    command = commands.add_parser(
        "rollout",
        help="step an environment with random actions: speed and episode statistics",
        description="Steps a batch of environments with random actions and prints speed and episode statistics.",
        epilog="example: jaxenv rollout CartPole-v1 --num-envs 4096 --num-steps 1000 --set gravity=3.7",
        formatter_class=_Help,
    )
    command.add_argument("id", metavar="ID", help="which environment, as `jaxenv list` names it")
    command.add_argument("--num-envs", metavar="N", type=_integer(1), default=1024, help="how many lanes")
    command.add_argument("--num-steps", metavar="T", type=_integer(1), default=1000, help="how many steps a lane")
    command.add_argument("--seed", metavar="S", type=_integer(0), default=0, help="where all randomness comes from")
    command.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    command.add_argument(
        "--set",
        metavar="PARAM=VALUE",
        nargs="+",
        action="extend",
        default=[],
        help="parameters of the environment: a number, true or false, or N numbers with commas, one per lane",
    )
    command.add_argument(
        "--autoreset",
        choices=("next_step", "same_step"),
        default="next_step",
        help="whether an episode begins on the step after the last one or on that very step",
    )
    command.add_argument(
        "--reset",
        choices=get_args(ResetStrategy),
        help="how lanes are restarted: all computed and some kept, the same where any ended, or only those that ended "
        "(default: what the environment declares)",
    )
    command.set_defaults(run=_rollout, parser=command)

    command = commands.add_parser(
        "check",
        help="look whether an environment keeps its promises: a table of properties, exit code 1 if one fails",
        description="Looks at one property after another and prints a table. The exit code is 1 if one failed.",
        epilog="example: jaxenv check CartPole-v1 --properties 18 20 21",
        formatter_class=_Help,
    )
    command.add_argument("id", metavar="ID", nargs="?", help="which environment, as `jaxenv list` names it")
    command.add_argument("--all", action="store_true", help="check every environment")
    command.add_argument(
        "--properties", metavar="N", type=_integer(1), nargs="+", default=[], help="their numbers (default: all)"
    )
    command.add_argument("--seed", metavar="S", type=_integer(0), default=0, help="where all randomness comes from")
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print a JSON array instead, one object per environment")
    form.add_argument("--markdown", action="store_true", help="print one row per environment, and the properties")
    command.set_defaults(run=_check, parser=command)

    command = commands.add_parser(
        "bench",
        help="run a part of the benchmarks (in a clone of the repository); `jaxenv bench --help` lists them",
        add_help=False,
        prefix_chars="\0",  # nothing is an option here: all goes to the benchmarks
    )
    command.add_argument("arguments", nargs="*")
    command.set_defaults(run=_bench, parser=command)
    return parser


def _integer(least: int) -> Callable[[str], int]:
    def integer(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value < 2**31:
            raise argparse.ArgumentTypeError(f"must be an integer from {least} to {2**31 - 1}, got {text!r}")
        return value

    return integer


def _parameter(text: str, parser: argparse.ArgumentParser) -> tuple[str, Any]:
    """Name and value of one ``--set``; text that is no number stays text, for the environment to refuse."""
    name, equals, value = text.partition("=")
    if not (name.isidentifier() and equals and value):
        parser.error(f"argument --set: must be PARAM=VALUE, got {text!r}")
    if name in ("num_envs", "self"):
        parser.error(f"argument --set: {name} is no parameter of an environment")
    values = [_value(part) for part in value.split(",")]
    return name, values if "," in value else values[0]


def _value(text: str) -> bool | int | float | str:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text
