"""Reward wrappers: rewards, specs, and 0 at FIRST.

Covers ClipReward, DelayReward, RewardFromInfo, ScalarizeReward, ShapedReward, SignReward, SparseReward,
TransformReward and VectorReward.
"""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs
from jaxenv.testing import Counting, random_environment
from jaxenv.wrappers import (
    AgentsAsLanes,
    AutoReset,
    ClipReward,
    DelayReward,
    RewardFromInfo,
    RewardNoise,
    ScalarizeReward,
    ShapedReward,
    SignReward,
    SparseReward,
    TimeLimit,
    TransformReward,
    VectorReward,
)
from tests.games import Duel
from tests.rows import unrolled
from tests.wrappers.paying import Paying, paying

INF = np.inf
UNIT = specs.Bounded((), np.float32, 0, 1)


def scalar(low, high):
    return specs.Bounded((), np.float32, low, high)


def counting():
    return Counting(np.array([9]), num_envs=4)


def vector():
    return random_environment(specs.discrete(2), specs.discrete(2), specs.Array((2,), np.float32), num_envs=2)


@pytest.mark.parametrize(
    ("wrapper", "paid", "spec"),
    [
        (lambda e: ClipReward(e, -1, 2), [-1, -1, 0.5, 2], scalar(-1, 2)),
        (lambda e: ClipReward(e, minimum=1), [1, 1, 1, 9], scalar(0, INF)),
        (lambda e: ClipReward(e, maximum=-1), [-3, -1, -1, -1], scalar(-INF, 0)),
        (SparseReward, [0, 0, 1, 1], UNIT),
        (lambda e: SparseReward(e, 0.5), [0, 0, 0, 1], UNIT),
        (lambda e: SparseReward(e, np.array([-5, 5, 0, 9])), [1, 0, 1, 0], UNIT),
        (SignReward, [-1, -1, 1, 1], scalar(-1, 1)),
        (lambda e: TransformReward(e, lambda r: 2 * r + 1), [-5, -1, 2, 19], specs.Array((), np.float32)),
        (lambda e: TransformReward(e, lambda r: r > 0, UNIT), [0, 0, 1, 1], UNIT),
    ],
)
def test_rewards_of_minus_3_minus_1_half_and_9_are_mapped_as_tabulated(wrapper, paid, spec):
    env = wrapper(counting())
    given = env.reward(jnp.array([-3, -1, 0.5, 9], jnp.float32))
    assert given.tolist() == paid
    assert given.dtype == np.float32
    assert env.reward_spec() == spec
    assert env.reward_spec().name == "reward"


@pytest.mark.parametrize(
    ("wrapper", "spec"),
    [
        (lambda e: ClipReward(e, -5, 0.5), scalar(0, 0.5)),
        (lambda e: ClipReward(e, 0.5, 3), scalar(0, 1)),
        (SignReward, UNIT),
        (lambda e: DelayReward(e, 2), scalar(0, INF)),
        (lambda e: DelayReward(ClipReward(e, maximum=0), 2), scalar(0, 0)),
        (lambda e: DelayReward(TransformReward(e, jnp.negative), 2), scalar(-INF, INF)),
    ],
)
def test_bounds_follow_those_of_a_reward_between_0_and_1(wrapper, spec):
    assert wrapper(SparseReward(counting())).reward_spec() == spec


def test_a_vector_reward_is_clipped_by_component():
    env = ClipReward(vector(), (0, -1), (1, INF))
    assert env.reward(jnp.array([[2.0, 2.0], [-2.0, -2.0]])).tolist() == [[1, 2], [0, -1]]
    assert env.reward_spec() == specs.Bounded((2,), np.float32, (0, -1), (1, INF))


def test_clipping_a_reward_keeps_nan():
    assert np.isnan(ClipReward(counting(), -1, 1).reward(jnp.array([np.nan, 0], jnp.float32))).tolist() == [True, False]


