"""Race tracks compared with those of Gymnasium's CarRacing, recorded by ``tests.envs.box2d.car_episodes``."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import random
from jaxenv.envs.box2d import _car_track
from jaxenv.envs.box2d._car_dynamics import WHEEL_HALF_WIDTH, WHEEL_RADIUS
from jaxenv.envs.box2d._car_track import HALF_WIDTH, MOST, STEP, random_track, touching, track_of, track_through
from tests.envs.box2d import car_episodes
from tests.envs.box2d.episodes import smirnov


@pytest.fixture(scope="module")
def data():
    return car_episodes.load()


ATTEMPTS = 1000


def attempts(seed, narrower=1.0):
    """Our tracks for random draws, and whether they are tracks."""
    draws = random.uniform(random.stream(jax.random.split(jax.random.key(seed), ATTEMPTS)), (2, 12))
    (track, _), good = _track_of(draws[:, 0], narrower * draws[:, 1])
    return jax.tree.map(np.asarray, track), np.asarray(good)


_track_of = jax.jit(track_of)


@pytest.fixture(scope="module")
def drawn(data):
    """Our tracks for the recorded draws, and whether they are tracks."""
    (track, _), good = _track_of(data["draws"][:, 0], data["draws"][:, 1])
    return jax.tree.map(np.asarray, track), np.asarray(good)


def test_the_same_draws_make_the_same_tracks_and_failures(data, drawn):
    track, good = drawn
    np.testing.assert_array_equal(good, data["length"] > 0)
    assert 0 < good.sum() < len(good)
    np.testing.assert_array_equal(track.length[good], data["length"][good])
    last = track.points[np.arange(len(good)), :, track.length - 1]
    angle, x, y = data["ends"][good].T
    # After up to 1800 steps in float32; Gymnasium computes in float64.
    np.testing.assert_allclose(last[good], np.stack([x, y, np.cos(angle), np.sin(angle)], axis=1), atol=0.02)


def test_the_same_turns_have_borders_on_the_same_side(data, drawn):
    track, good = drawn
    np.testing.assert_array_equal(track.side[good], data["sides"][good])


@pytest.fixture(scope="module")
def tracks():
    track, _ = jax.jit(random_track)(random.stream(jax.random.split(jax.random.key(0), 1000)))
    return jax.tree.map(np.asarray, track)


def law_of(track):
    """Statistics of tracks as in the recorded file, float ``[B, 3]``."""
    return np.stack(
        [track.length, np.abs(track.side).sum(axis=1), np.abs(track.points[:, :2]).max(axis=(1, 2))], axis=1
    )


@pytest.mark.parametrize("column", range(3), ids=["length", "borders", "extent"])
def test_tracks_are_distributed_as_gymnasiums(data, tracks, column):
    distance, p = smirnov(law_of(tracks)[:, column], data["law"][:, column])
    assert p > 1e-3, distance


def test_the_comparison_rejects_tracks_of_a_narrower_circle(data):
    track, good = attempts(1, narrower=0.9)
    law = law_of(jax.tree.map(lambda x: x[good], track))
    assert min(smirnov(law[:, i], data["law"][:, i])[1] for i in range(3)) < 1e-4


def test_attempts_fail_as_often_as_gymnasiums(data):
    failed = 1 - np.mean(attempts(2)[1])
    assert abs(failed - data["failed"]) < 4 * np.sqrt(data["failed"] * (1 / ATTEMPTS + 1 / 1200))


def test_every_track_closes_and_repeats_its_last_line(tracks):
    gap = np.diff(np.concatenate([tracks.before()[:, :2, :1], tracks.points[:, :2]], axis=2), axis=2)
    step = np.hypot(gap[:, 0], gap[:, 1])
    exists = np.arange(MOST) < tracks.length[:, None]
    np.testing.assert_allclose(step[:, 1:][exists[:, 1:]], STEP, rtol=1e-3)
    assert np.all(step[:, 1:][~exists[:, 1:]] == 0)


# --- tiles and wheels ------------------------------------------------------------------------------------------------


def distance(a, b):
    """The distance of two convex polygons ``[K, 2]``, 0 if they overlap."""

    def inside(p, polygon):
        side = np.roll(polygon, -1, axis=0) - polygon
        turn = side[:, 0] * (p[1] - polygon[:, 1]) - side[:, 1] * (p[0] - polygon[:, 0])
        return np.all(turn >= 0) or np.all(turn <= 0)

    def to_sides(p, polygon):
        side = np.roll(polygon, -1, axis=0) - polygon
        along = np.clip(((p - polygon) * side).sum(1) / (side**2).sum(1), 0, 1)
        return np.hypot(*(polygon + along[:, None] * side - p).T).min()

    def cross(p, q, r, s):
        def turn(u, v, w):
            return (v[0] - u[0]) * (w[1] - u[1]) - (v[1] - u[1]) * (w[0] - u[0])

        return turn(p, q, r) * turn(p, q, s) < 0 and turn(r, s, p) * turn(r, s, q) < 0

    sides = [list(zip(x, np.roll(x, -1, axis=0), strict=True)) for x in (a, b)]
    if any(inside(p, b) for p in a) or any(inside(p, a) for p in b):
        return 0.0
    if any(cross(*u, *v) for u in sides[0] for v in sides[1]):
        return 0.0
    return min(*(to_sides(p, b) for p in a), *(to_sides(p, a) for p in b))


def test_wheels_touch_the_tiles_that_are_closer_than_two_skins(tracks):
    rng = np.random.default_rng(0)
    lanes, near = 40, 12
    track = jax.tree.map(lambda x: jnp.asarray(x[:lanes]), tracks)
    at = rng.integers(near, 200, lanes)
    ahead, behind = (np.asarray(p)[np.arange(lanes), :, at] for p in (track.points, track.before()))
    middle = (ahead[:, :2] + behind[:, :2]) / 2
    # Around the edges of the road, where a wheel touches some tiles and not others.
    out = rng.choice([-1, 1], (lanes, 4)) * (HALF_WIDTH + rng.uniform(-1.0, 1.0, (lanes, 4)))
    x, y = middle[:, :1] + ahead[:, 2:3] * out, middle[:, 1:] + ahead[:, 3:] * out
    angle = rng.uniform(-3, 3, (lanes, 4))
    found = np.asarray(jax.jit(touching)(track, *(jnp.asarray(v, jnp.float32) for v in (x, y, angle))))

    counts = np.zeros(2, int)
    for lane in range(lanes):
        for i in range(at[lane] - near, at[lane] + near):
            front, back = (np.asarray(p)[lane, :, i] for p in (track.points, track.before()))
            tile = np.array(
                [p[:2] + side * HALF_WIDTH * p[2:] for p, side in ((front, -1), (front, 1), (back, 1), (back, -1))]
            )
            for w in range(4):
                c, s = np.cos(angle[lane, w]), np.sin(angle[lane, w])
                turned = [
                    (x[lane, w] + c * u - s * v, y[lane, w] + s * u + c * v)
                    for u, v in np.array([(1, 1), (-1, 1), (-1, -1), (1, -1)]) * [WHEEL_HALF_WIDTH, WHEEL_RADIUS]
                ]
                gap = distance(np.array(turned), tile)
                # Between corners the separating axes count up to 0.02 sqrt(2); rounding decides within 1e-4.
                if gap < 0.0199 or gap > 0.0284:
                    assert found[lane, w, i] == (gap < 0.02), (lane, w, i, gap)
                    counts[int(gap < 0.02)] += 1
    assert counts[1] > 100
    assert not found[~np.asarray(track.exists)[:, None].repeat(4, axis=1)].any()


def test_a_straight_road_is_touched_from_its_edge_on():
    place = jnp.arange(MOST, dtype=jnp.float32)[None] * np.float32(STEP)
    zero = jnp.zeros_like(place)
    track = jax.jit(track_through)(zero, place, zero, jnp.array([100]))
    edge = HALF_WIDTH + WHEEL_HALF_WIDTH
    x = jnp.array([[edge + 0.019, edge + 0.021, -edge - 0.019, -edge - 0.021]])
    y, angle = jnp.full((1, 4), 10.5 * STEP), jnp.zeros((1, 4))
    found = np.asarray(jax.jit(touching)(track, x, y, angle))[0, :, 1:]  # the first tile leads back from the end
    assert [(1 + np.flatnonzero(f)).tolist() for f in found] == [[11], [], [11], []]


def test_longer_tracks_than_the_state_holds_are_no_tracks(data, monkeypatch):
    monkeypatch.setattr(_car_track, "MOST", 288)
    draws = data["draws"]
    good = jax.jit(lambda *a: track_of(*a)[1])(draws[:, 0], draws[:, 1])
    np.testing.assert_array_equal(good, (data["length"] > 0) & (data["length"] <= 288))
