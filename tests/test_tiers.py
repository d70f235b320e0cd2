"""The quick tests touch every folder, and ``python -m tests --all`` leaves none out."""

import pathlib
import subprocess
import sys

import pytest

import tests.__main__ as program
from tests import numeric, quick

TESTS = pathlib.Path(__file__).parent
FILES = sorted(path.relative_to(TESTS.parent).as_posix() for path in TESTS.rglob("test_*.py"))
# Tests of further packages, of the benchmarks' programs and of the built site.
ONLY_IN_ALL = {"tests/benchmarks", "tests/clients", "tests/site"}


def test_the_quick_tests_touch_every_folder():
    assert not [path for path in quick.files() if path not in FILES]
    assert set(quick.FILES) == {path.rpartition("/")[0] for path in FILES} - ONLY_IN_ALL


@pytest.fixture(scope="module")
def runs():
    """The arguments of pytest in both runs of ``--all``."""
    found = []

    def run(marks, flags, arguments):
        found.append(["-m", marks, *arguments])
        return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "_run", run)
        patch.setattr(program, "_is_known", lambda flag: True)
        assert program.main(["--all"]) == 0
    return found


def test_all_leaves_no_file_out(runs):
    others, floats = runs
    left_out = tuple(argument.removeprefix("--ignore=") for argument in others if argument.startswith("--ignore="))
    assert others[-len(left_out) - 2 : -len(left_out)] == ["tests", "jaxenv"]
    assert left_out == tuple(floats[-len(numeric.PATHS) :]) == numeric.PATHS
    folders = {part for path in FILES for part in path.split("/")[:-1]}
    pattern = next(argument for argument in others if argument.startswith("norecursedirs="))
    assert folders.isdisjoint(pattern.removeprefix("norecursedirs=").split())
    assert not [path for path in numeric.PATHS if not (TESTS.parent / path).exists()]


@pytest.mark.slow
def test_all_collects_the_folders_that_pytest_leaves_out(runs):
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider", *runs[0]]
    ignored = [f"--ignore=tests/{path.name}" for path in TESTS.iterdir() if f"tests/{path.name}" not in ONLY_IN_ALL]
    found = subprocess.run([*command, *ignored, "--ignore=jaxenv"], capture_output=True, text=True).stdout
    assert "tests/benchmarks/test_limit.py" in found
    assert "tests/clients/test_migrate.py" in found
