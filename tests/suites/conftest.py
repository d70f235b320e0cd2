"""Fixtures of the tests of suites outside JAX."""

import logging
import multiprocessing

import pytest

# A module of environments that imports gymnax, which tests import when they need it.
collect_ignore = ["gymnax_environments.py"]


@pytest.fixture
def quiet(caplog):
    """JAX logs every error in a callback: not here."""
    logging.getLogger("jax").setLevel(logging.CRITICAL)


@pytest.fixture
def loaded():
    """A list of environments, which are closed after the test; they must leave no process."""
    environments = []
    yield environments
    for env in environments:
        env.close()
    assert multiprocessing.active_children() == []
