"""StickyAction: start and duration of repetitions, and none across episodes."""

import functools

import numpy as np
import pytest

from jaxenv import specs
from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset, StickyAction
from tests.rows import unrolled
from tests.wrappers.echo import LENGTHS, box, echo

FIRST, MID, LAST = 0, 1, 2
ALWAYS = np.nextafter(np.float32(1), np.float32(0))
GIVEN = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9], [1, 2, 3], [4, 5, 6], [7, 8, 9]], np.int32)


def counting():
    return Counting(LENGTHS, stride=10, num_envs=3)


@pytest.mark.parametrize("stack", [lambda e, w: AutoReset(w(e)), lambda e, w: w(AutoReset(e))])
def test_an_episode_repeats_only_its_own_actions(stack):
    rows = unrolled(stack(counting(), lambda e: StickyAction(e, ALWAYS)), GIVEN)
    assert rows.step_type[:, 1].tolist() == [FIRST, MID, LAST, FIRST, MID, LAST, FIRST]
    assert rows.reward.tolist() == [[0, 0, 0], [1, 2, 3], [1, 2, 3], [1, 0, 3], [1, 2, 3], [1, 2, 3], [1, 0, 3]]
    assert rows.prev_action.tolist() == [[0, 0, 0], *GIVEN[:2].tolist(), [7, 0, 9], *GIVEN[3:5].tolist(), [7, 0, 9]]


def test_same_step_never_repeats_an_action_of_the_previous_episode():
    rows = unrolled(AutoReset(StickyAction(counting(), ALWAYS), "same_step"), GIVEN)
    assert rows.step_type[:, 1].tolist() == [FIRST, MID, LAST, MID, LAST, MID, LAST]
    assert rows.reward[:, 1].tolist() == [0, 2, 2, 8, 8, 5, 5]
    assert rows.reward[:, 2].tolist() == [0, 3, 3, 3, 3, 3, 3]
    assert rows.prev_action[1:].tolist() == GIVEN.tolist()


def test_the_probability_may_be_per_lane():
    rows = unrolled(StickyAction(counting(), np.array([0, ALWAYS, 0])), GIVEN)
    assert rows.reward[1:].tolist() == [[1, 2, 3], [4, 2, 6], [7, 2, 9], [1, 2, 3], [4, 2, 6], [7, 2, 9]]


@functools.cache
def replays(probability, duration):
    """Steps of many lanes that repeated the previous action, bool ``[T, B]``; the agent never gives one twice."""
    lanes, steps = 200, 60
    env = StickyAction(echo(specs.discrete(100), np.array([0]), lanes), probability, duration)
    rows = unrolled(env, np.broadcast_to(np.arange(1, steps + 1)[:, None], (steps, lanes)))
    executed = rows.env_info["executed"][1:]
    given = np.arange(1, steps + 1)[:, None] == executed
    again = np.concatenate([np.zeros((1, lanes), bool), executed[1:] == executed[:-1]])
    assert (given ^ again).all(), "either the agent's action or the one executed before"
    return again


def runs(again):
    """Lengths of the runs of repetitions that ended before the rollout."""
    found = []
    for lane in again.T:
        edges = np.flatnonzero(np.diff(np.concatenate([[0], lane.astype(int)])))
        found += [b - a for a, b in zip(edges[::2], edges[1::2], strict=False)]
    return np.array(found)


def test_one_step_in_four_is_a_repetition_and_never_the_first():
    again = replays(0.25, 1)
    assert not again[0].any()
    np.testing.assert_allclose(again[1:].mean(), 0.25, atol=0.02)
    # Steps are independent: a second repetition is as likely as a first one.
    np.testing.assert_allclose(again[2:][again[1:-1]].mean(), 0.25, atol=0.04)


def test_a_repetition_lasts_the_given_duration():
    lengths = runs(replays(0.25, 3))
    assert (lengths % 3 == 0).all()
    np.testing.assert_allclose((lengths == 3).mean(), 0.75, atol=0.06)
    assert (lengths > 3).any()


def test_durations_are_uniform_with_both_ends_included():
    lengths = runs(replays(0.125, (2, 4)))
    assert lengths.min() == 2
    for n in (2, 3):  # no two consecutive repetitions add up to these
        np.testing.assert_allclose((lengths == n).mean(), 0.875 / 3, atol=0.05)


def test_a_duration_range_of_one_number_is_that_duration():
    np.testing.assert_array_equal(replays(0.25, (3, 3)), replays(0.25, 3))


def test_all_parts_of_an_action_are_repeated_together():
    env = StickyAction(echo({"x": box(-1, 1, (2,)), "n": specs.discrete(9)}), np.array([0, ALWAYS, 0]))
    given = {"x": np.linspace(-1, 1, 18, dtype=np.float32).reshape(3, 3, 2), "n": GIVEN[:3]}
    executed = unrolled(env, given).env_info["executed"]
    assert executed["n"][1:].tolist() == [[1, 2, 3], [4, 2, 6], [7, 2, 8]]
    np.testing.assert_array_equal(executed["x"][1:, 1], given["x"][[0, 0, 0], 1])
    np.testing.assert_array_equal(executed["x"][1:, 2], given["x"][:, 2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.0,), r"StickyAction: probability .*got 1.0"),
        ((np.array([0, 0.5, -0.1]),), r"probability .*got -0\.1 in lane 2"),
        ((0.5, 0), r"duration .*got 0"),
        ((0.5, (3, 2)), "got .3, 2."),
        ((0.5, (0, 2)), "got .0, 2."),
        ((0.5, (1, 2, 3)), "got .1, 2, 3."),
        ((0.5, 1.5), "got 1.5"),
    ],
)
def test_invalid_probabilities_and_durations_are_refused_by_value(arguments, message):
    with pytest.raises(ValueError, match=message):
        StickyAction(counting(), *arguments)


def test_sticky_action_is_refused_outside_same_step():
    with pytest.raises(ValueError, match=r"StickyAction: it rewrites prev_action.*put it inside AutoReset"):
        StickyAction(AutoReset(counting(), "same_step"), 0.5)
