"""``Statistic``: a number that may be missing, inside compiled code and outside."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.rollout import Statistic, to_host


def test_a_missing_statistic_is_nan_when_it_is_read_and_none_on_the_host():
    found = Statistic.where(jnp.array([True, False]), jnp.array([2.0, np.inf]))
    assert np.array_equal(np.asarray(found), [2, np.nan], equal_nan=True)
    assert to_host({"mean": found}) == {"mean": [2, None]}
    assert repr(found) == "Statistic([2.0, nan])"
    assert float(jax.tree.map(lambda x: x[0], found)) == 2


def test_the_value_of_a_missing_statistic_is_nan_outside_compiled_code_and_stops_no_program():
    def measure(flag):
        found = Statistic.where(jnp.stack([flag, ~flag]), jnp.array([2.0, 3.0]))
        return found, found.value

    with jax.debug_nans(True):
        found, inside = jax.jit(measure)(jnp.array(True))
        np.testing.assert_array_equal(found.value, [2, np.nan])
        assert found.value.dtype == np.float32
        assert np.nanmean(found.value) == 2
        assert inside.tolist() == [2, 0]
        mean = jax.vmap(lambda x: jnp.where(x.valid, x.value, -1.0))(found)  # a transformation sees what a program sees
        assert mean.tolist() == [2, -1]
    fetched = jax.device_get(found)
    np.testing.assert_array_equal(fetched.value, [2, np.nan])


def test_compiled_code_reads_the_value_and_whether_it_is_valid():
    @jax.jit
    def best(found):
        return jnp.where(found.valid, found.value, -1.0)

    assert best(Statistic.where(jnp.array([True, False]), jnp.array([2.0, 3.0]))).tolist() == [2, -1]


def test_one_flag_covers_all_components_of_a_vector_reward():
    found = Statistic.where(jnp.array([True, False])[:, None], jnp.ones((2, 3)))
    per_seed = Statistic(found.value, found.valid[:, 0])  # as jax.vmap over seeds makes it
    assert to_host(per_seed) == to_host(found) == [[1, 1, 1], [None] * 3]
