"""The paged ring of rows."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.data.replay import replay_state
from tests.data.replay.blocks import block


def test_both_ways_of_writing_rows_agree():
    rows = jax.tree.map(jnp.asarray, block(0, 5).timestep.observation)
    page, offset = jnp.divmod((30 + jnp.arange(5, dtype=jnp.int32)) % 32, np.int32(16))
    for x in jax.tree.leaves(rows):
        empty = replay_state.empty_ring(32, x)
        rings = [
            jax.jit(write)(empty, x, page, offset) for write in (replay_state._write_one_by_one, replay_state._scatter)
        ]
        np.testing.assert_array_equal(*rings)
        np.testing.assert_array_equal(rings[0][1, :, 14:], np.swapaxes(x[:2], 0, 1))
        np.testing.assert_array_equal(rings[0][0, :, :3], np.swapaxes(x[2:], 0, 1))
