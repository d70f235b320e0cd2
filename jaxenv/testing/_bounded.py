"""A bound on the time of a check, which runs in a thread of its own, since nothing stops a compilation."""

import contextvars
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import NoReturn, TypeVar

T = TypeVar("T")

THREADS = "jaxenv check"  # the name of the threads


class OutOfTime(TimeoutError):
    """Raised for what does not return in time; a ``TimeoutError`` of an environment is an error like others."""


def bounded(function: Callable[[], T], seconds: float) -> T:
    """Returns the result of a function, which is left behind in its thread if it takes longer than ``seconds``.

    Raises:
        OutOfTime: if it takes longer.
    """
    outcome: Future[T] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            outcome.set_result(context.run(function))
        except BaseException as error:  # such as SystemExit; the caller raises it
            outcome.set_exception(error)

    thread = threading.Thread(target=run, name=THREADS, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise OutOfTime(f"it takes longer than {seconds:g} s")
    return outcome.result()


def exit_with(status: int) -> NoReturn:
    """Ends the process, also while a function that was left behind goes on."""
    if any(thread.name == THREADS for thread in threading.enumerate()):
        sys.stdout.flush()
        os._exit(status)  # Python's own exit may wait for a compilation, or crash in it
    raise SystemExit(status)
