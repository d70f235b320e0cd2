"""A bound on time: the settings of the caller hold in the thread."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv.testing._elsewhere import _SETTINGS, THREADS, OutOfTime, bounded


def test_a_result_and_an_error_are_those_of_the_function():
    assert bounded(lambda: 3, 60.0) == 3
    with pytest.raises(ZeroDivisionError):
        bounded(lambda: 1 // 0, 60.0)
    goes_on = threading.Event()
    with pytest.raises(OutOfTime, match=r"longer than 0\.01 s"):
        bounded(goes_on.wait, 0.01)
    goes_on.set()
    for thread in threading.enumerate():  # the command would end this process for one that is left
        if thread.name == THREADS:
            thread.join()


def test_settings_and_meshes_of_the_callers_thread_hold():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("lanes",))

    def held():
        names = [f"jax_{name}" for name in _SETTINGS.split()]
        return {name: getattr(jax.config, name) for name in names}, jax.sharding.get_mesh(), jnp.zeros(2).devices()

    before = bounded(held, 60.0)
    device = jax.devices()[0]
    with jax.debug_nans(True), jax.default_device(device), jax.enable_x64(True), jax.set_mesh(mesh):
        expected = held()
        assert bounded(held, 60.0) == expected
    assert expected[0] != before[0]
    assert bounded(held, 60.0) == before
