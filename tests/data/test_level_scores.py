"""Scores of levels equal a loop over the rows in plain Python; errors."""

import dataclasses

import numpy as np
import pytest

from jaxenv import StepType, TimeStep
from jaxenv.data import level_scores
from tests.data.rollouts import unrolled

FIRST, MID, LAST = StepType.FIRST, StepType.MID, StepType.LAST


def rows_of(step_types, rewards, abnormal=None):
    """Rows ``[T, 1]`` of one lane, and the last one."""

    def row(part):
        return TimeStep(
            step_type=np.array(step_types, np.int32)[:, None][part],
            reward=np.array(rewards, np.float32)[:, None][part],
            discount=np.ones((len(rewards), 1), np.float32)[part],
            observation=(),
            env_info={} if abnormal is None else {"abnormal": np.array(abnormal)[:, None][part]},
            env_id=(),
        )

    return row(slice(-1)), row(-1)


def episodes(timestep, last, x, mode):
    """For each lane: the means of ``x`` and the returns of the complete episodes."""
    found = []
    for lane in range(x.shape[1]):
        values, rewards, of_lane = [], [], []
        for t in range(len(x)):
            row = [timestep.step_type[t, lane], 0]
            after = (
                (timestep.step_type[t + 1, lane], timestep.reward[t + 1, lane])
                if t + 1 < len(x)
                else (
                    last.step_type[lane],
                    last.reward[lane],
                )
            )
            if (row[0] == LAST and mode == "next_step") or after[0] == FIRST:
                values, rewards = [], []
                continue
            values.append(x[t, lane])
            rewards.append(after[1])
            if after[0] == LAST:
                of_lane.append((np.mean(values), np.sum(rewards)))
                values, rewards = [], []
        found.append(of_lane)
    return found


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("num_steps", [1, 3, 10, 23])
def test_scores_equal_a_loop_over_the_rows(mode, num_steps):
    rows, last = unrolled(mode, num_steps)
    timestep = rows.timestep
    rng = np.random.default_rng(0)
    x = rng.normal(size=timestep.step_type.shape).astype(np.float32)
    best = rng.normal(size=3).astype(np.float32)
    for lane, of_lane in enumerate(episodes(timestep, last, np.maximum(x, 0), mode)):
        loss = level_scores.positive_value_loss(timestep, last, x, mode)
        assert bool(loss.valid[lane]) == bool(of_lane)
        expected = np.mean([mean for mean, _ in of_lane]) if of_lane else 0
        np.testing.assert_allclose(loss.scores[lane], expected, rtol=1e-5)
        returns = [return_ for _, return_ in of_lane]
        assert float(level_scores.max_return(timestep, last, mode)[lane]) == max(returns, default=-np.inf)
        mean = level_scores.mean_return(timestep, last, mode)
        assert bool(mean.valid[lane]) == bool(of_lane)
        np.testing.assert_allclose(mean.scores[lane], np.mean(returns) if returns else 0, rtol=1e-6)
        learnability = level_scores.learnability(timestep, last, 14.0, mode)
        p = np.mean(np.array(returns) > 14.0) if returns else 0
        assert bool(learnability.valid[lane]) == bool(of_lane)
        np.testing.assert_allclose(learnability.scores[lane], p * (1 - p), rtol=1e-6)
    for lane, of_lane in enumerate(episodes(timestep, last, best[None] - x, mode)):
        regret = level_scores.max_monte_carlo(timestep, last, x, best, mode)
        expected = np.mean([mean for mean, _ in of_lane]) if of_lane else 0
        np.testing.assert_allclose(regret.scores[lane], expected, rtol=1e-5)


def test_a_lane_that_completes_no_episode_has_no_score():
    timestep, last = rows_of([FIRST, MID, MID, MID], [0, 1, 1, 1])
    best = level_scores.max_return(timestep, last)
    assert best.tolist() == [-np.inf]
    for scores in (
        level_scores.max_monte_carlo(timestep, last, np.zeros((3, 1)), best),
        level_scores.positive_value_loss(timestep, last, np.ones((3, 1))),
        level_scores.learnability(timestep, last),
        level_scores.mean_return(timestep, last),
    ):
        assert scores.valid.tolist() == [False]
        assert scores.scores.tolist() == [0]


def test_an_interrupted_episode_does_not_count():
    timestep, last = rows_of([FIRST, MID, FIRST, MID, LAST, FIRST], [0, 8, 0, 1, 1, 0])
    assert level_scores.max_return(timestep, last).tolist() == [2]
    scores = level_scores.positive_value_loss(timestep, last, np.array([[9.0], [9], [1], [3], [9]]))
    assert scores.scores.tolist() == [2]


def test_an_abnormal_episode_does_not_count():
    timestep, last = rows_of([FIRST, LAST, FIRST, LAST], [0, 8, 0, -1], [False, True, False, False])
    assert level_scores.max_return(timestep, last).tolist() == [-1]


def test_returns_below_zero_are_not_raised_to_zero():
    timestep, last = rows_of([FIRST, LAST, FIRST, MID, LAST], [0, -3, 0, -1, -1])
    assert level_scores.max_return(timestep, last).tolist() == [-2]


timestep, last = rows_of([FIRST, MID, LAST, FIRST], [0, 1, 1, 0])
CALLS = {
    "advantages": (
        lambda: level_scores.positive_value_loss(timestep, last, np.zeros((4, 1))),
        r"positive_value_loss: advantages .*\(3, 1\).* got \(4, 1\)",
    ),
    "values": (
        lambda: level_scores.max_monte_carlo(timestep, last, None, np.zeros(1)),
        "max_monte_carlo: values .*got None",
    ),
    "max_returns": (
        lambda: level_scores.max_monte_carlo(timestep, last, np.zeros((3, 1)), np.zeros(2)),
        r"max_monte_carlo: max_returns .*\(1,\), got \(2,\)",
    ),
    "threshold": (lambda: level_scores.learnability(timestep, last, np.nan), "learnability: solved_above .*got nan"),
    "no rows": (lambda: level_scores.max_return(None, last), "max_return: timestep .*got None"),
    "reward": (
        lambda: level_scores.max_return(
            *(dataclasses.replace(x, reward=x.reward[..., None]) for x in (timestep, last))
        ),
        r"max_return: the reward .*\(3, 1, 1\)",
    ),
    "other mode": (
        lambda: level_scores.max_return(*rows_of([FIRST, LAST, FIRST, MID], [0] * 4), "same_step"),
        "same_step mode",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_refused(name):
    call, message = CALLS[name]
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("unknown", [np.nan, np.inf, -np.inf])
def test_a_return_that_is_not_finite_shows_in_the_score_of_a_lane_that_completed_an_episode(unknown):
    timestep, last = rows_of([FIRST, MID, LAST], [0, 1, 1])
    scores = level_scores.max_monte_carlo(timestep, last, np.zeros((2, 1)), np.array([unknown]))
    assert scores.valid.tolist() == [True]
    np.testing.assert_array_equal(scores.scores, [unknown])
