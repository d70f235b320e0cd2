"""Arrows, arcs and sectors, and zooming."""

import jax.numpy as jnp
import numpy as np

from jaxenv.canvas import PAPER, RED, Canvas
from tests.pictures import centre, pixels


def blank(lanes=1):
    return Canvas.blank(lanes, 32).view((-1, 1), (-1, 1))


def red(canvas):
    """The pixels that are covered by at least a half."""
    return pixels(canvas)[..., 1] < (PAPER[1] + RED[1]) / 2


def test_the_head_of_an_arrow_is_at_its_end_and_an_arrow_of_no_length_is_not_seen():
    ends = jnp.array([0.9, -0.9, 0.0])
    right, left, none = red(blank(3).arrow(0, 0, ends, 0, 0.15, RED))
    thickness = right.sum(axis=0)
    assert thickness[16:29].all()
    assert not thickness[:15].any()
    assert thickness[24] > 2 * thickness[18]  # the head begins here
    np.testing.assert_array_equal(left, right[:, ::-1])
    assert not none.any()


def test_an_arc_lies_between_its_angles():
    quarter, most = (red(blank().arc(0, 0, 0.7, 0, end, 0.2, RED))[0] for end in (np.pi / 2, 3 * np.pi / 2))
    assert quarter[8, 23]  # up and to the right
    assert not quarter[23].any()
    assert most[8, 8]
    assert most[23, 8]
    assert not most[23, 23]


def test_the_head_of_an_arc_is_at_its_end():
    counterclockwise, clockwise = red(blank(2).arc(0, 0, 0.7, 0, jnp.array([np.pi, -np.pi]), 0.15, RED, arrow=True))
    assert not counterclockwise[18:].any()
    np.testing.assert_array_equal(clockwise, counterclockwise[::-1])
    left, right = counterclockwise[:, :16].sum(axis=1), counterclockwise[:, 16:].sum(axis=1)
    assert left[8:12].max() > 1.5 * right[8:12].max()


def test_a_sector_is_the_part_of_a_disc_between_two_angles():
    upper = red(blank().sector(0, 0, 0.8, 0, np.pi, RED))[0]
    disc = red(blank().disc(0, 0, 0.8, RED))[0]
    np.testing.assert_array_equal(upper[:15], disc[:15])
    assert not upper[17:].any()
    wide = red(blank().sector(0, 0, 0.8, -np.pi / 4, 5 * np.pi / 4, RED))[0]
    assert wide[20, 8]
    assert not wide[22, 16]


def test_zooming_shows_more_of_the_world_in_each_lane():
    canvas = blank(3).zoom(jnp.array([1.0, 2.0, 4.0])).disc(0.8, 0.0, 0.4, RED)
    image = np.asarray(canvas.image())
    offsets = [centre(lane, RED)[0] - 0.5 for lane in image[1:]]
    np.testing.assert_allclose(offsets, [0.2, 0.1], atol=0.02)
    areas = red(canvas).sum(axis=(1, 2))
    assert areas[1] > 3 * areas[2]


def test_a_factor_below_one_does_not_zoom_in():
    one, less = (red(blank(1).zoom(factor).disc(0.3, 0.1, 0.4, RED)).sum() for factor in (1.0, 0.5))
    assert one == less > 0


def test_a_gauge_is_filled_from_the_left():
    counts = red(blank(3).gauge(jnp.array([0.25, 0.5, 1.0]), -0.9, 0.0, 1.8, 0.2, RED, np.ones(3, np.float32)))
    widths = counts.any(axis=1).sum(axis=1)
    assert widths[0] < widths[1] < widths[2]
    assert not counts[0, :, 16:].any()
