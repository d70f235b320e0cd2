"""`import jaxenv`: names are imported when they are first used."""

import subprocess
import sys

import pytest

import jaxenv


def printed(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_jaxenv_does_not_import_jax():
    assert printed("import sys, jaxenv; print(jaxenv.__version__, 'jax' in sys.modules)").split()[1] == "False"


def test_ids_are_registered_before_the_first_of_them_is_asked_for():
    assert printed("import jaxenv; print('CartPole-v1' in jaxenv.ids())") == "True\n"
    assert printed("from jaxenv.interop import to_dm_env; print(to_dm_env('CartPole-v1'))")


def test_a_package_is_imported_without_the_others():
    code = "import sys, jaxenv; jaxenv.specs; print('jaxenv.specs' in sys.modules, 'jaxenv.training' in sys.modules)"
    assert printed(code) == "True False\n"


def test_dir_and_a_star_import_have_every_public_name():
    public = set(jaxenv.__all__)
    assert public <= set(dir(jaxenv))
    imported = {}
    exec("from jaxenv import *", imported)
    assert public <= imported.keys()
    assert all(imported[name] is getattr(jaxenv, name) for name in public)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'jaxenv' has no attribute 'mkae'"):
        jaxenv.mkae
