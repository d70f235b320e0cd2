"""Stateless observation wrappers: values, specs and bounds, field paths, and both observations of a same-step row.

Covers ClipObservation, DiscretizeObservation, DtypeObservation, FilterObservation, FlattenObservation,
OneHotObservation, RescaleObservation, ReshapeObservation, StandardizeObservation, TransformObservation and custom
wrappers. The file is long because one table holds the cases of all of them.
"""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs, wrappers
from jaxenv.specs import Array, Bounded, discrete
from jaxenv.testing import Counting, random_environment
from jaxenv.wrappers import (
    AutoReset,
    ClipObservation,
    DiscretizeObservation,
    DtypeObservation,
    FilterObservation,
    FlattenObservation,
    LeafObservationWrapper,
    ObservationWrapper,
    OneHotObservation,
    RescaleObservation,
    ReshapeObservation,
    StandardizeObservation,
    TransformObservation,
)
from tests.rows import unrolled

F32, I32, U8, INF = np.float32, np.int32, np.uint8, np.inf
FIRST, MID, LAST = 0, 1, 2


def showing(spec, num_envs=1):
    """An environment whose observations fit ``spec``."""
    return random_environment(spec, discrete(2), num_envs=num_envs)


def f32(*values):
    return np.array(values, F32)


def i32(*values):
    return np.array(values, I32)


def u8(*values):
    return np.array(values, U8)


BOX = Bounded((2,), F32, [-1, -2], [1, 6])
FREE = Array((2,), F32)
DIE = discrete(6, start=1)
ROBOT = {"goal": FREE, "robot": {"gear": DIE, "pose": BOX}}

