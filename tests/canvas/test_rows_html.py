"""What notebooks and terminals show for rows and trajectories."""

import html
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import TimeStep
from jaxenv.canvas._rows_html import _colours, short
from jaxenv.rollout import Experience


def words(obj):
    """The text of the page, one piece per element."""
    body = re.sub("<(style|script)>.*?</(style|script)>", "", obj._repr_html_(), flags=re.DOTALL)
    return [html.unescape(piece) for piece in re.split("<[^>]*>", body) if piece.strip()]


def rows(step_type, discount=1.0, reward=1.0, **fields):
    step_type = np.array(step_type, np.int32)
    fill = (np.broadcast_to(np.float32(x), step_type.shape) for x in (reward, discount))
    reward, discount = fill
    return TimeStep(step_type, np.where(step_type == 0, np.float32(0), reward), discount, **fields)


def test_rows_show_where_each_lane_is_and_how_it_ended():
    timestep = rows([0, 1, 2, 2], [1, 1, 0, 0.5], observation=np.array([0.25, 1, 2, 3], np.float32))
    shown = words(timestep)
    assert shown[:6] == ["TimeStep", "[B] = [4]", "lane", "step_type", "reward", "discount"]
    at = shown.index("FIRST") - 1
    assert shown[at : at + 22] == [
        *("0", "FIRST", "0", "1", "0.25"),
        *("1", "MID", "1", "1", "1"),
        *("2", "LAST", "terminated", "1", "0", "2"),
        *("3", "LAST", "truncated", "1", "0.5", "3"),
    ]


def test_rows_of_many_lanes_are_cut_and_one_row_is_shown():
    timestep = rows([1] * 20, observation=np.zeros((20, 9)), env_id=np.arange(20) + 70)
    shown = words(timestep)
    assert shown.count("MID") == 8
    assert "12 more lanes" in shown
    assert "70" in shown
    assert "[0., " not in " ".join(shown)  # nine numbers are too many for the table
    assert words(jax.tree.map(lambda x: x[3], timestep))[:2] == ["TimeStep", "one row"]


def test_fields_show_shapes_and_ranges():
    env_info = {
        "flag": np.array([True, False, False, False]),
        "energy": np.array([1.5, np.nan, -2, np.inf], np.float32),
    }
    shown = words(rows([1] * 4, env_info=env_info, prev_action=jax.random.split(jax.random.key(0), 4)))
    at = shown.index("env_info.energy")
    assert shown[at : at + 4] == ["env_info.energy", "float32", "(4,)", "-2 to 1.5, 2 not finite"]
    assert "25% true" in shown
    assert "1e+300" in words(rows([1] * 4, observation=np.full(4, 1e300)))
    assert "key<fry>" in shown


# Lane 0 terminates at row 3 and starts again, lane 1 was under way and is truncated.
TRAJECTORY = rows(
    [[0, 1], [1, 1], [1, 2], [2, 0], [0, 1], [1, 1]], [[1, 1], [1, 1], [1, 1], [0, 1], [1, 1], [1, 1]], [[2.0, 5.0]]
)


def test_a_trajectory_counts_its_ends_and_averages_whole_episodes():
    text = " ".join(words(Experience(TRAJECTORY, np.zeros((6, 2), np.int32))))
    assert "2 episodes ended: 1 terminated, 1 truncated." in text
    assert "Mean return of the 1 that also started here: 6." in text  # lane 1 was under way


def test_in_same_step_mode_an_episode_starts_with_the_row_after_the_last_one():
    trajectory = rows([[0], [1], [2], [1], [2], [1]], reward=[[0.0], [1], [1], [10], [10], [7]])
    assert "Mean return of the 2 that also started here: 11." in " ".join(words(trajectory))


@pytest.mark.parametrize("other", [np.nan, np.inf, 1e30])
def test_the_rewards_of_another_episode_do_not_change_a_return(other):
    trajectory = rows([[1], [2], [0], [1], [2]], reward=[[other], [1.0], [0], [1], [1]])
    assert "Mean return of the 1 that also started here: 2." in " ".join(words(trajectory))


