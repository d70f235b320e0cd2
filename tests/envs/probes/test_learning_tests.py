"""Learning tests: properties that ALF's own tests state, row by row, and exact values."""

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.canvas import GREEN, ORANGE
from jaxenv.core.timestep import StepType
from jaxenv.envs.probes.learning_tests import RNNPolicyUnittest, State
from tests.envs.probes import reference
from tests.pictures import centre, picture, shows

FIRST, MID, LAST = int(StepType.FIRST), int(StepType.MID), int(StepType.LAST)


@jax.jit
def _play(env, key, actions):
    state, first = env.reset(key)
    return first, jax.lax.scan(env.step, state, actions)[1]


def play(id, lanes, length, seed=0, **options):
    """Plays three episodes with random actions; returns the actions and the trajectory with its first row."""
    env = jaxenv.make(id, num_envs=lanes, **options)
    rng = np.random.default_rng(seed)
    steps = 3 * length - 1
    actions = []
    for spec in jax.tree.leaves(env.action_spec()):
        shape = (steps, lanes, *spec.shape)
        actions.append(
            rng.integers(0, 2, shape).astype(np.int32) if spec.is_discrete else rng.random(shape, np.float32)
        )
    first, rows = jax.device_get(_play(env, jax.random.key(seed), tuple(actions) if len(actions) > 1 else actions[0]))
    rows = jax.tree.map(lambda a, b: np.concatenate([a[None], b]), first, rows)
    return actions[0] if len(actions) == 1 else actions, rows


def assert_periodic(rows, length):
    """Asserts FIRST, MID, ..., LAST with discount 0 in each period, as ALF's test does."""
    s = np.arange(len(rows.reward)) % length
    expected = np.where(s == 0, FIRST, np.where(s == length - 1, LAST, MID))
    np.testing.assert_array_equal(rows.step_type, np.broadcast_to(expected[:, None], rows.step_type.shape))
    np.testing.assert_array_equal(rows.discount, (rows.step_type != LAST).astype(np.float32))
    return s


def test_value_unittest_has_reward_one_for_every_step():
    _, rows = play("ValueUnittest-v0", 2, 13)
    s = assert_periodic(rows, 13)
    np.testing.assert_array_equal(rows.reward, np.broadcast_to((s > 0)[:, None], rows.reward.shape))
    np.testing.assert_array_equal(rows.observation, np.ones((39, 2, 1), np.float32))
    # The value of row s is (1 - 0.9^(12 - s)) / 0.1.
    values = np.zeros(14)
    for row in range(12, -1, -1):
        values[row] = 0 if row == 12 else rows.reward[row + 1, 0] + 0.9 * values[row + 1]
    np.testing.assert_allclose(values[:13], (1 - 0.9 ** (12 - np.arange(13))) / 0.1)


def test_policy_unittest_rewards_the_observed_number():
    action, rows = play("PolicyUnittest-v0", 100, 13)
    s = assert_periodic(rows, 13)
    observed = rows.observation[:-1, :, 0]
    expected = (action == observed) & (s[1:] > 0)[:, None]
    np.testing.assert_array_equal(rows.reward[1:], expected)
    coins = rows.observation.ravel()
    assert set(coins) == {0, 1}
    assert abs(coins.mean() - 0.5) < 4.5 * 0.5 / np.sqrt(coins.size)
    assert abs(np.mean(rows.observation[1:] == rows.observation[:-1]) - 0.5) < 4.5 * 0.5 / np.sqrt(coins.size)


def test_policy_unittest_rewards_continuous_actions_by_distance_in_every_reward_entry():
    action, rows = play("PolicyUnittest-v0", 100, 4, action_type="continuous", reward_dim=2, episode_length=4)
    s = assert_periodic(rows, 4)
    expected = (1 - np.abs(action[..., 0] - rows.observation[:-1, :, 0])) * (s[1:] > 0)[:, None]
    np.testing.assert_allclose(rows.reward[1:], np.stack([expected, expected], axis=-1), atol=1e-6)


