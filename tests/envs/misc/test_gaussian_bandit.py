"""GaussianBandit compared with gymnax's, given its draws, and with the distributions of the paper.

The paper has no published code. Its first author wrote gymnax's version, which is a cross-check.
"""

import math

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.canvas import TEAL
from jaxenv.envs.misc.bandit import State
from tests.envs.misc import gymnax_rollouts
from tests.envs.misc.gymnax_draws import LANES, assert_counts_fit, follow_bandit, follow_peer, spaces
from tests.parity import certify
from tests.pictures import cells, pictures, shows

ID = "GaussianBandit-misc"
STEPS = 100


def drawn():
    """Arms of various means, some of them 0, and pulls."""
    rng = np.random.default_rng(0)
    mu = rng.normal(-1, 2, LANES).astype(np.float32)
    mu[:100] = 0
    last_action = rng.integers(0, 2, LANES).astype(np.int32)
    time = rng.integers(0, 300, LANES).astype(np.int32)
    time[500:] = 0
    start = State(
        np.stack([np.zeros_like(mu), mu], axis=-1), last_action, rng.normal(size=LANES).astype(np.float32), time
    )
    return start, rng.integers(0, 2, (STEPS, LANES)).astype(np.int32)


def normal(key, params):
    return jax.random.normal(key, ())


@pytest.mark.parametrize("params", [{}, {"sigma_l": 3.0, "normalize_time": False}], ids=["defaults", "noisy"])
def test_one_step_and_whole_episodes_equal_gymnax_given_its_draws(params):
    start, actions = drawn()
    fields = {
        "last_action": start.last_action,
        "last_reward": start.last_reward,
        "mu": start.means[:, 1],
        "time": start.time.astype(np.float32),
    }
    noise, _, observation, reward, _ = follow_peer(ID, fields, actions, normal, **params)
    env = gymnax_rollouts.bare(ID, LANES, **params)
    shown, paid, terminated, regret = follow_bandit(env, start, actions, noise)
    assert not terminated.any()
    # Rewards reach 20, where float32 has a spacing of 2e-6, and compilers contract the two roundings differently.
    error = np.maximum(np.abs(shown - observation).max(), np.abs(paid - reward).max())
    assert error <= 5e-6
    mu = start.means[:, 1][None]
    np.testing.assert_array_equal(regret, np.maximum(mu, 0) - np.where(actions == 1, mu, 0))
    certify(ID, "gymnax", states=LANES, tolerance=5e-6, error=error)
    whole = np.count_nonzero(start.time == 0)
    certify(ID, "gymnax", episodes=whole, steps=whole * STEPS, tolerance=5e-6, error=error)


def assert_normal(sample, what):
    """Compares a histogram with the standard normal distribution."""
    edges = np.array([-np.inf, -2.5, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 2.5, np.inf])
    below = np.array([(1 + math.erf(edge / math.sqrt(2))) / 2 for edge in edges])
    assert_counts_fit(np.histogram(sample, edges)[0], len(sample) * np.diff(below), what)


def test_the_safe_arm_pays_nothing_and_the_risky_arm_pays_normally_distributed_rewards():
    start, actions = drawn()
    env = gymnax_rollouts.bare(ID, LANES, sigma_l=0.5, t_max=40.0)
    _, shown, paid, _ = gymnax_rollouts.follow(env, start, actions)
    np.testing.assert_array_equal(shown[..., 0], paid)
    time = start.time[None] + np.arange(1, STEPS + 1)[:, None]
    np.testing.assert_allclose(shown[..., -1], 2 * time / 40 - 1, atol=1e-5)
    assert not paid[actions == 0].any()
    mu = np.broadcast_to(start.means[:, 1], paid.shape)
    assert_normal((paid - mu)[actions == 1] / 0.5, "rewards")


def test_each_episode_draws_a_risky_arm():
    m = np.repeat(np.float32([-1, 0.5]), 10_000)
    s = np.repeat(np.float32([1, 2]), 10_000)
    means = gymnax_rollouts.starts(gymnax_rollouts.bare(ID, len(m), mean_mu=m, sigma_p=s), len(m)).means
    assert not means[:, 0].any()
    for half in (slice(0, 10_000), slice(10_000, None)):
        assert_normal(((means[:, 1] - m) / s)[half], "arms")
        # The reward of an agent that knows the arm is the mean of the positive part of a normal variable.
        best, z = np.maximum(means[half, 1], 0), float(m[half][0] / s[half][0])
        above = (1 + math.erf(z / math.sqrt(2))) / 2
        expected = m[half][0] * above + s[half][0] * math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
        assert abs(best.mean() - expected) < 4.5 * best.std() / 100


def test_specs_have_the_shapes_of_gymnaxs_spaces_and_correct_bounds():
    shape, dtype, _, num_actions, limit = spaces(ID)
    env = gymnax_rollouts.bare(ID)
    spec = env.observation_spec()
    assert (spec.shape, spec.dtype) == (shape, dtype)
    assert env.action_spec().num_values == num_actions
    assert jaxenv.spec(ID).max_episode_steps == limit
    assert spec.minimum.tolist() == [-np.inf, 0, 0, -1]
    assert spec.maximum.tolist() == [np.inf, 1, 1, np.inf]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sigma_p": -1.0}, r"GaussianBandit-misc: sigma_p .*got -1.0"),
        ({"sigma_l": -0.5}, r"GaussianBandit-misc: sigma_l .*got -0.5"),
        ({"t_max": 0.0}, r"GaussianBandit-misc: t_max .*got 0.0"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises(ValueError, match=message):
        gymnax_rollouts.bare(ID, **options)


def test_the_scale_of_the_picture_follows_the_params_of_each_lane():
    zero, means = np.zeros(10, np.int32), np.float32([[0, 1]] * 10)
    env = gymnax_rollouts.bare(ID, num_envs=10, sigma_p=np.float32(1 + np.arange(10) % 2))
    heights = cells(shows(pictures(env, State(means, zero, np.float32(zero), zero)), TEAL), 60, 1).sum(axis=(1, 2))
    assert heights[0] > heights[1]
    assert (heights == np.tile(heights[:2], 5)).all()
