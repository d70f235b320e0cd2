"""Run the tests: ``python -m tests -n 2``; arguments are passed to pytest.

These are the tests of environments, wrappers, rollouts and data. ``python -m tests --rest -n 2`` runs the others:
learners, the command line, plots, adapters to other libraries, rigid-body physics, the conformance kit.

Tests that are not marked ``numeric`` run with the older code generators of XLA:CPU, which compile small programs in
two thirds of the time. XLA reads its flags once per process, so this takes two runs of pytest. Plain ``pytest`` runs
the same tests in one, with the default flags. ``pytest -m pages`` runs the code of the documentation and the notebooks.
"""

import os
import pathlib
import subprocess
import sys

import pytest

from tests import numeric

_REST = (
    *("tests/cli", "tests/envs/box2d", "tests/envs/grid/objects", "tests/envs/physics2d", "tests/interop"),
    *("tests/rollout/play", "tests/rollout/plot", "tests/suites", "tests/testing", "tests/training"),
)
_RUNS = {"not numeric": "--xla_cpu_use_fusion_emitters=false", "numeric": ""}


def main(arguments: list[str]) -> int:
    """Runs the tests and returns the exit code: 0 if all passed."""
    folders: tuple[str, ...] = ()
    if "--rest" in arguments:
        arguments, folders = [argument for argument in arguments if argument != "--rest"], _REST
    codes = []
    names_tests = any(pathlib.Path(argument.split("::")[0]).exists() for argument in arguments)
    for marker, flags in _RUNS.items():
        if names_tests or folders:
            paths = folders
        else:
            here = [path for path in numeric.PATHS if not path.startswith(_REST)] if marker == "numeric" else []
            paths = (*here, *(f"--ignore={folder}" for folder in _REST))
        environment = {**os.environ, "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()}
        command = [sys.executable, "-m", "pytest", "-m", f"{marker} and not thorough and not pages", *arguments, *paths]
        codes.append(subprocess.run(command, env=environment).returncode)
    ran = [code for code in codes if code != pytest.ExitCode.NO_TESTS_COLLECTED]
    return max(ran, default=int(pytest.ExitCode.NO_TESTS_COLLECTED))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
