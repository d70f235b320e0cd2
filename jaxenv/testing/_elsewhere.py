"""Checks in a thread with a bound on time, and in another process with another seed of ``hash`` and on a CPU."""

import contextlib
import contextvars
import dataclasses
import hashlib
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from importlib import import_module
from typing import Any, NoReturn, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.core.environment import Environment
from jaxenv.core.wrapper import layers
from jaxenv.testing._programs import action_shapes, run, start
from jaxenv.tree import Tree
from jaxenv.tree._typed_keys import to_words

T = TypeVar("T")

THREADS = "jaxenv check"  # the name of the threads
# Settings that JAX keeps for each thread, and that a program may set with a context manager of this name.
_OF_TRACES = "default_prng_impl enable_x64 numpy_dtype_promotion numpy_rank_promotion threefry_partitionable"
_SETTINGS = f"""{_OF_TRACES} check_tracer_leaks debug_infs debug_key_reuse debug_nans default_device
    default_matmul_precision disable_jit transfer_guard"""


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
                for name, value in settings.items():
                    if getattr(jax.config, f"jax_{name}") != value:  # each change compiles programs again
                        stack.enter_context(getattr(jax, name)(value))
                if not mesh.empty:
                    stack.enter_context(jax.set_mesh(mesh))
                outcome.set_result(context.run(function))
        except BaseException as error:  # such as SystemExit; the caller raises it
            outcome.set_exception(error)

    thread = threading.Thread(target=run, name=THREADS, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise OutOfTime(f"it takes longer than {seconds:g} s (max_seconds=, --max-seconds)")
    return outcome.result()


def exit_with(status: int) -> NoReturn:
    """Ends the process, also while a function that was left behind goes on."""
    if any(thread.name == THREADS for thread in threading.enumerate()):
        sys.stdout.flush()
        os._exit(status)  # Python's own exit may wait for a compilation, or crash in it
    raise SystemExit(status)


_TIMEOUT = 120  # seconds


@dataclasses.dataclass(frozen=True)
class Reply:
    """The findings of the other process."""

    import_error: str = ""  # the exception that an import raised; empty if all succeeded
    started: bool = False  # whether the imports started a backend
    imported: tuple[str, ...] = ()  # names of all modules that the imports loaded
    not_run: str = ""  # why the environment did not run there; empty if it did
    defaults: dict[str, str] = dataclasses.field(default_factory=dict)  # `defaults` of the environment
    # The leaves of states and rows ``[T + 1, B, ...]`` from a reset, if the programs differ from the asking process's.
    values: list[np.ndarray] | None = None


def ask(modules: list[str], env: Environment, keys: jax.Array, actions: Tree) -> Reply:
    """Asks another process about ``env`` (defined in ``modules``), lane keys ``[B]`` and actions; returns its reply."""
    pickled, known, reason = None, list[str](), "the environment is defined in a script or notebook"
    if not modules:
        return Reply(not_run=reason)
    if not any(type(layer).__module__ == "__main__" for layer in layers(env)):
        try:
            pickled, known, reason = pickle.dumps(env), digests(env, keys), ""
        except Exception as error:  # pickle refuses what is defined inside a function
            reason = str(error)
    settings = {f"jax_{name}": getattr(jax.config, f"jax_{name}") for name in _OF_TRACES.split()}
    data, impl = np.asarray(jax.random.key_data(keys)), str(jax.random.key_impl(keys))
    request = pickle.dumps((modules, settings, pickled, known, data, impl, actions))
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": seed, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", "from jaxenv.testing import _elsewhere; _elsewhere.answer()"]
    try:
        process = subprocess.run(command, env=environment, input=request, capture_output=True, timeout=_TIMEOUT)
    except subprocess.TimeoutExpired:
        return Reply(not_run=f"another process took longer than {_TIMEOUT} s to import and trace it")
    except OSError as error:
        return Reply(not_run=f"another process cannot be started: {error}")
    if process.returncode:
        lines = process.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {process.returncode}"]
        return Reply(not_run=f"another process ended early: {lines[-1]}")
    reply = pickle.loads(process.stdout)
    return dataclasses.replace(reply, not_run=reason) if reason else reply


# --- in both processes -----------------------------------------------------------------------------------------------


def digests(env: Environment, keys: jax.Array) -> list[str]:
    """Digests the programs of ``reset`` and ``step``, including constants; nothing is compiled."""
    reset = jax.jit(lambda env, keys: env.reset(keys)).trace(env, keys)
    step = jax.jit(lambda env, *args: env.step(*args)).trace(env, reset.out_info[0], action_shapes(env))
    texts = (program.lower(lowering_platforms=("cpu",)).as_text() for program in (reset, step))
    return [hashlib.sha256(text.encode()).hexdigest() for text in texts]


def defaults(env: Environment) -> dict[str, str]:
    """Returns the numeric defaults of the fields of all layers and their params, by class and field, as text."""
    found: dict[str, str] = {}

    def collect(obj: Any) -> None:
        for field in dataclasses.fields(obj):
            value = getattr(obj, field.name)
            if isinstance(field.default, int | float | np.generic | np.ndarray):
                found[f"{type(obj).__name__}.{field.name}"] = repr(np.asarray(field.default).tolist())
            elif dataclasses.is_dataclass(value) and not isinstance(value, Environment):
                collect(value)

    for layer in layers(env):
        collect(layer)
    return found


# --- in the other process --------------------------------------------------------------------------------------------


def answer() -> None:
    """Reads what `ask` sends from the standard input and writes a `Reply` to the standard output."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # modules may print on import
    output.write(pickle.dumps(_reply(pickle.load(sys.stdin.buffer))))
    output.close()


def _reply(request: tuple[Any, ...]) -> Reply:
    modules, settings, pickled, known, data, impl, actions = request
    try:
        for name in modules:
            import_module(name)
    except Exception as error:
        return Reply(import_error=f"{type(error).__name__}: {error}", not_run="another process cannot import it")
    try:  # the number of CPU devices cannot be changed once a backend has started
        jax.config.update("jax_num_cpu_devices", 2)
        started = False
    except RuntimeError:
        started = True
    reply = Reply(started=started, imported=tuple(sys.modules))
    if pickled is None:
        return reply
    for name, value in settings.items():
        jax.config.update(name, value)
    try:
        env = pickle.loads(pickled)
        keys = jax.random.wrap_key_data(jnp.asarray(data), impl=impl)
        reply = dataclasses.replace(reply, defaults=defaults(env))
        if digests(env, keys) == known:
            return reply
        rows = to_words(run(env, *start(env, keys), actions))
        return dataclasses.replace(reply, values=[np.asarray(x) for x in jax.tree.leaves(rows)])
    except Exception as error:
        return dataclasses.replace(reply, not_run=f"another process cannot run it: {type(error).__name__}: {error}")
