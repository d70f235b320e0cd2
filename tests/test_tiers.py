"""The quick tests touch every folder, ``python -m tests --all`` leaves no file out, and what is skipped is listed."""

import pathlib
import subprocess
import sys

import pytest

from tests import numeric, quick, skips
from tests.__main__ import RUNS, paths_of

ROOT = pathlib.Path(__file__).parents[1]
FILES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py"))
# Tests of the benchmarks' programs, of further packages and of the built site.
ONLY_IN_ALL = {"tests/benchmarks", "tests/clients", "tests/site"}


def test_the_quick_tests_touch_every_folder():
    assert not set(quick.files()) - set(FILES)
    assert set(quick.FILES) == {path.rpartition("/")[0] for path in FILES} - ONLY_IN_ALL


def collects(run, file):
    arguments = paths_of(run)
    ignored = tuple(argument.removeprefix("--ignore=") for argument in arguments if argument.startswith("--ignore="))
    within = tuple(path if path.endswith((".py", "/")) else f"{path}/" for path in run.paths)
    return file.startswith(within) and not file.startswith(ignored or ("nothing",))


def test_every_file_is_in_one_run_of_all():
    others = [run for run in RUNS if run.marks == "not pages"]
    assert {file: [run.paths for run in others if collects(run, file)] for file in FILES} == {
        file: [next(run.paths for run in reversed(others) if collects(run, file))] for file in FILES
    }
    missing = {path for run in RUNS for path in run.paths if not (ROOT / path).exists()}
    assert missing <= {"jaxenv"}  # a wheel is tested without the package of the checkout


def test_the_code_of_the_documentation_is_in_all():
    (pages,) = (run for run in RUNS if run.marks == "pages")
    assert set(pages.paths) == {file for file in FILES if "mark.pages" in (ROOT / file).read_text()} - {
        "tests/test_tiers.py"
    }


def test_floats_are_compared_with_the_default_flags():
    assert [run for run in RUNS if set(run.paths) & set(numeric.PATHS)] == [
        run for run in RUNS if run.paths == numeric.PATHS
    ]
    assert not next(run for run in RUNS if run.paths == numeric.PATHS).compiled_fast


@pytest.mark.slow
def test_a_skip_that_is_not_listed_fails_the_run():
    file = "tests/interop/test_dm_env.py"
    hidden = f"import sys, pytest; sys.modules['dm_env'] = None; sys.exit(pytest.main(['-q', '{file}']))"
    run = subprocess.run([sys.executable, "-c", hidden], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == pytest.ExitCode.TESTS_FAILED
    assert f"not listed in tests/skips.py: {file}: Skipped: could not import 'dm_env'" in run.stdout


def test_the_listed_tests_exist():
    for place in skips.ALLOWED.keys() - {"jaxenv/"}:  # a wheel is tested without the package of the checkout
        path, _, name = place.partition("::")
        assert (ROOT / path).exists(), place
        assert not name or f"\ndef {name}(" in (ROOT / path).read_text(), place
