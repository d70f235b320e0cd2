"""Libraries that a test needs."""

import warnings

import pytest


def imported(name):
    """The module; the test is skipped without its library."""
    with warnings.catch_warnings(action="ignore"):  # JAXopt, which Brax imports, announces its end
        return pytest.importorskip(name)
