"""Sets of cells in words of 32 bits."""

import numpy as np
import pytest

from jaxenv.envs._words import Words


def words(*numbers):
    return Words(tuple(np.array([number], np.uint32) for number in numbers))


@pytest.mark.parametrize("combine", [Words.__and__, Words.__or__, Words.__xor__, Words.__sub__])
def test_sets_of_boards_of_different_sizes_are_not_combined(combine):
    with pytest.raises(ValueError, match="shorter"):
        combine(words(1, 2, 3), words(1, 2))
    assert len(combine(words(1, 2, 3), words(4, 5, 6)).words) == 3
