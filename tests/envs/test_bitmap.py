"""Lookups in constant boolean tables."""

import jax
import numpy as np

from jaxenv.envs._bitmap import lookup


def test_a_lookup_returns_every_entry_of_tables_of_any_size():
    rng = np.random.default_rng(0)
    tables = [rng.random(size) < 0.5 for size in (5, 32, 100, 1024, 3000)]
    cells = [np.arange(len(table), dtype=np.int32) for table in tables]
    for table, found in zip(tables, jax.jit(lambda cells: list(map(lookup, tables, cells)))(cells), strict=True):
        np.testing.assert_array_equal(found, table)
