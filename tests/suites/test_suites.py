"""What holds for every suite: the functions of its module, a missing package, its page."""

import importlib
import inspect
import pathlib
import re
import sys
import types

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.core.registry import SUITES
from jaxenv.suites import _options, _task
from jaxenv.suites._task import Single, map_lanes
from jaxenv.testing import certify
from tests.packages import imported

FOREIGN = sorted(SUITES.keys() - {"bsuite"})  # bsuite's experiments run on this library's own environments
ROOT = pathlib.Path(__file__).parents[2]
# The module that each suite imports.
LIBRARIES = {"brax": "brax.envs", "craftax": "craftax.craftax_env", "playground": "mujoco_playground"}


@pytest.mark.parametrize("suite", FOREIGN)
def test_a_missing_package_is_named_with_the_command_that_installs_it(suite, monkeypatch):
    monkeypatch.setitem(sys.modules, LIBRARIES.get(suite, suite), None)
    with pytest.raises(ImportError, match=rf'{suite} is not installed.* ".*\[{suite}\]"'):
        jaxenv.make(f"{suite}:Any-v0")


@pytest.mark.parametrize("suite", FOREIGN)
def test_a_module_has_the_functions_that_the_command_line_calls(suite):
    module = importlib.import_module(SUITES[suite])
    functions = {"ids": 0, "docstring": 1, "action_and_limit": 1, "single": 2}
    for name, arguments in functions.items():
        if name == "single" and suite in ("envpool", "gymnasium", "pettingzoo"):  # outside JAX, not lane by lane
            continue
        assert len(inspect.signature(getattr(module, name)).parameters) == arguments, name
    assert module.load.__doc__


@pytest.mark.parametrize("suite", FOREIGN)
def test_every_suite_has_a_page_and_an_extra(suite):
    page = (ROOT / "docs" / "suites" / f"{suite}.md").read_text()
    assert f'jaxenv.make("{suite}:' in page
    extras = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), flags=re.MULTILINE)
    assert suite in extras


@pytest.mark.parametrize(
    ("suite", "id", "api"),
    [
        ("craftax", "Craftax-Classic-Symbolic-v1", "gymnax0"),
        ("navix", "Navix-Empty-5x5-v0", "navix"),
        ("playground", "CartpoleBalance", "brax"),
        ("xminigrid", "MiniGrid-Empty-5x5", "xminigrid"),
    ],
)
def test_certify_speaks_its_api(suite, id, api):
    imported(LIBRARIES.get(suite, suite))
    report = certify(f"{suite}:{id}", properties=["done_is_a_flag"], seconds=1000)
    assert report.api == api
    assert len(report.of("passed")) == 2, str(report)


def test_options_are_frozen_and_thawed_to_equal_values():
    value = [[1, 2], (3.5, "text")]
    frozen = _options.freeze(value)
    assert hash(frozen) is not None
    assert _options.thaw(frozen) == ((1, 2), (3.5, "text"))


def test_an_error_of_this_library_is_not_blamed_on_the_suite(monkeypatch):
    class Faulty(Single):
        suite = "faulty"
        reset = step = declared_action = None

        def build(self, id, arguments):
            with _options.reporting(self.owner, arguments):
                self.env = int(arguments["size"])
            self.limit = self.env.max_steps

    monkeypatch.setattr(_task, "_module", lambda suite: types.SimpleNamespace(ids=lambda: ["Any-v0"]))
    with pytest.raises(ValueError, match=r"faulty:Any-v0: faulty rejects .*'many'"):
        Faulty("Any-v0", (("size", "many"),))
    with pytest.raises(AttributeError, match="'max_steps'"):
        Faulty("Any-v0", (("size", 3),))


def draws_one_number(values, key, again):
    key = jax.lax.cond(again, lambda key: jax.random.fold_in(key, 1), lambda key: key, key)
    return jax.random.uniform(key)


def draws_a_number_twice(values, key, again):
    return jax.lax.cond(again, lambda key: jax.random.uniform(key), lambda key: 0.0, key) + jax.random.uniform(key)


def test_the_check_of_keys_follows_branches_in_which_a_key_is_used_once():
    # Under vmap these branches are selections, and each of them counts as a use.
    given = jax.random.split(jax.random.key(0), 2), np.array([False, True])
    expected = map_lanes(draws_one_number, {}, {}, *given)
    with jax.debug_key_reuse(True):
        np.testing.assert_array_equal(map_lanes(draws_one_number, {}, {}, *given), expected)
        with pytest.raises(jax.errors.KeyReuseError):
            map_lanes(draws_a_number_twice, {}, {}, *given)
