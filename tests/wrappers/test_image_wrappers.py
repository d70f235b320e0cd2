"""Image wrappers: values, specs, and windows and mirrors that a lane keeps for an episode.

Covers ChannelFirst, CropObservation, FlipObservation, GrayscaleObservation, RandomCrop, ResizeObservation and
ScaleImage.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import specs
from jaxenv.specs import Array, Bounded, discrete
from jaxenv.testing import Counting, random_environment
from jaxenv.wrappers import (
    AutoReset,
    ChannelFirst,
    CropObservation,
    FlipObservation,
    GrayscaleObservation,
    RandomCrop,
    ResizeObservation,
    ScaleImage,
    TransformObservation,
)
from tests.rows import assert_equal, unrolled

F32, I32, U8, INF = np.float32, np.int32, np.uint8, np.inf
FIRST, MID, LAST = 0, 1, 2


def showing(spec, num_envs=1):
    """An environment whose observations fit ``spec``."""
    return random_environment(spec, discrete(2), num_envs=num_envs)


def bytes_(*shape):
    return Bounded(shape, U8, 0, 255)


def image(dtype, rows):
    """A batch of one image with one channel, given as rows of pixels."""
    return np.array(rows, dtype)[None, :, :, None]


COLOURS = np.array([[[[255, 255, 255], [255, 0, 0]], [[0, 255, 0], [0, 0, 255]], [[0, 0, 0], [255, 0, 255]]]], U8)
# An image of 3 rows, 2 columns and 4 channels, pixel by pixel and channel by channel.
PIXELS = I32([[[1, 2, 3, 4], [5, 6, 7, 8]], [[11, 12, 13, 14], [15, 16, 17, 18]], [[21, 22, 23, 24], [25, 26, 27, 28]]])
PLANES = I32([[[n, n + 4], [n + 10, n + 14], [n + 20, n + 24]] for n in (1, 2, 3, 4)])
SHADE = F32([0, 70, 140, 210])  # pixel values of an image of 4 rows, from top to bottom

# Wrapper, inner spec, inner observations of a batch, and the expected observations and spec.
TABLE = {
    "channel first": (
        ChannelFirst,
        (Bounded((3, 2, 4), I32, 0, PIXELS), Array((2,), F32)),
        (PIXELS[None], F32([[1, 2]])),
        (PLANES[None], F32([[1, 2]])),
        (Bounded((4, 3, 2), I32, 0, PLANES), Array((2,), F32)),
    ),
    "crop": (
        lambda e: CropObservation(e, x=2, y=1, width=1, height=2),
        Bounded((4, 3, 1), U8, 0, [[[1], [2], [3]], [[4], [5], [6]], [[7], [8], [9]], [[10], [11], [12]]]),
        image(U8, [[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]]),
        image(U8, [[6], [9]]),
        Bounded((2, 1, 1), U8, 0, [[[6]], [[9]]]),
    ),
    "crop, one of two images": (
        lambda e: CropObservation(e, 0, 1, 1, 1, fields=("b",)),
        {"a": bytes_(2, 1, 1), "b": bytes_(2, 1, 1)},
        {"a": image(U8, [[1], [2]]), "b": image(U8, [[1], [2]])},
        {"a": image(U8, [[1], [2]]), "b": image(U8, [[2]])},
        {"a": bytes_(2, 1, 1), "b": bytes_(1, 1, 1)},
    ),
    "grey": (GrayscaleObservation, bytes_(3, 2, 3), COLOURS, U8([[[255, 54], [182, 18], [0, 73]]]), bytes_(3, 2)),
    "grey, with a channel": (
        lambda e: GrayscaleObservation(e, keep_dim=True),
        bytes_(3, 2, 3),
        COLOURS,
        image(U8, [[255, 54], [182, 18], [0, 73]]),
        bytes_(3, 2, 1),
    ),
    "grey, floats": (
        GrayscaleObservation,
        Bounded((1, 1, 3), F32, [[[0, -1, -INF]]], [[[0.5, 0, 0]]]),
        F32([[[[0.5, 0, 0]]]]),
        F32([[[0.10625]]]),
        Bounded((1, 1), F32, -INF, 0.10625),
    ),
    "scale": (
        ScaleImage,
        {"camera": bytes_(1, 3, 1), "gear": discrete(3)},
        {"camera": image(U8, [[0, 51, 255]]), "gear": I32([1])},
        {"camera": image(F32, [[-1, -0.6, 1]]), "gear": I32([1])},
        {"camera": Bounded((1, 3, 1), F32, -1, 1), "gear": discrete(3)},
    ),
    "scale, without bounds and with a narrower one": (
        lambda e: ScaleImage(e, 0, 5),
        (Array((2,), U8), Bounded((), U8, 0, 51)),
        (U8([[0, 255]]), U8([51])),
        (F32([[0, 5]]), F32([1])),
        (Bounded((2,), F32, 0, 5), Bounded((), F32, 0, 1)),
    ),
    # At half the size, the three pixels under the triangle kernel weigh 3/7, 3/7 and 1/7.
    "resize": (
        lambda e: ResizeObservation(e, (2, 3)),
        Bounded((4, 3, 1), F32, 0, 230),
        (SHADE[:, None] + F32([0, 10, 20]))[None, :, :, None],
        image(F32, [[50, 60, 70], [160, 170, 180]]),
        Bounded((2, 3, 1), F32, 0, 230),
    ),
    "resize, bytes rounded": (
        lambda e: ResizeObservation(e, (2, 2)),
        bytes_(4, 2, 1),
        image(U8, [[0, 255], [1, 255], [2, 255], [3, 255]]),
        image(U8, [[1, 255], [2, 255]]),  # 5/7 and 16/7
        bytes_(2, 2, 1),
    ),
    "resize, larger": (
        lambda e: ResizeObservation(e, (1, 4)),
        Bounded((1, 2, 2), F32, [[[0, -5], [1, 0]]], [[[8, 0], [4, 0]]]),
        F32([[[[0, -4], [4, 0]]]]),
        F32([[[[0, -4], [1, -3], [3, -1], [4, 0]]]]),
        Bounded((1, 4, 2), F32, [0, -5], [8, 0]),
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_images_and_their_specs_are_mapped_as_tabulated(case):
    wrap, spec, given, wanted, wanted_spec = TABLE[case]
    env = wrap(showing(spec))
    made = jax.jit(env.observation)(given)
    assert_equal(made, wanted, rtol=1e-6)
    specs.require_equal(env.observation_spec(), wanted_spec)


def test_extreme_images_stay_within_their_bounds_after_rounding():
    env = showing(Bounded((5, 7, 3), F32, -0.3, 0.7))
    coloured = showing(bytes_(5, 7, 3))
    for wrapped, low, high in (
        (GrayscaleObservation(env), F32(-0.3), F32(0.7)),
        (ResizeObservation(env, (4, 3)), F32(-0.3), F32(0.7)),
        (GrayscaleObservation(coloured), U8(0), U8(255)),
        (ResizeObservation(coloured, (3, 11)), U8(0), U8(255)),
        (ScaleImage(coloured, 0.1, 0.7), U8(0), U8(255)),
    ):
        images = jnp.stack([jnp.full((5, 7, 3), low), jnp.full((5, 7, 3), high)])
        made = np.asarray(jax.jit(wrapped.observation)(images))
        spec = wrapped.observation_spec()
        spec.validate(made[0])
        spec.validate(made[1])
        np.testing.assert_allclose(made[0], spec.minimum, rtol=1e-6)
        np.testing.assert_allclose(made[1], spec.maximum, rtol=1e-6)


def test_an_atari_stack_gives_small_grey_channel_first_floats():
    env = GrayscaleObservation(showing({"screen": bytes_(21, 16, 3)}, 2), keep_dim=True)
    env = ScaleImage(ChannelFirst(ResizeObservation(env, (8, 6))), 0, 1)
    assert env.observation_spec() == {"screen": Bounded((1, 8, 6), F32, 0, 1)}
    _, timestep = env.reset(jax.random.key(0))
    specs.validate(env.observation_spec(), jax.device_get(timestep.observation), outer=2)


# --- once an episode ------------------------------------------------------------------------------------------------

COUNTING = Counting(np.array([[9], [2], [9]]), stride=10, num_envs=3)
# The count of each lane by row; the middle lane ends after 2 steps.
COUNTS = [[0, 0, 0], [1, 1, 1], [2, 2, 2], [3, 10, 3], [4, 11, 4], [5, 12, 5], [6, 20, 6]]
TYPES = [[FIRST] * 3, [MID] * 3, [MID, LAST, MID], [MID, FIRST, MID], [MID] * 3, [MID, LAST, MID], [MID, FIRST, MID]]
STEPS = jnp.zeros((6, 3), jnp.int32)


def place(count):
    """An image of 4 rows and 3 columns whose pixels encode their position: 100 * count + 10 * row + column."""
    pixels = 10 * np.arange(4, dtype=I32)[:, None] + np.arange(3, dtype=I32)[None]
    return 100 * count[:, None, None, None] + pixels[None, :, :, None]


def pictured():
    return TransformObservation(COUNTING, place, Bounded((4, 3, 1), I32, 0, 10_000))


def cropping(env):
    return RandomCrop(env, width=2, height=3)


def flipping(env):
    # The outer lanes have a fixed orientation, the middle one a random one.
    return FlipObservation(env, vertical=np.array([1, 0.5, 0], F32), horizontal=np.array([0, 0.5, 1], F32))


@functools.cache
def traced(wrap, outside, mode):
    bare = pictured()
    env = wrap(AutoReset(bare, mode)) if outside else AutoReset(wrap(bare), mode)
    return unrolled(env, STEPS, jax.random.key(6))


# The top left pixel of each observation without the count, 10 * row + column: the corner of the window, or the corner
# that a mirror moves there. The values follow from key 6 and are the same on every platform.
CORNERS = {
    cropping: [[11, 11, 10]] * 3 + [[11, 0, 10]] * 3 + [[11, 1, 10]],
    flipping: [[30, 30, 2]] * 3 + [[30, 32, 2]] * 3 + [[30, 2, 2]],
}


@pytest.mark.parametrize("wrap", CORNERS)
@pytest.mark.parametrize("outside", [False, True], ids=["inside AutoReset", "outside"])
def test_a_lane_keeps_its_window_for_an_episode_and_redraws_it_for_the_next(wrap, outside):
    r = traced(wrap, outside, "next_step")
    corner = r.observation[:, :, 0, 0, 0]
    assert r.step_type.tolist() == TYPES
    assert (corner // 100).tolist() == COUNTS
    assert (corner % 100).tolist() == CORNERS[wrap]


@pytest.mark.parametrize("wrap", CORNERS)
def test_random_image_wrappers_give_the_same_rows_inside_and_outside_auto_reset(wrap):
    assert_equal(traced(wrap, False, "next_step"), traced(wrap, True, "next_step"))


@pytest.mark.parametrize("wrap", CORNERS)
def test_a_same_step_last_row_keeps_the_old_window_and_shows_the_new_one(wrap):
    r = traced(wrap, False, "same_step")
    corners = np.array(CORNERS[wrap])
    counts = np.array(COUNTS)
    final, shown = (x[:, 1, 0, 0, 0] for x in (r.env_info["final_observation"], r.observation))
    # The rows of the middle lane are those of next_step without the FIRST rows 3 and 6.
    assert final[:5].tolist() == (100 * counts + corners)[[0, 1, 2, 4, 5], 1].tolist()
    assert shown[:5].tolist() == (100 * counts + corners)[[0, 1, 3, 4, 6], 1].tolist()


def test_a_window_shows_the_pixels_under_it():
    r = traced(cropping, False, "next_step")
    corner = r.observation[:, :, :1, :1]
    np.testing.assert_array_equal(
        r.observation - corner, np.broadcast_to(image(I32, [[0, 1], [10, 11], [20, 21]]), (7, 3, 3, 2, 1))
    )


def test_images_are_mirrored_as_a_whole():
    r = traced(flipping, False, "next_step")
    up = image(I32, [[30, 31, 32], [20, 21, 22], [10, 11, 12], [0, 1, 2]])[0]
    left = image(I32, [[2, 1, 0], [12, 11, 10], [22, 21, 20], [32, 31, 30]])[0]
    np.testing.assert_array_equal(r.observation[1, 0], up + 100)
    np.testing.assert_array_equal(r.observation[1, 2], left + 100)


def test_every_position_of_the_window_is_drawn():
    env = RandomCrop(TransformObservation(Counting(np.array([9])), place), width=2, height=2)
    _, timestep = jax.jit(lambda key: env.reset(key, jnp.arange(600)))(jax.random.key(3))
    corners, counts = np.unique(np.asarray(timestep.observation)[:, 0, 0, 0], return_counts=True)
    assert corners.tolist() == [0, 1, 10, 11, 20, 21]
    assert (abs(counts - 100) < 45).all()  # five standard deviations


def test_both_directions_are_mirrored_independently_with_their_probabilities():
    env = FlipObservation(TransformObservation(Counting(np.array([9])), place), vertical=0.25, horizontal=0.5)
    _, timestep = jax.jit(lambda key: env.reset(key, jnp.arange(800)))(jax.random.key(3))
    corners, counts = np.unique(np.asarray(timestep.observation)[:, 0, 0, 0], return_counts=True)
    assert corners.tolist() == [0, 2, 30, 32]
    assert (abs(counts - [300, 300, 100, 100]) < 70).all()


def both(count):
    return {"large": place(count), "small": place(count)[:, 1:], "count": count}


@pytest.mark.parametrize("shared", [True, False])
def test_images_share_a_window_if_asked(shared):
    env = RandomCrop(TransformObservation(Counting(np.array([9])), both), width=2, height=3, shared=shared)
    _, timestep = jax.jit(lambda key: env.reset(key, jnp.arange(64)))(jax.random.key(0))
    # The window has one vertical position in the small image, and two horizontal positions in both images.
    large, small = (np.asarray(timestep.observation[name])[:, 0, 0, 0] for name in ("large", "small"))
    assert set(small.tolist()) == {10, 11}
    assert bool((large % 10 == small % 10).all()) is shared
    assert timestep.observation["count"].shape == (64,)


def test_bounds_cover_every_window_and_both_orientations():
    low, high = [[[-1], [0]], [[-2], [0]], [[-3], [0]]], [[[1], [2]], [[3], [4]], [[5], [6]]]
    ramp = showing(Bounded((3, 2, 1), I32, low, high))
    window = Bounded((2, 2, 1), I32, [[[-2], [0]], [[-3], [0]]], [[[3], [4]], [[5], [6]]])
    mirrors = Bounded((3, 2, 1), I32, [[[-3], [-3]], [[-2], [-2]], [[-3], [-3]]], [[[6], [6]], [[4], [4]], [[6], [6]]])
    assert RandomCrop(ramp, width=2, height=2).observation_spec() == window
    assert FlipObservation(ramp).observation_spec() == mirrors
    assert RandomCrop(showing(Array((3, 2, 1), F32)), 1, 1).observation_spec() == Array((1, 1, 1), F32)
    assert FlipObservation(showing(Array((3, 2, 1), F32))).observation_spec() == Array((3, 2, 1), F32)


# --- errors -------------------------------------------------------------------------------------------------------

VECTOR, IMAGE = Array((2,), F32), bytes_(4, 3, 3)
BAD = [
    (ChannelFirst, VECTOR, {}, r"observation .*got Array"),
    (ChannelFirst, {"a": IMAGE, "b": VECTOR}, {"fields": ("b",)}, r"\bb .*got Array"),
    (CropObservation, IMAGE, {"x": -1, "y": 0, "width": 1, "height": 1}, r"\bx .*got -1"),
    (
        CropObservation,
        IMAGE,
        {"x": 0, "y": 0, "width": 0, "height": 1},
        r"width .*got 0",
    ),
    (CropObservation, IMAGE, {"x": 2, "y": 0, "width": 2, "height": 1}, r"observation .*got Bounded\(\(4"),
    (RandomCrop, IMAGE, {"width": 3, "height": 5}, r"observation .*got Bounded"),
    (RandomCrop, IMAGE, {"width": 0, "height": 1}, r"width .*got 0"),
    (RandomCrop, IMAGE, {"width": 1, "height": 1.5}, r"height .*got 1.5"),
    (FlipObservation, IMAGE, {"vertical": 1.5}, r"vertical .*got 1.5"),
    (FlipObservation, IMAGE, {"horizontal": np.array([0, -1])}, r"horizontal .*got -1\.0 in lane 1"),
    (GrayscaleObservation, bytes_(4, 3, 4), {}, r"observation .*got Bounded"),
    (GrayscaleObservation, Array((4, 3, 3), bool), {}, r"observation .*got Array\(\(4, 3, 3\), bool\)"),
    (ResizeObservation, IMAGE, {"shape": (4,)}, r"shape .*got \(4,\)"),
    (ResizeObservation, IMAGE, {"shape": (4, 0)}, r"shape .*got \(4, 0\)"),
    (ResizeObservation, IMAGE, {"shape": 84}, r"shape .*got 84"),
    (ScaleImage, VECTOR, {}, r"observation .*got Array"),
    (ScaleImage, IMAGE, {"minimum": 1, "maximum": 1}, r"minimum .*got 1 and 1"),
]


@pytest.mark.parametrize(("wrapper", "spec", "arguments", "message"), BAD)
def test_an_invalid_argument_or_observation_is_refused_by_name(wrapper, spec, arguments, message):
    with pytest.raises(ValueError, match=message) as refused:
        wrapper(showing(spec, 2), **arguments)
    assert str(refused.value).startswith(f"{wrapper.__name__}: ")


@pytest.mark.parametrize("wrap", CORNERS)
def test_random_image_wrappers_are_refused_outside_same_step(wrap):
    with pytest.raises(ValueError, match="put it inside AutoReset"):
        wrap(AutoReset(pictured(), "same_step"))
