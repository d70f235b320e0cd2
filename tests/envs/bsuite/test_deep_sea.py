"""Deep sea, deterministic and stochastic, compared with bsuite's."""

import functools

import jax
import numpy as np
import pytest

from jaxenv.canvas import ORANGE
from jaxenv.envs.bsuite.deep_sea import Draws, State
from tests import parity
from tests.envs.bsuite import reference
from tests.packages import lazy
from tests.pictures import cells, pictures, shows

bsuite_deep_sea = lazy("bsuite.environments.deep_sea")

IDS = {True: "DeepSea-bsuite", False: "DeepSeaStochastic-bsuite"}

# Rewards are sums of up to three float32 numbers, the largest of which is noise of up to 5.
TOLERANCE = 1e-6


def state(env):
    return State(
        row=np.int32(env._row),
        column=np.int32(env._column),
        bad_episode=np.bool_(env._bad_episode),
        bad_episodes=np.int32(env._total_bad_episodes),
        treasures=np.int32(env._denoised_return),
    )


def draws(calls):
    """The noise is drawn by ``randn``, the failure of going right by ``rand``."""
    drawn = {name: value for name, _, value in calls}
    assert len(drawn) == len(calls)
    size = 8
    return Draws(np.float32(drawn.get("randn", 0)), np.bool_(drawn.get("rand", 1) <= 1 / size))


DETERMINISTIC = reference.Translation(IDS[True], state, lambda calls: None)
STOCHASTIC = reference.Translation(IDS[False], state, draws)


@functools.cache
def bare(deterministic=True, **kwargs):
    return reference.bare(IDS[deterministic], **kwargs)


def original(deterministic=True, size=8, mapping_seed=42, **kwargs):
    return reference.recorded(
        bsuite_deep_sea.DeepSea(size=size, deterministic=deterministic, mapping_seed=mapping_seed, **kwargs)
    )


def place(env, rng):
    """Any cell, including those above the diagonal; half of them in the last row."""
    size = env._size
    env._row, env._column = (int(x) for x in rng.integers(size, size=2))
    env._row = size - 1 if rng.integers(2) else env._row
    env._column = int(rng.choice([0, size - 1, env._row, env._column]))
    env._bad_episode = bool(rng.integers(2))
    env._total_bad_episodes, env._denoised_return = (int(x) for x in rng.integers(1000, size=2))


def mostly_right(env, rng):
    right = env._action_mapping[env._row, env._column]
    return int(right if rng.random() < 0.9 else 1 - right)


@pytest.mark.parametrize("deterministic", [True, False])
def test_one_step_from_any_state_equals_bsuite(deterministic):
    translation = DETERMINISTIC if deterministic else STOCHASTIC
    steps = reference.injected_steps(original(deterministic), translation, 2000, place)
    assert np.mean([s.terminated for s in steps]) > 0.3
    assert np.mean([s.reward > 0.5 for s in steps]) > 0.05
    error = reference.assert_steps_match(bare(deterministic), steps, TOLERANCE)
    parity.certify(translation.id, "bsuite", states=2000, tolerance=TOLERANCE, error=error)


def test_a_large_sea_with_another_seed_and_costs_per_lane_equals_bsuite():
    # A table of more than 32 words is read from memory; the costs are params.
    env, costs = original(size=40, mapping_seed=7), []

    def place_at_a_cost(env, rng):
        place(env, rng)
        env._unscaled_move_cost = rng.uniform(0, 2)
        costs.append(env._unscaled_move_cost)

    steps = reference.injected_steps(env, DETERMINISTIC, 500, place_at_a_cost)
    ours = bare(size=40, mapping_seed=7, num_envs=500).with_params(unscaled_move_cost=np.array(costs, np.float32))
    error = reference.assert_steps_match(ours, steps, TOLERANCE)
    parity.certify(DETERMINISTIC.id, "bsuite", states=500, tolerance=TOLERANCE, error=error)


@pytest.mark.compiled
def test_the_size_of_the_program_does_not_grow_with_the_sea():
    # A chain of selects over all words of the table would take a minute to compile.
    lanes = np.zeros(1, np.int32)
    before = State(lanes, lanes, np.zeros(1, bool), lanes, lanes)
    program = jax.make_jaxpr(lambda: bare(size=150).advance(before, lanes, None))()
    assert len(program.eqns) < 60


def test_without_random_actions_1_goes_right_everywhere_as_in_bsuite():
    with pytest.warns(UserWarning, match="debug mode"):
        env = original(size=5, randomize_actions=False)
    steps = reference.injected_steps(env, DETERMINISTIC, 500, place)
    error = reference.assert_steps_match(bare(size=5, randomize_actions=False), steps, TOLERANCE)
    parity.certify(DETERMINISTIC.id, "bsuite", states=500, tolerance=TOLERANCE, error=error)


