"""Memory chain compared with bsuite's."""

import functools

import numpy as np
import pytest

from jaxenv.canvas import ORANGE
from jaxenv.envs.bsuite.memory_chain import State
from tests import parity
from tests.envs.bsuite import reference
from tests.pictures import cells, pictures, shows

bsuite_memory_chain = pytest.importorskip("bsuite.environments.memory_chain")

ID = "MemoryChain-bsuite"

# The remaining time is a quotient of small integers, which XLA may replace by a product with the reciprocal.
TOLERANCE = 2e-7


def state(env):
    return State(
        time=np.int32(env._timestep),
        bits=env._context.astype(bool),
        query=np.int32(env._query),
        right=np.int32(env._total_perfect),
        wrong=np.int32(env._total_regret / 2),
    )


def place(env, rng):
    """Any time up to the answer, mostly one of the first two or the last two steps."""
    last = env._memory_length
    env._timestep = int(rng.choice([0, 1, last - 1, last, last, rng.integers(last + 1)]))
    env._context = rng.integers(2, size=env._num_bits)
    env._query = int(rng.integers(env._num_bits))
    env._total_perfect, env._total_regret = int(rng.integers(1000)), 2.0 * rng.integers(1000)


TRANSLATION = reference.Translation(ID, state)
bare = functools.cache(lambda **kwargs: reference.bare(ID, **kwargs))


def original(memory_length=5, num_bits=1):
    return reference.recorded(bsuite_memory_chain.MemoryChain(memory_length, num_bits))


@pytest.mark.parametrize(("memory_length", "num_bits"), [(5, 1), (2, 40)])
def test_one_step_from_any_state_equals_bsuite(memory_length, num_bits):
    steps = reference.injected_steps(original(memory_length, num_bits), TRANSLATION, 2000, place)
    assert np.mean([s.terminated for s in steps]) > 0.3
    assert {s.reward for s in steps} == {1, -1, 0}
    ours = bare(memory_length=memory_length, num_bits=num_bits)
    error = reference.assert_steps_match(ours, steps, TOLERANCE)
    parity.certify(ID, "bsuite", states=2000, tolerance=TOLERANCE, error=error)


def test_a_length_per_lane_equals_bsuite():
    lengths = []

    def place_in_one(env, rng):
        env._memory_length = int(rng.integers(1, 101))
        lengths.append(env._memory_length)
        place(env, rng)

    steps = reference.injected_steps(original(), TRANSLATION, 2000, place_in_one)
    error = reference.assert_steps_match(
        bare(num_envs=2000).with_params(memory_length=np.array(lengths)), steps, TOLERANCE
    )
    parity.certify(ID, "bsuite", states=2000, tolerance=TOLERANCE, error=error)


def test_whole_episodes_equal_bsuite():
    played = reference.episodes(original, TRANSLATION, 20)
    assert {len(steps) for steps in played} == {6}
    assert {steps[-1].reward for steps in played} == {1, -1}
    error = reference.assert_episodes_match(bare(memory_length=5, num_bits=1), played, TOLERANCE)
    parity.certify(ID, "bsuite", episodes=20, steps=120, tolerance=TOLERANCE, error=error)


def test_starts_and_specs_equal_bsuite_and_have_tight_bounds():
    ours, theirs = bare(memory_length=2, num_bits=40), original(2, 40)
    reference.assert_starts_match(ours, theirs, TRANSLATION)
    reference.assert_specs_match(ours, theirs)
    spec = ours.observation_spec()
    assert spec.minimum[0, :3].tolist() == [0, 0, -1]
    assert spec.maximum[0, :3].tolist() == [1, 39, 1]


def test_bits_and_query_are_uniform_and_independent():
    lanes = 20_000
    task = reference.starts(bare(num_bits=34), lanes)  # the bits take two words
    reference.assert_counts_match(np.bincount(task.query), np.full(34, lanes / 34))
    reference.assert_counts_match(task.bits.sum(axis=0), np.full(34, lanes / 2))
    together = np.corrcoef(np.column_stack([task.query, task.bits]).T)
    assert np.abs(together - np.eye(35)).max() < 5 / np.sqrt(lanes)


def test_counters_are_carried_over_to_the_next_episode():
    bits = np.array([[True]])
    old, new = (State(np.int32([t]), bits, *np.int32([[0], [r], [w]])) for t, r, w in ((6, 3, 4), (0, 0, 0)))
    carried = bare().carry(old, new)
    assert [int(x[0]) for x in (carried.time, carried.right, carried.wrong)] == [0, 3, 4]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_bits": 0}, "num_bits must be at least 1, got 0"),
        ({"memory_length": 0}, "memory_length must be at least 1, got 0"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises(ValueError, match=message):
        bare(**options)


def test_the_picture_frames_the_queried_bit_at_the_time_of_the_query_of_each_lane():
    time, query, length = np.tile([[5, 5, 4, 4], [0, 1, 0, 1], [5, 5, 4, 5]], (1, 3)).astype(np.int32)[:, :10]
    env = reference.bare(ID, num_envs=10, num_bits=2, memory_length=length)
    picture = pictures(env, State(time, np.ones((10, 2), bool), query, query, query))[:4, :40]
    framed = cells(shows(picture, ORANGE), 1, 2).reshape(4, 2)
    np.testing.assert_array_equal(framed, [[True, False], [False, True], [True, False], [False, False]])
