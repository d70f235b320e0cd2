"""The canvas: a batch of pictures, with methods that paint shapes on it."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax.core
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import Range
from jaxenv.canvas import _font, _shapes, _xp
from jaxenv.canvas._palette import PAPER

# One number for all lanes, or one per lane, float32 [B].
Number = Any
# One colour for all lanes, [3], or one per lane, [B, 3].
Colour = Any


@tree.struct
class Canvas:
    """A batch of pictures. Each method paints one shape in every lane and returns the new canvas.

    Coordinates are in the world chosen by ``view``: x to the right, y up, with equal units. Positions,
    lengths (in units of the world) and angles (radians, counterclockwise) are numbers or arrays ``[B]``. Edges are
    smooth: a pixel that is covered in part mixes both colours.

    Values that are equal in all lanes and known while tracing are computed once, by NumPy. Numbers and colours of
    another shape raise a ``ValueError``.

    Attributes:
        lanes: the number of lanes B.
        ground: red, green and blue from 0 to 1, rows from the top: float32 ``[B, H, W]`` each, or ``[1, H, W]`` while
            all lanes are equal.
        x: float32 ``[1, 1, W]``, after `zoom` ``[B, 1, W]``, the world coordinates of the centres of the pixels.
        y: float32 ``[1, H, 1]``, after `zoom` ``[B, H, 1]``.
        scale: pixels per unit of the world; after `zoom` float32 ``[B, 1, 1]``.
        cells: kinds and painted cells of `tiles` on a known ground, which are looked up when the pixels are asked for.

    >>> from jaxenv.canvas import RED
    >>> canvas = Canvas.blank(4, 64).view((-1, 1), (-1, 1)).disc(jnp.arange(4.0) / 4, 0.0, 0.5, RED)
    >>> canvas.image().shape, canvas.image().dtype
    ((4, 64, 64, 3), dtype('uint8'))
    """

    lanes: int = tree.static()
    ground: tuple[Any, Any, Any]
    x: Any
    y: Any
    scale: Any
    cells: tuple[Any, ...] = ()

    # --- creation, view, image ---------------------------------------------------------------------------------------

    @classmethod
    def blank(cls, lanes: int, size: int | tuple[int, int], colour: Colour = PAPER) -> "Canvas":
        """Returns pictures of one colour; ``size`` is height and width in pixels, or one number for both."""
        height, width = size if isinstance(size, tuple | list) else (size, size)
        empty = (np.zeros((1, height, width), np.float32),) * 3
        x, y = np.zeros((1, 1, width), np.float32), np.zeros((1, height, 1), np.float32)
        return cls(lanes, empty, x, y, 1.0).fill(colour).view((0, width), (0, height))

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels."""
        return self.ground[0].shape[1:]

    @property
    def planes(self) -> tuple[Any, Any, Any]:
        """Red, green and blue from 0 to 1: float32 ``[B, H, W]`` each, or ``[1, H, W]`` while all lanes are equal."""
        planes = self.ground
        for kinds, sheet in self.cells:
            words = _shapes.computed_once(_shapes.lookup(kinds, sheet, *self.size, np.uint32(0)))
            *light, opacity = _shapes.unpacked(words)
            planes = tuple(p * (1 - opacity) + c for p, c in zip(planes, light, strict=True))
        return planes

    def fill(self, colour: Colour) -> "Canvas":
        """Paints the whole picture."""
        channels = _channels(colour)
        self._check_lanes(channels[0])
        planes = (_xp.library(c).broadcast_to(c, (len(c), *self.size)) for c in channels)
        return self._on(planes)

    def view(self, x: tuple[float, float], y: tuple[float, float], margin: float = 0.0) -> "Canvas":
        """Chooses the part of the world that fills the picture: its ends along x and y, in increasing order.

        The whole part is shown, with a border of ``margin`` times its longer side around it, and more of the world if
        the picture has another shape.
        """
        if not (x[0] < x[1] and y[0] < y[1]):
            raise ValueError(f"view: x and y must be ends in increasing order, got {x} and {y}")
        height, width = self.size
        border = 2 * margin * max(x[1] - x[0], y[1] - y[0])
        scale = min(width / (x[1] - x[0] + border), height / (y[1] - y[0] + border))
        across = (np.arange(width) + 0.5 - width / 2) / scale + (x[0] + x[1]) / 2
        down = (height / 2 - np.arange(height) - 0.5) / scale + (y[0] + y[1]) / 2
        across, down = across.astype(np.float32)[None, None], down.astype(np.float32)[None, :, None]
        return tree.rebuild(self, x=across, y=down, scale=float(scale))

    def view_cells(self, rows: int, columns: int) -> "Canvas":
        """Chooses a view in which each cell of `tiles` is a unit square, x from 0 to ``columns``, y up to ``rows``."""
        height, width = self.size
        side = _shapes.side("view_cells", height, width, rows, columns)
        left, top = (width - columns * side) // 2 / side, (height - rows * side) // 2 / side
        return self.view((-left, width / side - left), (rows + top - height / side, rows + top))

    def image(self) -> jax.Array:
        """Returns the pictures as uint8 ``[B, H, W, 3]``."""
        if self.cells and (mosaic := _shapes.mosaic(self.cells, self.ground)) is not None:
            words = _shapes.lookup(mosaic[0], _packed(mosaic[1]), *self.size, _packed(self.ground))
        else:
            words = _packed(self.planes)
        words = jnp.broadcast_to(words, (self.lanes, *self.size))
        return jax.lax.platform_dependent(words, cpu=_bytes_of_words, default=_bytes_in_one_kernel)

    def zoom(self, factor: Number) -> "Canvas":
        """Zooms out by ``factor``, one number or one per lane, around the origin; never in: factors below 1 count as 1.

        Text and numbers need a new `view` first.
        """
        factor = _xp.maximum(_number(factor), np.float32(1))
        return tree.rebuild(self, x=self.x * factor, y=self.y * factor, scale=self.scale / factor)

    # --- shapes ------------------------------------------------------------------------------------------------------

    def disc(self, x: Number, y: Number, radius: Number, colour: Colour, alpha: Number = 1.0) -> "Canvas":
        """Paints a filled circle."""
        x, y, radius = map(_number, (x, y, radius))
        return self._shape(_shapes.length(self.x - x, self.y - y) - radius, colour, alpha)

    def ring(
        self, x: Number, y: Number, radius: Number, width: Number, colour: Colour, alpha: Number = 1.0
    ) -> "Canvas":
        """Paints the outline of a circle."""
        x, y, radius, width = map(_number, (x, y, radius, width))
        distance = abs(_shapes.length(self.x - x, self.y - y) - radius) - width / 2
        return self._shape(distance, colour, alpha)

    def box(
        self,
        x: Number,
        y: Number,
        width: Number,
        height: Number,
        colour: Colour,
        angle: Number = 0.0,
        corner: Number = 0.0,
        alpha: Number = 1.0,
    ) -> "Canvas":
        """Paints a rectangle around ``(x, y)``, turned by ``angle``, with corners of radius ``corner``."""
        across, up = self._turned(x, y, angle)
        width, height, corner = map(_number, (width, height, corner))
        return self._shape(_shapes.box(across, up, width / 2, height / 2, corner), colour, alpha)

    def ellipse(
        self,
        x: Number,
        y: Number,
        width: Number,
        height: Number,
        colour: Colour,
        angle: Number = 0.0,
        alpha: Number = 1.0,
    ) -> "Canvas":
        """Paints a filled ellipse around ``(x, y)``, turned by ``angle``."""
        across, up = self._turned(x, y, angle)
        width, height = map(_number, (width, height))
        return self._shape(_shapes.ellipse(across, up, width / 2, height / 2), colour, alpha)

    def line(
        self, x: Number, y: Number, to_x: Number, to_y: Number, width: Number, colour: Colour, alpha: Number = 1.0
    ) -> "Canvas":
        """Paints a line with round ends from ``(x, y)`` to ``(to_x, to_y)``."""
        x, y, to_x, to_y, width = map(_number, (x, y, to_x, to_y, width))
        distance = _shapes.segment(self.x - x, self.y - y, to_x - x, to_y - y) - width / 2
        return self._shape(distance, colour, alpha)

    def path(
        self,
        points: Sequence[tuple[Number, Number]],
        width: Number,
        colour: Colour,
        closed: bool = False,
        alpha: Number = 1.0,
    ) -> "Canvas":
        """Paints a line with round ends and corners through points ``(x, y)``."""
        _check_points("path", points, 2)
        ends = [tuple(map(_number, point)) for point in points]
        pairs = list(zip(ends, ends[1:] + ends[:1] if closed else ends[1:], strict=False))
        lines = [_shapes.segment(self.x - a, self.y - b, c - a, d - b) for (a, b), (c, d) in pairs]
        distance = lines[0]
        for other in lines[1:]:
            distance = _xp.minimum(distance, other)
        return self._shape(distance - _number(width) / 2, colour, alpha)

    def arrow(
        self, x: Number, y: Number, to_x: Number, to_y: Number, width: Number, colour: Colour, alpha: Number = 1.0
    ) -> "Canvas":
        """Paints an arrow from ``(x, y)`` to ``(to_x, to_y)``; one shorter than five widths is thinner."""
        x, y, to_x, to_y, width = map(_number, (x, y, to_x, to_y, width))
        extent = _shapes.length(to_x - x, to_y - y)
        width = _xp.minimum(width, extent / 5)
        along_x, along_y = ((end - start) / _xp.maximum(extent, 1e-6) for start, end in ((x, to_x), (y, to_y)))
        distance = _shapes.arrow(self.x - x, self.y - y, along_x, along_y, extent, width)
        return self._shape(distance, colour, _number(alpha) * (extent > 0).astype(np.float32))

    def arc(
        self,
        x: Number,
        y: Number,
        radius: Number,
        start: Number,
        end: Number,
        width: Number,
        colour: Colour,
        arrow: bool = False,
        alpha: Number = 1.0,
    ) -> "Canvas":
        """Paints the arc around ``(x, y)`` between two angles; with ``arrow`` it has a head at ``end``."""
        x, y, radius, start, end, width = map(_number, (x, y, radius, start, end, width))
        across, up, middle, half = self.x - x, self.y - y, (start + end) / 2, abs(end - start) / 2
        if not arrow:
            distance = _shapes.arc(across, up, radius, middle, half) - width / 2
            return self._shape(distance, colour, alpha)
        width = _xp.minimum(width, radius * 2 * half / 5)
        distance = _shapes.arc_arrow(across, up, radius, middle, half, _xp.sign(end - start), width)
        return self._shape(distance, colour, _number(alpha) * (half > 0).astype(np.float32))

    def sector(
        self, x: Number, y: Number, radius: Number, start: Number, end: Number, colour: Colour, alpha: Number = 1.0
    ) -> "Canvas":
        """Paints the part of a disc between two angles."""
        x, y, radius, start, end = map(_number, (x, y, radius, start, end))
        distance = _shapes.sector(self.x - x, self.y - y, radius, (start + end) / 2, abs(end - start) / 2)
        return self._shape(distance, colour, alpha)

    def polygon(
        self, points: Sequence[tuple[Number, Number]], colour: Colour, corner: Number = 0.0, alpha: Number = 1.0
    ) -> "Canvas":
        """Paints a filled polygon; ``corner`` widens it by a round border."""
        _check_points("polygon", points, 3)
        corners = [(_number(a), _number(b)) for a, b in points]
        return self._shape(_shapes.polygon(self.x, self.y, corners) - _number(corner), colour, alpha)

    def below(self, height: Callable[[jax.Array], jax.Array], colour: Colour, alpha: Number = 1.0) -> "Canvas":
        """Paints the area under a curve; ``height`` maps x ``[1, 1, W]`` to y ``[1, 1, W]`` or ``[B, 1, W]``."""
        step = 0.5 / self.scale
        with jax.ensure_compile_time_eval():  # a curve that is equal in all lanes stays known
            curve = (height(x) for x in (self.x - step, self.x, self.x + step))
            before, at, after = (y if isinstance(y, jax.core.Tracer) else np.asarray(y) for y in curve)
        return self._shape((self.y - at) / _shapes.length(1, (after - before) * self.scale), colour, alpha)

    def gauge(
        self, fraction: Number, x: float, y: float, width: float, height: float, colour: Colour, ground: Colour
    ) -> "Canvas":
        """Paints a bar with its lower left corner at ``(x, y)`` and fills ``fraction`` of it."""
        fraction = _number(fraction).clip(0, 1)
        canvas = self.box(x + width / 2, y + height / 2, width, height, ground, corner=height / 2)
        filled = height + (width - height) * fraction
        return canvas.box(x + filled / 2, y + height / 2, filled, height, colour, corner=height / 2)

    # --- cells -------------------------------------------------------------------------------------------------------

    def tiles(
        self, kinds: jax.Array | np.ndarray, painters: Sequence[Callable[["Canvas"], "Canvas"] | None]
    ) -> "Canvas":
        """Paints a grid of square cells, as large as fits, in the middle of the picture, whatever the ``view``.

        ``kinds``, int32 ``[B, R, C]`` or, for all lanes, ``[1, R, C]``, are the indices of the painters of the cells,
        rows from the top, at most as many as the picture has pixels. ``painters`` paint a cell, given a canvas whose
        view is the unit square: x and y from 0 to 1. Pixels that they leave free keep their colour. ``None`` paints
        nothing.
        """
        if np.ndim(kinds) != 3:
            raise ValueError(f"tiles: kinds must be [B, R, C], got shape {np.shape(kinds)}")
        self._check_lanes(kinds)
        Range(low=0, high=len(painters) - 1).check("tiles", "kinds", kinds, np.ndim(kinds))
        side = _shapes.side("tiles", *self.size, *kinds.shape[1:])
        grounds = (Canvas.blank(1, side, np.full(3, light, np.float32)).view((0, 1), (0, 1)) for light in (0, 1))
        painted = tree.rebuild(self, cells=(*self.cells, (kinds, _shapes.sheet(painters, *grounds))))
        later = self.cells or isinstance(kinds, jax.Array)
        return painted if later and _shapes.is_ground(self.ground) else self._on(painted.planes)

    def picture(self, pixels: jax.Array) -> "Canvas":
        """Paints an image of large square pixels in the middle: uint8 ``[B, R, C, 3]``, or grey ones ``[B, R, C]``.

        It has at most as many rows and columns as the picture.
        """
        if not (np.ndim(pixels) == 3 or (np.ndim(pixels) == 4 and pixels.shape[-1] == 3)) or pixels.dtype != np.uint8:
            got = f"{getattr(pixels, 'dtype', type(pixels).__name__)}{list(np.shape(pixels))}"
            raise ValueError(f"picture: pixels must be uint8 [B, R, C, 3] or [B, R, C], got {got}")
        self._check_lanes(pixels)
        side = _shapes.side("picture", *self.size, *pixels.shape[1:3])
        shown, inside = _shapes.enlarged(pixels, side, *self.size)
        shown = shown.astype(np.float32) / np.float32(255)
        colours = [shown] * 3 if shown.ndim == 3 else [shown[..., i] for i in range(3)]
        planes = tuple(_xp.where(inside, c, p) for c, p in zip(colours, self.planes, strict=True))
        return self._on(planes)

    # --- text --------------------------------------------------------------------------------------------------------

    def text(
        self, text: str, x: float, y: float, height: float, colour: Colour, align: float = 0.0, alpha: Number = 1.0
    ) -> "Canvas":
        """Writes a line of text whose letters are ``height`` high and stand on y.

        It may have letters, digits, blanks and ``.,:;+-=/%()!?``; lower case is shown as upper case. The fraction
        ``align`` of its length lies left of x: with 0 it starts there, with 0.5 x is its middle, with 1 its end.
        """
        covered = _font.coverage(text, (self.x - np.float32(x)), (self.y - np.float32(y)), height, self.scale, align)
        return self._cover(covered[None], colour, alpha)

    def number(
        self,
        value: jax.Array,
        x: float,
        y: float,
        height: float,
        colour: Colour,
        digits: int = 3,
        align: float = 0.0,
        alpha: Number = 1.0,
    ) -> "Canvas":
        """Writes the last ``digits`` digits of an integer, int32 ``[B]`` at least 0, without leading zeros.

        ``align`` refers to the visible digits, as in `text`.
        """
        value = jnp.asarray(value, jnp.int32)
        across, up = self.x - np.float32(x), self.y - np.float32(y)
        covered = _font.number(value, digits, across, up, height, self.scale, align)
        return self._cover(_shapes.computed_once(covered), colour, alpha)

    # --- lanes -------------------------------------------------------------------------------------------------------

    def where(self, mask: jax.Array, other: "Canvas") -> "Canvas":
        """Returns this canvas in the lanes of ``mask``, bool ``[B]``, and ``other`` in the rest."""
        planes = tuple(jnp.where(mask[:, None, None], p, q) for p, q in zip(self.planes, other.planes, strict=True))
        return self._on(planes)

    # --- painting ----------------------------------------------------------------------------------------------------

    def _turned(self, x: Number, y: Number, angle: Number) -> tuple[Any, Any]:
        """Returns the coordinates of the pixels relative to ``(x, y)``, rotated by ``angle``."""
        across, up = self.x - _number(x), self.y - _number(y)
        if isinstance(angle, int | float) and angle == 0:
            return across, up
        angle = _number(angle)
        cos, sin = _xp.cos(angle), _xp.sin(angle)
        return across * cos + up * sin, up * cos - across * sin

    def _shape(self, distance: Any, colour: Colour, alpha: Number) -> "Canvas":
        """Paints where the signed distance to a shape, in units of the world, is negative."""
        return self._cover((0.5 - distance * self.scale).clip(0, 1), colour, alpha)

    def _on(self, planes: Iterable[Any]) -> "Canvas":
        """Returns a canvas with these planes as the ground."""
        return tree.rebuild(self, ground=tuple(planes), cells=())

    def _check_lanes(self, *arrays: Any) -> None:
        """Raises a ``ValueError`` unless each array leads with the lanes, or with 1 for all lanes."""
        for array in arrays:
            if len(array) not in (1, self.lanes):
                rule = f"numbers that differ between lanes must be [{self.lanes}]"
                raise ValueError(f"canvas: {rule}, got [{len(array)}]")

    def _cover(self, covered: Any, colour: Colour, alpha: Number) -> "Canvas":
        """Mixes a colour into the fraction of each pixel that is ``covered``, float32 ``[B, H, W]``."""
        opacity, channels = covered * _number(alpha), _channels(colour)
        self._check_lanes(opacity, channels[0])
        planes = tuple(p * (1 - opacity) + opacity * c for p, c in zip(self.planes, channels, strict=True))
        return self._on(planes)