@pytest.mark.parametrize("deterministic", [True, False])
def test_whole_episodes_equal_bsuite(deterministic):
    translation = DETERMINISTIC if deterministic else STOCHASTIC
    played = reference.episodes(lambda: original(deterministic), translation, 40, mostly_right)
    assert 0 < sum(steps[-1].info["total_bad_episodes"] for steps in played) < 40
    assert 0 < sum(steps[-1].info["denoised_return"] for steps in played) < 40
    error = reference.assert_episodes_match(bare(deterministic), played, TOLERANCE)
    steps = sum(map(len, played))
    parity.certify(translation.id, "bsuite", episodes=40, steps=steps, tolerance=TOLERANCE, error=error)


@pytest.mark.parametrize("seed", [0, 42, 2**32 - 1])
@pytest.mark.parametrize("size", [1, 10, 33, 50])
def test_the_action_mapping_equals_bsuites_for_the_same_seed(size, seed):
    theirs = original(size=size, mapping_seed=seed)._action_mapping
    np.testing.assert_array_equal(bare(size=size, mapping_seed=seed).action_mapping, theirs)


@pytest.mark.parametrize("deterministic", [True, False])
def test_starts_specs_and_optimal_return_equal_bsuite(deterministic):
    theirs, ours = original(deterministic), bare(deterministic)
    if deterministic:
        reference.assert_starts_match(ours, theirs, DETERMINISTIC, 2)
    reference.assert_specs_match(ours, theirs)
    np.testing.assert_allclose(ours.optimal_return, theirs._optimal_return, rtol=1e-6)


def test_failures_and_noise_have_the_originals_probabilities():
    # All lanes go right from the last column of the last row, where there is noise, and from the middle of the row
    # above, where a failure is visible.
    lanes, size = 40_000, 8
    env = bare(False)
    zeros = np.zeros(lanes, np.int32)
    corner, middle = (State(zeros + r, zeros + c, np.zeros(lanes, bool), zeros, zeros) for r, c in ((7, 7), (6, 4)))

    @jax.jit
    def step(env, stream):
        right = env.action_mapping
        noisy = env.transition(corner, zeros + right[7, 7], stream)
        failing = env.transition(middle, zeros + right[6, 4], stream)
        return noisy.reward, failing.state.column

    reward, column = jax.device_get(step(env, reference.streams(lanes)))
    # Both steps use the same streams, so noise and failure are those of one step.
    noise, fails = reward - (1 - 0.01 / size), column == 4
    assert set(np.unique(column)) == {4, 5}
    reference.assert_counts_match([fails.sum(), (~fails).sum()], [lanes / size, lanes * (1 - 1 / size)])
    for part in (noise, noise[fails], noise[~fails]):
        assert abs(part.mean()) < 5 / np.sqrt(len(part))
        assert abs(part.var() - 1) < 5 * np.sqrt(2 / len(part))


def test_rewards_have_noise_in_both_corners_of_the_last_row_alone():
    env, zeros = bare(False), np.zeros(5, np.int32)
    row, column = np.int32([7, 7, 7, 6, 6]), np.int32([0, 3, 7, 0, 7])
    before, left = State(row, column, zeros > 0, zeros, zeros), 1 - env.action_mapping[row, column]
    found = env.advance(before, left, Draws(np.ones(5, np.float32), zeros > 0))
    assert found.reward.tolist() == [1, 0, 1, 0, 0]


def test_counters_are_carried_over_to_the_next_episode():
    old = State(*np.int32([[8], [3]]), np.array([True]), *np.int32([[5], [6]]))
    new = State(*np.int32([[0], [0]]), np.array([False]), *np.int32([[0], [0]]))
    assert [int(x[0]) for x in jax.tree.leaves(bare().carry(old, new))] == [0, 0, 0, 5, 6]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, r"size .*got 0"),
        ({"mapping_seed": -1}, r"mapping_seed .*got -1"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises(ValueError, match=message):
        bare(**options)


def test_the_picture_shows_the_diver_in_its_cell_and_after_the_last_row_on_the_ground():
    lanes = np.zeros(3, np.int32)
    before = State(np.int32([0, 2, 4]), np.int32([0, 1, 3]), lanes > 0, lanes, lanes)
    diver = cells(shows(pictures(bare(size=4), before), ORANGE), 5, 5)
    assert np.argwhere(diver).tolist() == [[0, 0, 0], [1, 2, 1], [2, 4, 3]]
