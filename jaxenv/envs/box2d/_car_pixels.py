"""Draws CarRacing: grass, road, car and indicators, seen from above and behind the car.

Reference: ``CarRacing._render`` of Gymnasium (tests/envs/box2d/test_car_racing.py). The original draws 1000 x 800
pixels and averages them. Here each pixel computes how much of it a shape covers, by distances to its sides.

The picture is divided into blocks of `_BLOCK` pixels. For each block, the tiles of the road that reach into it are
listed, first as bits of words. The pixels of the block read these few tiles. In the first second the camera is far
away, and a block of the picture holds many tiles, which are joined to longer ones.

The score, which the original writes over the indicators, is left out. It shows the last digits of a float64, cut off on
the left. Skid marks are not drawn either, as in the original's observation.
"""

import math
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxenv import tree
from jaxenv.core import clip, computed_once, in_one_kernel, sin_cos
from jaxenv.envs.box2d._car_dynamics import HULL, SIZE, WHEEL_HALF_WIDTH, WHEEL_RADIUS, Car, origin
from jaxenv.envs.box2d._car_track import BORDER, HALF_WIDTH, Track

PLAYFIELD = 2000 / 6.0  # half the width of the grass, m
_GRASS = PLAYFIELD / 20  # side of a patch of lighter grass
_WIDTH, _HEIGHT = 1000, 800  # pixels of the original's picture
_FAR, _NEAR = 0.1 * 6.0, 2.7 * 6.0  # zooms at the start and from one second on, pixels of the original per metre
_ABOVE = _HEIGHT / 4  # of the car over the lower edge, pixels of the original
_BAR = _HEIGHT / 8  # height of the indicators
_BLOCK = 12, 16  # rows and columns
_JOINED = 13.0  # width of a block in m for each tile of those joined to one
_TILES = 10  # most tiles of a block; more are left out
_OUTER = 0, 1, 3, 4  # lines around a tile and its border
_SAMPLES = 4  # per pixel and direction, for the car

ROAD = (102, 102, 102)
GROUND = (102, 204, 102)
PATCH = (102, 230, 102)
_LIGHTER = np.array([0, 2, 5], np.float32)  # colours of tiles that have not been visited, in turn
_RED, _STRIPE = 204, 77
_DARKER = 1.5  # the original's means are rounded down twice

Scale: TypeAlias = tuple[np.float32, np.float32]


@tree.struct
class Colours:
    """Red, green and blue from 0 to 255, float32 ``[B, 3]`` each."""

    road: Array
    ground: Array
    patch: Array


@tree.struct
class _Camera:
    """Position, direction and zoom of the camera; float32 ``[B]``."""

    x: Any  # of the hull
    y: Any
    sin: Any  # of the hull's angle
    cos: Any
    zoom: Any  # pixels of the original per metre


def image(
    car: Car, track: Track, visited: Array, seconds: Array, colours: Colours, size: tuple[int, int] = (96, 96)
) -> Array:
    """Returns the picture, uint8 ``[B, H, W, 3]``, in the ``colours`` of grass and road.

    Tiles that a wheel has ``visited``, bool ``[B, N]``, are plain. ``seconds`` since the start are float32 ``[B]``.
    """
    height = size[0]
    near = jnp.minimum(seconds, 1)
    camera = _Camera(*origin(car), np.float32(_FAR) * (1 - near) + np.float32(_NEAR) * near)
    bar = round(height * _BAR / _HEIGHT)
    words = _field(camera, track, visited, colours, size, height - bar)
    words = _with_car(computed_once(words), car, camera, size)
    words = jnp.concatenate([words, _indicators(car, bar, size)], axis=1)
    words = computed_once(words)
    return lax.bitcast_convert_type(words, jnp.uint8)[..., :3]


# --- grass and road --------------------------------------------------------------------------------------------------