def _check_points(owner: str, points: Any, least: int) -> None:
    if len(points) < least:
        raise ValueError(f"{owner}: points must be at least {least}, got {len(points)}")


def check_size(owner: str, size: Any) -> tuple[int, int]:
    """Returns height and width in pixels; raises a ``ValueError`` unless given one or two integers in 8 .. 4096."""
    both = tuple(size) if isinstance(size, tuple | list) else (size, size)
    if len(both) != 2 or not all(isinstance(n, int | np.integer) and 8 <= n <= 4096 for n in both):
        raise ValueError(f"{owner}: size must be one or two numbers of pixels in 8 .. 4096, got {size!r}")
    return int(both[0]), int(both[1])


def _packed(planes: Iterable[Any]) -> Any:
    """Returns words with the bytes red, green, blue and 0, uint32."""
    # Adding 2**23 rounds to whole numbers, ties to even, and leaves them in the lowest bits: XLA:CPU converts slowly.
    levels = ((p * np.float32(255)).clip(0, 255) + np.float32(2**23) for p in planes)
    red, green, blue = (level.view(np.uint32) for level in levels)
    return red & np.uint32(255) | green << np.uint32(8) | blue << np.uint32(16)


def _bytes_of_words(words: jax.Array) -> jax.Array:
    """Returns the lower three bytes of words, from ``[B, H, W]`` to ``[B, H, W, 3]``; words are computed first.

    XLA:CPU would recompute a pixel for each of its bytes.
    """
    return jax.lax.bitcast_convert_type(_shapes.computed_once(words), jnp.uint8)[..., :3]


