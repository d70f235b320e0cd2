"""Training over several processes: the results of one, files written once, and a process that is killed."""

import os
import pathlib
import signal
import socket
import subprocess
import sys

import jax
import numpy as np
import pytest

from jaxenv import data
from jaxenv._util import files

SECONDS = 900  # of a process that does not end


def start(
    folder: pathlib.Path, count: int, dies: dict[int, int] | None = None, checkpoint_format: str = "npz"
) -> list[subprocess.Popen]:
    """Starts all processes of a run; ``dies`` has the evaluation after which one kills itself, by number."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    line = [sys.executable, "-m", "tests.training.process", str(folder), checkpoint_format, str(count)]
    return [
        subprocess.Popen(
            [*line, str(number), str(port), str((dies or {}).get(number, 0))],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]


def finish(processes: list[subprocess.Popen]) -> list[tuple[int, list[str], str]]:
    """Exit code, the evaluations that it printed, and stderr of each."""
    try:
        ends = [(process.communicate(timeout=SECONDS), process.returncode) for process in processes]
        # Gloo prints its connections too.
        return [(code, [line for line in out.split("\n") if line.isdecimal()], errors) for (out, errors), code in ends]
    finally:
        for process in processes:
            process.kill()


def checkpoint(folder: pathlib.Path) -> dict[str, np.ndarray]:
    """The arrays of the last checkpoint by name; keys as numbers."""
    path = next(path for path in (folder / "checkpoint.npz", folder / "checkpoints") if path.exists())
    leaves = data.checkpoint_info(path).leaves
    key = jax.random.key(0).dtype
    like = {n: jax.ShapeDtypeStruct(s, key) if d == str(key) else np.empty(s, d) for n, d, s in leaves}
    found = data.restore(path, like, partial=True)
    return {n: np.asarray(jax.random.key_data(x)) if x.dtype == key else x for n, x in found.items()}


def assert_equal(folder: pathlib.Path, other: pathlib.Path) -> None:
    """Integers, keys and flags bit for bit, floats to rounding."""
    ours, theirs = checkpoint(folder), checkpoint(other)
    assert ours.keys() == theirs.keys()
    for name, x in ours.items():
        if x.dtype.kind == "f":
            np.testing.assert_allclose(x, theirs[name], rtol=1e-3, atol=1e-3, equal_nan=True)
        else:
            np.testing.assert_array_equal(x, theirs[name])


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> pathlib.Path:
    """A run of one process with all devices."""
    folder = tmp_path_factory.mktemp("alone")
    ((code, printed, errors),) = finish(start(folder, 1))
    assert code == 0, errors
    assert printed == ["1", "2", "3", "4"]
    return folder


def test_two_processes_train_as_one_and_write_once(alone, tmp_path):
    for code, printed, errors in finish(start(tmp_path, 2)):
        assert code == 0, errors
        assert printed == ["1", "2", "3", "4"]
    assert_equal(tmp_path, alone)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in alone.iterdir())


def test_all_processes_of_a_run_are_told_that_another_one_has_its_folder(tmp_path):
    lock = files.FolderLock("train", tmp_path)
    for code, printed, errors in finish(start(tmp_path, 2)):
        assert (code, printed) == (1, [])
        assert f"ValueError: train: {tmp_path} is in use by process {os.getpid()} on " in errors
    lock.release()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("checkpoint_format", ["npz", "orbax"])
def test_a_killed_process_ends_the_other_and_another_number_resumes(alone, tmp_path, checkpoint_format):
    if checkpoint_format == "orbax":
        pytest.importorskip("orbax.checkpoint", "0.12.4")
    processes = start(tmp_path, 2, {1: 2}, checkpoint_format)
    (code, printed, _), (killed, *_) = finish(processes)
    assert killed == -signal.SIGKILL
    assert code != 0
    assert printed[-1] in ("2", "3")
    # The checkpoint of evaluation 2 is written while the third runs: it may have been cut short.
    resumed = (["3", "4"],) if checkpoint_format == "npz" else (["3", "4"], ["2", "3", "4"])
    for code, printed, errors in finish(start(tmp_path, 1, checkpoint_format=checkpoint_format)):
        assert code == 0, errors
        assert printed in resumed
    assert_equal(tmp_path, alone)
