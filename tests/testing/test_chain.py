"""`Chain`: a corridor with a reward at its end."""

import jax.numpy as jnp
import pytest

from jaxenv import specs
from jaxenv.testing import Chain
from tests.rows import unrolled

FIRST, MID, LAST = 0, 1, 2


def test_action_1_moves_right_action_0_left_and_the_last_cell_pays():
    actions = jnp.array([0, 1, 1, 0, 1, 1])[:, None]
    rows = unrolled(Chain(4), actions)
    assert rows.observation[:, 0].tolist() == [0, 0, 1, 2, 1, 2, 3]
    assert rows.reward[:, 0].tolist() == [0, 0, 0, 0, 0, 0, 1]
    assert rows.step_type[:, 0].tolist() == [FIRST, MID, MID, MID, MID, MID, LAST]
    assert rows.discount[:, 0].tolist() == [1, 1, 1, 1, 1, 1, 0]


def test_the_observation_spec_depends_on_the_length():
    assert Chain(7).observation_spec() == specs.discrete(7)
    assert Chain().action_spec() == specs.discrete(2)


def test_a_corridor_of_one_cell_is_refused():
    with pytest.raises(ValueError, match=r"Chain: length .*got 1"):
        Chain(1)
