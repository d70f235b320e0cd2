"""Fixtures of the command-line tests."""

import sys
import weakref

import pytest

from jaxenv._util import programs
from jaxenv.envs.bsuite import mnist_bandit
from tests.training import drift


@pytest.fixture
def no_digits(monkeypatch):
    """A machine without scikit-learn."""
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    mnist_bandit.load.cache_clear()
    monkeypatch.setattr(programs, "_all", weakref.WeakKeyDictionary())  # shapes that were found with it


@pytest.fixture(scope="module")
def drifting():
    """The learner of `tests.training.drift`, under the name ``"drift"``."""
    with drift.registered():
        yield
