"""Pipes between `AsyncVectorEnv` and its workers that transfer a few bytes per step.

Gymnasium pickles each action and each answer, infos included. These pipes send the numbers of a step as raw bytes; the
observation is in shared memory, and infos, which are not shown, stay in the worker. Everything else, including
exceptions, is pickled as in Gymnasium.

``docs/suites/gymnasium.md`` has the gain. A worker receives this module by value, so that it need not import jaxenv and
JAX: import neither of them here.
"""

import functools
import pickle
import struct
import sys
from typing import Any

import numpy as np

# The first byte of a step and of its answer. Pickles begin with another one.
_STEP = b"\0"
# Reward, terminated and truncated.
_ANSWER = "=d??"


class StepPipe:
    """The engine's end of a pipe. Actions of a space without a dtype, such as a ``Dict``, are pickled."""

    def __init__(self, connection: Any, space: Any):
        self.connection, self.space = connection, space

    def send(self, message: Any) -> None:
        if message[0] == "step" and self.space.dtype is not None:
            self.connection.send_bytes(_STEP + np.asarray(message[1], self.space.dtype).tobytes())
        else:
            self.connection.send(message)

    def recv(self) -> Any:
        message = self.connection.recv_bytes()
        if not message.startswith(_STEP):
            return pickle.loads(message)
        return (None, *struct.unpack_from(_ANSWER, message, 1), {}), True

    def fileno(self) -> int:
        return self.connection.fileno()

    def poll(self, timeout: float | None = 0.0) -> bool:
        return self.connection.poll(timeout)

    def close(self) -> None:
        self.connection.close()

    @property
    def closed(self) -> bool:
        return self.connection.closed


class _WorkerPipe:
    """The worker's end of a pipe. ``space`` is assigned when the environment exists."""

    space: Any

    def __init__(self, connection: Any):
        self.connection = connection
        self._stepping = False

    def recv(self) -> Any:
        message = self.connection.recv_bytes()
        command, data = ("step", self._action(message)) if message.startswith(_STEP) else pickle.loads(message)
        self._stepping = command == "step"
        return command, data

    def _action(self, message: bytes) -> Any:
        # A copy, since environments may write to their action; a scalar where the space has no axes.
        return np.frombuffer(message, self.space.dtype, offset=1).reshape(self.space.shape).copy()[()]

    def send(self, message: Any) -> None:
        result, success = message
        if self._stepping and success:
            _, reward, terminated, truncated, _ = result
            self.connection.send_bytes(_STEP + struct.pack(_ANSWER, reward, terminated, truncated))
        else:
            self.connection.send(message)


def worker(begun: Any) -> Any:
    """Returns the ``worker`` function of an ``AsyncVectorEnv`` whose ``parent_pipes`` become `StepPipe`.

    Shared memory has a number per lane, 1 once its worker has begun to run: it has imported the script by then.
    """
    return functools.partial(ByValue(_work), begun)


def _work(begun: Any, index: int, make: Any, pipe: Any, *arguments: Any) -> None:
    begun[index] = 1
    from gymnasium.vector.async_vector_env import _async_worker

    end: Any = _WorkerPipe(pipe)

    def made() -> Any:
        env = make()
        end.space = env.action_space
        return env

    _async_worker(index, made, end, *arguments)


class ByValue:
    """A function that travels to another process with the code of its module instead of its name."""

    def __init__(self, function: Any):
        self.function = function

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    def __reduce__(self) -> Any:
        import cloudpickle  # a dependency of Gymnasium

        module = sys.modules[self.function.__module__]
        cloudpickle.register_pickle_by_value(module)
        try:
            return pickle.loads, (cloudpickle.dumps(self.function),)
        finally:
            cloudpickle.unregister_pickle_by_value(module)
