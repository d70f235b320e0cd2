"""EpisodeStatistics, EvalReturn and RunStats on three lanes, the middle one of which ends and restarts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv.specs import Bounded, discrete
from jaxenv.testing import Counting, random_environment
from jaxenv.wrappers import AutoReset, EpisodeStatistics, EvalReturn, RunStats, TimeLimit
from tests.rows import unrolled

F, T = False, True


def env(lanes=3):
    """Lanes 0 and 2 never end, lane 1 ends after two steps; the reward is the action."""
    return Counting(np.array([[0], [2], [0]]), num_envs=lanes)


ACTIONS = jnp.array([[1, 2, 3], [1, 2, 3], [1, 9, 3], [1, 4, 3], [1, 5, 3]])


@pytest.mark.parametrize(
    "build", [lambda e: AutoReset(EpisodeStatistics(e)), lambda e: EpisodeStatistics(AutoReset(e))]
)
def test_statistics_are_on_last_rows_only(build):
    rows = unrolled(build(env()), ACTIONS)
    episode = rows.env_info["episode"]
    assert rows.step_type[:, 1].tolist() == [0, 1, 2, 0, 1, 2]
    assert episode["return"].tolist() == [[0, 0, 0], [0, 0, 0], [0, 4, 0], [0, 0, 0], [0, 0, 0], [0, 9, 0]]
    assert episode["length"].tolist() == [[0, 0, 0], [0, 0, 0], [0, 2, 0], [0, 0, 0], [0, 0, 0], [0, 2, 0]]
    assert episode["valid"][:, 1].tolist() == episode["terminated"][:, 1].tolist() == [F, F, T, F, F, T]
    assert not episode["valid"][:, [0, 2]].any()
    assert not episode["truncated"].any()


@pytest.mark.parametrize(
    "build",
    [lambda e: AutoReset(EpisodeStatistics(e), "same_step"), lambda e: EpisodeStatistics(AutoReset(e, "same_step"))],
)
def test_a_same_step_last_row_reports_the_episode_that_it_ends(build):
    episode = unrolled(build(env()), ACTIONS).env_info["episode"]
    assert episode["return"][:, 1].tolist() == [0, 0, 4, 0, 13, 0]
    assert episode["length"][:, 1].tolist() == [0, 0, 2, 0, 2, 0]
    assert episode["length"][:, [0, 2]].sum() == 0


def test_truncation_and_termination_are_distinguished_and_termination_wins_a_tie():
    limited = TimeLimit(env(), np.array([3, 2, 4]))
    episode = unrolled(AutoReset(EpisodeStatistics(limited)), ACTIONS[:4]).env_info["episode"]
    assert episode["truncated"].tolist()[3] == [T, F, F]
    assert episode["truncated"].tolist()[4] == [F, F, T]
    assert (episode["terminated"].tolist()[2], episode["truncated"].tolist()[2]) == ([F, T, F], [F, F, F])
    assert episode["return"][3].tolist() == [3, 0, 0]


def test_a_vector_reward_has_a_vector_return():
    rewards = Bounded((2,), np.float32, -1, 1, "reward")
    task = random_environment(discrete(3, name="observation"), discrete(2, name="action"), rewards, 0.4, num_envs=3)
    rows = unrolled(AutoReset(EpisodeStatistics(task)), jnp.zeros((12, 3), jnp.int32))
    total, last = np.zeros((3, 2)), rows.step_type == 2
    assert last.any()
    for t in range(13):
        total += rows.reward[t]
        np.testing.assert_allclose(rows.env_info["episode"]["return"][t], total * last[t][:, None], atol=1e-6)
        total[last[t]] = 0


def test_nested_episode_statistics_are_refused():
    with pytest.raises(ValueError, match=r"EpisodeStatistics: .* already has env_info\['episode'\]"):
        EpisodeStatistics(EpisodeStatistics(env()))


@pytest.mark.parametrize("build", [lambda e: AutoReset(EvalReturn(e)), lambda e: EvalReturn(AutoReset(e))])
def test_eval_return_is_always_present_and_valid_exactly_at_the_end(build):
    rows = unrolled(build(env()), ACTIONS)
    assert rows.env_info["eval_episode_return"].dtype == np.float32
    assert rows.env_info["eval_episode_return"][:, 1].tolist() == [0, 0, 4, 0, 0, 9]
    np.testing.assert_array_equal(rows.env_info["eval_episode_return_valid"], rows.step_type == 2)


def counters(env, steps):
    """The counters after every step: ``[T + 1, 4, B]``."""

    @jax.jit
    def run(env, key):
        state, _ = env.reset(key)

        def one(state, action):
            state, _ = env.step(state, action)
            return state, state

        _, later = jax.lax.scan(one, state, jnp.zeros((steps, env.num_envs), jnp.int32))
        states = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), state, later)
        return jnp.stack([states.episodes, states.resets, states.total_steps, states.episode_steps], axis=1)

    return jax.device_get(run(env, jax.random.key(0)))


def test_run_counters_survive_restarts():
    seen = counters(RunStats(AutoReset(env())), 5)
    assert seen[:, :, 1].tolist() == [
        [0, 1, 0, 0],
        [0, 1, 1, 1],
        [1, 1, 2, 2],
        [1, 2, 2, 0],
        [1, 2, 3, 1],
        [2, 2, 4, 2],
    ]
    assert seen[-1, :, 0].tolist() == [0, 1, 5, 5]


def test_run_counters_count_same_step_rows():
    seen = counters(RunStats(AutoReset(env(), "same_step")), 4)
    assert seen[:, :, 1].tolist() == [[0, 1, 0, 0], [0, 1, 1, 1], [1, 2, 2, 0], [1, 2, 3, 1], [2, 3, 4, 0]]


def test_run_counters_are_equal_inside_and_outside_auto_reset():
    inside, outside = AutoReset(RunStats(env())), RunStats(AutoReset(env()))

    @jax.jit
    def last(env, key):
        state, _ = env.reset(key)
        return jax.lax.scan(lambda s, a: (env.step(s, a)[0], None), state, ACTIONS)[0]

    a, b = last(inside, jax.random.key(0)).inner, last(outside, jax.random.key(0))
    for name in ("episodes", "resets", "total_steps", "episode_steps"):
        assert getattr(a, name).tolist() == getattr(b, name).tolist(), name
