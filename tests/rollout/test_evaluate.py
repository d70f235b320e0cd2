"""Evaluation: whole episodes, equally many in every lane."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs
from jaxenv.rollout import Evaluation, PolicyStep, evaluate, random_policy, to_host, unroll
from jaxenv.testing import Chain, Counting, random_environment
from jaxenv.wrappers import AutoReset, GuardNonFinite, TimeLimit

MODES = ["next_step", "same_step"]


def echo(timestep, stream):
    """Returns the observation as the action: Counting then pays 0 + 1 + ... + (n - 1) for an episode of n steps."""
    return jnp.minimum(timestep.observation, 9)


def counting(lengths, mode="next_step"):
    lengths = np.array(lengths)
    return AutoReset(Counting(lengths, num_envs=len(lengths)), mode)


def played(env, policy=echo, num_episodes=None, **kwargs):
    return jax.device_get(jax.jit(lambda key: evaluate(env, policy, key, num_episodes, **kwargs))(jax.random.key(0)))


@pytest.mark.parametrize("mode", MODES)
def test_every_lane_plays_its_quota_of_the_episodes_computed_by_hand(mode):
    result = played(counting([[2, 3], [1, 1], [4, 2]], mode), num_episodes=6)
    assert result.lengths.tolist() == [2, 3, 1, 1, 4, 2]
    assert result.returns.tolist() == [1, 3, 0, 0, 6, 1]
    assert result.terminated.all()
    assert result.finished.all()
    assert (result.returns.dtype, result.lengths.dtype) == (np.float32, np.int32)


def test_one_episode_per_lane_is_the_default():
    assert played(counting([[2], [5]])).lengths.tolist() == [2, 5]


@pytest.mark.parametrize("mode", MODES)
def test_the_sum_of_the_rewards_restarts_after_an_episode_that_was_truncated(mode):
    env = AutoReset(TimeLimit(Counting(np.array([9])), 3), mode)
    result = played(env, lambda timestep, stream: jnp.ones(1, jnp.int32), 3)
    assert result.returns.tolist() == [3, 3, 3]
    assert result.lengths.tolist() == [3, 3, 3]
    assert not result.terminated.any()


@pytest.mark.parametrize("mode", MODES)
def test_short_episodes_are_not_favoured(mode):
    env = counting([[1], [9]], mode)
    assert np.mean(played(env, num_episodes=10).lengths) == 5
    rows = jax.jit(lambda key: unroll(env, echo, *env.reset(key), 40, fields=["step_type"])[1])(jax.random.key(0))
    naive = [9 if lane else 1 for lane in np.argwhere(np.asarray(rows.timestep.step_type) == 2)[:10, 1]]
    assert np.mean(naive) < 3


@pytest.mark.parametrize("mode", MODES)
def test_the_first_two_episodes_of_two_lanes_are_too_short_by_a_fifth_and_the_quota_is_unbiased(mode):
    # Episodes of 1 and 9 steps are equally likely, so the true mean is 5. The first two to end in two lanes are
    #   1 and 1 if both lanes start with 1 (probability 1/4), 9 and 9 if both start with 9 (1/4); otherwise (1/2) the
    #   first is 1, and the second is 1 if the lane that has ended draws 1 again (1/2), and 9 if not.
    # Their mean is 1/4 * 1 + 1/4 * 9 + 1/2 * (1/2 * 1 + 1/2 * 5) = 4.
    lengths = np.array(list(itertools.product([1, 9], repeat=4))).reshape(32, 2)  # all pairs of lanes
    env = counting(lengths, mode)
    truth = to_host(played(env, num_episodes=64).summary())
    assert (truth["length_mean"], truth["episodes"], truth["unfinished"]) == (5, 64, 0)
    rows = jax.jit(lambda key: unroll(env, echo, *env.reset(key), 22, fields=["step_type"])[1])(jax.random.key(0))
    ends = np.asarray(rows.timestep.step_type) == 2
    naive = []
    for pair in range(0, 32, 2):
        finished = [0, 0]
        for _, lane in np.argwhere(ends[:, pair : pair + 2])[:2]:
            naive.append(lengths[pair + lane, finished[lane]])
            finished[lane] += 1
    assert np.mean(naive) == 4


@pytest.mark.parametrize("mode", MODES)
def test_episodes_cut_off_by_max_steps_are_not_finished_and_cannot_be_read_as_data(mode):
    result = played(counting([[2], [50]], mode), lambda t, k: jnp.ones_like(t.observation), 6, max_steps=10)
    assert result.finished.tolist() == [True, True, True, False, False, False]  # the first of lane 1 got 10 steps far
    assert result.terminated.tolist() == [True, True, True, False, False, False]
    assert result.lengths.tolist() == [2, 2, 2, -1, -1, -1]
    np.testing.assert_array_equal(result.returns, [2, 2, 2, np.nan, np.nan, np.nan])
    assert not result.abnormal.any()


def test_components_of_a_return_that_was_cut_off_are_all_nan():
    reward = specs.Bounded((2,), np.float32, [1, 2], [1, 2])
    endless = random_environment(specs.discrete(3), specs.discrete(3), reward, end_probability=0, num_envs=3)
    env = AutoReset(TimeLimit(endless, 5))
    result = played(env, random_policy(env), 6, max_steps=8)
    np.testing.assert_array_equal(result.returns, [[5, 10], [np.nan, np.nan]] * 3)


def test_episodes_that_were_cut_off_are_counted_in_a_warning_outside_of_jit():
    with pytest.warns(UserWarning, match=r"^evaluate: 3 of 6 episodes had not.* max_steps = 10 steps"):
        found = evaluate(counting([[2], [50]]), echo, jax.random.key(0), 6, max_steps=10)
    assert np.isnan(found.returns).sum() == 3


@pytest.mark.parametrize("mode", MODES)
def test_an_episode_truncated_by_a_time_limit_is_finished_and_not_terminated(mode):
    env = AutoReset(TimeLimit(Counting(np.array([[5], [2], [3]]), num_envs=3), 3), mode)
    result = played(env)
    assert result.lengths.tolist() == [3, 2, 3]
    assert result.terminated.tolist() == [False, True, True]
    assert result.finished.all()


class Breaking(Counting):
    """The reward is NaN on step 2 of lane 1's first episode."""

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        broken = (np.arange(4) == 1) & (state.episode == 0) & (state.step == 1)
        return dataclasses.replace(out, reward=jnp.where(broken, np.float32(np.nan), out.reward))


