"""Fixtures of the command-line tests."""

import sys

import pytest

from jaxenv import environment
from jaxenv.envs.bsuite import _digits
from tests.training import drift


@pytest.fixture
def no_digits(monkeypatch):
    """A machine without scikit-learn."""
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    _digits.load.cache_clear()
    environment._start_shapes.cache_clear()


@pytest.fixture(scope="module")
def drifting():
    """The learner of `tests.training.drift`, under the name ``"drift"``."""
    with drift.registered():
        yield
