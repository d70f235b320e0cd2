"""Files that appear complete or not at all, and locks on folders and files."""

import contextlib
import errno
import itertools
import json
import os
import pathlib
import socket
import sys
import time
import warnings
import weakref
from collections.abc import Iterator

LOCK = ".lock"  # the file of a `FolderLock`
_ATTEMPTS, _PAUSE = 10, 0.02  # another process may hold a lock for a moment, to test whether it is free


@contextlib.contextmanager
def replacing(path: pathlib.Path, *, rename: bool = False) -> Iterator[pathlib.Path]:
    """Yields an empty file next to ``path``, which replaces it at the end and disappears after an error.

    The name is unique, so several processes that write the same path each write a whole file, and the last one stays.
    Leftovers of killed processes are removed. With ``rename`` an existing file stays, and the new one takes the first
    free name: ``NAME-2``, ``NAME-3``, ...
    """
    _remove_leftovers(path)
    temporary, descriptor = _temporary(path)
    try:
        yield temporary
        os.replace(temporary, _free(path) if rename else path)
    finally:
        temporary.unlink(missing_ok=True)
        if descriptor is not None:
            os.close(descriptor)


class FolderLock:
    """The exclusive right to write to a folder. A process holds it until it releases it or ends.

    It is a lock of the operating system on the file ``.lock`` in the folder, which is created if it is missing. The
    file names the process. Processes that are forked meanwhile do not have the lock. Where the file system has no
    locks, there is a warning instead. A ``ValueError`` names the process that has the lock already.
    """

    def __init__(self, owner: str, folder: pathlib.Path):
        self._path = folder.absolute() / LOCK
        descriptor = self._acquired(owner)
        self._close = weakref.finalize(self, os.close, descriptor)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode())
        _held.add(self)

    def release(self) -> None:
        """Lets others write to the folder; does nothing the second time."""
        _held.discard(self)
        if (found := self._close.detach()) is not None:
            descriptor = found[2][0]
            if _is_at(descriptor, self._path):
                with contextlib.suppress(OSError):  # Windows cannot remove open files
                    self._path.unlink()
            os.close(descriptor)

    def holds(self, folder: pathlib.Path) -> bool:
        """Returns whether this is the lock of ``folder``."""
        return self._path == folder.absolute() / LOCK

    def _acquired(self, owner: str) -> int:
        """Opens and locks the file; returns its descriptor."""
        while True:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            except FileNotFoundError:  # the previous owner has removed the folder
                continue
            try:
                lock(owner, self._path.parent, descriptor)
                if _is_at(descriptor, self._path):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)  # the previous owner has removed the file


_held: weakref.WeakSet[FolderLock] = weakref.WeakSet()


def is_held_elsewhere(folder: pathlib.Path) -> bool:
    """Returns whether another process has the lock of a folder."""
    if any(lock.holds(folder) for lock in list(_held)):
        return False
    try:
        check_unused("", folder)
    except ValueError:
        return True
    return False


def check_unused(owner: str, folder: pathlib.Path) -> None:
    """Raises a ``ValueError`` if a process has the lock of a folder; nothing is written."""
    missing = FileNotFoundError, NotADirectoryError, PermissionError
    with contextlib.suppress(*missing), (folder / LOCK).open("r+b") as file:
        lock(owner, folder, file.fileno())


def lock(owner: str, path: pathlib.Path, descriptor: int) -> None:
    """Locks an open file until it is closed; raises a ``ValueError`` if it is locked, also by this process."""
    for attempt in itertools.count(1):
        try:
            _lock(descriptor)
            return
        except OSError as fault:
            if fault.errno not in (errno.EAGAIN, errno.EACCES, errno.EDEADLK):
                warnings.warn(f"{owner}: {path} has no locks, only one process may write to it: {fault}", stacklevel=3)
                return
        if attempt == _ATTEMPTS:
            raise ValueError(f"{owner}: {path} is in use by {_holder(descriptor)}")
        time.sleep(_PAUSE)


def _holder(descriptor: int) -> str:
    """Describes the process that has a lock, and what to do."""
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        found = json.loads(os.read(descriptor, 1000))
        pid, host = int(found["pid"]), str(found["host"])
    except (OSError, ValueError, TypeError, KeyError):  # not the file of a `FolderLock`
        return "another process, or opened in this one: close it first, or choose another"
    if (pid, host) == (os.getpid(), socket.gethostname()):
        return f"this process itself, {pid} on {host}: close its other user first"
    return f"process {pid} on {host}: wait until it ends, or choose another folder"


def _lock(descriptor: int) -> None:
    """Locks a file, or raises an ``OSError`` at once. The lock ends with the last descriptor of this opening."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, 2**30, os.SEEK_SET)  # other processes can neither read nor write these bytes
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_at(descriptor: int, path: pathlib.Path) -> bool:
    """Returns whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def _temporary(path: pathlib.Path) -> tuple[pathlib.Path, int | None]:
    """Creates a file of a unique name next to ``path``; returns it and its descriptor.

    While the descriptor is open, other processes see that the writer lives.
    """
    while True:
        temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        if sys.platform == "win32":  # Windows cannot move open files
            os.close(descriptor)
            return temporary, None
        try:
            _lock(descriptor)
        except BlockingIOError:  # another process takes it for a leftover
            pass
        except OSError:  # without locks, leftovers cannot be told apart either
            return temporary, descriptor
        else:
            if _is_at(descriptor, temporary):
                return temporary, descriptor
        os.close(descriptor)


def _remove_leftovers(path: pathlib.Path) -> None:
    """Removes the temporary files of processes that were killed."""
    if sys.platform == "win32":
        return
    start = f".{path.name}."
    with contextlib.suppress(OSError):
        for name in os.listdir(path.parent):
            if name.startswith(start) and name.endswith(".tmp"):
                with contextlib.suppress(OSError):  # its writer is alive, or has just moved it
                    leftover = path.with_name(name)
                    with leftover.open("r+b") as file:
                        _lock(file.fileno())
                        leftover.unlink()


def _free(path: pathlib.Path) -> pathlib.Path:
    """Returns ``path`` or the next free name after it, and creates an empty file there."""
    for number in itertools.count(1):
        free = path if number == 1 else path.with_stem(f"{path.stem}-{number}")
        with contextlib.suppress(FileExistsError):
            os.close(os.open(free, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
            return free
    raise AssertionError


def _leave_locks() -> None:
    """Forgets the locks in a forked process: they belong to its parent."""
    for held in list(_held):
        held._close()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_locks)