def _field(camera: _Camera, track: Track, visited: Array, colours: Colours, size: tuple[int, int], rows: int) -> Array:
    block_rows, block_columns = -(-rows // _BLOCK[0]), -(-size[1] // _BLOCK[1])
    starts = np.indices((block_rows, block_columns)).reshape(2, 1, -1) * np.array(_BLOCK)[:, None, None]
    top, left = starts.astype(np.float32)  # [1, K] for K blocks
    scale = np.float32(_WIDTH / size[1]), np.float32(_HEIGHT / size[0])

    tiles, found = _tiles_of_blocks(camera, track, visited, scale, top, left)
    inside = np.indices(_BLOCK).reshape(2, 1, 1, -1).astype(np.float32)
    row, column = top[..., None] + inside[0], left[..., None] + inside[1]
    each = [(*(tiles[:, t, :, i, None] for i in range(tiles.shape[-1])), found[:, t, :, None]) for t in range(_TILES)]
    words = _painted(row, column, each, jax.tree.map(lambda x: x[:, None, None], camera), colours, scale)
    words = computed_once(words).reshape(-1, block_rows, block_columns, *_BLOCK).swapaxes(2, 3)
    return words.reshape(-1, block_rows * _BLOCK[0], block_columns * _BLOCK[1])[:, :rows, : size[1]]


def _tiles_of_blocks(
    camera: _Camera, track: Track, visited: Array, scale: Scale, top: np.ndarray, left: np.ndarray
) -> tuple[Array, Array]:
    """Returns the data of T tiles that the pixels of K blocks read.

    The coefficients of five lines, how much lighter than the road the tile is and how white its border:
    float32 ``[B, T, K, 17]``; and whether there is such a tile, float32 ``[B, T, K]``.
    """
    joined = jnp.ceil(_BLOCK[1] * scale[0] / camera.zoom / np.float32(_JOINED)).astype(jnp.int32)
    number = np.arange(track.side.shape[1], dtype=np.int32)[None]
    ends = jnp.minimum(number + joined[:, None] - 1, track.length[:, None] - 1)
    ahead = jnp.take_along_axis(track.points, ends[:, None], axis=2)
    shown = track.exists & (number % joined[:, None] == 0)
    sides = [tuple(points[:, i] for i in range(4)) for points in (ahead, track.before())]
    of_lane = jax.tree.map(lambda x: x[:, None], camera)
    lines, limits = in_one_kernel(_lines, *sides, track.side, shown, of_lane, scale)
    lighter = jnp.where(visited, 0, _LIGHTER[number % 3])
    white = jnp.where(joined[:, None] > 1, np.float32(0.5), (number % 2 == 0).astype(np.float32))
    table = jnp.stack([*(x for line in lines for x in line), lighter, white], axis=-1)  # [B, N, 17]
    table, listed, found = computed_once((table, *_listed(lines, limits, top, left)))
    tiles = jnp.take_along_axis(table, listed.reshape(listed.shape[0], -1, 1), axis=1)
    return computed_once(tiles.reshape(*listed.shape, table.shape[-1])), found


def _lines(
    ahead: tuple[Array, ...], behind: tuple[Array, ...], side: Array, shown: Array, camera: _Camera, scale: Scale
) -> tuple[Any, ...]:
    """Returns five lines per tile: front, back, border side, other side, and the far side of the border.

    A line is (a, b, c): ``clip(a * column + b * row + c, 0, 1)`` is the fraction of a pixel on the tile's side of it.
    The outer four also have a limit: ``a * column + b * row`` is greater in the middle of each block that the tile
    reaches into. Elementwise.
    """

    def seen(px: Array, py: Array, c: Array, s: Array) -> tuple[Array, Array, Array, Array]:
        dx, dy, sin, cos = px - camera.x, py - camera.y, camera.sin, camera.cos
        return cos * dx + sin * dy, cos * dy - sin * dx, cos * c + sin * s, cos * s - sin * c

    def line(
        nx: Array, ny: Array, px: Array, py: Array, wider: np.float32 = np.float32(0)
    ) -> tuple[Array, Array, Array]:
        a, b = nx * scale[0], -ny * scale[1]
        norm = 1 / jnp.maximum(jnp.abs(a) + jnp.abs(b), np.float32(1e-12))
        first_x, first_y = scale[0] / 2 - _WIDTH / 2, _HEIGHT - _ABOVE - scale[1] / 2  # of the first pixel
        c = nx * (first_x - camera.zoom * px) + ny * (first_y - camera.zoom * py) + wider * jnp.sqrt(nx * nx + ny * ny)
        return a * norm, b * norm, c * norm + np.float32(0.5)

    ax, ay, ac, as_ = seen(*ahead)
    bx, by, bc, bs = seen(*behind)
    border = jnp.abs(side).astype(jnp.float32) * np.float32(BORDER)
    sign = jnp.where(side < 0, np.float32(-1), np.float32(1))

    def edge(distance: Any, sign: Array) -> tuple[Array, Array, Array]:
        distance = sign * distance
        px, py = bx + distance * bc, by + distance * bs
        dx, dy = ax + distance * ac - px, ay + distance * as_ - py
        # The original fills the pixels on the sides of polygons as well.
        return line(-sign * dy, sign * dx, px, py, np.float32(0.5))

    width = np.float32(HALF_WIDTH)
    lines = (
        line(as_, -ac, ax, ay),
        line(-bs, bc, bx, by),
        edge(width, sign),
        edge(width, -sign),
        edge(width + border, sign),
    )
    limits = []
    for i in _OUTER:
        a, b, c = lines[i]
        reach = jnp.abs(a) * np.float32(_BLOCK[1] / 2) + jnp.abs(b) * np.float32(_BLOCK[0] / 2)
        limits.append(jnp.where(shown, -c - reach, np.inf))
    return lines, limits


def _listed(
    lines: tuple[tuple[Array, Array, Array], ...], limits: list[Array], top: np.ndarray, left: np.ndarray
) -> tuple[Array, Array]:
    """Returns the first tiles of each block, int32 ``[B, T, K]``, and whether they exist, float32 ``[B, T, K]``."""
    row, column = top + np.float32((_BLOCK[0] - 1) / 2), left + np.float32((_BLOCK[1] - 1) / 2)
    words = limits[0].shape[1] // 32

    def grouped(x: Array) -> Array:
        return x.reshape(-1, words, 32, 1)

    hit: Any = np.True_
    for i, limit in zip(_OUTER, limits, strict=True):
        a, b, _ = lines[i]
        hit = hit & (grouped(a) * column[:, None, None] + grouped(b) * row[:, None, None] > grouped(limit))
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)[None, None, :, None]
    masks = jnp.sum(jnp.where(hit, bits, np.uint32(0)), axis=2, dtype=jnp.uint32)  # [B, words, K]

    def take(masks: tuple[Array, ...], _: Any) -> tuple[tuple[Array, ...], tuple[Array, Array]]:
        masks, number, there = in_one_kernel(_first_bit, masks)
        return masks, (number, there)

    _, (number, there) = lax.scan(take, tuple(masks[:, i] for i in range(words)), None, length=_TILES)
    return jnp.moveaxis(number, 0, 1), jnp.moveaxis(there, 0, 1)


