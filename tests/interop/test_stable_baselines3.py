"""What `to_stable_baselines3` does without stable-baselines3; tests/clients has the tests with it."""

import sys

import numpy as np
import pytest

from jaxenv import specs
from jaxenv.interop import _adapter, stable_baselines3


def test_without_the_library_the_error_says_what_to_install(monkeypatch):
    _adapter.joined.cache_clear()
    monkeypatch.setitem(sys.modules, "stable_baselines3.common.vec_env", None)
    with pytest.raises(ImportError, match="pip install stable-baselines3"):
        stable_baselines3.to_stable_baselines3("CartPole-v1")


@pytest.mark.parametrize("shape", [(), (2,)])
def test_spaces_whose_integers_start_elsewhere_are_refused(shape):
    stable_baselines3._check_starts(specs.Bounded(shape, np.int32, 0, 2), "action")
    with pytest.raises(ValueError, match=r"integers .*got "):
        stable_baselines3._check_starts({"a": specs.Bounded(shape, np.int32, -1, 1)}, "action")
