"""Handling of Ctrl-C and SIGTERM in the process of a command."""

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn


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