# --- trajectories: lane 1 has episodes of two steps, others longer ---------------------------------------------------

PLAYED = np.array([[1, 1, 1], [2, 2, 1], [3, 3, 1], [4, 4, 1], [5, 5, 1], [6, 6, 1]], np.int32)
NEXT, SAME = "next_step", "same_step"


def rewards(env):
    return np.asarray(unrolled(env, PLAYED).reward)


@pytest.mark.parametrize("stack", [lambda w: AutoReset(w(paying(3))), lambda w: w(AutoReset(paying(3)))])
def test_a_function_with_an_offset_pays_0_at_first(stack):
    paid = rewards(stack(lambda env: TransformReward(env, lambda r: 2 * r + 1)))
    assert paid[:, 0].tolist() == [0, 3, 5, 7, 9, 11, 13]
    assert paid[:, 1].tolist() == [0, 3, 5, 0, 9, 11, 0]


@pytest.mark.parametrize("stack", [lambda w: AutoReset(w(paying(3))), lambda w: w(AutoReset(paying(3)))])
def test_a_reward_from_info_is_the_weighted_sum_of_two_terms(stack):
    paid = rewards(
        stack(lambda env: RewardFromInfo(env, lambda info: 0.5 * info["reward_dist"] + 2 * info["reward_ctrl"] - 1))
    )
    assert paid[:, 0].tolist() == [0, -3.5, -10, -20.5, -35, -53.5, -76]
    assert paid[:, 1].tolist() == [0, -3.5, -10, 0, -33.5, -52, 0]


@pytest.mark.parametrize("stack", [lambda w: AutoReset(w(paying(3))), lambda w: w(AutoReset(paying(3)))])
def test_a_cost_in_env_info_becomes_a_component_that_weights_reduce_again(stack):
    pair = stack(lambda env: VectorReward(env, ("cost", "life_lost"), (1, -1, 1)))
    assert pair.reward_spec() == specs.Array((3,), np.float32)
    paid = rewards(pair)
    assert paid[:, 0].tolist() == [[0, 0, 0], [1, -2, 0], [2, -4, 0], [3, -6, 0], [4, -8, 0], [5, -10, 0], [6, -12, 0]]
    assert paid[:4, 1].tolist() == [[0, 0, 0], [1, -2, 0], [2, -4, 0], [0, 0, 0]]
    each = np.array([[1, 0, 0], [0, 1, 0], [3, 1, 0]])
    assert rewards(ScalarizeReward(pair, each))[4].tolist() == [4, -8, 1]
    assert rewards(ScalarizeReward(pair))[4].tolist() == [4, 4, 1]


def test_components_are_appended_to_a_vector_and_flags_count_as_1():
    env = VectorReward(VectorReward(paying(), "cost"), "life_lost")
    assert env.reward_spec().shape == (3,)
    assert unrolled(env, np.array([[9]], np.int32)).reward.tolist() == [[[0, 0, 0]], [[9, 18, 1]]]


@pytest.mark.parametrize("stack", [lambda w, m, e: AutoReset(w(e), m), lambda w, m, e: w(AutoReset(e, m))])
@pytest.mark.parametrize(("mode", "middle"), [(NEXT, [0, 0, 3, 0, 0, 9, 0]), (SAME, [0, 0, 3, 0, 7, 0, 11])])
@pytest.mark.parametrize("is_cut", [False, True])  # or the episodes of lane 1 terminate
def test_delayed_rewards_are_paid_every_num_steps_and_at_the_end(stack, mode, middle, is_cut):
    task = TimeLimit(Counting(np.array([9]), num_envs=3), np.array([9, 2, 9])) if is_cut else paying(3)
    paid = rewards(stack(lambda env: DelayReward(env, np.array([2, 3, 4])), mode, task))
    assert paid[:, 0].tolist() == [0, 0, 3, 0, 7, 0, 11]
    assert paid[:, 1].tolist() == middle
    assert paid[:, 2].tolist() == [0, 0, 0, 0, 4, 0, 0]


