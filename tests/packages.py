"""Packages that some tests need: a test without its package is skipped, with the reason."""

import warnings

import pytest


def imported(name, version=None):
    """The module, imported now; the test is skipped without its package."""
    with warnings.catch_warnings(action="ignore"):  # JAXopt, which Brax imports, announces its end
        return pytest.importorskip(name, version)


class lazy:
    """The module of a name, imported at its first use, so that collecting the tests does not import it."""

    def __init__(self, name):
        vars(self)["_name"] = name

    def __getattr__(self, attribute):
        if attribute.startswith(("_", "pytest_")):  # pytest asks every object for some of these
            raise AttributeError(attribute)
        return getattr(imported(self._name), attribute)

    def __setattr__(self, attribute, value):
        setattr(imported(self._name), attribute, value)
