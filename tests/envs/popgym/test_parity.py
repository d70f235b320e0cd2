"""Whole episodes of every id equal those that POPGym 1.0.7 played, and so do spaces and time limits."""

import numpy as np
import pytest

import jaxenv
from tests.envs.popgym import reference


@pytest.mark.parametrize("id", reference.IDS)
def test_recorded_episodes_equal_popgym_in_both_observations(id):
    rows = reference.assert_recorded_equal(id)
    rewards = rows["reward.0"]
    assert len(np.unique(rewards)) > 1 or "CartPole" in id  # a reward that is always the same would compare nothing
    assert rows["length"].max() > 10


@pytest.mark.parametrize("observability", ["partial", "full"])
@pytest.mark.parametrize("id", reference.IDS)
def test_spaces_equal_those_of_popgym(id, observability):
    rows, env = reference.recorded(id), jaxenv.spec(id).make(observability=observability)
    ours = {"action": env.action_spec(), "seen" if observability == "partial" else "full": env.observation_spec()}
    for name, spec in ours.items():
        leaves = list(spec) if isinstance(spec, tuple) else [spec]
        if name != "action" and id.startswith("CountRecall"):  # one array of two kinds there
            *leaves, card, query = leaves
            leaves.append(jaxenv.specs.Bounded((2,), np.int32, [card.minimum, query.minimum], card.maximum))
        assert f"{name}_bounds.{len(leaves)}" not in rows
        for number, leaf in enumerate(leaves):
            low, high = rows[f"{name}_bounds.{number}"]
            np.testing.assert_allclose(np.stack(jaxenv.specs.bounds(leaf)), [low, high], rtol=1e-6)
            assert leaf.shape == low.shape


@pytest.mark.parametrize("id", reference.IDS)
def test_no_recorded_episode_is_longer_than_the_time_limit_and_the_longest_reach_it(id):
    rows, limit = reference.recorded(id), jaxenv.spec(id).max_episode_steps
    if limit is None:
        assert not rows["truncated.0"].any()
        assert len(set(rows["length"])) == 1
    else:
        assert rows["length"].max() == limit or id.startswith("MineSweeper")
        assert jaxenv.make(id).unwrapped.time_limit == limit
