"""RiskyBranch: parity with recorded episodes of ALF, and exact values."""

import numpy as np
import pytest

from jaxenv.canvas import ORANGE
from jaxenv.envs.probes.risky_branch import RiskyBranch, State
from tests.envs.probes import reference
from tests.parity import certify
from tests.pictures import centre, picture

ID = "RiskyBranch-v0"


def test_episodes_match_recordings_of_alf():
    episodes = reference.recordings()["branch_episodes"]
    states, actions, rewards = episodes[:, :3], episodes[:, 3:5].astype(np.int32), episodes[:, 5:]
    # The probability forces the recorded outcome of the lottery: 1 for good luck, 0 for bad luck.
    luck = (states[:, 1] == 1).astype(np.float32)
    env = reference.bare(ID, len(states)).with_params(good_probability=luck)
    state, first = reference.reset(env, len(states))
    _, rows = reference.follow(env, state, np.ascontiguousarray(actions.T))
    np.testing.assert_array_equal(first.observation[:, 0], states[:, 0])
    np.testing.assert_array_equal(rows.observation[:, :, 0].T, states[:, 1:])
    np.testing.assert_array_equal(rows.reward.T, rewards)
    np.testing.assert_array_equal(rows.terminated.T, [[False, True]] * len(states))
    assert len(np.unique(episodes, axis=0)) == 6  # every possible episode
    certify(ID, "alf 3bea035", episodes=len(states), steps=2 * len(states))


def outcomes(lanes=2000, **params):
    """Returns the frequencies of next states, ``[5, 2, 5]``, and the mean rewards, ``[5, 2]``, by state and action."""
    node, action = (x.ravel().astype(np.int32).repeat(lanes) for x in np.mgrid[:5, :2])
    env = reference.bare(ID, len(node), **params)
    state, rows = reference.follow(env, reference.placed(env, State(node)), action[None])
    after = state.task.node[0].reshape(5, 2, lanes)
    return np.stack([np.mean(after == s, axis=-1) for s in range(5)], -1), rows.reward.reshape(5, 2, lanes).mean(-1)


def test_the_safe_path_has_a_higher_value_than_the_lottery():
    lanes = 2000
    probabilities, rewards = outcomes(lanes)
    half = 4.5 * 0.5 / np.sqrt(lanes)
    assert abs(probabilities[0, 0, 1] - 0.5) < half
    probabilities[0, 0, [1, 3]] = 0.5
    assert set(np.unique(probabilities)) == {0, 0.5, 1}
    values = np.zeros(5)
    for _ in range(2):  # every episode ends after two steps
        of_action = rewards + probabilities @ values
        values = np.append(of_action.max(axis=1)[:4], 0)
    # The docstring of the original states both values, but swapped.
    np.testing.assert_allclose(of_action[0], [1.5, 1.8], rtol=1e-6)
    np.testing.assert_allclose(values, [1.8, 2, 1.8, 1, 0], rtol=1e-6)


def test_probability_and_rewards_follow_the_params():
    params = {"good_probability": 0.9, "good_reward": 5.0, "safe_reward": 3.0, "bad_reward": -1.0}
    probabilities, rewards = outcomes(2000, **params)
    assert abs(probabilities[0, 0, 1] - 0.9) < 4.5 * 0.3 / np.sqrt(2000)
    expected = np.zeros((5, 2))
    expected[1, 0], expected[2, 0], expected[3, 1] = 5, 3, -1
    np.testing.assert_array_equal(rewards, expected)


@pytest.mark.parametrize("p", [1.5, -3.0])
def test_an_invalid_probability_raises_an_error(p):
    with pytest.raises(ValueError, match=rf"RiskyBranch-v0: good_probability .*got {p}"):
        reference.bare(ID, good_probability=p)


def test_in_the_picture_the_current_state_is_orange():
    images = picture(RiskyBranch(), State(np.arange(5, dtype=np.int32)), 5)
    (start, good, safe, bad, end) = (centre(image, ORANGE) for image in images)
    assert start[0] < 0.3 < good[0] < 0.5 < end[0]
    np.testing.assert_allclose([safe[0], bad[0], bad[1]], [good[0], good[0], start[1]], atol=0.02)
    assert good[1] < 0.3 < bad[1] < 0.7 < safe[1]