def test_a_delayed_vector_reward_is_summed_by_component():
    paid = rewards(AutoReset(DelayReward(VectorReward(paying(3), "cost"), 3)))
    assert paid[:, 0].tolist() == [[0, 0], [0, 0], [0, 0], [6, 12], [0, 0], [0, 0], [15, 30]]


def test_noise_has_the_scale_of_its_lane_is_drawn_for_each_component_and_leaves_first_rows_alone():
    env = VectorReward(Paying(np.array([9]), num_envs=4000), "cost")
    scale, actions = np.repeat(np.float32([0.5, 2]), 2000), np.zeros((1, 4000), np.int32)
    assert not unrolled(RewardNoise(env, scale), actions).reward[0].any()
    noise = unrolled(RewardNoise(env, scale), actions).reward[1] / scale[:, None]
    np.testing.assert_allclose(np.cov(noise.T), np.eye(2), atol=0.1)
    np.testing.assert_allclose(noise[:2000].std(axis=0), 1, atol=0.1)


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda e: ClipReward(e), r"ClipReward: minimum, maximum or both .*got None and None"),
        (lambda e: ClipReward(e, 2, 1), r"ClipReward: minimum .*got 2 and 1"),
        (lambda e: ClipReward(e, float("nan")), r"ClipReward: minimum .*got nan"),
        (lambda e: ClipReward(e, (0, 1)), r"ClipReward: .* .*got \(0, 1\) and None"),
        (lambda e: ClipReward(e, "low"), r"ClipReward: minimum .*got 'low'"),
        (lambda e: TransformReward(e, 3), r"TransformReward: fn .*got 3"),
        (lambda e: TransformReward(e, jnp.sum), r"TransformReward.fn: the reward .*got \(\)"),
        (lambda e: TransformReward(e, jnp.sign, specs.discrete(2)), r"TransformReward: spec .*got Bounded"),
        (
            lambda e: TransformReward(e, jnp.exp, scalar(1, 2)),
            r"TransformReward: spec .*got Bounded\(\(",
        ),
        (lambda e: RewardFromInfo(e, None), r"RewardFromInfo: fn .*got None"),
        (lambda e: RewardFromInfo(e, lambda info: 1.0), r"RewardFromInfo: the reward .*got \(\)"),
        (lambda e: SparseReward(e, "low"), r"threshold .*got 'low'"),
        (lambda e: ScalarizeReward(e), r"ScalarizeReward: the reward .*got Array\(\(\), float32"),
        (
            lambda e: ScalarizeReward(vector(), [1, 2, 3]),
            r"weights .*got \[1.0, 2.0, 3.0\]",
        ),
        (lambda e: VectorReward(e, ("cost",)), r"VectorReward: no entry 'cost' in env_info, there are \(none\)"),
        (lambda e: VectorReward(e, 5), r"VectorReward: names .*got 5"),
        (
            lambda e: ClipReward(e, False, True),
            r"ClipReward: minimum .*got False",
        ),
        (lambda e: VectorReward(e, ()), r"VectorReward: names .*got \(\)"),
        (lambda e: VectorReward(paying(), "cost", [1]), r"VectorReward: weights .*got \[1\.0\]"),
        (lambda e: DelayReward(e, 0), r"DelayReward: num .*got 0"),
        (lambda e: DelayReward(e, 1.5), r"num .*got 1.5"),
    ],
)
def test_an_invalid_argument_is_refused_by_name_and_value(build, message):
    with pytest.raises(ValueError, match=message):
        build(counting())


def test_reward_wrappers_are_omitted_in_evaluation():
    names = [("ClipReward", {"maximum": 1}), ("DelayReward", {"num": 3}), ("SparseReward", {})]
    assert "Reward" not in repr(jaxenv.make("CartPole-v1", wrappers=names, mode="eval"))
    assert "SparseReward<DelayReward<ClipReward" in repr(jaxenv.make("CartPole-v1", wrappers=names))