def test_mixed_policy_unittest_rewards_agreeing_actions():
    (discrete, continuous), rows = play("MixedPolicyUnittest-v0", 100, 13)
    s = assert_periodic(rows, 13)
    agree = (discrete == 1) == (continuous[..., 0] > 0.5)
    np.testing.assert_array_equal(rows.reward[1:], agree & (s[1:] > 0)[:, None])
    noise = rows.observation.ravel()
    assert abs(noise.mean()) < 4.5 / np.sqrt(noise.size)
    assert abs(noise.var() - 1) < 4.5 * np.sqrt(2 / noise.size)


@pytest.mark.parametrize(("length", "gap"), [(5, 3), (7, np.arange(100) % 6)], ids=["one gap", "a gap per lane"])
def test_rnn_policy_unittest_rewards_the_first_observation_after_the_gap(length, gap):
    action, rows = play("RNNPolicyUnittest-v0", 100, length, episode_length=length, gap=gap)
    s = assert_periodic(rows, length)
    cue = rows.observation[s == 0, :, 0].repeat(length, axis=0)
    assert set(cue.ravel()) == {-1, 1}
    assert not rows.observation[s > 0].any()
    expected = (2 * action - 1 == cue[1:]) & (s[1:, None] > gap)
    np.testing.assert_array_equal(rows.reward[1:], expected)
    assert np.corrcoef(cue[::length][0], cue[::length][1])[0, 1] < 0.5  # a new cue in every episode


def test_rnn_policy_unittest_rewards_continuous_actions_by_distance_and_pads_the_cue_with_ones():
    action, rows = play("RNNPolicyUnittest-v0", 50, 3, action_type="continuous", obs_dim=3, gap=0, episode_length=3)
    s = assert_periodic(rows, 3)
    cue = rows.observation[s == 0].repeat(3, axis=0)
    assert np.all(cue[..., 1:] == 1)
    target = (cue[1:, :, 0] + 1) / 2
    expected = (1 - np.abs(action[..., 0] - target)) * (s[1:] > 0)[:, None]
    np.testing.assert_allclose(rows.reward[1:], expected, atol=1e-6)


def test_every_lane_can_have_its_own_episode_length():
    _, rows = play("ValueUnittest-v0", 3, 6, episode_length=np.array([2, 3, 6]))
    assert (rows.step_type == LAST).sum(axis=0).tolist() == [9, 6, 3]


@pytest.mark.parametrize(
    ("id", "options", "message"),
    [
        ("ValueUnittest-v0", {"episode_length": 1}, r"episode_length .*got 1"),
        ("ValueUnittest-v0", {"obs_dim": 0}, r"obs_dim .*got 0"),
        ("ValueUnittest-v0", {"action_type": "both"}, r"action_type .*got 'both'"),
        ("PolicyUnittest-v0", {"obs_dim": 2}, r"obs_dim .*got 2"),
        ("PolicyUnittest-v0", {"reward_dim": 0}, r"reward_dim .*got 0"),
        ("MixedPolicyUnittest-v0", {"action_type": "continuous"}, r"action_type does not apply.* 'continuous'"),
        ("RNNPolicyUnittest-v0", {"gap": 4}, r"gap .*got 4 and 3"),
    ],
)
def test_invalid_options_raise_an_error(id, options, message):
    with pytest.raises(ValueError, match=f"{id}: {message}"):
        reference.bare(id, **options)


def test_the_picture_shows_the_observation_and_the_best_action_green_once_it_counts():
    steps, cue = np.int32([0, 0, 3]), np.float32([1, -1, 1])
    state = State(steps, np.float32([[1], [-1], [0]]), (cue,))
    up, down, late = picture(RNNPolicyUnittest(), state, 3)
    assert centre(up, ORANGE)[1] < 0.45 < 0.5 < centre(down, ORANGE)[1]
    assert [bool(shows(image, ORANGE).any()) for image in (up, down, late)] == [True, True, False]
    assert [bool(shows(image, GREEN).any()) for image in (up, down, late)] == [False, False, True]
