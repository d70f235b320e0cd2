"""The row after an unroll, appended to its rows."""

import dataclasses

import pytest

from jaxenv import data
from jaxenv.core.timestep import TimeStep
from tests.data.rollouts import unrolled


def test_with_last_keeps_the_fields_of_the_rows_and_names_a_leaf_that_does_not_fit():
    experience, last = unrolled("next_step")
    rows = dataclasses.replace(experience.timestep, observation={"count": experience.timestep.observation})
    with pytest.raises(ValueError, match=r"with_last: observation.count is missing in.* \(3,\)"):
        data.with_last(rows, last)
    with pytest.raises(ValueError, match=r"with_last: the leaf has.* \(2,\) in last, rows.* \(3,\)"):
        data.with_last(rows.reward, last.reward[:2])
    part = TimeStep(observation=experience.timestep.observation)
    assert data.with_last(part, last).observation.shape == (11, 3)
    assert data.with_last(part, last).reward == ()