def _bytes_in_one_kernel(words: jax.Array) -> jax.Array:
    """Acts as `_bytes_of_words`, but no other array is written if XLA fuses the words.

    Each 32-bit number of the result has bytes of two neighbours among four pixels, which are three numbers.
    """
    lanes, height, width = words.shape
    flat = words.reshape(lanes, height * width)
    quads = jnp.pad(flat, ((0, 0), (0, -flat.shape[1] % 4))).reshape(lanes, -1, 4)
    shift = np.array([[[0, 8, 16]]], np.uint32)
    numbers = quads[..., :3] >> shift | quads[..., 1:] << (np.uint32(24) - shift)
    pixels = jax.lax.bitcast_convert_type(numbers, jnp.uint8).reshape(lanes, -1)
    return pixels[:, : 3 * height * width].reshape(lanes, height, width, 3)


def _number(value: Number) -> Any:
    """Returns a number as float32 ``[1, 1, 1]``, or one per lane as ``[B, 1, 1]``."""
    if np.ndim(value) > 1 and np.shape(value)[1:] != (1, 1):
        rule = "a position, length, angle or alpha must be one number or one per lane [B]"
        raise ValueError(f"canvas: {rule}, got shape {np.shape(value)}")
    known = np.size(value) == 1 and not isinstance(value, jax.core.Tracer)
    return (np if known else _xp.library(value)).asarray(value, np.float32).reshape(-1, 1, 1)


def _channels(value: Colour) -> tuple[Any, Any, Any]:
    """Returns red, green and blue, ``[1, 1, 1]`` or ``[B, 1, 1]`` each."""
    if isinstance(value, str) or np.shape(value)[-1:] != (3,) or np.ndim(value) > 2:
        given = repr(value) if isinstance(value, str) else f"shape {np.shape(value)}"
        rule = "a colour must be [3] or one per lane [B, 3], from 0 to 1, such as jaxenv.canvas.RED"
        raise ValueError(f"canvas: {rule}, got {given}")
    value = value if isinstance(value, jax.Array) else np.asarray(value, np.float32)
    red, green, blue = (_number(value[..., i]) for i in range(3))
    return red, green, blue


def turn(x: Number, y: Number, angle: Number) -> tuple[Any, Any]:
    """Rotates the point ``(x, y)`` around the origin."""
    cos, sin = (
        (math.cos(angle), math.sin(angle)) if isinstance(angle, int | float) else (jnp.cos(angle), jnp.sin(angle))
    )
    return x * cos - y * sin, x * sin + y * cos
