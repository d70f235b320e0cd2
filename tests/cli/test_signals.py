"""Signals end a command at once, also while the main thread runs code that is not Python's."""

import signal
import subprocess
import sys

import pytest

from jaxenv.cli import _process


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.thorough)])
def test_a_signal_ends_a_process_that_never_returns_to_python(number):
    code = """
import hashlib, signal
from jaxenv.cli import _process
signal.signal(signal.SIGINT, _process.quit_process)
with _process.stops_at_once(lambda: "stopped"):
    print("ready", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)  # about an hour
"""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], **options) as child:
        try:
            assert child.stdout.readline() == "ready\n"
            child.send_signal(number)
            _, error = child.communicate(timeout=60)
        finally:
            child.kill()
    assert (child.returncode, error) == (128 + number, "stopped\n")


def test_the_handlers_of_somebody_elses_process_are_left_alone():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with _process.stops_at_once(lambda: "stopped"):
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_after_the_block_signals_do_what_they_did():
    before = [signal.signal(signal.SIGINT, _process.quit_process), signal.getsignal(signal.SIGTERM)]
    try:
        with _process.stops_at_once(lambda: "stopped"):
            assert signal.getsignal(signal.SIGTERM) != before[1]
        assert signal.getsignal(signal.SIGINT) is _process.quit_process
        assert signal.getsignal(signal.SIGTERM) == before[1]
        assert signal.set_wakeup_fd(-1) == -1
    finally:
        signal.signal(signal.SIGINT, before[0])
