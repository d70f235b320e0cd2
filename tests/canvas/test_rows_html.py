"""What notebooks and terminals show for rows and trajectories."""

import html
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import TimeStep
from jaxenv.canvas._html import short
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


def test_rows_show_where_each_lane_is_and_how_episodes_ended():
    timestep = rows([0, 1, 2, 2, 2], [1, 1, 0, 0.5, 1], observation=np.array([0.25, 1, 2, 3, 4], np.float32))
    shown = words(timestep)
    assert shown[:2] == ["TimeStep", " [B] = [5] · 1 terminated · 2 truncated"]
    assert shown[3:8] == ["lane", "step_type", "reward", "discount", "observation"]
    assert shown[8:23] == [
        *("0", "FIRST", "0.0", "1.0", "0.25"),
        *("1", "MID", "1.0", "1.0", "1.0"),
        *("2", "LAST", "1.0", "0.0", "2.0"),
    ]


def test_rows_of_many_lanes_are_cut_and_one_row_is_shown():
    timestep = rows([1] * 20, observation=np.zeros((20, 9)))
    shown = words(timestep)
    assert shown.count("MID") == 8
    assert "[0. " not in " ".join(shown)  # nine numbers are too many for the table
    assert words(jax.tree.map(lambda x: x[3], timestep))[1].startswith(" one row")


def test_fields_show_shapes_and_ranges():
    env_info = {"energy": np.array([1.5, np.nan, -2, 0.25], np.float32), "count": np.array([-3, 2, 7, 1])}
    shown = words(rows([1] * 4, env_info=env_info, prev_action=jax.random.split(jax.random.key(0), 4)))
    at = shown.index("env_info.count")
    assert shown[at : at + 8] == [
        *("env_info.count", "int64", "(4,)", "-3 to 7"),
        *("env_info.energy", "float32", "(4,)", "nan"),
    ]
    assert "1e+300" in words(rows([1] * 4, observation=np.full(4, 1e300)))
    assert "key<fry>" in shown
    assert "-1.5 to 2" in words(rows([1] * 4, observation=jnp.array([-1.5, 2, 0, 1], jnp.bfloat16)))


# Lane 0 terminates at row 3 and starts again, lane 1 is truncated.
TRAJECTORY = rows(
    [[0, 1], [1, 1], [1, 2], [2, 0], [0, 1], [1, 1]], [[1, 1], [1, 1], [1, 1], [0, 1], [1, 1], [1, 1]], [[2.0, 5.0]]
)


def test_a_trajectory_counts_its_ends():
    for shown in (Experience(TRAJECTORY, np.zeros((6, 2), np.int32)), TRAJECTORY):
        assert words(shown)[1] == " [T, B] = [6, 2] · 1 terminated · 1 truncated"
    assert "First lanes" not in words(TRAJECTORY)


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
    assert words(TimeStep()) == ["TimeStep", " "][:1]
    assert words(Experience())[0] == "Experience"
    assert "(6, 2)" in words(Experience(action=np.zeros((6, 2))))
    donated = jax.tree.map(jnp.asarray, rows([1, 2]))
    donated.step_type.delete()
    assert "(2,)" in words(donated)
    assert words(jax.tree.map(lambda x: x[:0], TRAJECTORY))[1].startswith(" [T, B] = [0, 2]")
    assert words(jax.tree.map(lambda x: np.stack([x, x]), TRAJECTORY))[1].startswith(" [2, 6, 2]")


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
