"""What holds for every suite: the functions of its module, a missing package, its page."""

import importlib
import inspect
import pathlib
import re
import sys

import pytest

import jaxenv
from jaxenv._make import SUITES
from jaxenv.suites import _options

ROOT = pathlib.Path(__file__).parents[2]
# The module that each suite imports.
LIBRARIES = {"brax": "brax.envs", "playground": "mujoco_playground"}


@pytest.mark.parametrize("suite", SUITES)
def test_a_missing_package_is_named_with_the_command_that_installs_it(suite, monkeypatch):
    monkeypatch.setitem(sys.modules, LIBRARIES.get(suite, suite), None)
    install = "pip install gymnax six" if suite == "gymnax" else rf'pip install ".*\[{suite}\]"'
    with pytest.raises(ImportError, match=f"{suite} is not installed: {install}"):
        jaxenv.load(f"{suite}:Any-v0")


@pytest.mark.parametrize("suite", SUITES)
def test_a_module_has_the_functions_that_the_command_line_calls(suite):
    module = importlib.import_module(SUITES[suite])
    functions = {"ids": 0, "docstring": 1, "action_and_limit": 1, "single": 2}
    for name, arguments in functions.items():
        if suite in ("envpool", "gymnasium") and name == "single":  # its environments run outside JAX, not lane by lane
            continue
        assert len(inspect.signature(getattr(module, name)).parameters) == arguments, name
    assert module.load.__doc__


@pytest.mark.parametrize("suite", SUITES)
def test_every_suite_has_a_page_and_an_extra(suite):
    page = (ROOT / "docs" / "suites" / f"{suite}.md").read_text()
    assert f'jaxenv.load("{suite}:' in page
    extras = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), flags=re.MULTILINE)
    assert suite in extras or suite == "gymnax"  # gymnax is a dependency


def test_options_are_frozen_and_thawed_to_equal_values():
    value = [[1, 2], (3.5, "text")]
    frozen = _options.freeze(value)
    assert hash(frozen) is not None
    assert _options.thaw(frozen) == ((1, 2), (3.5, "text"))