def _first_bit(masks: tuple[Array, ...]) -> tuple[tuple[Array, ...], Array, Array]:
    """Returns the words without their first bit, its number, and 1 if there was one. Elementwise."""
    word, index = jnp.zeros_like(masks[0]), jnp.zeros_like(masks[0], jnp.int32)
    for i in range(len(masks) - 1, -1, -1):
        there = masks[i] != 0
        word, index = jnp.where(there, masks[i], word), jnp.where(there, np.int32(i), index)
    number = index * 32 + lax.population_count((word & (~word + 1)) - 1).astype(jnp.int32)
    rest = tuple(jnp.where(index == np.int32(i), m & (m - 1), m) for i, m in enumerate(masks))
    there = word != 0
    return rest, jnp.where(there, number, 0), there.astype(jnp.float32)


def _painted(
    row: np.ndarray, column: np.ndarray, tiles: list[tuple[Array, ...]], camera: _Camera, colours: Colours, scale: Scale
) -> Array:
    road = lighter = border = white = jnp.zeros((), jnp.float32)
    for *numbers, light, is_white, found in tiles:
        front, back, near, other, far = (
            clip(numbers[i] * column + numbers[i + 1] * row + numbers[i + 2], 0, 1) for i in range(0, 15, 3)
        )
        along = jnp.maximum(front + back - 1, 0) * found
        tile, edge = jnp.maximum(near + other - 1, 0) * along, (far - near) * along
        road, lighter = road + tile, lighter + tile * light
        border, white = border + edge, white + edge * is_white
    weight = 1 / jnp.maximum(road + border, 1)
    rest = jnp.maximum(1 - road - border, 0)
    field, patch = _grass(row, column, camera, scale)
    channels = []
    for i in range(3):
        ground, patches, tarmac = (c[:, None, None, i] for c in (colours.ground, colours.patch, colours.road))
        over = road * tarmac + lighter + np.float32(255) * (border if i == 0 else white)
        channels.append(rest * (field * ground + patch * (patches - ground)) + weight * over)
    return _word(*channels)


