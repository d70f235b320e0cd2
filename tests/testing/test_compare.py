"""Comparison of trees of arrays: what the tolerance allows."""

import numpy as np
import pytest

from jaxenv.testing._compare import require_equal
from jaxenv.testing.report import Failure

LABELS = "alone", "in a batch"


def test_bytes_may_differ_by_the_tolerance_of_their_range():
    expected, actual = np.array([[10, 0, 255]], np.uint8), np.array([[11, 1, 254]], np.uint8)
    require_equal(expected, actual, LABELS, tolerance=4e-3)
    for tolerance in (0.0, 1e-5, 3.9e-3):
        with pytest.raises(Failure, match="is 10 alone and 11 in a batch"):
            require_equal(expected, actual, LABELS, tolerance=tolerance)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, bool])
def test_other_integers_and_flags_must_be_equal(dtype):
    with pytest.raises(Failure):
        require_equal(np.array([0], dtype), np.array([1], dtype), LABELS, tolerance=0.5)


def test_a_difference_has_its_step_its_lane_and_its_element():
    expected, actual = np.zeros((2, 3, 2, 4), np.int32)
    actual[2, 1, 3] = 5
    with pytest.raises(Failure, match=r"reward at step 3, lane 1, element \(3,\) is 0 alone and 5 in a batch"):
        require_equal(expected, actual, LABELS, name="reward", first_step=1)
