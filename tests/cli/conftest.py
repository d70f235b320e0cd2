"""Fixtures of the command-line tests."""

import sys

import pytest

from jaxenv import environment
from jaxenv.envs.bsuite import _digits


@pytest.fixture
def no_digits(monkeypatch):
    """A machine without scikit-learn."""
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    _digits.load.cache_clear()
    environment._start_shapes.cache_clear()