def test_vector_rewards_have_a_mean_each():
    reward = np.ones((3, 1, 2), np.float32) * [1, 3]
    trajectory = TimeStep(np.array([[0], [1], [2]]), reward, np.ones((3, 1)))
    assert "[2., 6.]" in " ".join(words(trajectory))


@pytest.mark.parametrize("transform", [jax.jit, lambda f: lambda x: jax.eval_shape(f, x), jax.vmap])
def test_tracers_show_their_shapes(transform):
    pages = []

    def show(timestep):
        pages.append(words(timestep) + words(Experience(timestep)))
        return timestep

    transform(show)(TRAJECTORY)
    assert "int32" in pages[0]


def test_what_holds_no_numbers_shows_its_shapes():
    shapes = jax.eval_shape(lambda: jaxenv.restart(jnp.zeros((3, 2))))
    assert "(3, 2)" in words(shapes)
    assert "no fields" in words(TimeStep())
    assert "no fields" in words(Experience())
    assert "(6, 2)" in words(Experience(action=np.zeros((6, 2))))
    donated = jax.tree.map(jnp.asarray, rows([1, 2]))
    donated.step_type.delete()
    assert "(2,)" in words(donated)
    assert "[T, B] = [0, 2]" in words(jax.tree.map(lambda x: x[:0], TRAJECTORY))
    assert "[2, 6, 2]" in words(jax.tree.map(lambda x: np.stack([x, x]), TRAJECTORY))


@pytest.mark.parametrize(
    ("shape", "dtype", "width"),
    [
        ((6, 2, 5, 6), np.uint8, 192),
        ((6, 2, 5, 6, 3), np.float32, 192),
        ((6, 2, 4, 8, 8), np.uint8, 160),
        ((6, 2, 5, 8, 8), np.uint8, 160),
        ((6, 2, 10, 20, 10), bool, 320),
        ((6, 2, 4, 3), np.float32, None),
        ((6, 2, 10, 10), np.int32, None),
        ((6, 2, 20), np.float32, None),
    ],
)
def test_observations_that_are_images_are_played(shape, dtype, width):
    timestep = rows(TRAJECTORY.step_type, observation={"image": np.ones(shape, dtype)})
    page = Experience(timestep)._repr_html_()
    assert re.findall(r'<img [^>]*width="(\d+)"', page) == ([] if width is None else [str(width)])
    assert ("Observations of lane 0" in page) == (width is not None)


def test_images_keep_their_colours():
    ramp = np.linspace(0, 255, 25).astype(np.uint8).reshape(1, 5, 5)
    np.testing.assert_array_equal(_colours(ramp)[..., 1], ramp)
    np.testing.assert_array_equal(_colours(np.stack([ramp, ramp, ramp[:, ::-1]], -1))[..., 2], ramp[:, ::-1])
    np.testing.assert_array_equal(_colours(np.float32(ramp) / 255)[..., 0], ramp)
    np.testing.assert_array_equal(_colours(np.stack([0 * ramp] * 3 + [ramp], -1))[..., 0], ramp)  # the newest of four
    masks = np.zeros((1, 5, 5, 4), bool)
    masks[0, 0, 0, 1] = masks[0, 1, 1, 2] = True
    colours = _colours(masks)[0]
    assert len({tuple(colours[i].tolist()) for i in ((0, 0), (1, 1), (2, 2))}) == 3


def test_a_repr_prints_few_numbers_and_the_shapes_of_many():
    few = rows([0, 1])
    assert repr(few).splitlines()[1] == "{'step_type': array([0, 1], dtype=int32),"
    many = Experience(rows(np.ones((64, 64)), observation={"image": jnp.zeros((64, 64, 3))}), np.zeros((64, 64)))
    assert "'observation': {'image': float32[64, 64, 3]}" in repr(many)
    assert repr(many).endswith(",\n    action=float64[64, 64])")
    assert len(repr(many)) < 300
    assert short(((), None, "text", 3)) == "((), None, 'text', 3)"


def test_a_repr_of_an_experience_indents_the_fields_that_are_kept():
    row = TimeStep(reward=np.ones((64, 64), np.float32), discount=2)
    expected = "Experience(\n    timestep=TimeStep(\n        {'reward': float32[64, 64],\n         'discount': 2}))"
    assert repr(Experience(row)) == expected
    assert repr(Experience()) == "Experience()"
