"""The process of a command: where it keeps compiled programs, and what ends it."""

import contextlib
import os
import pathlib
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

_MOST_BYTES = 2**30
_LEAST_SECONDS = 0.1  # programs that compile faster are not kept


def keep_programs() -> None:
    """Sets JAX's variables of its compilation cache where the user has not; JAX reads them when it is imported.

    The programs that were not used for the longest time are deleted until at most 1 GiB is left: JAX itself bounds the
    folder only with a further package. A folder that cannot be written is a warning.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ or "JAX_ENABLE_COMPILATION_CACHE" in os.environ:
        return
    try:
        folder = _user_folder() / "jaxenv" / "programs"
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(f"{folder} is read-only")
        _delete_oldest(folder)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home
        print(f"jaxenv: warning: compiled programs are not kept: {error}", file=sys.stderr)
        return
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", str(_LEAST_SECONDS))


def _delete_oldest(folder: pathlib.Path) -> None:
    left, found = _MOST_BYTES, {program: program.stat() for program in folder.iterdir()}
    for program, status in sorted(found.items(), key=lambda item: item[1].st_atime, reverse=True):
        left -= status.st_size
        if left < 0:
            program.unlink(missing_ok=True)  # another command may have deleted it


def _user_folder() -> pathlib.Path:
    if given := os.environ.get("XDG_CACHE_HOME"):
        return pathlib.Path(given)
    if sys.platform == "win32":
        return pathlib.Path(os.environ.get("LOCALAPPDATA") or pathlib.Path.home() / "AppData" / "Local")
    return pathlib.Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


def quit_process(number: int = signal.SIGINT, *_: Any) -> NoReturn:
    """Ends the process on Ctrl-C without unwinding.

    JAX loses a KeyboardInterrupt raised in one of its callbacks, and may crash at exit after
    an interrupted compilation.
    """
    _leave(number, "")


@contextlib.contextmanager
def stops_at_once(message: Callable[[], str]) -> Iterator[None]:
    """Makes Ctrl-C and SIGTERM end the process, inside the block, with ``message()`` on stderr, also in compiled code.

    Python runs signal handlers only between its own instructions, so a thread waits for the signals, and the handlers
    do nothing. The exit code is 128 plus the number of the signal. If the command runs as a function in another
    program, that program's handlers stay.
    """
    if signal.getsignal(signal.SIGINT) is not quit_process:
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)

    def wait() -> None:
        with reader:
            while received := reader.recv(1):
                if received[0] in numbers:
                    _leave(received[0], f"{message()}\n")

    reader, writer = socket.socketpair()
    writer.setblocking(False)
    threading.Thread(target=wait, name="jaxenv-signals", daemon=True).start()
    before = [signal.signal(number, lambda *_: None) for number in numbers]
    wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        writer.close()


def _leave(number: int, message: str) -> NoReturn:
    if sys.stderr.isatty():
        message = f"\x1b[?25h\n{message}"  # the progress bar hides the cursor
    with contextlib.suppress(OSError):
        os.write(sys.stderr.fileno(), message.encode())
    os._exit(128 + number)
