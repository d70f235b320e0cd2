"""The command ``jaxenv``: help, exit codes and signals."""

import os
import subprocess

import pytest

import jaxenv
from jaxenv import cli
from jaxenv._util import source
from jaxenv.cli import listing
from tests.cli.commands import python, refusal


@pytest.mark.parametrize("argv", [[], ["list"], ["show"], ["play"], ["rollout"], ["train"], ["eval"], ["check"]])
def test_every_command_has_a_help(capsys, argv):
    assert cli.main([*argv, "--help"]) == 0
    assert capsys.readouterr().out.startswith(" ".join(["usage: jaxenv", *argv]))


def test_without_a_command_the_help_is_printed(capsys):
    assert cli.main([]) == 0
    assert capsys.readouterr().out == cli.make_parser().format_help()


def test_help_shows_the_defaults(capsys):
    cli.main(["rollout", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for default in ("lanes (default: 1024)", "lane (default: 1000)", "numbers (default: 0)", "(default: next_step)"):
        assert default in text
    assert "default: None" not in text
    assert "default: False" not in text
    assert "default: []" not in text


@pytest.mark.parametrize("argv", [[], ["--help"], ["--version"], ["fly"]])
def test_a_line_without_a_command_does_not_import_jax(argv):
    code = f"import sys; from jaxenv import cli; cli.main({argv}); sys.exit('jax' in sys.modules)"
    assert python("-c", code, stdout=subprocess.PIPE).returncode == 0


@pytest.mark.slow
def test_list_imports_no_learner_no_data_and_no_check():
    code = "import sys; from jaxenv import cli; cli.main(['list', 'pole']); print(*sys.modules, file=sys.stderr)"
    imported = set(python("-c", code, stdout=subprocess.PIPE).stderr.split())
    assert "jaxenv.envs.classic_control.cart_pole" in imported
    assert not imported & {f"jaxenv.{name}" for name in ("training", "data", "rollout", "testing", "suites", "plot")}


def test_version_prints_the_version_of_the_library(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"jaxenv {jaxenv.__version__}\n"


# --- wrong input ------------------------------------------------------------------------------------------------------


def test_an_unknown_command_is_refused(capsys):
    assert "invalid choice: 'fly' (choose from" in refusal(capsys, "fly")
    assert refusal(capsys, "rolout").endswith("), did you mean 'rollout'?\n")


@pytest.mark.parametrize("argv", [["rollout", "MNISTBandit-bsuite"], ["check", "MNISTBandit-bsuite"]])
def test_a_missing_library_is_reported_in_one_line_with_exit_code_2(capsys, no_digits, argv):
    assert f"not installed: {source.install_command('mnist')}, or pass path=" in refusal(capsys, *argv)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["list"], f"jaxenv list: error: the command needs rich: {source.install_command('cli')}\n"),
        (["check", "Chain-v9"], "jaxenv check: error: no environment 'Chain-v9'"),
    ],
)
def test_only_the_commands_that_draw_in_the_terminal_need_rich(argv, message):
    code = f"import sys; sys.modules['rich'] = None; from jaxenv import cli; sys.exit(cli.main({argv}))"
    done = python("-c", code)
    assert done.returncode == 2
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1


# --- as a process -----------------------------------------------------------------------------------------------------


def test_ctrl_c_ends_a_call_with_130_and_no_output(capsys, monkeypatch):
    def interrupt(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(listing, "run", interrupt)
    assert cli.main(["list"]) == 130
    assert capsys.readouterr() == ("", "")


def test_ctrl_c_ends_the_process_with_130_even_if_python_code_would_swallow_it():
    code = """
import os, signal, sys
from jaxenv.cli import listing, main
def swallow(args):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        pass
listing.run = swallow
sys.argv = ["jaxenv", "list"]
sys.exit(main())
"""
    done = python("-c", code)
    assert (done.returncode, done.stderr) == (130, "")


def test_importing_the_command_line_starts_no_backend():
    # JAX refuses to change the number of devices once a backend has started.
    code = "import jax, jaxenv.cli; jax.config.update('jax_num_cpu_devices', 2)"
    assert python("-c", code).returncode == 0


@pytest.mark.slow
def test_the_package_runs_as_a_module():
    done = python("-m", "jaxenv", "list", stdout=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, "")
    assert "CartPole-v1" in done.stdout


@pytest.mark.slow
def test_the_process_ends_with_code_2_and_no_traceback():
    done = python("-m", "jaxenv", "rollout", "CartPole-v9")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_closed_pipe_causes_no_traceback():
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = python("-m", "jaxenv", "list", stdout=writer)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")
