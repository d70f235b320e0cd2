"""Clipping, scaling, shifting, mapping and normalising rewards: in rollouts, on replay and in specs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import specs
from jaxenv.core.timestep import TimeStep
from jaxenv.data import Replay
from jaxenv.data.transformers import (
    RewardClipping,
    RewardFunction,
    RewardNormalizer,
    RewardScaling,
    RewardShifting,
    Sequential,
)
from jaxenv.rollout import Experience
from tests.data.transformers.sensors import batch_of, row, windows

INF = np.inf


def bounded(low, high):
    return specs.Bounded(np.shape(low), np.float32, low, high)


def unbounded(shape=()):
    return specs.Array(shape, np.float32)


SCALAR = [
    (RewardClipping(-1, 2), [0, -1, 0.5, 2], bounded(-1, 2)),
    (RewardClipping(1, 2), [0, 1, 1, 2], bounded(0, 2)),
    (RewardScaling(-2), [0, 6, -1, -18], bounded(-18, 6)),
    (RewardShifting(10), [0, 7, 10.5, 19], bounded(0, 19)),
    (RewardFunction(lambda r: r > 0), [0, 0, 1, 1], unbounded()),
    (RewardFunction(lambda r: 2 * r + 1, bounded(-5, 19)), [0, -5, 2, 19], bounded(-5, 19)),
]


@pytest.mark.parametrize(("transformer", "rewards", "spec"), SCALAR, ids=lambda x: type(x).__name__)
def test_rewards_of_a_first_row_and_of_three_steps(transformer, rewards, spec):
    timestep = row([0, -3, 0.5, 9], [0, 1, 1, 2])
    state, shown = transformer.transform_timestep(transformer.init(timestep), timestep)
    assert state == ()
    assert shown.reward.tolist() == rewards
    assert shown.reward.dtype == np.float32
    _, batch = transformer.transform_batch((), batch_of(timestep))
    assert batch.experience.timestep.reward[:, 0].tolist() == rewards
    result = transformer.transform_spec(TimeStep(reward=bounded(-3, 9))).reward
    specs.require_equal(result, spec)


@pytest.mark.parametrize(
    ("transformer", "rewards", "spec"),
    [
        (RewardClipping((-1, 0), (1, 0.5)), [[0, 0], [-1, 0.5]], bounded([-1, 0], [1, 0.5])),
        (RewardScaling([0.5, -1]), [[0, 0], [-1, -8]], bounded([-INF, -INF], [INF, INF])),
        (RewardShifting(np.array([1, 2])), [[0, 0], [-1, 10]], bounded([-INF, -INF], [INF, INF])),
        (RewardFunction(lambda r: r.sum(axis=-1)), [0, 6], unbounded()),
    ],
    ids=lambda x: type(x).__name__,
)
def test_a_vector_reward_is_mapped_per_component(transformer, rewards, spec):
    timestep = row([[0, 0], [-2, 8]], [0, 1])
    assert transformer.transform_timestep((), timestep)[1].reward.tolist() == rewards
    specs.require_equal(transformer.transform_spec(TimeStep(reward=unbounded((2,)))).reward, spec)


def test_rows_in_the_buffer_remain_raw():
    replay = Replay(3, 3)

    @jax.jit
    def run(rows):
        stored = replay.add(replay.init(rows), rows)
        batch = replay.sample(stored, jax.random.key(0), 4)
        _, result = Sequential(RewardClipping(-1, 1)).transform_batch(((),), batch, replay, stored)
        rewards = result.experience.timestep.reward, batch.experience.timestep.reward
        return *rewards, replay.get(stored, "timestep.reward", batch.env_id, batch.position)

    ones = np.ones((3, 3), np.float32)
    result, raw, stored = run(Experience(TimeStep(np.ones((3, 3), np.int32), 5 * ones, ones)))
    assert result.tolist() == [[1, 1]] * 4
    assert raw.tolist() == [[5, 5]] * 4
    assert stored.tolist() == [5] * 4


REWARDS = np.array([[9, 1, 4], [2, -3, 7], [5, 0, 1], [3, 3, 8]], np.float32)


STEP_TYPES = np.array([[0, 0, 0], [1, 2, 1], [1, 0, 2], [2, 1, 0]], np.int32)


@pytest.mark.parametrize("centre", [False, True])
def test_a_reward_is_divided_by_the_standard_deviation_of_all_steps_up_to_and_including_its_own(centre):
    transformer = RewardNormalizer(centre=centre, epsilon=0.0)
    rows = TimeStep(jnp.asarray(STEP_TYPES), jnp.asarray(REWARDS), observation=())
    state = transformer.init(jax.tree.map(lambda x: x[0], rows))
    _, shown = jax.jit(lambda state, rows: jax.lax.scan(transformer.transform_timestep, state, rows))(state, rows)
    step = STEP_TYPES != 0
    for t in range(1, 4):
        seen = REWARDS[: t + 1][step[: t + 1]]
        expected = (REWARDS[t] - (seen.mean() if centre else 0)) / seen.std()
        np.testing.assert_allclose(shown.reward[t], np.where(step[t], expected, 0), rtol=1e-5)
    assert shown.reward[0].tolist() == [0, 0, 0]


def test_statistics_of_rewards_are_updated_on_replay_and_rewards_are_clipped():
    transformer = RewardNormalizer(update="replay", clip=1.0)
    rows = Experience(TimeStep(STEP_TYPES, REWARDS, observation=()))
    batch = windows(rows, [0, 1, 2], [0, 1, 2], 2)
    seen = np.array([2, -3, 1], np.float32)  # the steps of rows 0 and 1, 1 and 2, 2 and 3 of the lanes
    state, result = transformer.transform_batch(transformer.init(row()), batch)
    assert int(transformer.statistics(state).count) == 3
    np.testing.assert_allclose(transformer.statistics(state).mean, seen.mean(), rtol=1e-6)
    expected = np.clip(np.array([[0, 2], [-3, 0], [1, 0]]) / seen.std(), -1, 1)
    np.testing.assert_allclose(result.experience.timestep.reward, expected, rtol=1e-5)
    spec = transformer.transform_spec(TimeStep(reward=bounded(-5, 5))).reward
    specs.require_equal(spec, bounded(-1, 1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RewardClipping(1, 0), "RewardClipping: low must not exceed high, got 1 and 0"),
        (lambda: RewardClipping(None, 1), "RewardClipping: low must be a finite number, .* got None"),
        (lambda: RewardScaling(0), "RewardScaling: scale must not be 0 in float32, got 0"),
        (lambda: RewardScaling([1.0, 1e-50]), "RewardScaling: scale must not be 0 in float32"),
        (lambda: RewardScaling("half"), "RewardScaling: scale must be a finite number, .* got 'half'"),
        (lambda: RewardShifting(INF), "RewardShifting: bias must be a finite number, .* got inf"),
        (lambda: RewardFunction(3), "RewardFunction: fn must be a function of rewards, got 3"),
        (lambda: RewardFunction(abs, spec=3), "RewardFunction: spec must be None or a spec, got 3"),
        (lambda: RewardNormalizer(centre=0), "RewardNormalizer: centre must be True or False, got 0"),
    ],
)
def test_an_invalid_argument_raises(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        (RewardScaling((1, 2)), r"RewardScaling: scale must be one number or have the shape \(\) of the reward, got"),
        (RewardClipping((-1, -1), 1), r"RewardClipping: low must be one number or have the shape \(\) of the reward"),
        (RewardFunction(jnp.sum), r"RewardFunction: the reward must have shape \(3,\), .* got \(\)"),
    ],
)
def test_an_argument_that_does_not_fit_the_reward_raises(transformer, message):
    with pytest.raises(ValueError, match=message):
        transformer.transform_timestep((), row())


@pytest.mark.parametrize("transformer", [RewardShifting(1), RewardNormalizer()])
def test_rows_without_reward_raise(transformer):
    with pytest.raises(ValueError, match=f"{type(transformer).__name__}: the rows hold no reward, keep it in unroll"):
        transformer.transform_timestep(transformer.init(row()), TimeStep(step_type=jnp.zeros(3, jnp.int32)))


def test_a_spec_that_does_not_fit_the_result_of_the_function_raises():
    transformer = RewardFunction(lambda r: r, bounded([0, 0], [1, 1]))
    with pytest.raises(ValueError, match=r"RewardFunction: spec must have shape \(\)"):
        transformer.transform_spec(TimeStep(reward=unbounded()))
