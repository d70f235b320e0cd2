"""Files that appear complete or not at all, also from several processes; folders that one process has for itself."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys

import pytest

from jaxenv._util import files


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write(path, text, **options):
    with files.replacing(path, **options) as file:
        file.write_text(text)


def in_another_process(code):
    """The output of code that runs in a process of its own, which may kill itself."""
    start = "import os, pathlib, signal, sys, time\nfrom jaxenv._util import files\n"
    done = subprocess.run([sys.executable, "-c", start + code], capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.stdout


# --- files -----------------------------------------------------------------------------------------------------------


def test_writers_of_one_path_do_not_meet_and_the_last_one_stays(tmp_path):
    path = tmp_path / "one.txt"
    with files.replacing(path) as first:
        first.write_text("first, ")
        with files.replacing(path) as second:
            second.write_text("second")
            assert first != second
            with first.open("a") as opened:
                opened.write("whole")
        assert path.read_text() == "second"
    assert path.read_text() == "first, whole"
    assert names(tmp_path) == ["one.txt"]


def test_an_error_leaves_the_file_before_and_no_other(tmp_path):
    write(tmp_path / "one.txt", "before")

    def interrupted():
        with files.replacing(tmp_path / "one.txt") as file:
            file.write_text("half of")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (tmp_path / "one.txt").read_text() == "before"
    assert names(tmp_path) == ["one.txt"]


def test_what_killed_processes_have_left_is_removed_and_what_others_write_is_not(tmp_path):
    code = f"""
with files.replacing(pathlib.Path({str(tmp_path / "one.txt")!r})) as file:
    file.write_text("half of")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    in_another_process(code)
    (left,) = names(tmp_path)
    with files.replacing(tmp_path / "one.txt") as file:
        write(tmp_path / "one.txt", "another")
        assert names(tmp_path) == sorted([file.name, "one.txt"])
        file.write_text("this")
    assert names(tmp_path) == ["one.txt"]
    assert left.startswith(".one.txt.")


def test_a_file_that_is_there_may_be_left_alone(tmp_path):
    with files.replacing(tmp_path / "film.gif", rename=True) as file:
        file.write_text("started first")
        write(tmp_path / "film.gif", "ended first", rename=True)
    write(tmp_path / "film.gif", "third", rename=True)
    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert found == {"film.gif": "ended first", "film-2.gif": "started first", "film-3.gif": "third"}


def test_files_have_the_permissions_of_others(tmp_path):
    (tmp_path / "plain.txt").touch()
    write(tmp_path / "one.txt", "text")
    assert (tmp_path / "one.txt").stat().st_mode == (tmp_path / "plain.txt").stat().st_mode


# --- folders ---------------------------------------------------------------------------------------------------------


def test_one_folder_is_locked_once_until_it_is_released(tmp_path):
    lock = files.FolderLock("train", tmp_path / "new")
    rule = rf"^train: .*new is in use by this process itself, {os.getpid()} on {socket.gethostname()}: close "
    for refused in (
        lambda: files.FolderLock("train", tmp_path / "new"),
        lambda: files.check_unused("train", tmp_path / "new"),
    ):
        with pytest.raises(ValueError, match=rule):
            refused()
    other = files.FolderLock("train", tmp_path)
    lock.release()
    assert names(tmp_path / "new") == []
    files.check_unused("train", tmp_path / "new")
    files.FolderLock("train", tmp_path / "new").release()
    other.release()
    other.release()


def test_another_process_is_named_and_its_end_is_that_of_its_lock(tmp_path):
    code = f"""
lock = files.FolderLock("train", pathlib.Path({str(tmp_path)!r}))
print("locked", flush=True)
sys.stdin.read()
"""
    start = "import pathlib, sys\nfrom jaxenv._util import files\n"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", start + code], **pipes) as child:
        try:
            assert child.stdout.readline() == "locked\n"
            holder = f"process {child.pid} on {socket.gethostname()}"
            rule = rf"in use by {holder}: wait until it ends, or choose another folder$"
            assert files.is_held_elsewhere(tmp_path)
            for refused in (files.FolderLock, files.check_unused):
                with pytest.raises(ValueError, match=rule):
                    refused("train", tmp_path)
        finally:
            child.kill()
    assert names(tmp_path) == [".lock"]
    files.check_unused("train", tmp_path)
    lock = files.FolderLock("train", tmp_path)
    assert json.loads((tmp_path / ".lock").read_text())["pid"] == os.getpid()
    assert not files.is_held_elsewhere(tmp_path)
    lock.release()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")
def test_a_forked_process_neither_has_the_lock_nor_ends_it(tmp_path):
    code = f"""
folder = pathlib.Path({str(tmp_path)!r})
lock = files.FolderLock("train", folder)
if not (child := os.fork()):
    print(files.is_held_elsewhere(folder), flush=True)
    lock.release()
    sys.exit()
os.waitpid(child, 0)
try:
    files.check_unused("train", folder)
except ValueError:
    print("locked", flush=True)
if not os.fork():
    os.closerange(0, 3)  # the test does not wait for it
    time.sleep(30)
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert in_another_process(code).split() == ["True", "locked"]
    files.FolderLock("train", tmp_path).release()  # though the second child lives


def test_a_lock_whose_file_was_removed_before_it_came_is_another_one(tmp_path, monkeypatch):
    """A process may open the file just before the one that has it removes it."""
    first, lock = files.FolderLock("train", tmp_path), files._lock

    def late(descriptor):
        monkeypatch.undo()
        first.release()
        lock(descriptor)

    monkeypatch.setattr(files, "_lock", late)
    second = files.FolderLock("train", tmp_path)
    with pytest.raises(ValueError, match="in use"):
        files.FolderLock("train", tmp_path)
    second.release()


def test_a_file_system_without_locks_is_warned_about(tmp_path, monkeypatch):
    def missing(descriptor):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(files, "_lock", missing)
    with pytest.warns(UserWarning, match=r"train: .* has no locks.*not supported"):
        lock = files.FolderLock("train", tmp_path)
    write(tmp_path / "one.txt", "text")
    lock.release()
    assert names(tmp_path) == ["one.txt"]


def test_a_lock_that_is_dropped_ends(tmp_path):
    lock = files.FolderLock("train", tmp_path)
    del lock
    files.FolderLock("train", pathlib.Path(tmp_path)).release()
