"""Untransformed: the raw row next to the transformed one."""

import jax.numpy as jnp
import pytest

from jaxenv.data.transformers import (
    RewardClipping,
    Sequential,
    Untransformed,
)
from tests.data.transformers.sensors import batch_of, row


def test_untransformed_keeps_the_row_or_some_of_its_fields():
    timestep = row(observation={"x": jnp.arange(3)})
    _, shown = Sequential(Untransformed(), RewardClipping(-1, 1)).transform_timestep(((), ()), timestep)
    assert shown.reward.tolist() == [0, 1, 1]
    assert shown.untransformed.reward.tolist() == [0, 1, 5]
    _, again = Untransformed().transform_timestep((), shown)
    assert again.untransformed.reward.tolist() == [0, 1, 1]
    assert again.untransformed.untransformed == ()
    _, batch = Untransformed(("reward",)).transform_batch((), batch_of(timestep))
    assert batch.experience.timestep.untransformed.reward.tolist() == [[0], [1], [5]]
    assert batch.experience.timestep.untransformed.observation == ()
    with pytest.raises(ValueError, match="Untransformed: field 'rewards': no 'rewards' here, the fields"):
        Untransformed(("rewards",)).transform_timestep((), timestep)
    with pytest.raises(ValueError, match=r"Untransformed: fields .*got 3"):
        Untransformed(3)