@pytest.mark.parametrize("mode", MODES)
def test_an_episode_that_ends_abnormally_is_marked(mode):
    result = played(AutoReset(GuardNonFinite(Breaking(np.array([3]), num_envs=4)), mode), num_episodes=8)
    assert result.abnormal.tolist() == [False, False, True, False, False, False, False, False]
    assert result.lengths.tolist() == [3, 3, 2, 3, 3, 3, 3, 3]
    assert result.finished.all()


@pytest.mark.parametrize("mode", MODES)
def test_memory_is_reset_at_the_start_of_every_episode(mode):
    def policy(timestep, stream, memory):
        return PolicyStep(memory, memory + 1)

    result = played(counting([[2, 3], [3, 2]], mode), policy, 4, initial_memory=np.array([5, 1], np.int32))
    assert result.returns.tolist() == [5 + 6, 5 + 6 + 7, 1 + 2 + 3, 1 + 2]


def test_a_vector_reward_gives_vector_returns():
    env = random_environment(
        specs.discrete(3), specs.discrete(3), specs.Bounded((2,), np.float32, [1, 2], [1, 2]), 1.0, num_envs=3
    )
    result = played(AutoReset(env), random_policy(env))
    assert result.returns.tolist() == [[1, 2]] * 3


# --- CartPole --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=MODES)
def cart_pole(request):
    """Five episodes, and the trajectory of the same random policy from the same key."""
    env = jaxenv.make("CartPole-v1", num_envs=5, autoreset=request.param)
    policy = random_policy(env)

    @jax.jit
    def play(key):
        fields = ["step_type", "reward"]
        return evaluate(env, policy, key, 5), unroll(env, policy, *env.reset(key), 150, fields=fields)[1].timestep

    return jax.device_get(play(jax.random.key(0)))


