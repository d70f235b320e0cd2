"""A bound on the time of a check, which runs in a thread of its own, since nothing stops a compilation."""

import contextlib
import contextvars
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NoReturn, TypeVar

import jax

T = TypeVar("T")

THREADS = "jaxenv check"  # the name of the threads
# Settings that JAX keeps for each thread, and that a program may set with a context manager of this name.
_SETTINGS = """check_tracer_leaks debug_infs debug_key_reuse debug_nans default_device default_matmul_precision
    default_prng_impl disable_jit enable_x64 numpy_dtype_promotion numpy_rank_promotion threefry_partitionable
    transfer_guard"""


class OutOfTime(TimeoutError):
    """Raised for what does not return in time; a ``TimeoutError`` of an environment is an error like others."""


def bounded(function: Callable[[], T], seconds: float | None) -> T:
    """Returns the result of a function, or raises `OutOfTime` and leaves it in its thread after ``seconds``.

    The settings above hold in it as in the caller's thread, and so does a mesh of ``jax.set_mesh``. Without a bound
    it runs in the thread of the caller.
    """
    if seconds is None:
        return function()
    outcome: Future[T] = Future()
    settings = {name: getattr(jax.config, f"jax_{name}") for name in _SETTINGS.split()}
    context, mesh = contextvars.copy_context(), jax.sharding.get_mesh()

    def run() -> None:
        try:
            with contextlib.ExitStack() as stack:
                managers: dict[str, Any] = vars(jax)
                for name, value in settings.items():
                    if getattr(jax.config, f"jax_{name}") != value:  # each change compiles programs again
                        stack.enter_context(managers[name](value))
                if not mesh.empty:
                    stack.enter_context(jax.set_mesh(mesh))
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
