"""BernoulliBandit compared with gymnax's, given its draws, and with the probabilities of the papers.

The papers have no published code, so gymnax is a cross-check. Its arms follow one of the papers' distributions.
"""

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.canvas import RED
from jaxenv.envs.misc.bandit import State
from tests.envs.classic_control.reference import assert_uniform
from tests.envs.misc import gymnax_rollouts
from tests.envs.misc.gymnax_draws import LANES, assert_counts_fit, follow_bandit, follow_peer, spaces
from tests.parity import certify
from tests.pictures import pictures, shows

ID = "BernoulliBandit-misc"
STEPS = 100


def drawn(means):
    rng = np.random.default_rng(0)
    last_action, last_reward = rng.integers(0, 2, (2, LANES))
    time = np.zeros(LANES, np.int32)
    time[:500] = rng.integers(0, 300, 500)
    actions = rng.integers(0, 2, (STEPS, LANES)).astype(np.int32)
    return State(means, last_action.astype(np.int32), last_reward.astype(np.float32), time), actions


def uniform(key, params):
    # A pull pays if this is below the arm's probability.
    return jax.random.uniform(key, ())


@pytest.mark.parametrize("normalize_time", [True, False])
def test_one_step_and_whole_episodes_equal_gymnax_given_its_draws(normalize_time):
    rng = np.random.default_rng(1)
    means = rng.choice([0.0, 0.1, 0.9, 1.0, 0.5], (LANES, 2)).astype(np.float32)
    start, actions = drawn(means)
    fields = {
        "last_action": start.last_action,
        "last_reward": start.last_reward.astype(np.int32),
        "exp_reward_best": means.max(axis=-1),
        "reward_probs": means,
        "time": start.time.astype(np.float32),
    }
    noise, _, observation, reward, _ = follow_peer(ID, fields, actions, uniform, normalize_time=normalize_time)
    env = gymnax_rollouts.bare(ID, LANES, normalize_time=normalize_time)
    shown, paid, terminated, regret = follow_bandit(env, start, actions, noise)
    np.testing.assert_array_equal(paid, reward)
    assert paid.dtype == np.float32
    assert not terminated.any()
    error = np.abs(shown - observation).max()
    assert error <= 1e-6  # one rounding of a number below 8
    pulled = np.where(actions == 0, means[:, 0][None], means[:, 1][None])
    np.testing.assert_array_equal(regret, means.max(axis=-1)[None] - pulled)
    certify(ID, "gymnax", states=LANES, tolerance=1e-6, error=error)
    whole = np.count_nonzero(start.time == 0)
    certify(ID, "gymnax", episodes=whole, steps=whole * STEPS, tolerance=1e-6, error=error)


def test_an_arm_pays_with_its_probability():
    levels = np.linspace(0, 1, 9).astype(np.float32)
    means = np.stack([levels[np.arange(LANES) % 9], levels[(np.arange(LANES) // 9) % 9]], axis=-1)
    start, actions = drawn(means)
    _, shown, paid, _ = gymnax_rollouts.follow(gymnax_rollouts.bare(ID, LANES, t_max=40.0), start, actions)
    np.testing.assert_array_equal(shown[..., 0], paid)
    time = start.time[None] + np.arange(1, STEPS + 1)[:, None]
    np.testing.assert_allclose(shown[..., -1], 2 * time / 40 - 1, atol=1e-5)
    pulled = np.where(actions == 0, means[:, 0][None], means[:, 1][None])
    for level in levels:
        pulls = np.count_nonzero(pulled == level)
        assert_counts_fit(
            [paid[pulled == level].sum(), (1 - paid[pulled == level]).sum()], pulls * np.array([level, 1 - level])
        )
    # No two lanes have the same sequence of rewards.
    fair = paid[:, means[:, 0] == means[:, 1]][:, 4::9]
    assert len(np.unique(fair, axis=1).T) == fair.shape[1]


def arms(lanes=20_000, **options):
    return gymnax_rollouts.starts(gymnax_rollouts.bare(ID, 1, **options), lanes).means


def test_each_of_two_arms_is_the_better_one_equally_often():
    p = np.repeat(np.float32([0.1, 0.25]), 10_000)
    means = gymnax_rollouts.starts(gymnax_rollouts.bare(ID, len(p), reward_prob=p), len(p)).means
    first = means[:, 0] == p
    np.testing.assert_allclose(np.where(first, means[:, 1], means[:, 0]), 1 - p, rtol=1e-6)
    for low in (first[:10_000], first[10_000:]):
        assert_counts_fit([low.sum(), (~low).sum()], [5000, 5000])


def test_dependent_arms_sum_to_one_and_independent_arms_are_independent():
    dependent, independent = arms(arms_from="dependent"), arms(arms_from="independent", num_arms=4)
    np.testing.assert_allclose(dependent.sum(axis=-1), 1, rtol=1e-6)
    assert_uniform(dependent[:, 0], 0, 1)
    assert independent.shape == (20_000, 4)
    for column in independent.T:
        assert_uniform(column, 0, 1)
    assert np.abs(np.corrcoef(independent.T) - np.eye(4)).max() < 5 / np.sqrt(20_000)
    # The best arm has mean probabilities of 3/4 and 4/5, with standard deviations of 0.144 and 0.163.
    assert abs(dependent.max(axis=-1).mean() - 3 / 4) < 4.5 * 0.144 / np.sqrt(20_000)
    assert abs(independent.max(axis=-1).mean() - 4 / 5) < 4.5 * 0.163 / np.sqrt(20_000)


def test_specs_have_the_shapes_of_gymnaxs_spaces_and_correct_bounds():
    shape, dtype, _, num_actions, limit = spaces(ID)
    env = gymnax_rollouts.bare(ID)
    spec = env.observation_spec()
    assert (spec.shape, spec.dtype) == (shape, dtype)
    assert env.action_spec().num_values == num_actions
    assert jaxenv.spec(ID).max_episode_steps == limit
    assert spec.minimum.tolist() == [0, 0, 0, -1]
    assert spec.maximum.tolist() == [1, 1, 1, np.inf]
    many = gymnax_rollouts.bare(ID, arms_from="independent", num_arms=10)
    assert (many.observation_spec().shape, many.action_spec().num_values) == ((12,), 10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reward_prob": -0.1}, r"BernoulliBandit-misc: reward_prob .*got -0.1"),
        ({"arms_from": "urn"}, r"arms_from .*got 'urn'"),
        ({"num_arms": 1}, r"BernoulliBandit-misc: num_arms .*got 1"),
        ({"num_arms": 3}, r"BernoulliBandit-misc: num_arms .*got 3"),
        ({"t_max": 0.0}, r"BernoulliBandit-misc: t_max .*got 0.0"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises(ValueError, match=message):
        gymnax_rollouts.bare(ID, **options)


def test_the_picture_shows_the_last_pull_once_there_is_one():
    lanes = State(np.float32([[0.3, 0.6]] * 3), np.int32([0, 0, 1]), np.float32([0, 0, 1]), np.int32([0, 1, 2]))
    pull = shows(pictures(gymnax_rollouts.bare(ID), lanes), RED)
    assert not pull[0].any()
    (low, left), (high, right) = (np.argwhere(lane).mean(axis=0) for lane in pull[1:])
    assert high < low
    assert left < 30 < right
