"""ActionNoise and ActionDelay: disturbed and delayed actions, and no memory across episodes."""

import functools

import numpy as np
import pytest

from jaxenv import specs
from jaxenv.testing import Counting
from jaxenv.wrappers import ActionDelay, ActionNoise, AutoReset
from tests.rows import unrolled
from tests.wrappers.echo import LENGTHS, box, echo

FIRST, MID, LAST = 0, 1, 2


# --- noise -----------------------------------------------------------------------------------------------------------


def noise(rows):
    """The noise added to zero actions, ``[T, B]``; 0 at FIRST."""
    return rows.env_info["executed"]


@functools.cache
def noise_of_three(past_weight, mode="next_step", outside=False):
    """A trajectory of three lanes; the middle one restarts, the last one has no noise."""

    def wrapper(env):
        return ActionNoise(env, np.array([1, 2, 0]), past_weight)

    base = echo(box(-1e6, 1e6))
    env = wrapper(AutoReset(base, mode)) if outside else AutoReset(wrapper(base), mode)
    return unrolled(env, np.zeros((7, 3), np.float32))


def test_noise_is_the_current_draw_plus_the_weighted_previous_draw():
    draws, rows = noise(noise_of_three(0)), noise_of_three(0.5)
    inside = (rows.step_type[1:] != FIRST) & (rows.step_type[:-1] != FIRST)
    expected = draws[1:] + np.float32(0.5) * draws[:-1]
    np.testing.assert_allclose(noise(rows)[1:][inside], expected[inside], rtol=1e-5, atol=1e-6)
    assert (np.abs(draws[1:, :2][inside[:, :2]]) > 1e-3).all()
    assert not noise(rows)[:, 2].any()
    assert not rows.prev_action.any(), "the agent's action, not the one executed"


@pytest.mark.parametrize("outside", [False, True])
def test_a_restarted_lane_redraws_its_past_while_other_lanes_continue(outside):
    draws, rows = (noise_of_three(w, outside=outside) for w in (0, 1))
    assert rows.step_type[:, 1].tolist() == [FIRST, MID, LAST, FIRST, MID, LAST, FIRST, MID]
    past = noise(rows) - noise(draws)
    assert past[[3, 6], 1].tolist() == [0, 0]  # ignored actions
    np.testing.assert_allclose(past[2:, 0], noise(draws)[1:-1, 0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(past[[2, 5], 1], noise(draws)[[1, 4], 1], rtol=1e-5, atol=1e-5)
    # It is neither 0 nor the last draw of the previous episode, nor that of another episode's start.
    started = past[[1, 4, 7], 1]
    assert (np.abs(started) > 1e-3).all()
    assert (np.abs(np.diff(started)) > 1e-3).all()
    assert (np.abs(started[1:] - noise(draws)[[2, 5], 1]) > 1e-3).all()


def test_same_step_noise_equals_next_step_noise_without_first_rows():
    longer, same = noise_of_three(1), noise_of_three(1, "same_step")
    np.testing.assert_array_equal(noise(longer)[:, [0, 2]], noise(same)[:, [0, 2]])
    np.testing.assert_array_equal(noise(longer)[[1, 2, 4, 5, 7], 1], noise(same)[1:6, 1])


@functools.cache
def noise_of_many(sigma, past_weight, steps=4):
    env = ActionNoise(echo(box(-1e6, 1e6), np.array([0]), 4000), sigma, past_weight)
    return noise(unrolled(env, np.zeros((steps, 4000), np.float32)))[1:]


def test_the_noise_of_the_first_step_has_the_same_variance():
    values = noise_of_many(0.5, 1)
    np.testing.assert_allclose(values.std(axis=1), 0.5 * np.sqrt(2), rtol=0.05)
    np.testing.assert_allclose(values.mean(axis=1), 0, atol=0.05)


def test_noise_is_correlated_between_consecutive_steps_only():
    correlation = np.corrcoef(noise_of_many(0.5, 1))
    np.testing.assert_allclose(np.diag(correlation, 1), 0.5, atol=0.05)
    np.testing.assert_allclose(np.diag(correlation, 2), 0, atol=0.05)


def test_noisy_actions_are_clipped_and_discrete_parts_pass_through():
    spec = {"x": box([-1, 0], [1, 3], (2,)), "n": specs.discrete(9), "y": box(-5, 5)}
    env = ActionNoise(echo(spec), 1e4)
    given = {
        "x": np.zeros((1, 3, 2), np.float32),
        "n": np.array([[1, 2, 3]], np.int32),
        "y": np.zeros((1, 3), np.float32),
    }
    rows = unrolled(env, given)
    executed = rows.env_info["executed"]
    assert set(np.abs(executed["x"][1, :, 0]).tolist()) == {1}
    assert set(executed["x"][1, :, 1].tolist()) <= {0, 3}
    assert set(np.abs(executed["y"][1]).tolist()) == {5}
    assert executed["n"][1].tolist() == [1, 2, 3]
    assert not rows.prev_action["x"].any()


def test_every_element_and_leaf_has_independent_noise():
    env = ActionNoise(echo((box(-1e6, 1e6, (2,)), box(-1e6, 1e6, (2,))), np.array([0]), 1), 1.0)
    executed = unrolled(env, tuple(np.zeros((1, 1, 2), np.float32) for _ in range(2))).env_info["executed"]
    assert len(np.unique(np.stack(executed)[:, 1])) == 4


@pytest.mark.parametrize(
    ("spec", "arguments", "message"),
    [
        (box(0, 1), (-1,), r"ActionNoise: sigma .*got -1"),
        (box(0, 1), (1, np.array([0, 1, -0.5])), r"ActionNoise: past_weight .*got -0\.5 in lane 2"),
        (specs.discrete(3), (1,), r"ActionNoise: the action .*got Bounded\(\(\), int32, 0, 2\)"),
    ],
)
def test_invalid_noise_arguments_are_refused(spec, arguments, message):
    with pytest.raises(ValueError, match=message):
        ActionNoise(echo(spec), *arguments)


# --- delay -----------------------------------------------------------------------------------------------------------

GIVEN = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9], [1, 2, 3], [4, 5, 6], [7, 8, 9]], np.int32)