def test_numeric_arguments_do_not_recompile():
    @jax.jit
    @chex.assert_max_traces(n=1)
    def paid(env):
        return env.reward(jnp.ones(4))

    assert [paid(SparseReward(counting(), t)).tolist()[0] for t in (0, 0.5, 2)] == [1, 1, 0]


# --- rewards that fade ------------------------------------------------------------------------------------------------


def test_a_shaped_reward_fades_over_the_rows_of_a_lane():
    env = ShapedReward(AutoReset(paying(num_envs=3)), 8, "cost")
    state, row = env.reset(jax.random.key(0))
    assert row.reward.tolist() == [0, 0, 0]
    for seen in range(1, 12):  # lane 1 ends at row 2 and restarts
        _, expected = env.env.step(state.inner, np.array([1, 2, 3], np.int32))
        state, row = env.step(state, np.array([1, 2, 3], np.int32))
        weight = max(0, 1 - seen / 8)
        bonus = np.where(expected.is_first(), 0, weight * np.array([2, 4, 6]))
        np.testing.assert_allclose(row.reward, np.asarray(expected.reward) + bonus)
    assert int(env.statistics(state)) == 8


def test_a_shaped_reward_whose_weight_is_zero_pays_the_own_reward_also_where_the_entry_is_nan():
    class Spoiled(AutoReset):
        def proceed(self, state, action):
            state, row = super().proceed(state, action)
            return state, dataclasses.replace(row, env_info={**row.env_info, "cost": row.env_info["cost"] * np.nan})

    env = ShapedReward(Spoiled(paying(num_envs=3)), 2, "cost")
    state, row = env.reset(jax.random.key(0))
    rewards = []
    for _ in range(4):
        state, row = env.step(state, np.array([1, 2, 3], np.int32))
        rewards.append(np.isfinite(row.reward[0]).item())
    assert rewards == [False, True, True, True]


def test_a_frozen_shaped_reward_keeps_its_weight():
    env = ShapedReward(AutoReset(paying(num_envs=3)), 8, "cost", frozen=True)
    state, _ = env.reset(jax.random.key(0))
    for _ in range(3):
        _, expected = env.env.step(state.inner, np.array([1, 2, 3], np.int32))
        state, row = env.step(state, np.array([1, 2, 3], np.int32))
        np.testing.assert_allclose(row.reward - expected.reward, np.where(expected.is_first(), 0, [2, 4, 6]))


def test_a_shaped_reward_is_each_agents_own():
    class Helped(Duel):
        def transition(self, state, action, stream):
            return dataclasses.replace(super().transition(state, action, stream), env_info={"helps": action == 2})

        def state_info(self, state):
            return {"always": jnp.ones((*state["round"].shape, 2))}

    games = AutoReset(Helped(num_envs=2))
    assert ShapedReward(games, 4, "always").reset(jax.random.key(0))[1].reward.tolist() == [[0, 0], [0, 0]]
    for env in (AgentsAsLanes(ShapedReward(games, 4, "helps")), ShapedReward(AgentsAsLanes(games), 4, "helps")):
        state, _ = env.reset(jax.random.key(0))
        _, row = env.step(state, np.array([2, 1, 0, 2], np.int32))
        assert row.reward.tolist() == [0.75, 0, 0, 0.75]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ShapedReward(paying(), 0, "cost"), "ShapedReward: steps .*got 0"),
        (lambda: ShapedReward(paying(), 5), r"ShapedReward: entry .*\(\).*got 'shaped_reward' and the entries .*cost"),
        (lambda: ShapedReward(VectorReward(paying(), ("cost",)), 5, "cost"), r"ShapedReward: entry .*\(2,\)"),
    ],
)
def test_a_shaped_reward_that_does_not_fit_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
