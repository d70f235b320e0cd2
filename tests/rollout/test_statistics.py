"""Episode totals: the same figures as a loop over stored rows."""

import functools

import jax
import numpy as np
import pytest

from jaxenv import specs
from jaxenv.rollout import EpisodeTotals, random_policy, unroll
from jaxenv.rollout.statistics import summarise
from jaxenv.testing import Counting, random_environment
from jaxenv.wrappers import AutoReset, TimeLimit

MODES = ["next_step", "same_step"]
STEPS = 60


def fold(totals, rows):
    return jax.lax.scan(lambda t, row: (t.add(row), None), totals, rows)[0]


@functools.partial(jax.jit, static_argnames="mode")
def played(mode):
    """Rows of lanes that terminate and are truncated out of phase, their totals at once and in three chunks."""
    lengths = np.array([[2, 7, 3], [9, 1, 4], [5, 5, 6], [3, 3, 3]])
    limits = np.array([4, 3, 5, 3])
    env = AutoReset(TimeLimit(Counting(lengths, num_envs=4), limits), mode)
    rows = unroll(env, random_policy(env), *env.reset(jax.random.key(0)), STEPS)[1].timestep
    chunks, totals = [], EpisodeTotals.zeros(4)
    for start, stop in ((0, 17), (17, 40), (40, STEPS)):
        totals = fold(totals.started_anew(), jax.tree.map(lambda x, s=slice(start, stop): x[s], rows))
        chunks.append(totals)
    return rows, fold(EpisodeTotals.zeros(4), rows), chunks


@pytest.fixture(scope="module", params=MODES)
def play(request):
    return request.param, *jax.device_get(played(request.param))


def episodes_by_loop(rows):
    """(return, length, whether the task ended it) of every finished episode, lane by lane."""
    finished = []
    for lane in range(rows.reward.shape[1]):
        total, length = 0.0, 0
        for t in range(STEPS):
            if rows.step_type[t, lane] == 0:
                continue
            total, length = total + rows.reward[t, lane], length + 1
            if rows.step_type[t, lane] == 2:
                finished.append((total, length, rows.discount[t, lane] == 0))
                total, length = 0.0, 0
    return np.array(finished)


def test_totals_are_those_of_a_loop_over_the_stored_rows(play):
    mode, rows, totals, _ = play
    returns, lengths, terminated = episodes_by_loop(rows).T
    figures = summarise([totals])
    assert figures["episodes"] == len(returns)
    assert (figures["terminated"], figures["truncated"]) == (terminated.sum(), len(terminated) - terminated.sum())
    for what, values in (("return", returns), ("length", lengths)):
        assert figures[f"{what}_mean"] == pytest.approx(values.mean(), rel=1e-12)
        assert figures[f"{what}_std"] == pytest.approx(values.std(), rel=1e-12)
    first = np.sum(rows.step_type == 0)
    assert first == 4 if mode == "same_step" else first > 4
    assert figures["steps"] == 4 * STEPS - first


def test_the_play_has_both_ends_out_of_phase(play):
    _, rows, totals, _ = play
    assert totals.terminated.tolist() != totals.truncated.tolist()
    assert totals.terminated[:3].all()
    assert totals.truncated[:3].all()
    assert totals.truncated[3] == 0  # the limit falls on the task's own end, and termination wins
    ended = rows.step_type == 2
    assert np.any(ended.any(axis=1) & ~ended.all(axis=1))


def test_chunks_add_up_to_the_whole_although_episodes_cross_them(play):
    *_, totals, chunks = play
    assert np.any(chunks[0].length > 0)
    assert summarise(chunks) == summarise([totals])
    np.testing.assert_array_equal(chunks[-1].return_, totals.return_)
    np.testing.assert_array_equal(chunks[-1].length, totals.length)


def test_nothing_is_averaged_before_an_episode_finished():
    env = Counting(np.array([0]), num_envs=2)
    _, timestep = env.reset(jax.random.key(0))
    figures = summarise([EpisodeTotals.zeros(2).add(timestep)])
    assert (figures["steps"], figures["episodes"]) == (0, 0)
    assert figures["return_mean"] is figures["return_std"] is figures["length_mean"] is figures["length_std"] is None


def test_a_vector_reward_is_refused():
    env = random_environment(specs.discrete(2), specs.discrete(2), specs.Bounded((2,), np.float32, 0, 1), num_envs=3)
    with pytest.raises(ValueError, match=r"one number a lane, got shape \(3, 2\)"):
        jax.eval_shape(lambda key: EpisodeTotals.zeros(3).add(env.reset(key)[1]), jax.random.key(0))
