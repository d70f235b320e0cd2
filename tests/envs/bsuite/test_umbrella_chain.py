"""Umbrella chain compared with bsuite's."""

import functools

import jax
import numpy as np
import pytest

from jaxenv import random
from jaxenv.canvas import GOLD, GREY, PURPLE
from jaxenv.envs.bsuite.umbrella_chain import State
from tests import parity
from tests.envs.bsuite import reference
from tests.packages import lazy
from tests.pictures import pictures, shows

bsuite_umbrella_chain = lazy("bsuite.environments.umbrella_chain")

ID = "UmbrellaChain-bsuite"

# The remaining time is a quotient of small integers, which XLA may replace by a product with the reciprocal.
TOLERANCE = 2e-7


def words(calls):
    """Our words of coins from the recorded draws: at most two single coins, then the distractors."""
    *single, (name, _, distractors) = calls
    assert {name, *(call[0] for call in single)} == {"binomial"}
    bits = np.zeros(2 + len(distractors), int)
    bits[: len(single)] = [value for _, _, value in single]
    bits[2:] = distractors
    padded = np.pad(bits, (0, -len(bits) % 32)).reshape(-1, 32).astype(np.uint64)
    return tuple((padded << np.arange(32, dtype=np.uint64)).sum(axis=1).astype(np.uint32))


@functools.cache
def recording():
    """A class, made when a test needs it, because bsuite is imported then."""

    class Recording(bsuite_umbrella_chain.UmbrellaChain):
        """The original with the coins of its last observation stored."""

        def _reset(self):
            timestep = super()._reset()
            self.words = words(self._rng.take()) if isinstance(self._rng, reference.Recorder) else None
            return timestep

        def _step(self, action):
            timestep = super()._step(action)
            self.words = words(self._rng.calls)
            return timestep

    return Recording


def state(env):
    return State(
        time=np.int32(env._timestep),
        needed=np.bool_(env._need_umbrella),
        held=np.bool_(env._has_umbrella),
        coins=env.words,
        failures=np.int32(env._total_regret / 2),
    )


def place(env, rng):
    """Any time before the last step, mostly just before it or at the start."""
    last = env._chain_length - 1
    env._timestep = int(rng.choice([0, last, last, rng.integers(last + 1)]))
    env._need_umbrella, env._has_umbrella = (int(x) for x in rng.integers(2, size=2))
    env._total_regret = 2.0 * rng.integers(1000)


TRANSLATION = reference.Translation(ID, state, words)
bare = functools.cache(lambda **kwargs: reference.bare(ID, **kwargs))


def original(chain_length=10, n_distractor=0):
    return reference.recorded(recording()(chain_length, n_distractor))


@pytest.mark.parametrize(("chain_length", "n_distractor"), [(10, 0), (20, 100)])
def test_one_step_from_any_state_equals_bsuite(chain_length, n_distractor):
    steps = reference.injected_steps(original(chain_length, n_distractor), TRANSLATION, 2000, place)
    assert np.mean([s.terminated for s in steps]) > 0.3
    assert {s.reward for s in steps} == {1, -1}
    ours = bare(chain_length=chain_length, n_distractor=n_distractor)
    error = reference.assert_steps_match(ours, steps, TOLERANCE)
    parity.certify(ID, "bsuite", states=2000, tolerance=TOLERANCE, error=error)


def test_a_length_per_lane_equals_bsuite():
    lengths = []

    def place_in_one(env, rng):
        env._chain_length = int(rng.integers(1, 101))
        lengths.append(env._chain_length)
        place(env, rng)

    steps = reference.injected_steps(original(), TRANSLATION, 2000, place_in_one)
    error = reference.assert_steps_match(
        bare(num_envs=2000).with_params(chain_length=np.array(lengths)), steps, TOLERANCE
    )
    parity.certify(ID, "bsuite", states=2000, tolerance=TOLERANCE, error=error)


def test_whole_episodes_equal_bsuite():
    played = reference.episodes(lambda: original(20, 100), TRANSLATION, 20)
    assert {len(steps) for steps in played} == {20}
    assert {steps[-1].reward for steps in played} == {1, -1}
    error = reference.assert_episodes_match(bare(chain_length=20, n_distractor=100), played, TOLERANCE)
    parity.certify(ID, "bsuite", episodes=20, steps=400, tolerance=TOLERANCE, error=error)


def test_starts_and_specs_equal_bsuite():
    ours, theirs = bare(chain_length=20, n_distractor=100), original(20, 100)
    reference.assert_starts_match(ours, theirs, TRANSLATION)
    reference.assert_specs_match(ours, theirs)


def test_all_coins_are_fair_and_independent():
    # The start has the coins needed and held and 40 distractors, a step has the reward and 40 distractors.
    lanes = 10_000
    env = bare(n_distractor=40)

    @jax.jit
    def two_rows(env, stream):
        start = env.initial(stream)
        then = env.transition(start, np.zeros(lanes, np.int32), random.fold_in(stream, 1))
        return start, env.observe(start), env.observe(then.state), then.reward

    start, first, second, reward = jax.device_get(two_rows(env, reference.streams(lanes)))
    coins = np.column_stack([start.needed, start.held, first[:, 0, 3:], reward > 0, second[:, 0, 3:]])
    reference.assert_counts_match(coins.sum(axis=0), np.full(83, lanes / 2))
    assert np.abs(np.corrcoef(coins.T) - np.eye(83)).max() < 5.5 / np.sqrt(lanes)


def test_regret_is_carried_over_to_the_next_episode():
    flag, coins = np.array([True]), (np.uint32([5]),)
    old, new = (State(np.int32([t]), flag, flag, coins, np.int32([n])) for t, n in ((10, 4), (0, 0)))
    carried = bare().carry(old, new)
    assert (int(carried.time[0]), int(carried.failures[0])) == (0, 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_distractor": -1}, r"n_distractor .*got -1"),
        ({"chain_length": 0}, r"chain_length .*got 0"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises(ValueError, match=message):
        bare(**options)


def test_the_picture_shows_rain_or_sun_and_the_umbrella_that_is_held():
    lanes, coins = np.zeros(4, np.int32), (np.zeros(4, np.uint32),)
    needed, held = np.array([[0, 0, 1, 1], [0, 1, 0, 1]], bool)
    picture = pictures(bare(), State(lanes, needed, held, coins, lanes))
    for colour, expected in ((GOLD, ~needed), (GREY, needed), (PURPLE, held)):
        np.testing.assert_array_equal(shows(picture, colour)[:, :50].any(axis=(1, 2)), expected)
