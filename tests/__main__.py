"""Run the tests: ``python -m tests -n 2``; arguments are passed to pytest.

These are the tests of environments, wrappers, rollouts and data. ``python -m tests --rest -n 2`` runs the others:
learners, the command line, plots, adapters to other libraries, rigid-body physics, the conformance kit.
``python -m tests --short -n 2`` runs a choice of both that takes two minutes, with the packages of the extra
``test-short`` and XLA's default flags: for other versions of Python and JAX, so warnings that other libraries cause are
not errors.

Tests that are not marked ``numeric`` run with the older code generators of XLA:CPU, where jaxlib has them (before
0.11): they compile small programs in two thirds of the time. XLA reads its flags once per process, so this takes two
runs of pytest. Plain ``pytest`` runs the same tests in one, with the default flags. ``pytest -m pages`` runs the code
of the documentation and the notebooks.
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
_OLDER_GENERATORS = "--xla_cpu_use_fusion_emitters=false"
_RUNS = {"not numeric": _OLDER_GENERATORS, "numeric": ""}
# Files of `--short`, by the ends of their paths: at least one for every part of the package.
_SHORT = (
    *("test_xla", "test_tree", "test_specs", "test_timestep", "test_env_data", "test_reset_where"),
    *("classic_control/test_pendulum", "toy_text/test_taxi", "grid/test_grid_world", "minatar/test_freeway"),
    *("misc/test_swimmer", "probes/test_risky_branch", "physics2d/test_world"),
    *("wrappers/test_time_limit", "test_reward_wrappers", "test_image_wrappers", "test_batch_wrapper"),
    *("test_fold", "test_film", "metrics/test_totals", "play/test_controls", "plot/test_metrics", "test_canvas"),
    *("test_transitions", "test_shuffle", "transformers/test_image_scale"),
    *("test_networks", "training/test_distributions"),
    *("test_counting", "test_chain", "test_assert_max_traces", "cli/test_main"),
    *("interop/test_arguments", "test_packing", "interop/test_gymnasium", "suites/test_suites"),
)
# Warnings are errors where this library or its tests cause them.
_OWN_WARNINGS = ("-o", "filterwarnings=default\nerror:::jaxenv\nerror:::tests")


def main(arguments: list[str]) -> int:
    """Runs the tests and returns the exit code: 0 if all passed."""
    folders: tuple[str, ...] = ()
    if "--rest" in arguments:
        arguments, folders = [argument for argument in arguments if argument != "--rest"], _REST
    if short := "--short" in arguments:
        arguments, folders = [argument for argument in arguments if argument != "--short"], _files()
        arguments += _OWN_WARNINGS
    runs = {"": ""} if short or not _is_known(_OLDER_GENERATORS) else _RUNS
    codes = []
    names_tests = any(pathlib.Path(argument.split("::")[0]).exists() for argument in arguments)
    for marker, flags in runs.items():
        if names_tests or folders:
            paths = folders
        else:
            here = [path for path in numeric.PATHS if not path.startswith(_REST)] if marker == "numeric" else []
            paths = (*here, *(f"--ignore={folder}" for folder in _REST))
        environment = {**os.environ, "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()}
        expression = " and ".join(filter(None, (marker, "not thorough", "not pages")))
        command = [sys.executable, "-m", "pytest", "-m", expression, *arguments, *paths]
        codes.append(subprocess.run(command, env=environment).returncode)
    ran = [code for code in codes if code != pytest.ExitCode.NO_TESTS_COLLECTED]
    return max(ran, default=int(pytest.ExitCode.NO_TESTS_COLLECTED))


def _is_known(flag: str) -> bool:
    """Whether this XLA has the flag; it ends the process at any other."""
    command, environment = [sys.executable, "-c", "import jax; jax.devices()"], {**os.environ, "XLA_FLAGS": flag}
    return subprocess.run(command, env=environment, capture_output=True).returncode == 0


def _files() -> tuple[str, ...]:
    """The test files of ``--short``."""
    found = {end: [str(path) for path in pathlib.Path("tests").rglob(f"{end}.py")] for end in _SHORT}
    if wrong := {end: paths for end, paths in found.items() if len(paths) != 1}:
        raise SystemExit(f"--short: names must be the ends of one path each, got {wrong}")
    return tuple(path for paths in found.values() for path in paths)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
