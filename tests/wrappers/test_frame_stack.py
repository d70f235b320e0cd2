"""FrameStack and History: past observations per lane, none from the previous episode."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import specs, tree
from jaxenv.core.task import Task
from jaxenv.core.timestep import Transition
from jaxenv.testing import Chain, Counting, random_environment
from jaxenv.wrappers import AutoReset, FrameStack, History
from tests.rows import assert_equal, random_actions, unrolled


def counting():
    """Three lanes; only the first one ends, after two steps, and its next episodes count from 10, 20, ..."""
    return Counting(np.array([[2], [9], [9]]), stride=10, num_envs=3)


def rows(env, num_steps):
    return unrolled(env, jnp.zeros((num_steps, env.num_envs), jnp.int32))


# --- three lanes -----------------------------------------------------------------------------------------------------

LONG = [[0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5]]


@pytest.mark.parametrize("stack", [lambda e: AutoReset(FrameStack(e, 3)), lambda e: FrameStack(AutoReset(e), 3)])
def test_a_stack_restarts_with_its_lane_and_continues_in_others(stack):
    shown = rows(stack(counting()), 5).observation
    first = [[0, 0, 0], [0, 0, 1], [0, 1, 2], [10, 10, 10], [10, 10, 11], [10, 11, 12]]
    for lane, expected in enumerate([first, LONG, LONG]):
        assert shown[:, lane].tolist() == expected


def test_a_same_step_last_row_shows_the_next_stack_and_keeps_the_final_one():
    r = rows(AutoReset(FrameStack(counting(), 3), "same_step"), 5)
    first = [[0, 0, 0], [0, 0, 1], [10, 10, 10], [10, 10, 11], [20, 20, 20], [20, 20, 21]]
    final = [[0, 0, 0], [0, 0, 1], [0, 1, 2], [10, 10, 11], [10, 11, 12], [20, 20, 21]]
    for lane, expected in enumerate([first, LONG, LONG]):
        assert r.observation[:, lane].tolist() == expected
    assert r.env_info["final_observation"][:, 0].tolist() == final
    with pytest.raises(ValueError, match=r"FrameStack: it rewrites observation.* put it inside AutoReset"):
        FrameStack(AutoReset(counting(), "same_step"), 3)


class Ticking(Task):
    """Shows the number of the row across episodes; lane i restarts every ``periods[i]`` rows."""

    periods: Any = tree.leaf(dtype=np.int32)

    def initial(self, stream):
        return {"row": jnp.zeros(stream.shape, jnp.int32), "start": jnp.zeros(stream.shape, jnp.int32)}

    def carry(self, old, new):
        return {"row": old["row"] + 1, "start": old["row"] + 1}

    def transition(self, state, action, stream):
        row = state["row"] + 1
        ended = row - state["start"] == self.periods - 1
        return Transition({**state, "row": row}, jnp.zeros(row.shape), terminated=ended)

    def observe(self, state):
        return state["row"]

    def observation_spec(self):
        return specs.Array((), np.int32)

    def action_spec(self):
        return specs.discrete(2)


STACKED_BY_ALF = [
    *((t, lane, stack) for t, stack in enumerate([[0, 0, 0], [0, 0, 1], [0, 1, 2]]) for lane in (0, 1)),
    (17, 0, [17, 17, 17]),
    (17, 1, [15, 16, 17]),
    (18, 0, [17, 17, 18]),
    (22, 0, [20, 21, 22]),
    (22, 1, [22, 22, 22]),
]


def test_lanes_of_periods_17_and_22_are_stacked_as_alf_does():
    shown = rows(AutoReset(FrameStack(Ticking(np.array([17, 22]), num_envs=2), 3, axis=0)), 23).observation
    for t, lane, expected in STACKED_BY_ALF:
        assert shown[t, lane].tolist() == expected, (t, lane)


def test_history_pads_with_zeros_and_shows_the_actions_that_led_there():
    actions = jnp.broadcast_to(jnp.array([5, 6, 7, 8])[:, None], (4, 3))
    inside, outside = (
        unrolled(env, actions)
        for env in (
            AutoReset(History(counting(), 3, include_actions=True)),
            History(AutoReset(counting()), 3, include_actions=True),
        )
    )
    assert_equal(inside, outside)
    shown, acted = inside.observation["observation"], inside.observation["action"]
    for lane in (1, 2):
        assert shown[:, lane].tolist() == LONG[:5]
        assert acted[:, lane].tolist() == [[0, 0, 0], [0, 0, 5], [0, 5, 6], [5, 6, 7], [6, 7, 8]]
    assert shown[:, 0].tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 2], [0, 0, 10], [0, 10, 11]]
    assert acted[:, 0].tolist() == [[0, 0, 0], [0, 0, 5], [0, 5, 6], [0, 0, 0], [0, 0, 8]]


def test_a_history_shows_discrete_actions_within_their_bounds():
    env = History(Chain(num_envs=2), 2, include_actions=True)
    shown = unrolled(env, jnp.array([[7, -7]])).observation["action"]
    assert shown[1].tolist() == [[0, 1], [0, 0]]


def test_a_same_step_last_row_shows_the_next_history_and_keeps_the_final_one():
    actions = jnp.broadcast_to(jnp.array([5, 6, 7, 8])[:, None], (4, 3))
    r = unrolled(AutoReset(History(counting(), 3, include_actions=True), "same_step"), actions)
    shown, final = r.observation, r.env_info["final_observation"]
    assert shown["observation"][:, 0].tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 10], [0, 10, 11], [0, 0, 20]]
    assert final["observation"][:, 0].tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 2], [0, 10, 11], [10, 11, 12]]
    assert shown["action"][:, 0].tolist() == [[0, 0, 0], [0, 0, 5], [0, 0, 0], [0, 0, 7], [0, 0, 0]]
    assert final["action"][:, 0].tolist() == [[0, 0, 0], [0, 0, 5], [0, 5, 6], [0, 0, 7], [0, 7, 8]]
    assert final["observation"][4, 1].tolist() == [2, 3, 4]


@pytest.mark.parametrize(
    ("wrapper", "expected"),
    [
        (lambda e: History(e, 3, padding="reset"), [[20, 20, 20], [20, 20, 21], [20, 21, 22], [21, 22, 23]]),
        (lambda e: FrameStack(e, 3, padding="zero"), [[0, 0, 20], [0, 20, 21], [20, 21, 22], [21, 22, 23]]),
    ],
    ids=["reset", "zero"],
)
def test_padding_fills_the_rows_before_the_first(wrapper, expected):
    shown = rows(AutoReset(wrapper(Counting(np.array([1, 1, 9]), stride=10))), 7).observation
    assert shown[4:, 0].tolist() == expected


# --- shapes ----------------------------------------------------------------------------------------------------------

SHAPES = {"scalar": (), "vector": (7,), "matrix": (5, 6), "image": (2, 3, 4)}


def of_all_ranks(num_envs=2):
    spec = {name: specs.Bounded(shape, np.float32, -1, 3) for name, shape in SHAPES.items()}
    spec["image"] = specs.Bounded((2, 3, 4), np.uint8, 0, np.arange(24).reshape(2, 3, 4) + 1)
    return random_environment(spec, specs.discrete(2), end_probability=0.0, num_envs=num_envs)


@functools.cache
def raw_rows():
    return unrolled(of_all_ranks(), jnp.zeros((4, 2), jnp.int32)).observation


@pytest.mark.parametrize(
    ("axis", "shapes"),
    [
        (None, [(3,), (3, 7), (3, 5, 6), (3, 2, 3, 4)]),
        (0, [(3,), (21,), (15, 6), (6, 3, 4)]),
        (-1, [(3,), (21,), (5, 18), (2, 3, 12)]),
    ],
)
def test_frames_are_stacked_along_the_axis_oldest_first_with_repeated_bounds(axis, shapes):
    base = of_all_ranks()
    env, actions = FrameStack(base, 3, axis=axis), jnp.zeros((4, 2), jnp.int32)
    spec, raw, shown = env.observation_spec(), raw_rows(), unrolled(env, actions).observation
    for name, shape in zip(SHAPES, shapes, strict=True):
        inner = base.observation_spec()[name]
        assert (spec[name].shape, spec[name].dtype) == (shape, inner.dtype), name
        at = None if axis is None or inner.shape == () else axis

        def join(frames, at=at):
            return np.stack(frames) if at is None else np.concatenate(frames, at)

        np.testing.assert_array_equal(spec[name].maximum, join([inner.maximum] * 3))
        for t in range(5):
            frames = [raw[name][max(t - 2 + k, 0), 1] for k in range(3)]
            np.testing.assert_array_equal(shown[name][t, 1], join(frames), err_msg=f"{name} at {t}")


@pytest.mark.parametrize(("axis", "shape"), [(1, (2, 9, 4)), (-2, (2, 9, 4)), (-3, (6, 3, 4))])
def test_images_are_joined_along_any_of_their_axes(axis, shape):
    env = FrameStack(of_all_ranks(), 3, axis=axis, fields=("image",))
    assert env.observation_spec()["image"].shape == shape
    shown, raw = unrolled(env, jnp.zeros((4, 2), jnp.int32)).observation["image"], raw_rows()["image"]
    for t in range(5):
        frames = [raw[max(t - 2 + k, 0), 1] for k in range(3)]
        np.testing.assert_array_equal(shown[t, 1], np.concatenate(frames, axis), err_msg=str(t))


def test_zero_padding_widens_the_bounds_of_older_frames_only():
    env = random_environment(specs.Bounded((2,), np.float32, 1, 3), specs.discrete(3, start=1))
    assert FrameStack(env, 3, padding="zero").observation_spec().minimum.tolist() == [[0, 0], [0, 0], [1, 1]]
    assert FrameStack(env, 3).observation_spec() == specs.Bounded((3, 2), np.float32, 1, 3)
    spec = History(env, 2, include_actions=True).observation_spec()
    assert spec["observation"].minimum.tolist() == [[0, 0], [1, 1]]
    assert spec["action"] == specs.Bounded((2,), np.int32, 0, 3)


class Looking(Counting):
    """`Counting` whose observation is an image of four pixels and a speed."""

    def observe(self, state):
        count = super().observe(state)
        pixels = jnp.stack([count, count + 1, count + 2, count + 3], axis=-1).astype(jnp.uint8)
        return {"eye": {"left": pixels.reshape(-1, 2, 2)}, "speed": count.astype(jnp.float32)}

    def observation_spec(self):
        return {"eye": {"left": specs.Bounded((2, 2), np.uint8, 0, 255)}, "speed": specs.Array((), np.float32)}


def test_only_named_fields_are_stacked_inside_and_outside_auto_reset():
    base = Looking(np.array([[2], [9], [9]]), stride=10, num_envs=3)
    inside, outside = (
        AutoReset(FrameStack(base, 2, axis=-1, fields=("eye.left",))),
        FrameStack(AutoReset(base), 2, axis=-1, fields=("eye.left",)),
    )
    spec = {"eye": {"left": specs.Bounded((2, 4), np.uint8, 0, 255)}, "speed": specs.Array((), np.float32)}
    assert inside.observation_spec() == outside.observation_spec() == spec
    shown = rows(inside, 4)
    assert_equal(shown, rows(outside, 4))
    eye = shown.observation["eye"]["left"]
    assert eye.dtype == np.uint8
    assert eye[3, :, 0].tolist() == [[10, 11, 10, 11], [2, 3, 3, 4], [2, 3, 3, 4]]
    assert eye[4, :, 1].tolist() == [[12, 13, 13, 14], [5, 6, 6, 7], [5, 6, 6, 7]]
    assert shown.observation["speed"][:, 0].tolist() == [0, 1, 2, 10, 11]


def test_one_frame_is_the_observation_itself():
    actions = random_actions(counting(), 6)
    plain, stacked = unrolled(AutoReset(counting()), actions), unrolled(AutoReset(FrameStack(counting(), 1)), actions)
    np.testing.assert_array_equal(stacked.observation, plain.observation[..., None])


def test_auto_reset_does_not_carry_the_frames_twice():
    env = AutoReset(FrameStack(of_all_ranks(), 3))
    state, _ = jax.eval_shape(env.reset, jax.random.key(0))
    assert sum(x.shape == (2, 3, 5, 6) for x in jax.tree.leaves(state)) == 1


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda e: FrameStack(e, 0), r"FrameStack: num .*got 0"),
        (lambda e: FrameStack(e, 2.5), r"FrameStack.*: num .*got 2.5"),
        (lambda e: FrameStack(e, 2, padding="none"), r"FrameStack: padding .*got 'none'"),
        (lambda e: FrameStack(e, 2, axis=1), r"FrameStack: axis .*got 1"),
        (lambda e: FrameStack(e, 2, axis=0.5), r"FrameStack: axis .*got 0.5"),
        (lambda e: FrameStack(e, 2, fields=("eye",)), "FrameStack: field 'eye': no 'eye' here, the fields"),
        (lambda e: FrameStack(e, 2, fields=(3,)), r"FrameStack: fields .*got \(3,\)"),
        (lambda e: FrameStack(e, 2, fields=()), r"FrameStack: fields .*got \(\)"),
        (lambda e: History(e, 0), r"History: num .*got 0"),
        (lambda e: History(e, 2, padding="zeros"), r"History: padding .*got 'zeros'"),
    ],
)
def test_invalid_arguments_are_refused_by_name_and_value(build, message):
    with pytest.raises(ValueError, match=message):
        build(of_all_ranks())
