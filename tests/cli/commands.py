"""Run a command and return what it prints."""

import json
import subprocess
import sys

from jaxenv import cli


def printed_json(capsys, *argv):
    """The JSON value that a command prints."""
    assert cli.main([*argv, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def refusal(capsys, *argv):
    """The line that a command with wrong input prints."""
    assert cli.main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("\n")
    assert err.count("\n") == 1
    return err


def python(*argv, **kwargs):
    return subprocess.run([sys.executable, *argv], stderr=subprocess.PIPE, text=True, timeout=120, **kwargs)
