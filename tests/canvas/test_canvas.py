"""The canvas: views and tiles."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv.canvas import BLACK, BLUE, GOLD, PAPER, RED, WHITE, Canvas
from tests.pictures import pixels


@pytest.mark.parametrize("size", [(40, 40), (45, 61), (47, 40), (8, 9)])
def test_the_view_of_cells_lies_on_the_tiles(size):
    kinds = np.zeros((1, 3, 5), np.int32)
    kinds[0, 2, 1] = 1  # the second cell of the lowest row
    blank = Canvas.blank(1, size, BLACK)
    tiles = blank.tiles(kinds, [None, lambda canvas: canvas.fill(WHITE)])
    box = blank.view_cells(3, 5).box(1.5, 0.5, 1, 1, WHITE)
    np.testing.assert_allclose(pixels(box), pixels(tiles), atol=1e-3)
    assert 0 < pixels(tiles).sum() < pixels(tiles).size


@pytest.mark.parametrize(
    ("paint", "message"),
    [
        (lambda c: c.disc(jnp.zeros((4, 2)), 0, 1, RED), r"a position, .* one per lane \[B\], got shape \(4, 2\)"),
        (lambda c: c.disc(jnp.zeros(3), 0, 1, RED), r"numbers that differ between lanes .*got \[3\]"),
        (lambda c: c.disc(0, 0, 1, jnp.ones((3, 3))), r"numbers that differ between lanes .*got \[3\]"),
        (lambda c: c.disc(0, 0, 1, "red"), r"a colour .*got 'red'"),
        (lambda c: c.fill(jnp.ones((3, 3))), r"numbers that differ between lanes .*got \[3\]"),
        (
            lambda c: c.tiles(np.zeros((3, 2, 2), np.int32), [None]),
            r"numbers that differ between lanes .*got \[3\]",
        ),
        (
            lambda c: c.picture(np.zeros((3, 2, 2), np.uint8)),
            r"numbers that differ between lanes .*got \[3\]",
        ),
        (lambda c: c.fill((1, 0)), r"a colour .*got shape \(2,\)"),
    ],
)
def test_numbers_and_colours_of_another_shape_are_refused_by_the_method(paint, message):
    with pytest.raises(ValueError, match=f"^canvas: {message}$"):
        paint(Canvas.blank(4, 8))


@pytest.mark.parametrize(
    "paint",
    [
        lambda canvas: canvas.tiles(np.zeros((1, 3, 9), np.int32), [None]),
        lambda canvas: canvas.picture(np.zeros((1, 9, 3), np.uint8)),
    ],
)
def test_a_grid_of_more_cells_than_pixels_is_refused(paint):
    with pytest.raises(ValueError, match=r"^(tiles|picture): .* cells .*got 8 x 8"):
        paint(Canvas.blank(1, 8))


@pytest.mark.parametrize(
    ("paint", "message"),
    [
        (lambda c: c.picture(jnp.ones((4, 2, 2, 3))), r"picture: pixels .*got float32\[4, 2, 2, 3\]"),
        (lambda c: c.picture(np.ones((4, 2, 2, 4), np.uint8)), r"picture: pixels .*got uint8\[4, 2, 2, 4\]"),
        (
            lambda c: c.tiles(np.zeros((2, 2), np.int32), [None]),
            r"tiles: kinds .*got shape \(2, 2\)",
        ),
        (lambda c: c.tiles(np.array([[[0, 2]]]), [None, None]), r"tiles: kinds .*got 2"),
        (lambda c: c.path([(1, 1)], 1, RED), r"path: points .*got 1"),
        (lambda c: c.polygon([], RED), r"polygon: points .*got 0"),
        (lambda c: c.view((0, 0), (0, 1)), r"view: x and y .*got \(0, 0\)"),
    ],
)
def test_what_cannot_be_painted_is_refused(paint, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        paint(Canvas.blank(4, np.int64(8)))


@pytest.mark.parametrize("align", [0.0, 0.5, 1.0])
def test_a_number_is_aligned_by_the_digits_that_are_shown(align):
    blank = Canvas.blank(3, (20, 60)).view((0, 6), (0, 2))
    numbers = blank.number(jnp.array([7, 42, 105]), 3.0, 0.4, 1.0, BLACK, align=align)
    for lane, text in enumerate(("7", "42", "105")):
        written = blank.text(text, 3.0, 0.4, 1.0, BLACK, align=align)
        np.testing.assert_allclose(pixels(numbers)[lane], pixels(written)[lane], atol=1e-5)


def _scene(canvas, one):
    """Every kind of paint; lengths and positions are scaled by ``one``."""
    canvas = canvas.fill(PAPER).view((0, 10), (0, 10), margin=0.02).zoom(1.1 * one)
    canvas = canvas.below(lambda x: one * (1 + jnp.sin(x)), GOLD)
    canvas = canvas.disc(2 * one, 3, 1, RED).ring(5, 5 * one, 2, 0.4, BLUE).box(7, 7, 2 * one, 1, RED, angle=0.3 * one)
    canvas = canvas.ellipse(3, 7, 2, one, BLUE, alpha=0.5 * one).line(one, 1, 9, 2, 0.3, RED)
    canvas = canvas.path([(one, 9), (5, 8), (9, 9)], 0.2, BLUE).polygon([(8, 3), (9 * one, 5), (7, 5)], GOLD)
    canvas = canvas.arrow(1, 5, 4 * one, 6, 0.3, RED).arc(5, 5, 3, 0.3, 2 * one, 0.3, BLUE, arrow=True)
    return canvas.sector(5, 5, one, 0.2, 1.4, RED).gauge(0.6 * one, 1, 0.2, 8, 0.5, BLUE, PAPER)


@pytest.mark.compiled
def test_what_is_known_while_tracing_looks_like_what_is_not():
    # NumPy draws the first, XLA the second.
    known = jax.jit(lambda: _scene(Canvas.blank(2, 32), 1.0).image())()
    computed = jax.jit(lambda one: _scene(Canvas.blank(2, 32), one).image())(jnp.ones(()))
    assert known.shape == (2, 32, 32, 3)
    assert np.abs(known.astype(int) - computed.astype(int)).max() <= 1
    constants = jax.make_jaxpr(lambda: _scene(Canvas.blank(2, 32), 1.0).image())()
    assert not {"sqrt", "cos", "select_n"} & {equation.primitive.name for equation in constants.eqns}


def _cells(kinds, ground=PAPER):
    """Three grids on each other, as a grid world has."""
    canvas = (
        Canvas.blank(2, (23, 34), BLACK)
        .fill(ground)
        .tiles(np.zeros((1, 3, 4), np.int32), [lambda c: c.disc(0, 0, 1, BLUE)])
    )
    for paint in (lambda c: c.box(0.4, 0.5, 0.5, 0.3, GOLD), lambda c: c.fill(RED).disc(0.5, 0.4, 0.3, WHITE)):
        canvas = canvas.tiles(kinds, [None, paint, lambda c: c.disc(0.3, 0.3, 0.3, WHITE, alpha=0.5)])
        kinds = (kinds[:, ::-1] + 1) % 3
    return canvas


_KINDS = np.random.default_rng(0).integers(0, 3, (2, 3, 4), dtype=np.int32)
_PER_LANE = np.array([[0.2, 0.4, 0.9], [0.7, 0.1, 0.3]], np.float32)


@pytest.mark.compiled
@pytest.mark.parametrize("ground", [PAPER, _PER_LANE])
@pytest.mark.parametrize("most", [2**18, 600])
def test_grids_on_each_other_are_looked_up_as_they_are_painted(monkeypatch, ground, most):
    monkeypatch.setattr("jaxenv.canvas._shapes._MOST_WORDS", most)
    painted = _cells(_KINDS, ground).image()
    looked_up = jax.jit(lambda kinds: _cells(kinds, ground).image())(_KINDS)
    np.testing.assert_array_equal(looked_up, painted)
    assert len(np.unique(painted.reshape(-1, 3), axis=0)) > 10


@pytest.mark.compiled
def test_a_canvas_of_grids_passes_a_function_that_is_compiled_apart():
    across = jax.jit(lambda canvas: canvas.image())(jax.jit(_cells)(_KINDS))
    np.testing.assert_array_equal(across, _cells(_KINDS).image())


def test_a_shape_over_cells_mixes_with_them():
    mixed = pixels(_cells(jnp.asarray(_KINDS)).box(17, 11, 99, 99, BLACK, alpha=0.5))
    np.testing.assert_allclose(mixed, (pixels(_cells(_KINDS)) + BLACK) / 2, atol=1e-6)


def test_grids_on_a_known_ground_take_one_lookup():
    text = jax.make_jaxpr(lambda kinds: _cells(kinds).image())(_KINDS)
    tables = [e for e in text.eqns if e.primitive.name == "gather" and e.invars[0].aval.dtype == np.uint32]
    assert sum(equation.invars[0].aval.ndim == 1 for equation in tables) <= 1
