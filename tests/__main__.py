"""Run the tests: ``python -m tests -n 2`` runs the quick ones, with ``--all`` all; arguments are passed to pytest.

The quick tests are those of `tests.quick`, without the ones marked ``slow``. They also run with other versions of
Python and JAX, so warnings that other libraries cause are not errors.

``--all`` runs every folder of tests, the doctests and the code of the documentation, as several runs of pytest. Tests
of libraries that are not installed are skipped, as far as `tests.skips` allows it. Most tests run with the older code
generators of XLA:CPU, where jaxlib has them (before 0.11): they compile small programs in two thirds of the time. XLA
reads its flags once per process.
``python -m tests tests/core`` runs the tests that are named. Plain ``pytest`` runs tests with the default flags.
"""

import functools
import os
import pathlib
import subprocess
import sys
from typing import NamedTuple

import pytest

from tests import numeric, quick

_OLDER_GENERATORS = "--xla_cpu_use_fusion_emitters=false"
# Warnings are errors where this library or its tests cause them.
_OWN_WARNINGS = ("-o", "filterwarnings=default\nerror:::jaxenv\nerror:::tests")


class Run(NamedTuple):
    """A run of pytest: its paths without those that other runs name, the marks of its tests, and how they compile."""

    paths: tuple[str, ...]
    marks: str = "not pages"
    compiled_fast: bool = True


# A process for each, since compiled programs stay in memory.
RUNS = (
    Run(("tests", "jaxenv")),
    Run(("tests/cli", "tests/interop", "tests/rollout/play", "tests/rollout/plot", "tests/testing", "tests/training")),
    Run(numeric.PATHS, compiled_fast=False),
    Run(("tests/benchmarks", "tests/clients", "tests/site", "tests/suites")),  # other libraries
    Run(("tests/cli/test_page.py", "tests/test_docs.py", "tests/test_notebooks.py"), "pages"),
)


def main(arguments: list[str]) -> int:
    """Runs the tests and returns the exit code: 0 if all passed."""
    everything = "--all" in arguments
    arguments = [argument for argument in arguments if argument != "--all"]
    if everything:
        codes = [_run(run.marks, run.compiled_fast, [*arguments, *paths_of(run)]) for run in RUNS]
    elif any(pathlib.Path(argument.split("::")[0]).exists() for argument in arguments):
        runs = ("not numeric", True), ("numeric", False)
        codes = [_run(f"{marks} and not pages", fast, arguments) for marks, fast in runs]
    else:
        arguments = [*_OWN_WARNINGS, *arguments]
        floats = [path for path in quick.files() if path.startswith(numeric.PATHS)]
        others = [path for path in quick.files() if path not in floats]
        groups = [(others, True), (floats, False)] if _is_known(_OLDER_GENERATORS) else [(others + floats, False)]
        codes = [_run("not slow and not pages", fast, [*arguments, *paths]) for paths, fast in groups]
    ran = [code for code in codes if code != pytest.ExitCode.NO_TESTS_COLLECTED]
    # A signal that ends pytest is a negative number.
    return max(map(abs, ran), default=int(pytest.ExitCode.NO_TESTS_COLLECTED))


def paths_of(run: Run) -> list[str]:
    """The arguments of pytest for the paths of a run."""
    others = [path for other in RUNS if other is not run and other.marks == run.marks for path in other.paths]
    ignored = [f"--ignore={path}" for path in others if path.startswith(tuple(f"{path}/" for path in run.paths))]
    return [*(path for path in run.paths if pathlib.Path(path).exists()), *ignored]


def _run(marks: str, compiled_fast: bool, arguments: list[str]) -> int:
    """Runs pytest and returns its exit code."""
    flags = _OLDER_GENERATORS if compiled_fast and _is_known(_OLDER_GENERATORS) else ""
    environment = {**os.environ, "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()}
    command = [sys.executable, "-m", "pytest", "-m", f"{marks} and not thorough", *arguments]
    return subprocess.run(command, env=environment).returncode


@functools.cache
def _is_known(flag: str) -> bool:
    """Whether this XLA has the flag; it ends the process at any other."""
    command, environment = [sys.executable, "-c", "import jax; jax.devices()"], {**os.environ, "XLA_FLAGS": flag}
    return subprocess.run(command, env=environment, capture_output=True).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
