"""Run the tests: ``python -m tests -n 2`` runs the quick ones, with ``--all`` all; arguments are passed to pytest.

The quick tests are the files of `tests.quick` without the tests marked ``slow``. They run in one process per core with
XLA's default flags, also with other versions of Python and JAX, so warnings that other libraries cause are not errors.

``--all`` runs every folder of tests, the doctests, and the code of the documentation. Tests of libraries that are not
installed are skipped. Tests that are not marked ``numeric`` run with the older code generators of XLA:CPU, where jaxlib
has them (before 0.11): they compile small programs in two thirds of the time. XLA reads its flags once per process, so
this takes two runs of pytest. So do tests that are named: ``python -m tests tests/core``. Plain ``pytest`` runs the
same tests in one, with the default flags.
"""

import os
import pathlib
import subprocess
import sys

import pytest

from tests import numeric, quick

ALL = ("tests", "jaxenv")
# The folders that plain pytest leaves out because they need more packages or a site, and those that are no tests.
RECURSES_INTO_ALL = ("-o", "norecursedirs=purejaxrl .* __pycache__")
_OLDER_GENERATORS = "--xla_cpu_use_fusion_emitters=false"
# Warnings are errors where this library or its tests cause them.
_OWN_WARNINGS = ("-o", "filterwarnings=default\nerror:::jaxenv\nerror:::tests")


def main(arguments: list[str]) -> int:
    """Runs the tests and returns the exit code: 0 if all passed."""
    everything = "--all" in arguments
    arguments = [argument for argument in arguments if argument != "--all"]
    names_tests = any(pathlib.Path(argument.split("::")[0]).exists() for argument in arguments)
    if not (everything or names_tests):
        return _run("not slow and not pages and not thorough", "", [*_OWN_WARNINGS, *arguments, *quick.files()])
    if everything:
        arguments = [*RECURSES_INTO_ALL, *arguments]
        others, floats = [*ALL, *(f"--ignore={path}" for path in numeric.PATHS)], list(numeric.PATHS)
    else:
        others, floats = [], []
    marks = "not thorough" if everything else "not thorough and not pages"
    flags = _OLDER_GENERATORS if _is_known(_OLDER_GENERATORS) else ""
    codes = (
        _run(f"not numeric and {marks}", flags, [*arguments, *others]),
        _run(f"numeric and {marks}", "", [*arguments, *floats]),
    )
    ran = [code for code in codes if code != pytest.ExitCode.NO_TESTS_COLLECTED]
    return max(ran, default=int(pytest.ExitCode.NO_TESTS_COLLECTED))


def _run(marks: str, flags: str, arguments: list[str]) -> int:
    """Runs pytest with flags of XLA and returns its exit code."""
    environment = {**os.environ, "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()}
    command = [sys.executable, "-m", "pytest", "-m", marks, *arguments]
    return subprocess.run(command, env=environment).returncode


def _is_known(flag: str) -> bool:
    """Whether this XLA has the flag; it ends the process at any other."""
    command, environment = [sys.executable, "-c", "import jax; jax.devices()"], {**os.environ, "XLA_FLAGS": flag}
    return subprocess.run(command, env=environment, capture_output=True).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
