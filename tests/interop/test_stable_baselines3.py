"""`to_stable_baselines3` without stable-baselines3, which tests/clients needs."""

import sys

import pytest

from jaxenv.interop import stable_baselines3


def test_without_the_library_the_error_says_what_to_install(monkeypatch):
    stable_baselines3._vec_env_class.cache_clear()
    monkeypatch.setitem(sys.modules, "stable_baselines3.common.vec_env", None)
    with pytest.raises(ImportError, match="pip install stable-baselines3"):
        stable_baselines3.to_stable_baselines3("CartPole-v1")
