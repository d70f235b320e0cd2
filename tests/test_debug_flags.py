"""The public functions under JAX's debug flags, which must raise no false alarm.

``jax_debug_nans`` and ``jax_debug_infs`` check the results of compiled programs, and outside of them of every single
operation. ``jax_debug_key_reuse`` and ``jax_check_tracer_leaks`` check programs while they are traced.
"""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import data, rollout, specs
from jaxenv.rollout import Evaluation, Metrics
from jaxenv.wrappers import AutoReset, ClipObservation, ClipReward, EpisodeStatistics, NormalizeObservation, RunStats
from tests.wrappers.paying import Paying


@pytest.fixture
def _checked_values():
    with jax.debug_nans(True), jax.debug_infs(True), jax.debug_key_reuse(True):
        yield


with_checked_values = pytest.mark.usefixtures("_checked_values")


def lasting(length=9, num_envs=3):
    """An environment whose episodes last longer than the rollouts here."""
    return AutoReset(Paying(np.array([length]), num_envs=num_envs))


@with_checked_values
def test_single_operations_of_a_stack_with_infinite_bounds_make_no_nan_and_no_infinity():
    env = ClipReward(ClipObservation(jaxenv.spec("Pendulum-v1").make(2), 0.0), maximum=0.0)
    env = RunStats(NormalizeObservation(EpisodeStatistics(AutoReset(env, "same_step"))), num_recent=2)
    state, timestep = env.reset(jax.random.key(0))
    for _ in range(2):
        state, timestep = env.step(state, specs.sample(env.action_spec(), jax.random.key(1), (2,)))
    assert timestep.reward.shape == (2,)


@with_checked_values
def test_metrics_of_a_rollout_without_a_finished_episode_make_no_nan_and_no_infinity():
    metrics = Metrics(gamma=0.9, env_info=("cost", "cost@max"))

    def play(key):
        env = lasting()
        state, timestep = env.reset(key)
        _, rows = jaxenv.unroll(env, rollout.random_policy(env), state, timestep, 4)
        return metrics.compute(metrics.totals(metrics.update_rows(metrics.init(timestep), rows.timestep)))

    found = rollout.to_host(jax.jit(play)(jax.random.key(0)))
    assert (found["episodes"], found["return_mean"], found["return_max"], found["cost@max"]) == (0, None, None, None)
    assert np.isnan(float(metrics.compute(metrics.totals(metrics.init(lasting().reset(jax.random.key(0))[1])))["cost"]))


@with_checked_values
def test_an_evaluation_without_a_finished_episode_makes_no_nan_and_no_infinity():
    def summary(key):
        env = lasting()
        cut = jaxenv.evaluate(env, rollout.random_policy(env), key, max_steps=2)
        return cut.summary(jax.random.fold_in(key, 0), num_resamples=1)

    found = rollout.to_host(jax.jit(summary)(jax.random.key(0)))
    assert (found["unfinished"], found["return_mean"], found["return_low"]) == (3, None, None)
    no, one = jnp.zeros(1, bool), jnp.ones(1, jnp.int32)
    alone = Evaluation(jnp.ones(1), one, no, ~no, no).summary(jax.random.key(0), num_resamples=1)
    assert (float(alone["return_mean"]), np.isnan(float(alone["return_high"]))) == (1, True)


def learned(key):
    """Targets, transitions and samples of a rollout."""
    env = lasting(2)
    start_key, sample_key, other_key, last_key = jax.random.split(key, 4)
    (_, last, _), rows = jaxenv.unroll(env, rollout.random_policy(env), *env.reset(start_key), 6)
    values = jnp.zeros((7, 3))
    targets = data.gae(rows.timestep, last, values, gamma=0.9, lambda_=0.9)
    uniform = data.Replay(8, 3)
    prioritized = data.Replay(8, 3, sampling=data.PrioritizedSampling(0.6))
    found = [
        replay.sample(replay.add(replay.init(rows), rows), key, 4)
        for replay, key in ((uniform, sample_key), (prioritized, other_key))
    ]
    empty = prioritized.sample(prioritized.init(rows), last_key, 4)  # repeats rows
    return targets, data.to_transitions(rows, last), found, empty


@with_checked_values
def test_targets_transitions_and_samples_make_no_nan_and_no_infinity():
    targets, *_ = jax.jit(learned)(jax.random.key(0))
    assert targets.advantages.shape == (6, 3)


def trained(key):
    from jaxenv.training import ppo

    sizes = {"num_envs": 2, "num_steps": 2, "total_steps": 4, "num_minibatches": 1, "num_epochs": 1}
    config = ppo.Config(**sizes, num_evaluations=1, num_eval_episodes=2, hidden=(4,))
    return ppo.make_train(config)(key)


@with_checked_values
def test_an_update_of_ppo_makes_no_nan_and_no_infinity():
    with promotion():
        _, curve = jax.jit(trained)(jax.random.key(0))
    assert np.isnan(np.asarray(curve.train["return_mean"])).all()


@contextlib.contextmanager
def promotion():
    """JAX's default promotion, on which optax and flax rely."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def measured(key):
    env = jaxenv.make("Pendulum-v1", 2, wrappers=["EpisodeStatistics", "NormalizeObservation", "NormalizeReward"])
    policy, metrics, start = rollout.random_policy(env), Metrics(gamma=0.9), env.reset(key)

    def update(sums, _, timestep):
        return metrics.update(sums, timestep)

    end = rollout.fold(env, policy, update, metrics.init(start[1]), *start, 9, until=lambda fold: fold.steps >= 4)
    return metrics.compute(metrics.totals(end.value)), jaxenv.evaluate(
        env, policy, jax.random.fold_in(key, 1)
    ).summary()


@pytest.mark.parametrize("function", [measured, learned, trained])
def test_no_tracer_leaks_and_no_key_is_used_twice(function):
    with jax.checking_leaks(), jax.debug_key_reuse(True), promotion():
        jax.eval_shape(lambda key: function(key), jax.random.key(0))  # a new function is not cached