def _grass(row: np.ndarray, column: np.ndarray, camera: _Camera, scale: Scale) -> tuple[Array, Array]:
    """Returns the fractions of a pixel on the field and on its lighter patches."""
    u = (column * scale[0] + np.float32(scale[0] / 2 - _WIDTH / 2)) / camera.zoom
    v = (np.float32(_HEIGHT - _ABOVE - scale[1] / 2) - row * scale[1]) / camera.zoom
    fields, patches = [], []
    for place, along_u, along_v in ((camera.x, camera.cos, -camera.sin), (camera.y, camera.sin, camera.cos)):
        middle = place + along_u * u + along_v * v
        half = (jnp.abs(along_u) * scale[0] + jnp.abs(along_v) * scale[1]) / (2 * camera.zoom)
        low, high = (clip(middle + sign * half, -PLAYFIELD, PLAYFIELD) for sign in (-1, 1))
        fields.append((high - low) / (2 * half))
        patches.append((_integral(high) - _integral(low)) / (2 * half))
    return fields[0] * fields[1], patches[0] * patches[1]


def _integral(x: Array) -> Array:
    """Returns the total length of the patches between 0 and x."""
    periods = jnp.floor(x * np.float32(0.5 / _GRASS))
    return periods * np.float32(_GRASS) + jnp.minimum(x - periods * np.float32(2 * _GRASS), np.float32(_GRASS))


def _word(red: Array, green: Array, blue: Array) -> Array:
    """Packs red, green and blue into the bytes of one word per pixel."""
    red, green, blue = (clip(x - np.float32(_DARKER), 0, 255).astype(jnp.uint32) for x in (red, green, blue))
    return red | green << np.uint32(8) | blue << np.uint32(16)


# --- the car ---------------------------------------------------------------------------------------------------------


def _with_car(words: Array, car: Car, camera: _Camera, size: tuple[int, int]) -> Array:
    """Paints the car, which is always at the same place, into the words."""
    unit = _WIDTH / size[1], _HEIGHT / size[0]
    reach = 1.9 * _NEAR, 2.9 * _NEAR  # pixels of the original, across and along
    left = math.floor((_WIDTH / 2 - reach[0]) / unit[0])
    right = math.ceil((_WIDTH / 2 + reach[0]) / unit[0])
    top = math.floor((_HEIGHT - _ABOVE - reach[1]) / unit[1])
    bottom = math.ceil((_HEIGHT - _ABOVE + reach[1]) / unit[1])
    fine = (np.arange(_SAMPLES) + 0.5) / _SAMPLES
    across = (np.arange(left, right)[:, None] + fine) * unit[0] - _WIDTH / 2  # [W, S]
    along = _HEIGHT - _ABOVE - (np.arange(top, bottom)[:, None] + fine) * unit[1]
    x, y = np.broadcast_arrays(across[None, :, None, :], along[:, None, :, None])  # [H, W, S, S]
    samples = [a.reshape(a.shape[0] * a.shape[1], -1).T[None].astype(np.float32) for a in (x, y)]  # [1, S, P]

    s, c = (v[:, None] for v in (camera.sin, camera.cos))
    dx, dy = car.bodies[:, 0, 1:] - camera.x[:, None], car.bodies[:, 1, 1:] - camera.y[:, None]
    turn = sin_cos(car.bodies[:, 2, 1:] - car.bodies[:, 2, :1])
    numbers = (c * dx + s * dy, c * dy - s * dx, *turn, *_stripe(car.phase))
    wheels = [tuple(v[:, i, None, None] for v in numbers) for i in range(4)]
    counts = jnp.sum(_sampled(samples[0], samples[1], wheels, camera.zoom[:, None, None]), axis=1)
    weight = np.float32(1 / _SAMPLES**2)
    covered, red, grey = (((counts >> n) & 0x3FF).astype(jnp.float32) * weight for n in (0, 10, 20))

    window = words[:, top:bottom, left:right]
    under = [(window >> n & np.uint32(255)).astype(jnp.float32) + np.float32(_DARKER) for n in (0, 8, 16)]
    covered, red, grey = (v.reshape(window.shape) for v in (covered, red, grey))
    over = [red * np.float32(_RED) + grey * np.float32(_STRIPE)] + [grey * np.float32(_STRIPE)] * 2
    painted = _word(*((1 - covered) * u + o for u, o in zip(under, over, strict=True)))
    return lax.dynamic_update_slice(words, painted, (0, top, left))


