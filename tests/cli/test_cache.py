"""The folder of compiled programs of the command line."""

import os
import sys

import pytest

from jaxenv.cli import _cache

_VARIABLES = ("JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE", "JAX_COMPILATION_CACHE_MAX_SIZE")


@pytest.fixture
def environ(monkeypatch, tmp_path):
    """The variables of a user who has set none of JAX's, with filelock."""
    given = {name: value for name, value in os.environ.items() if name not in _VARIABLES}
    monkeypatch.setattr(os, "environ", {**given, "XDG_CACHE_HOME": str(tmp_path / "user")})
    monkeypatch.setattr(_cache.importlib.util, "find_spec", lambda name: object())
    return os.environ


def test_programs_are_kept_in_a_bounded_folder_of_the_user(environ, tmp_path):
    _cache.keep_programs()
    folder = tmp_path / "user" / "jaxenv" / "programs"
    assert folder.is_dir()
    assert environ["JAX_COMPILATION_CACHE_DIR"] == str(folder)
    assert int(environ["JAX_COMPILATION_CACHE_MAX_SIZE"]) == 2**30


@pytest.mark.parametrize("name", ["JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE"])
def test_variables_of_the_user_stay(environ, tmp_path, name):
    environ[name] = "false"
    before = dict(environ)
    _cache.keep_programs()
    assert environ == before
    assert not (tmp_path / "user").exists()


def test_nothing_is_kept_without_the_package_that_bounds_the_folder(environ, monkeypatch):
    monkeypatch.setattr(_cache.importlib.util, "find_spec", lambda name: None)
    _cache.keep_programs()
    assert "JAX_COMPILATION_CACHE_DIR" not in environ


def test_folder_that_cannot_be_written_is_a_warning(environ, tmp_path, capsys):
    (tmp_path / "user").write_text("a file")
    _cache.keep_programs()
    assert "JAX_COMPILATION_CACHE_DIR" not in environ
    assert "warning: compiled programs are not kept" in capsys.readouterr().err


@pytest.mark.parametrize(("platform", "end"), [("darwin", "Library/Caches"), ("linux", ".cache")])
def test_folder_follows_the_platform(environ, monkeypatch, platform, end):
    del environ["XDG_CACHE_HOME"]
    monkeypatch.setattr(sys, "platform", platform)
    assert _cache._user_folder().as_posix().endswith(end)
