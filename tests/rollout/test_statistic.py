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


def test_compiled_code_reads_the_value_and_whether_it_is_valid():
    @jax.jit
    def best(found):
        return jnp.where(found.valid, found.value, -1.0)

    assert best(Statistic.where(jnp.array([True, False]), jnp.array([2.0, 3.0]))).tolist() == [2, -1]


def test_one_flag_covers_all_components_of_a_vector_reward():
    found = Statistic.where(jnp.array([True, False])[:, None], jnp.ones((2, 3)))
    per_seed = Statistic(found.value, found.valid[:, 0])  # as jax.vmap over seeds makes it
    assert to_host(per_seed) == to_host(found) == [[1, 1, 1], [None] * 3]
