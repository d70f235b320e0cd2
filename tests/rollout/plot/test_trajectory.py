"""Plots of trajectories: lines, gaps, marks, names, and what is refused."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import plot
from jaxenv.core.timestep import TimeStep
from jaxenv.rollout import Experience

STEP_TYPE = np.array([[0, 1], [1, 1], [2, 2], [0, 0], [1, 1]], np.int32)
DISCOUNT = np.array([[1, 1], [1, 1], [0, 1], [1, 1], [1, 1]], np.float32)
REWARD = np.array([[0, 1], [2, 3], [4, 5], [0, 0], [6, 7]], np.float32)
POSITION = np.arange(10, dtype=np.float32).reshape(5, 2)
ROWS = TimeStep(STEP_TYPE, REWARD, DISCOUNT, {"position": POSITION, "speed": np.stack([POSITION, -POSITION], -1)})


def marked(axis):
    """The rows that markers stand on: cross, square and ring."""
    found = {line.get_marker(): line.get_xdata().tolist() for line in axis.lines if line.get_marker() != "None"}
    return tuple(found.get(marker, []) for marker in "Xso")


def test_rewards_break_between_episodes_and_first_rows_have_none():
    axis = plot.trajectory(ROWS, observations=()).axes[0]
    np.testing.assert_array_equal(axis.lines[0].get_ydata(), [np.nan, np.nan, 2, 4, np.nan, np.nan, 6])
    assert marked(axis) == ([2], [], [])
    assert axis.get_ylim()[0] < 0


def test_a_truncation_a_termination_and_a_restart_have_marks_of_their_own():
    reward, position, *_ = plot.trajectory(Experience(ROWS), lanes=1).axes
    assert marked(reward) == ([], [2], [])
    assert marked(position) == ([], [2], [3])
    np.testing.assert_array_equal(position.lines[0].get_ydata(), [1, 3, 5, np.nan, 7, 9])
    legend = [text.get_text() for text in reward.get_legend().get_texts()]
    assert legend == ["first row", "truncated"]


def test_in_same_step_mode_an_end_belongs_to_the_reward_and_a_start_to_the_observation():
    step_type = np.array([[0], [1], [2], [1], [1]])
    rows = TimeStep(step_type, np.ones((5, 1)), np.array([[1], [1], [0], [1], [1]]), np.arange(5.0)[:, None])
    reward, observation = plot.trajectory(rows).axes
    assert marked(reward) == ([2], [], [])
    assert marked(observation) == ([], [], [0, 2])
    np.testing.assert_array_equal(reward.lines[0].get_ydata(), [np.nan, np.nan, 1, 1, np.nan, 1, 1])
    np.testing.assert_array_equal(observation.lines[0].get_ydata(), [np.nan, 0, 1, np.nan, 2, 3, 4])


def test_panels_are_chosen_by_place_and_by_name():
    def names(**options):
        return [axis.get_ylabel() for axis in plot.trajectory(ROWS, **options).axes]

    assert names() == ["reward", "position", "speed 0", "speed 1"]
    assert names(observations=[2, "position"]) == ["reward", "speed 1", "position"]
    assert names(observations="speed.0") == ["reward", "speed 0"]
    speed = plot.trajectory(ROWS, observations=-1).axes[1]
    np.testing.assert_array_equal(speed.lines[0].get_ydata()[-1], -POSITION[-1, 0])


def test_a_large_observation_and_a_vector_reward_have_panels_of_their_own():
    rows = TimeStep(STEP_TYPE, np.stack([REWARD, REWARD], -1), DISCOUNT, np.zeros((5, 2, 9)))
    assert [axis.get_ylabel() for axis in plot.trajectory(rows).axes] == ["reward 0", "reward 1"]
    assert len(plot.trajectory(rows, observations=[8]).axes) == 3


def test_lanes_and_observations_may_be_arrays_and_keys_are_left_out():
    assert len(plot.trajectory(ROWS, lanes=jnp.arange(2), observations=np.array(1)).axes) == 2
    keys = jax.random.split(jax.random.key(0), ROWS.step_type.shape)
    assert len(plot.trajectory(dataclasses.replace(ROWS, observation=keys)).axes) == 1


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (jax.tree.map(lambda x: x[0], ROWS), {}, r"rows .*got step_type of shape \(2,\)"),
        (TimeStep(STEP_TYPE), {}, "the rows have no reward"),
        (Experience(), {}, "the rows have no step_type"),
        (ROWS, {"lanes": [0, 2]}, r"lanes .*got 2"),
        (ROWS, {"lanes": []}, r"or a sequence of them, got \[\]"),
        (ROWS, {"lanes": slice(2)}, "or a sequence of them, got slice"),
        (ROWS, {"lanes": np.array(3)}, "sequence of them, got 3"),
        (ROWS, {"observations": 1.5}, "among the 3 numbers, got 1.5"),
        (ROWS, {"observations": True}, "among the 3 numbers, got True"),
        (ROWS, {"observations": "positon"}, "got 'positon': did you mean 'position'"),
        (ROWS, {"observations": 3}, r"among the 3 numbers, got 3: they are position, speed.0, speed.1"),
    ],
)
def test_what_cannot_be_drawn_is_refused(rows, options, message):
    with pytest.raises(ValueError, match=f"plot.trajectory: .*{message}"):
        plot.trajectory(rows, **options)


def test_traced_rows_are_refused():
    with pytest.raises(ValueError, match="plot outside of jit"):
        jax.eval_shape(plot.trajectory, ROWS)
