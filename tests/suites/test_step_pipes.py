"""Pipes of Gymnasium's workers: actions and answers of a step arrive unchanged, and so does everything else."""

import multiprocessing
import pickle
import subprocess
import sys

import numpy as np
import pytest

from jaxenv.suites import _step_pipes

gymnasium = pytest.importorskip("gymnasium", "1.3")
spaces = gymnasium.spaces

SPACES = {
    "box": (spaces.Box(-1, 1, (2, 3), np.float32), np.array([[0.25, -1, 1], [0, 0.5, -0.5]], np.float32)),
    "scalar box": (spaces.Box(-1, 1, (), np.float64), np.float64(0.1)),
    "discrete": (spaces.Discrete(5, start=-2), np.int64(-2)),
    "multi-discrete": (spaces.MultiDiscrete([3, 4]), np.array([2, 3])),
    "multi-binary": (spaces.MultiBinary(3), np.array([1, 0, 1], np.int8)),
    "dict": (spaces.Dict(a=spaces.Discrete(3), b=spaces.Box(0, 1, (1,))), {"a": 2, "b": np.ones(1, np.float32)}),
}


@pytest.fixture
def ends():
    ours, theirs = multiprocessing.Pipe()
    yield _step_pipes.StepPipe(ours, None), _step_pipes._WorkerPipe(theirs)
    ours.close()
    theirs.close()


@pytest.mark.parametrize(("space", "action"), SPACES.values(), ids=SPACES.keys())
def test_a_step_arrives_in_the_space(ends, space, action):
    ours, theirs = ends
    ours.space = theirs.space = space
    ours.send(("step", action))
    command, arrived = theirs.recv()
    assert command == "step"
    assert type(arrived) is type(action)
    parts = arrived.items() if isinstance(arrived, dict) else [("", arrived)]
    for name, part in parts:
        sent = action[name] if name else action
        np.testing.assert_array_equal(part, sent, strict=True)
        assert np.asarray(part).flags.writeable  # environments may write to their action


@pytest.mark.parametrize("reward", [0.1, np.float32(0.1), np.int64(3), -2])
@pytest.mark.parametrize("flags", [(True, False), (np.False_, np.True_)])
def test_the_answer_of_a_step_arrives_without_its_info(ends, reward, flags):
    ours, theirs = ends
    ours.space = theirs.space = spaces.Discrete(2)
    ours.send(("step", np.int64(1)))
    theirs.recv()
    theirs.send(((None, reward, *flags, {"cannot be pickled": lambda: None}), True))
    assert ours.recv() == ((None, float(reward), *map(bool, flags), {}), True)


def test_everything_else_is_pickled(ends):
    ours, theirs = ends
    ours.space = theirs.space = spaces.Discrete(2)
    ours.send(("step", np.int64(1)))
    theirs.recv()
    theirs.send((None, False))  # the environment raised an exception
    assert ours.recv() == (None, False)
    ours.send(("_call", ("render", (), {})))
    assert theirs.recv() == ("_call", ("render", (), {}))
    five = ("a", "result", "of", "five", "parts")
    theirs.send((five, True))
    assert ours.recv() == (five, True)


def test_a_worker_does_not_import_this_package():
    script = "import pickle, sys; print(pickle.load(sys.stdin.buffer).func.__name__, 'jaxenv' in sys.modules)"
    payload = pickle.dumps(_step_pipes.worker([0]))
    done = subprocess.run([sys.executable, "-c", script], input=payload, capture_output=True, check=True)
    assert done.stdout.split() == [b"_work", b"False"]
