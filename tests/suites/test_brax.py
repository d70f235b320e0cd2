"""Brax's environments: equal to Brax's own loop, under the episodes of this library."""

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.suites import brax as suite
from jaxenv.testing import check_env
from tests.suites.comparison import compare

# Names of JAX that Brax's dependencies still use.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
envs = pytest.importorskip("brax.envs")

LANES = 4


def load(name, num_envs=LANES, **kwargs):
    return jaxenv.make(f"brax:{name}", num_envs, **kwargs)


def test_episodes_equal_those_of_brax():
    env = envs.get_environment("inverted_pendulum", backend="generalized")

    def step(state, action):
        state = env.step(state, action)
        return state, state.obs, state.reward, state.done, state.done

    given = load("inverted_pendulum", backend="generalized", autoreset=None, max_episode_steps=0)
    _, terminations, truncations = compare(given, 40, step, tolerance=1e-3)  # the pole amplifies rounding errors
    assert (terminations, truncations) == (LANES, 0)


def test_the_limit_of_1000_steps_truncates_and_a_fall_on_the_same_step_terminates():
    assert load("fast").env.duration == suite.action_and_limit("fast")[1] == 1000
    env = load("inverted_pendulum", 8, max_episode_steps=7)
    policy = jaxenv.rollout.random_policy(env)
    state, first = jax.jit(env.reset)(jax.random.key(0))
    _, rows = jax.jit(lambda state, first: jaxenv.unroll(env, policy, state, first, 32))(state, first)
    rows = jax.device_get(rows.timestep)
    fallen = np.abs(rows.observation[..., 1]) > 0.2
    assert (rows.terminated == fallen).all()
    assert rows.truncated.any()
    assert rows.terminated.any()


def test_every_episode_starts_in_a_new_state():
    # Brax's AutoResetWrapper replays the first state of a lane.
    env = load("inverted_pendulum", 2, max_episode_steps=1)
    state, first = jax.jit(env.reset)(jax.random.key(0))
    step, starts = jax.jit(env.step), [first.observation]
    for _ in range(4):
        state, row = step(state, np.zeros((2, 1), np.float32))
        starts += [row.observation] if row.is_first().all() else []
    assert len(starts) == 3
    assert len(np.unique(np.concatenate(starts), axis=0)) == 6


def test_metrics_are_entries_of_env_info():
    env = load("reacher")
    assert env.env_info_spec().keys() >= {"reward_dist", "reward_ctrl"}


def test_a_step_keeps_dtypes_structure_bounds_and_grammar():
    check_env(
        load("fast", max_episode_steps=6),
        properties=["same_tree", "rows_match_specs", "within_specs", "episode_grammar"],
        num_steps=24,
        raise_on_failure=True,
    )


@pytest.mark.parametrize(
    ("name", "kwargs", "message"),
    [
        ("ants", {}, r"brax: no environment 'ants'.*'ant'"),
        ("ant", {"back_end": "mjx"}, r"brax:ant: unknown keyword 'back_end'.*'backend'"),
        ("ant", {"backend": "warp"}, r"brax:ant: brax rejects \{'backend': 'warp'\}"),
        ("ant", {"episode_length": 5}, r"episode_length is the time.* max_episode_steps to load, got 5"),
    ],
)
def test_wrong_names_and_keywords_are_refused(name, kwargs, message):
    with pytest.raises(ValueError, match=message):
        load(name, **kwargs)