def test_five_cart_pole_episodes_pay_one_for_every_step(cart_pole):
    result, _ = cart_pole
    assert result.returns.shape == (5,)
    assert result.finished.all()
    np.testing.assert_array_equal(result.returns, result.lengths)
    assert np.mean(result.returns, dtype=np.float64) == np.mean(result.lengths) > 8


def test_lengths_equal_the_numbers_of_rows_after_first_in_the_rollout_of_the_same_key(cart_pole):
    result, rows = cart_pole
    assert np.any(rows.step_type == 2, axis=0).all()
    episode = np.cumsum(rows.step_type == 2, axis=0) - (rows.step_type == 2) == 0  # up to the first LAST row
    np.testing.assert_array_equal(result.lengths, np.sum(episode & (rows.step_type != 0), axis=0))
    assert result.lengths.sum() == np.sum(episode & (rows.step_type != 0))


# --- summary ---------------------------------------------------------------------------------------------------------


def evaluation(returns, terminated=True, finished=True, abnormal=False):
    returns = np.array(returns, np.float32)
    flags = (np.broadcast_to(flag, len(returns)) for flag in (terminated, finished, abnormal))
    return Evaluation(returns, np.arange(1, 1 + len(returns), dtype=np.int32), *flags)


@jax.jit
def summary(played, key):
    return played.summary(key, num_resamples=2000)


def test_a_summary_has_means_deviations_and_counts_by_ending():
    found = to_host(evaluation([1, 2, 3, 6], [True, False, True, True]).summary())
    assert (found["return_mean"], found["return_max"], found["return_min"], found["length_mean"]) == (3, 6, 1, 2.5)
    assert found["return_std"] == pytest.approx(np.std([1, 2, 3, 6]))
    assert found["return_standard_error"] == pytest.approx(np.std([1, 2, 3, 6], ddof=1) / 2)
    assert (found["episodes"], found["terminated"], found["truncated"], found["unfinished"]) == (4, 3, 1, 0)
    assert "return_low" not in found


def test_episodes_that_were_cut_off_count_only_as_unfinished():
    whole, cut = evaluation([4, 6, 8]), evaluation([4, 1000, 6, 8], finished=[True, False, True, True])
    a, b = (to_host(summary(e, jax.random.key(1))) for e in (whole, cut))
    assert (b["episodes"], b["unfinished"], b["terminated"]) == (3, 1, 3)
    for name in ("return_mean", "return_std", "return_max", "return_standard_error"):
        assert a[name] == pytest.approx(b[name]), name
    assert 4 <= b["return_low"] < 6 < b["return_high"] <= 8


def test_abnormal_episodes_count_only_as_abnormal():
    normal, odd = [True, False, True, True], [False, True, False, False]
    found = to_host(summary(evaluation([4, 1000, 6, 8], normal, abnormal=odd), jax.random.key(1)))
    counts = {"episodes": 3, "terminated": 3, "truncated": 0, "abnormal": 1, "unfinished": 0}
    assert found.items() >= counts.items()
    assert (found["return_mean"], found["return_max"], found["length_mean"]) == (6, 8, pytest.approx(8 / 3))
    assert 4 <= found["return_low"] < 6 < found["return_high"] <= 8
    cut = to_host(summary(evaluation([4, 1000, 6, 8], normal, normal, odd), jax.random.key(1)))
    assert (cut["abnormal"], cut["unfinished"]) == (0, 1)


def test_the_interval_covers_the_resampled_means_of_finished_episodes():
    returns = np.random.default_rng(0).normal(100, 5, 50).astype(np.float32)
    both = np.stack([returns, np.full_like(returns, 1e6)], axis=1).ravel()  # every second episode is unfinished
    found = to_host(summary(evaluation(both, finished=both < 1e6), jax.random.key(0)))
    means = np.random.default_rng(1).choice(returns, (20_000, 50)).mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    assert found["return_low"] == pytest.approx(low, abs=0.1)
    assert found["return_high"] == pytest.approx(high, abs=0.1)


