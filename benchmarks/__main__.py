"""Runs one part of the benchmarks: ``jaxenv bench PART [options]``. See README.md."""

import argparse
import importlib
import sys
import types
from collections.abc import Sequence

import jax

from benchmarks import command
from jaxenv._util.names import did_you_mean

PARTS = {
    "throughput": "environment steps per second, compared with gymnax, Gymnasium, EnvPool, POPGym, JaxMARL and others",
    "scaling": "time and memory over the number of lanes, compared with the peers, as a table and a plot",
    "compiling": "CPU seconds to trace, lower and compile rollouts and learners, compared with the peers",
    "launches": "launches and bytes of a step as compiled for an H100 or a TPU v5e, compared with gymnax",
    "updates": "launches and bytes of one update of every learner, compiled likewise",
    "device": "the first minutes on an accelerator: loops with nothing set, PPO, pictures, curricula, agreement",
    "replay": "replay buffers: rows added and sampled per second and bytes per row, compared with flashbax",
    "host": "time of one step from a Python loop, compared with Gymnasium",
    "render": "pictures per second, compared with the renderers of Gymnasium and MiniGrid",
    "training": "learners with their presets, compared with published results",
    "memories": "PPO with each model of memory on POPGym's tasks, compared with published results",
    "bsuite": "bsuite's score of PPO and of a random agent, from all of its 468 settings, and its radar",
    "mazes": "solve rates of curricula on held-out mazes, and a film of their levels",
    "randomness": "the words of jaxenv.random, tested by dieharder",
    "levels": "steps in levels of a maze and updates of level replay, compared with jaxued and minimax",
    "ppo": "PPO from end to end, compared with purejaxrl on gymnax",
    "match": "a trained player against plain Monte Carlo tree search",
    "suites": "environments of other libraries: every id judged, into files and a page",
    "suite": "all but launches, updates, device, training, memories, mazes, levels, bsuite, match, randomness and"
    " suites, into files",
    "compare": "two result files: reports what became slower",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the part named by the first argument and returns its exit status."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    part = arguments[0] if arguments else ""
    if part in ("-h", "--help"):
        print("usage: jaxenv bench PART [options]\n\nparts (each has a --help):")
        print("\n".join(f"  {name.ljust(12)}{what}" for name, what in PARTS.items()))
        return 0
    if part not in PARTS:
        hint = did_you_mean(part, PARTS) if part else ""
        problem = f"no part {part!r}{hint and f', {hint}'}" if part else "a part is missing"
        print(f"jaxenv bench: {problem}; the parts are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    return run_part(part, arguments[1:])


def module_of(part: str) -> types.ModuleType:
    """Imports the module of a part."""
    return importlib.import_module(f"benchmarks.{part}")


def parse(part: str, arguments: Sequence[str]) -> argparse.Namespace:
    """Parses the options of a part; an invalid one ends the program with status 2 and a one-line message."""
    return command.parse(part, module_of(part), arguments)


def run_part(part: str, arguments: Sequence[str]) -> int:
    """Runs one part and returns its exit status."""
    module = module_of(part)
    # Compile times are measured, so no program may come from the cache.
    cached = jax.config.jax_enable_compilation_cache
    jax.config.update("jax_enable_compilation_cache", False)
    try:
        return command.run(part, module, arguments)
    finally:
        jax.config.update("jax_enable_compilation_cache", cached)


if __name__ == "__main__":
    sys.exit(main())