# Wrapper, inner spec, inner observations of a batch, and the expected observations and spec.
TABLE = {
    "transform": (
        lambda e: TransformObservation(e, lambda o: o["goal"] - o["robot"]["pose"]),
        ROBOT,
        {"goal": f32([5, 1]), "robot": {"gear": i32(1), "pose": f32([1, 4])}},
        f32([4, -3]),
        Array((2,), F32),
    ),
    "transform, spec given": (
        lambda e: TransformObservation(e, lambda o: {"all": jnp.abs(o)}, {"all": Bounded((2,), F32, 0, [1, 6])}),
        BOX,
        f32([-1, 4]),
        {"all": f32([1, 4])},
        {"all": Bounded((2,), F32, 0, [1, 6])},
    ),
    "clip": (
        lambda e: ClipObservation(e, -0.5, 3),
        BOX,
        f32([-1, 5]),
        f32([-0.5, 3]),
        Bounded((2,), F32, -0.5, [1, 3]),
    ),
    "clip, element by element": (
        lambda e: ClipObservation(e, (-INF, 0), (INF, 1)),
        FREE,
        f32([-9, 5], [np.nan, -3]),
        f32([-9, 1], [np.nan, 0]),
        Bounded((2,), F32, [-INF, 0], [INF, 1]),
    ),
    "clip, integers inwards": (
        lambda e: ClipObservation(e, 1.5, 4.5),
        DIE,
        i32(1, 3, 6),
        i32(2, 3, 4),
        Bounded((), I32, 2, 4),
    ),
    "clip, beyond the dtype": (
        lambda e: ClipObservation(e, -200, 200),
        Array((), U8),
        np.array([0, 255], U8),
        np.array([0, 200], U8),
        Bounded((), U8, 0, 200),
    ),
    "clip, one field": (
        lambda e: ClipObservation(e, 0, 1, fields="robot.pose"),
        ROBOT,
        {"goal": f32([5, 5]), "robot": {"gear": i32(6), "pose": f32([-1, 5])}},
        {"goal": f32([5, 5]), "robot": {"gear": i32(6), "pose": f32([0, 1])}},
        {"goal": FREE, "robot": {"gear": DIE, "pose": Bounded((2,), F32, 0, 1)}},
    ),
    "clip, a subtree and an item of a tuple": (
        lambda e: ClipObservation(e, 2, 3, fields=("0.robot", "1")),
        ({"robot": (BOX, DIE)}, FREE, FREE),
        ({"robot": (f32([0, 9]), i32(5))}, f32([0, 9]), f32([0, 9])),
        ({"robot": (f32([2, 3]), i32(3))}, f32([2, 3]), f32([0, 9])),
        ({"robot": (Bounded((2,), F32, 2, [2, 3]), Bounded((), I32, 2, 3))}, Bounded((2,), F32, 2, 3), FREE),
    ),
    "filter, keys": (
        lambda e: FilterObservation(e, ("goal",)),
        ROBOT,
        {"goal": f32([1, 2]), "robot": {"gear": i32(1), "pose": f32([3, 4])}},
        {"goal": f32([1, 2])},
        {"goal": FREE},
    ),
    "filter, a path": (
        lambda e: FilterObservation(e, ("robot.gear",)),
        ROBOT,
        {"goal": f32([1, 2]), "robot": {"gear": i32(1), "pose": f32([3, 4])}},
        {"robot": {"gear": i32(1)}},
        {"robot": {"gear": DIE}},
    ),
    "filter, items from the end": (
        lambda e: FilterObservation(e, (-1, 0)),
        (BOX, FREE, DIE),
        (f32([1, 2]), f32([3, 4]), i32(5)),
        (i32(5), f32([1, 2])),
        (DIE, BOX),
    ),
    "filter, elements": (
        lambda e: FilterObservation(e, (-1, 0)),
        Bounded((3,), F32, [-1, -2, -3], [1, 2, 3]),
        f32([10, 20, 30], [40, 50, 60]),
        f32([30, 10], [60, 40]),
        Bounded((2,), F32, [-3, -1], [3, 1]),
    ),
    "flatten": (
        FlattenObservation,
        ROBOT,
        {"robot": {"pose": f32([3, 4]), "gear": i32(2)}, "goal": f32([1, 2])},
        f32([1, 2, 0, 1, 0, 0, 0, 0, 3, 4]),
        Bounded((10,), F32, [-INF] * 2 + [0] * 6 + [-1, -2], [INF] * 2 + [1] * 6 + [1, 6]),
    ),
    "flatten, in the order of fields": (
        lambda e: FlattenObservation(e, ("robot.pose", "goal")),
        ROBOT,
        {"goal": f32([1, 2]), "robot": {"gear": i32(2), "pose": f32([3, 4])}},
        f32([3, 4, 1, 2]),
        Bounded((4,), F32, [-1, -2, -INF, -INF], [1, 6, INF, INF]),
    ),
    "flatten, numbers as they are": (
        lambda e: FlattenObservation(e, one_hot=False),
        (DIE, BOX),
        (i32(2), f32([3, 4])),
        f32([2, 3, 4]),
        Bounded((3,), F32, [1, -1, -2], [6, 1, 6]),
    ),
    "flatten, one dtype": (
        FlattenObservation,
        Bounded((2, 2), U8, 0, [[1, 2], [3, 4]]),
        np.array([[[1, 2], [3, 4]]], U8),
        np.array([[1, 2, 3, 4]], U8),
        Bounded((4,), U8, 0, [1, 2, 3, 4]),
    ),
    "flatten, no bounds": (
        FlattenObservation,
        (FREE, FREE),
        (f32([1, 2]), f32([3, 4])),
        f32([1, 2, 3, 4]),
        Array((4,), F32),
    ),
    "rescale": (
        RescaleObservation,
        BOX,
        f32([-1, -2], [0, 0], [1, 6]),
        f32([-1, -1], [0, -0.5], [1, 1]),
        Bounded((2,), F32, -1, 1),
    ),
    "rescale, element by element": (
        lambda e: RescaleObservation(e, (0, -10), (1, 30)),
        (BOX, DIE),
        (f32([0, 0], [9, -9]), i32(3, 4)),
        (f32([0.5, 0], [1, -10]), i32(3, 4)),
        (Bounded((2,), F32, [0, -10], [1, 30]), DIE),
    ),
    "reshape": (
        lambda e: ReshapeObservation(e, (1, 3, 2)),
        Bounded((2, 3), I32, 0, [[1, 2, 3], [4, 5, 6]]),
        i32([[1, 2, 3], [4, 5, 6]]),
        i32([[[1, 2], [3, 4], [5, 6]]]),
        Bounded((1, 3, 2), I32, 0, [[[1, 2], [3, 4], [5, 6]]]),
    ),
    "reshape to a matrix": (
        lambda e: ReshapeObservation(e, (3, 2)),
        Bounded((2, 3), I32, 0, [[1, 2, 3], [4, 5, 6]]),
        i32([[1, 2, 3], [4, 5, 6]]),
        i32([[1, 2], [3, 4], [5, 6]]),
        Bounded((3, 2), I32, 0, [[1, 2], [3, 4], [5, 6]]),
    ),
    "reshape to a number": (
        lambda e: ReshapeObservation(e, ()),
        Array((1,), F32),
        f32([7], [8]),
        f32(7, 8),
        Array((), F32),
    ),
    "dtype, of a choice": (lambda e: DtypeObservation(e, "float32"), DIE, i32(6), f32(6), Bounded((), F32, 1, 6)),
    "dtype, towards zero": (
        lambda e: DtypeObservation(e, np.int32),
        Bounded((2,), F32, -1.5, 2.5),
        f32([-1.5, -0.5], [0.5, 2.5]),
        i32([-1, 0], [0, 2]),
        Bounded((2,), I32, -1, 2),
    ),
    "dtype, bytes of unbounded floats": (
        lambda e: DtypeObservation(e, "float16"),
        FREE,
        f32([1, 2]),
        np.array([[1, 2]], np.float16),
        Array((2,), np.float16),
    ),
    "dtype, from and to bool": (
        lambda e: DtypeObservation(DtypeObservation(e, bool, fields=("1",)), "uint8", fields=("0", "1")),
        (Array((), bool), DIE, DIE),
        (np.array([False, True]), i32(0, 2), i32(1, 2)),
        (np.array([0, 1], U8), np.array([0, 1], U8), i32(1, 2)),
        (Bounded((), U8, 0, 1), Bounded((), U8, 0, 1), DIE),
    ),
    "discretize": (
        lambda e: DiscretizeObservation(e, (2, 8)),
        BOX,
        f32([-1, -2], [-0.01, -1.01], [0, -1], [1, 6], [-9, 9], [np.nan, 0]),
        i32(0, 0, 9, 15, 7, 2),
        discrete(16),
    ),
    "discretize, element by element": (
        lambda e: DiscretizeObservation(e, 4, flatten=False, fields="box"),
        {"box": BOX, "free": FREE},
        {"box": f32([-0.5, 0], [9, -9]), "free": f32([1, 2], [3, 4])},
        {"box": i32([1, 1], [3, 0]), "free": f32([1, 2], [3, 4])},
        {"box": Bounded((2,), I32, 0, 3), "free": FREE},
    ),
    "one-hot, counted from the minimum": (
        lambda e: OneHotObservation(e, fields="robot.gear"),
        ROBOT,
        {"goal": f32([5, 1]), "robot": {"gear": i32(2), "pose": f32([1, 4])}},
        {"goal": f32([5, 1]), "robot": {"gear": u8([0, 1, 0, 0, 0, 0]), "pose": f32([1, 4])}},
        {"goal": FREE, "robot": {"gear": Bounded((6,), U8, 0, 1), "pose": BOX}},
    ),
    "one-hot, a number of values for each entry": (
        lambda e: OneHotObservation(e, (3, 2)),
        Bounded((1, 2), U8, 0, 255),
        u8([[2, 0]], [[3, 1]]),
        u8([[0, 0, 1, 1, 0]], [[0, 0, 0, 0, 1]]),
        Bounded((1, 5), U8, 0, 1),
    ),
    "one-hot, more values than the dtype has": (
        lambda e: OneHotObservation(e, 300),
        Array((), np.int8),
        np.array([-1, 127], np.int8),
        np.stack([np.zeros(300, U8), np.eye(300, dtype=U8)[127]]),
        Bounded((300,), U8, 0, 1),
    ),
    "standardize": (
        lambda e: StandardizeObservation(e, (0, 2), np.array([0.25, 2])),
        BOX,
        f32([-1, -2], [0.5, 6]),
        f32([-3, -2], [2, 2]),
        Bounded((2,), F32, [-3, -2], [3, 2]),
    ),
    "standardize without bounds": (
        lambda e: StandardizeObservation(e, 1.0, 2.0, limit=5),
        FREE,
        f32([5, 99]),
        f32([2, 5]),
        Bounded((2,), F32, -5, 5),
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_observations_and_their_specs_are_mapped_as_tabulated(case):
    wrap, spec, given, wanted, wanted_spec = TABLE[case]
    lanes = jax.tree.leaves(given)[0].shape[0]
    env = wrap(showing(spec, lanes))
    made = env.observation(jax.tree.map(jnp.asarray, given)) if "to bool" not in case else nested(env, given)
    chex.assert_trees_all_equal(made, wanted, strict=True)
    specs.require_equal(env.observation_spec(), wanted_spec)


def nested(env, observation):
    """The observation of a stack of two wrappers."""
    return env.observation(env.env.observation(jax.tree.map(jnp.asarray, observation)))


# --- through reset, step and restarts --------------------------------------------------------------------------------

# Observations of three lanes of Counting with a stride of 10, clipped to 1 .. 19; the middle one ends after 2 steps.
COUNTING = Counting(np.array([[2], [9], [9]]), stride=10, num_envs=3)
ROWS = [[1, 1, 1], [1, 1, 1], [2, 2, 2], [10, 3, 3], [11, 4, 4], [12, 5, 5]]
TYPES = [[FIRST, FIRST, FIRST], [MID, MID, MID], [LAST, MID, MID], [FIRST, MID, MID], [MID, MID, MID], [LAST, MID, MID]]


@pytest.mark.parametrize(
    "env", [AutoReset(ClipObservation(COUNTING, 1, 19)), ClipObservation(AutoReset(COUNTING), 1, 19)], ids=repr
)
def test_rows_of_every_episode_are_mapped_inside_and_outside_auto_reset(env):
    r = unrolled(env, jnp.zeros((5, 3), jnp.int32))
    assert r.observation.tolist() == ROWS
    assert r.step_type.tolist() == TYPES


@pytest.mark.parametrize(
    "env",
    [
        AutoReset(ClipObservation(COUNTING, 1, 19), "same_step"),
        ClipObservation(AutoReset(COUNTING, "same_step"), 1, 19),
    ],
    ids=repr,
)
def test_both_observations_of_a_same_step_row_are_mapped(env):
    r = unrolled(env, jnp.zeros((4, 3), jnp.int32))
    assert r.observation.tolist() == [[1, 1, 1], [1, 1, 1], [10, 2, 2], [11, 3, 3], [19, 4, 4]]
    # The second episode of the first lane ends on the last row with 12; the third starts with 20, clipped.
    assert r.env_info["final_observation"].tolist() == [[1, 1, 1], [1, 1, 1], [2, 2, 2], [11, 3, 3], [12, 4, 4]]


def test_codes_of_a_range_wider_than_its_dtype_are_complete():
    env = OneHotObservation(showing(Bounded((), np.int8, -100, 100)))
    codes = env.observation(jnp.int8([-100, -1, 27, 28, 100]))
    assert jnp.argmax(codes, axis=-1).tolist() == [0, 99, 127, 128, 200]
    assert codes.sum(axis=-1).tolist() == [1] * 5


@pytest.mark.parametrize(("dtype", "bins"), [(jnp.bfloat16, 1000), (jnp.float16, 4096), (F32, 2**25)])
def test_a_value_at_the_upper_bound_is_in_the_last_bin(dtype, bins):
    env = DiscretizeObservation(showing(Bounded((), dtype, 0, 1)), bins)
    assert env.observation(jnp.ones(1, dtype)).tolist() == [bins - 1]
    assert env.observation(jnp.zeros(1, dtype)).tolist() == [0]


def test_results_stay_within_their_bounds_after_rounding():
    low, high = f32(-0.1, -1e-3, -7, 0.3), f32(0.7, 3e-3, 11, 0.9)
    env = showing(Bounded((4,), F32, low, high))
    u = np.linspace(0, 1, 65, dtype=F32)[:, None]
    values = jnp.asarray(np.clip(low * (1 - u) + high * u, low, high))
    for wrapped in (
        RescaleObservation(env, 0.1, 0.3),
        StandardizeObservation(env, 0.123, 0.0457, limit=1e6),
        DiscretizeObservation(env, 7, flatten=False),
        StandardizeObservation(RescaleObservation(env, -0.3, 0.1), 0.123, 0.0457, limit=1e6),
    ):
        made = jax.jit(wrapped.observation)(values)
        specs.validate(wrapped.observation_spec(), np.asarray(made)[0])
        for row in np.asarray(made):
            assert wrapped.observation_spec().contains(row)


def test_the_velocities_of_cart_pole_can_be_masked():
    env = FilterObservation(jaxenv.spec("CartPole-v1").make(num_envs=2), (0, 2))
    bare = env.env.observation_spec()
    assert env.observation_spec() == Bounded((2,), F32, bare.minimum[[0, 2]], bare.maximum[[0, 2]])
    state, timestep = env.reset(jax.random.key(0))
    np.testing.assert_array_equal(timestep.observation, env.env.observation_of(state)[:, np.array([0, 2])])


# --- custom wrappers -------------------------------------------------------------------------------------------------


class RelativePosition(ObservationWrapper):
    """The vector from the agent to its target."""

    def check(self):
        if set(self.env.observation_spec()) != {"agent", "target"}:
            raise ValueError(f"RelativePosition: needs agent and target, got {self.env.observation_spec()}")

    def observation(self, observation):
        return observation["target"] - observation["agent"]


def test_a_custom_observation_wrapper_shows_the_relative_position():
    place = Bounded((2,), I32, 0, 4)
    env = RelativePosition(showing({"agent": place, "target": place}, 2))
    assert env.observation_spec() == Array((2,), I32)
    state, timestep = env.reset(jax.random.key(0))
    place = env.env.observation_of(state)
    assert (timestep.observation == place["target"] - place["agent"]).all()
    given = {"agent": jnp.array([[1, 2]]), "target": jnp.array([[4, 0]])}
    assert env.observation(given).tolist() == [[3, -2]]


class ObservationClip(LeafObservationWrapper):
    """Clips all leaves."""

    limit: float = 200.0

    def map_leaf(self, x, spec):
        return jnp.clip(x, -self.limit, self.limit).astype(spec.dtype)

    def map_spec(self, spec):
        return specs.Bounded(spec.shape, spec.dtype, -200, 200)


def test_a_custom_clip_of_all_leaves_equals_clip_observation():
    inside = showing({"goal": FREE, "robot": FREE})
    theirs, ours = ObservationClip(inside), ClipObservation(inside, -200, 200)
    given = {"goal": jnp.array([[-1e9, 3.0]]), "robot": jnp.array([[201.0, -200.0]])}
    for env in (theirs, ours):
        made = env.observation(given)
        assert {name: x.tolist() for name, x in made.items()} == {"goal": [[-200, 3]], "robot": [[200, -200]]}
        specs.require_equal(env.observation_spec(), {name: Bounded((2,), F32, -200, 200) for name in given})
    assert ObservationClip(inside, fields="goal").observation(given)["robot"].tolist() == [[201, -200]]


def test_a_leaf_wrapper_without_map_spec_has_unbounded_specs():
    class Doubled(LeafObservationWrapper):
        def map_leaf(self, x, spec):
            return jnp.concatenate([x, x], axis=-1)

    assert Doubled(showing(BOX)).observation_spec() == Array((4,), F32)


# --- errors --------------------------------------------------------------------------------------------------------

BAD = [
    (ClipObservation, BOX, {"minimum": ("a", 1)}, r"minimum .*got \('a', 1\)"),
    (StandardizeObservation, BOX, {"mean": ("a",)}, r"mean .*got \('a',\)"),
    (TransformObservation, BOX, {"fn": 3}, r"fn .*got 3"),
    (TransformObservation, BOX, {"fn": jnp.sum}, r"lead with the 3 lanes, got shape \(\) for the observation"),
    (TransformObservation, BOX, {"fn": jnp.abs, "spec": DIE}, "spec and the result"),
    (ClipObservation, BOX, {"minimum": 2, "maximum": 1}, r"minimum .*got 2 and 1"),
    (ClipObservation, BOX, {"minimum": np.nan}, r"minimum .*got nan"),
    (ClipObservation, BOX, {"minimum": (1, 2, 3)}, r"observation .*got Bounded\(\(2"),
    (ClipObservation, DIE, {"minimum": 1.2, "maximum": 1.8}, r"observation .*got Bounded\(\(\), int32, 1, 6\)"),
    (ClipObservation, Array((), U8), {"maximum": -1}, r"observation .*got Array\(\(\), uint8\)"),
    (ClipObservation, Array((), bool), {}, r"observation .*got Array"),
    (ClipObservation, ROBOT, {"fields": "robot.arm"}, "field 'robot.arm': no 'arm' here"),
    (ClipObservation, ROBOT, {"fields": ()}, r"fields .*got \(\)"),
    (ClipObservation, BOX, {"fields": "shape"}, "field 'shape': no 'shape' here"),
    (FilterObservation, ROBOT, {"keys": ()}, r"keys .*got \(\)"),
    (FilterObservation, ROBOT, {"keys": ("arm",)}, r"no 'arm' here, the fields.* \['goal', 'robot'\]"),
    (FilterObservation, ROBOT, {"keys": ("goal.shape",)}, "no 'shape' here"),
    (FilterObservation, (BOX, DIE), {"keys": (2,)}, "no '2' here"),
    (FilterObservation, (BOX, DIE), {"keys": (-3,)}, "no '-3' here"),
    (FilterObservation, (BOX, DIE), {"keys": (1, -1)}, r"must not repeat a part, got \(1, -1\)"),
    (FilterObservation, BOX, {"keys": (0, 2)}, "no '2' here"),
    (FilterObservation, Array((2, 2), F32), {"keys": (0,)}, r"observation .*got Array"),
    (FlattenObservation, ROBOT, {"fields": ("arm",)}, "field 'arm': no 'arm' here"),
    (FlattenObservation, ROBOT, {"fields": ()}, r"fields .*got \(\)"),
    (RescaleObservation, BOX, {"minimum": 1.0}, r"minimum .*got 1.0 and 1.0"),
    (RescaleObservation, FREE, {}, r"observation .*got Array"),
    (RescaleObservation, BOX, {"maximum": (1, 2, 3)}, r"observation .*got Bounded\(\(2"),
    (RescaleObservation, DIE, {}, r"observation .*got Bounded"),
    (RescaleObservation, ROBOT, {"fields": "robot.gear"}, r"robot.gear .*got Bounded"),
    (ReshapeObservation, BOX, {"shape": (3,)}, r"observation .*got Bounded"),
    (ReshapeObservation, BOX, {"shape": (-1, 2)}, r"shape .*got \(-1, 2\)"),
    (ReshapeObservation, BOX, {"shape": 2}, r"shape .*got 2"),
    (DtypeObservation, BOX, {"dtype": "number"}, r"dtype .*got 'number'"),
    (DtypeObservation, BOX, {"dtype": "float64"}, r": dtype .*got float64"),
    (DtypeObservation, BOX, {"dtype": "complex64"}, r": dtype .*got complex64"),
    (DtypeObservation, BOX, {"dtype": "uint8"}, r"observation .*got Bounded"),
    (DtypeObservation, FREE, {"dtype": "int32"}, r"observation .*got Array"),
    (DiscretizeObservation, BOX, {"bins": 0}, r"bins .*got 0"),
    (DiscretizeObservation, BOX, {"bins": (2.5, 1)}, r"bins .*got \(2\.5, 1\)"),
    (DiscretizeObservation, BOX, {"bins": (1, 2, 3)}, r"observation .*got Bounded\(\(2"),
    (DiscretizeObservation, FREE, {"bins": 2}, r"observation .*got Array\(\(2,\), float32\)"),
    (DiscretizeObservation, BOX, {"bins": 50_000}, r"have at most .* bins in total.* int32"),
    (OneHotObservation, DIE, {"num_values": 0}, r"num_values .*got 0"),
    (OneHotObservation, DIE, {"num_values": (2, 2.5)}, r"num_values .*got \(2, 2\.5\)"),
    (OneHotObservation, DIE, {"num_values": (2, 3)}, r"observation .*got Bounded\(\(\), int32, 1, 6\)"),
    (OneHotObservation, Array((2,), I32), {}, r"observation .*got Array\(\(2,\), int32\)"),
    (OneHotObservation, Bounded((2,), I32, 0, (1, 2)), {}, r"observation .*got Bounded\(\(2"),
    (OneHotObservation, BOX, {}, "observation"),
    (StandardizeObservation, BOX, {"mean": INF}, r"mean .*got inf"),
    (StandardizeObservation, BOX, {"std": (1, 0)}, r"std .*got \(1, 0\)"),
    (StandardizeObservation, BOX, {"limit": 0}, r"limit .*got 0"),
    (StandardizeObservation, BOX, {"std": (1, 2, 3)}, r"observation .*got Bounded\(\(2"),
]


@pytest.mark.parametrize(("wrapper", "spec", "arguments", "message"), BAD)
def test_an_invalid_argument_or_observation_is_refused_by_name(wrapper, spec, arguments, message):
    with pytest.raises(ValueError, match=message) as refused:
        wrapper(showing(spec, 3), **arguments)
    assert str(refused.value).startswith(f"{wrapper.__name__}: ")


def test_given_specs_compare_by_value_so_that_compiled_code_is_shared():
    def wrapped():
        return wrappers.TransformObservation(showing(BOX), jnp.abs, Bounded((2,), F32, 0, 6))

    assert jax.tree.structure(wrapped()) == jax.tree.structure(wrapped())
    assert dataclasses.replace(wrapped(), fn=jnp.negative, spec=None).observation_spec() == FREE
