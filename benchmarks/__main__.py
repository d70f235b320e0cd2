"""Runs one part of the benchmarks: ``python -m benchmarks <part> [options]``; see README.md."""

import importlib
import sys
from collections.abc import Sequence

import jax

PARTS = {
    "throughput": "environment steps a second, beside the peers",
    "scaling": "time and memory against the number of lanes, beside the peers, as a table and a plot",
    "compile": "compile time of a rollout, beside gymnax",
    "resets": "ways to restart lanes, over the share that ends and the price of a reset, and for the ids",
    "seeds": "several seeds under vmap, beside as many lanes in one batch",
    "generator": "random words a second, beside JAX's own generators and Philox",
    "wrappers": "what each wrapper costs",
    "returns": "returns and advantages, beside rlax",
    "replay": "replay buffers: rows added and sampled a second, bytes of a transition, beside flashbax",
    "stepping": "time of one call of the jitted step from Python",
    "limit": "CartPole beside the same work in hand-written C, one thread each",
    "suite": "all of the above into a folder of result files",
    "compare": "two result files: what became slower",
}
# Where the module has another name than the part: a module `compile` would hide the function in its own file.
_MODULES = {"compile": "compiling"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the part that the first argument names and returns its status."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    part = arguments[0] if arguments else ""
    if part in ("-h", "--help"):
        print("usage: python -m benchmarks PART [options]\n\nparts (each has a --help):")
        print("\n".join(f"  {name.ljust(12)}{what}" for name, what in PARTS.items()))
        return 0
    if part not in PARTS:
        said = f"no part {part!r}" if part else "a part is missing"
        print(f"python -m benchmarks: {said}; the parts are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    return run_part(part, arguments[1:])


def run_part(part: str, arguments: Sequence[str]) -> int:
    """Runs one part by its name and returns its status."""
    module = importlib.import_module(f"benchmarks.{_MODULES.get(part, part)}")
    # A cached program would make the compile times meaningless.
    cached = jax.config.jax_enable_compilation_cache
    jax.config.update("jax_enable_compilation_cache", False)
    try:
        return module.main(arguments)
    finally:
        jax.config.update("jax_enable_compilation_cache", cached)


if __name__ == "__main__":
    sys.exit(main())