def _stripe(phase: Array) -> tuple[Array, Array]:
    """Returns the ends of the light stripe of each wheel, float32 ``[B, 4]``; equal if it is hidden below."""
    (s1, c1), (s2, c2) = sin_cos(phase), sin_cos(phase + np.float32(1.2))
    c1, c2 = jnp.where(s1 > 0, jnp.sign(c1), c1), jnp.where(s2 > 0, jnp.sign(c2), c2)
    hidden = (s1 > 0) & (s2 > 0)
    low, high = jnp.minimum(c1, c2) * np.float32(WHEEL_RADIUS), jnp.maximum(c1, c2) * np.float32(WHEEL_RADIUS)
    return jnp.where(hidden, 99, low), jnp.where(hidden, -99, high)


def _sampled(x: Any, y: Any, wheels: list[tuple[Array, ...]], zoom: Array) -> Array:
    """Marks samples ``[1, S, P]``: bit 0 if the car is there, bit 10 if it is red, bit 20 if it is a stripe."""
    x, y = x / zoom, y / zoom
    skin = np.float32(0.5) / zoom  # the original fills the pixels on the sides of polygons as well
    hull = wheel = stripe = x < -np.inf
    for polygon in HULL:
        hull = hull | _within(polygon, x, y, skin)
    for wx, wy, s, c, low, high in wheels:
        dx, dy = x - wx, y - wy
        along, across = c * dy - s * dx, jnp.abs(c * dx + s * dy) <= np.float32(WHEEL_HALF_WIDTH) + skin
        wheel = wheel | (across & (jnp.abs(along) <= np.float32(WHEEL_RADIUS) + skin))
        stripe = stripe | (across & (along >= low - skin) & (along <= high + skin))
    covered = (hull | wheel).astype(jnp.int32)
    return covered | hull.astype(jnp.int32) << 10 | (stripe & ~hull).astype(jnp.int32) << 20


def _within(polygon: tuple[tuple[int, int], ...], x: Array, y: Array, skin: Array) -> Array:
    """Returns whether points are in a polygon of the hull's drawing, widened by ``skin``."""
    inside = x < np.inf
    points = np.array(polygon, np.float64) * SIZE
    for (ax, ay), (bx, by) in zip(points, np.roll(points, -1, axis=0), strict=True):
        length = math.hypot(bx - ax, by - ay)
        nx, ny = (by - ay) / length, (ax - bx) / length
        inside = inside & (np.float32(nx) * x + np.float32(ny) * y <= np.float32(nx * ax + ny * ay) + skin)
    return inside


# --- the indicators --------------------------------------------------------------------------------------------------


def _indicators(car: Car, rows: int, size: tuple[int, int]) -> Array:
    """Returns bars of the speed, the four wheels, the steering and the turning of the hull: words ``[B, rows, W]``."""
    unit = _WIDTH / size[1], _HEIGHT / size[0]
    x = np.arange(size[1], dtype=np.float32)[None, None] * np.float32(unit[0])
    y = np.arange(rows, dtype=np.float32)[None, :, None] * np.float32(unit[1])  # below the upper edge of the bar
    side, step = _WIDTH / 40, _HEIGHT / 40
    speed = jnp.sqrt(car.bodies[:, 3, 0] ** 2 + car.bodies[:, 4, 0] ** 2)
    joint = car.bodies[:, 2, 1] - car.bodies[:, 2, 0]
    white, blue, violet = (255, 255, 255), (0, 0, 255), (51, 0, 255)
    upright = [(5, 0.02 * speed, white)]
    upright += [(7 + i, 0.01 * car.omega[:, i], blue if i < 2 else violet) for i in range(4)]
    level = [(20, -10 * joint, (0, 255, 0)), (30, -0.8 * car.bodies[:, 5, 0], (255, 0, 0))]
    channels: list[Any] = [jnp.zeros((), jnp.float32)] * 3
    for place, value, colour in upright:
        covered = _overlap(x, unit[0], place * side, (place + 1) * side) * _overlap(
            y, unit[1], 4 * step - step * value[:, None, None], np.float32(4 * step)
        )
        channels = [v + covered * np.float32(c) for v, c in zip(channels, colour, strict=True)]
    for place, value, colour in level:
        covered = _overlap(x, unit[0], place * side, (place + value[:, None, None]) * side) * _overlap(
            y, unit[1], step, 3 * step
        )
        channels = [v + covered * np.float32(c) for v, c in zip(channels, colour, strict=True)]
    return _word(*channels)


def _overlap(start: np.ndarray, length: float, a: Any, b: Any) -> Array:
    """Returns the fraction of ``[start, start + length]``, a pixel of the original, between a and b."""
    low, high = jnp.minimum(a, b), jnp.maximum(a, b) + 1
    return clip(jnp.minimum(high, start + length) - jnp.maximum(low, start), 0, length) / np.float32(length)
