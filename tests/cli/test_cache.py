"""The folder of compiled programs of the command line."""

import os
import subprocess
import sys

import jax
import pytest

from jaxenv import cli
from jaxenv.cli import _process
from tests.cli.commands import python

_RUN = ["train", "CartPole-v1", "--total-steps", "1024", "--set", "num_evaluations=1", "num_eval_episodes=4"]


@pytest.fixture
def environ(monkeypatch, tmp_path):
    """The variables of a user who has set none of JAX's."""
    given = {name: value for name, value in os.environ.items() if "COMPILATION_CACHE" not in name}
    monkeypatch.setattr(os, "environ", {**given, "XDG_CACHE_HOME": str(tmp_path / "user")})
    return os.environ


@pytest.fixture
def programs(tmp_path):
    return tmp_path / "user" / "jaxenv" / "programs"


def test_programs_are_kept_in_a_folder_of_the_user(environ, programs):
    _process.keep_programs()
    assert programs.is_dir()
    assert environ["JAX_COMPILATION_CACHE_DIR"] == str(programs)


@pytest.mark.parametrize("name", ["JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE"])
def test_variables_of_the_user_stay(environ, programs, name):
    environ[name] = "false"
    before = dict(environ)
    _process.keep_programs()
    assert environ == before
    assert not programs.exists()


def test_programs_that_were_not_used_for_the_longest_time_are_deleted(environ, programs, monkeypatch):
    monkeypatch.setattr(_process, "_MOST_BYTES", 25)
    programs.mkdir(parents=True)
    for name, used in [("b", 3), ("c", 1), ("a", 2)]:
        (programs / name).write_bytes(bytes(10))
        os.utime(programs / name, (used, 9))
    _process.keep_programs()
    assert sorted(file.name for file in programs.iterdir()) == ["a", "b"]


def test_folder_that_cannot_be_written_is_a_warning(environ, tmp_path, capsys):
    (tmp_path / "user").write_text("a file")
    _process.keep_programs()
    assert "JAX_COMPILATION_CACHE_DIR" not in environ
    assert "warning: compiled programs are not kept" in capsys.readouterr().err


@pytest.mark.parametrize(("platform", "end"), [("darwin", "Library/Caches"), ("linux", ".cache")])
def test_folder_follows_the_platform(environ, monkeypatch, platform, end):
    del environ["XDG_CACHE_HOME"]
    monkeypatch.setattr(sys, "platform", platform)
    assert _process._user_folder().as_posix().endswith(end)


@pytest.mark.parametrize("kept", [True, False])
def test_command_keeps_the_programs_of_a_run_unless_told_otherwise(environ, programs, tmp_path, kept):
    argv = [*_RUN, "--out", str(tmp_path / "run"), *([] if kept else ["--no-cache"])]
    assert python("-m", "jaxenv", *argv, env=environ, stdout=subprocess.PIPE).returncode == 0
    assert any(programs.iterdir()) == kept


def test_calls_of_main_in_a_process_of_the_user_leave_the_variables(environ, programs, capsys):
    before = jax.config.jax_compilation_cache_dir
    assert cli.main(["list", "CartPole"]) == 0
    assert jax.config.jax_compilation_cache_dir == before
    assert "JAX_COMPILATION_CACHE_DIR" not in environ
    assert not programs.exists()
