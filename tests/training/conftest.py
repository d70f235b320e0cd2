"""Fixtures of the tests of training runs."""

import pytest

from tests.training import drift


@pytest.fixture(scope="module")
def drifting():
    """The learner of `tests.training.drift`, under the name ``"drift"``."""
    with drift.registered():
        yield