def counting():
    return Counting(LENGTHS, stride=10, num_envs=3)


@pytest.mark.parametrize("stack", [lambda e, w: AutoReset(w(e)), lambda e, w: w(AutoReset(e))])
def test_actions_arrive_one_step_late_and_never_in_the_next_episode(stack):
    rows = unrolled(stack(counting(), lambda e: ActionDelay(e, 1)), GIVEN)
    assert rows.step_type[:, 1].tolist() == [FIRST, MID, LAST, FIRST, MID, LAST, FIRST]
    assert rows.reward.tolist() == [[0, 0, 0], [0, 0, 0], [1, 2, 3], [4, 0, 6], [7, 0, 9], [1, 2, 3], [4, 0, 6]]
    assert rows.prev_action.tolist() == [[0, 0, 0], *GIVEN[:2].tolist(), [7, 0, 9], *GIVEN[3:5].tolist(), [7, 0, 9]]


def test_same_step_empties_the_queue_at_the_end_of_an_episode():
    rows = unrolled(AutoReset(ActionDelay(counting(), 1), "same_step"), GIVEN)
    assert rows.step_type[:, 1].tolist() == [FIRST, MID, LAST, MID, LAST, MID, LAST]
    assert rows.reward[:, 1].tolist() == [0, 0, 2, 0, 8, 0, 5]
    assert rows.reward[:, 0].tolist() == [0, 0, 1, 4, 7, 1, 4]


def test_actions_are_delayed_by_three_steps_or_none():
    assert unrolled(ActionDelay(counting(), 3), GIVEN).reward[:, 0].tolist() == [0, 0, 0, 0, 1, 4, 7]
    assert unrolled(ActionDelay(counting(), 0), GIVEN).reward[1:].tolist() == GIVEN.tolist()


def test_the_first_delayed_actions_are_zeros_clipped_to_the_bounds():
    spec = {"x": box([-1, 2, -4], [1, 3, -3], (3,)), "n": specs.discrete(4, start=2)}
    given = {"x": np.full((2, 3, 3), 0.5, np.float32), "n": np.full((2, 3), 5, np.int32)}
    executed = unrolled(ActionDelay(echo(spec), 1), given).env_info["executed"]
    assert executed["x"][1].tolist() == [[0, 2, -3]] * 3
    assert executed["n"][1].tolist() == [2, 2, 2]
    assert executed["x"][2].tolist() == [[0.5, 0.5, 0.5]] * 3
    assert executed["n"][2].tolist() == [5, 5, 5]


def test_a_negative_delay_is_refused():
    with pytest.raises(ValueError, match=r"ActionDelay: delay .*got -1"):
        ActionDelay(counting(), -1)
    with pytest.raises(ValueError, match=r"delay .*got 1\.5"):
        ActionDelay(counting(), 1.5)


@pytest.mark.parametrize("wrapper", [lambda e: ActionNoise(e, 1.0), ActionDelay])
def test_lane_wrappers_that_rewrite_actions_are_refused_outside_same_step(wrapper):
    with pytest.raises(ValueError, match=r"it rewrites prev_action.*put it inside AutoReset"):
        wrapper(AutoReset(echo(box(-1, 1)), "same_step"))