def test_counts_are_int32_with_64_bit_types_enabled_too():
    with jax.enable_x64(True):
        found = jax.eval_shape(Evaluation.summary, evaluation([4, 6, 8]), jax.random.key(1))
    assert {str(x.dtype) for x in jax.tree.leaves(found)} == {"int32", "float32", "bool"}


def test_one_episode_has_no_standard_error_and_no_episode_has_no_mean():
    one = to_host(summary(evaluation([7]), jax.random.key(0)))
    assert (one["return_mean"], one["return_max"], one["episodes"]) == (7, 7, 1)
    assert one["return_standard_error"] is one["return_low"] is one["return_high"] is None
    none = to_host(evaluation([7, 8], finished=False).summary())
    assert none["return_mean"] is none["return_max"] is none["length_mean"] is None
    assert none["unfinished"] == 2


def test_a_vector_return_is_summarised_per_component():
    found = to_host(summary(evaluation([[1, 10], [3, 30]]), jax.random.key(0)))
    assert found["return_mean"] == [2, 20]
    assert found["return_standard_error"] == [1, 10]
    assert found["return_low"] == [1, 10]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_resamples": 0}, r"num_resamples .*got 0"),
        ({"level": 1.0}, r"level .*got 1.0"),
        ({"key": 0}, r": key .*got 0"),
        ({"key": jax.random.split(jax.random.key(0), 2)}, r"summary: key .*got an array"),
        ({"level": "x"}, r"level .*got 'x'"),
        ({"level": True}, r"level .*got True"),
    ],
)
def test_wrong_arguments_of_summary_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        evaluation([1, 2]).summary(**arguments)


def test_a_summary_of_several_calls_is_refused_with_a_hint_at_vmap():
    several = jax.tree.map(lambda x: x[None], evaluation([1, 2]))
    with pytest.raises(ValueError, match=r"summary takes the.* \[N\] .* shape \(1, 2\): use jax.vmap"):
        several.summary()


def test_a_policy_that_is_no_function_is_refused():
    with pytest.raises(ValueError, match=r"evaluate: policy .*got None"):
        evaluate(counting([[1], [2], [3]]), None, jax.random.key(0))


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_episodes", [0, -3, 4, 3.0, True])
def test_a_number_of_episodes_that_is_no_multiple_of_the_lanes_is_refused(num_episodes):
    with pytest.raises(ValueError, match=f"positive multiple of num_envs = 3, got {num_episodes}"):
        evaluate(counting([[1], [2], [3]]), echo, jax.random.key(0), num_episodes)


@pytest.mark.parametrize(
    ("max_steps", "message"),
    [(0, "at least 1, got 0"), (2.5, "an integer, got 2.5"), (2**31, "at most 2147483647, got 2147483648")],
)
def test_a_wrong_number_of_max_steps_is_refused(max_steps, message):
    with pytest.raises(ValueError, match=f"evaluate: max_steps must be {message}"):
        evaluate(counting([[1]]), echo, jax.random.key(0), max_steps=max_steps)


def test_an_environment_without_autoreset_is_refused():
    with pytest.raises(ValueError, match=r"Counting has no AutoReset"):
        evaluate(Counting(np.array([2])), echo, jax.random.key(0))


def test_keys_for_another_number_of_lanes_are_refused():
    env = AutoReset(Counting(np.array([2]), num_envs=2))
    with pytest.raises(ValueError, match=r": key .*got 3"):
        evaluate(env, echo, jax.random.split(jax.random.key(0), 3))


@pytest.mark.parametrize("env_id", [[0, 1], np.arange(2)])
def test_lane_numbers_may_be_a_list_and_others_are_refused(env_id):
    env = AutoReset(Chain(3, num_envs=2))
    policy = lambda timestep, stream: jnp.ones(2, jnp.int32)  # noqa: E731
    found = evaluate(env, policy, jax.random.key(0), env_id=env_id)
    assert found.lengths.tolist() == [2, 2]
    with pytest.raises(ValueError, match=r"reset: env_id .*got 0\.5"):
        evaluate(env, policy, jax.random.key(0), env_id=0.5)
