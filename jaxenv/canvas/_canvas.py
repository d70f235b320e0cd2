"""The canvas: a batch of pictures, and the shapes that are painted on it."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.canvas import _font, _shapes, _tiles
from jaxenv.canvas._palette import PAPER

# A number that is equal in all lanes, or one per lane, float32 [B].
Number = Any
# A colour that is equal in all lanes, [3], or one per lane, [B, 3].
Colour = Any


@tree.struct
class Canvas:
    """A batch of pictures. Each method paints one shape in every lane and returns the new canvas.

    Coordinates are those of the world that ``view`` has chosen: x to the right, y up, with equal units. Positions,
    lengths (in units of the world) and angles (radians, counterclockwise) are numbers or arrays ``[B]``. Edges are
    smooth: a pixel that is covered in part mixes both colours.

    Attributes:
        pixels: float32 ``[B, H, W, 3]``, red, green and blue from 0 to 1, rows from the top.
        x: float32 ``[1, 1, W]``, after `zoom` ``[B, 1, W]``, the world coordinates of the centres of the pixels.
        y: float32 ``[1, H, 1]``, after `zoom` ``[B, H, 1]``.
        scale: pixels per unit of the world; after `zoom` float32 ``[B, 1, 1]``.

    >>> from jaxenv.canvas import RED
    >>> canvas = Canvas.blank(4, 64).view((-1, 1), (-1, 1)).disc(jnp.arange(4.0) / 4, 0.0, 0.5, RED)
    >>> canvas.image().shape, canvas.image().dtype
    ((4, 64, 64, 3), dtype('uint8'))
    """

    pixels: jax.Array
    x: Any
    y: Any
    scale: Any

    # --- from nothing to an image ------------------------------------------------------------------------------------

    @classmethod
    def blank(cls, lanes: int, size: int | tuple[int, int], colour: Colour = PAPER) -> "Canvas":
        """Pictures of one colour.

        Args:
            lanes: the number of lanes B.
            size: height and width in pixels, or one number for both.
            colour: the colour of the ground.
        """
        height, width = (size, size) if isinstance(size, int) else size
        pixels = jnp.broadcast_to(_colour(colour), (lanes, height, width, 3))
        return cls(pixels, np.zeros((1, 1, width), np.float32), np.zeros((1, height, 1), np.float32), 1.0).view(
            (0, width), (0, height)
        )

    def fill(self, colour: Colour) -> "Canvas":
        """Paints the whole picture."""
        return tree.rebuild(self, pixels=jnp.broadcast_to(_colour(colour), self.pixels.shape))

    def view(self, x: tuple[float, float], y: tuple[float, float], margin: float = 0.0) -> "Canvas":
        """Chooses the part of the world that fills the picture.

        The whole part is shown. Where its shape differs from that of the picture, the world around it is shown too.

        Args:
            x: the left and the right end.
            y: the lower and the upper end.
            margin: the width of a border around this part, as a fraction of its longer side.
        """
        height, width = self.pixels.shape[1:3]
        border = 2 * margin * max(x[1] - x[0], y[1] - y[0])
        scale = min(width / (x[1] - x[0] + border), height / (y[1] - y[0] + border))
        across = (np.arange(width) + 0.5 - width / 2) / scale + (x[0] + x[1]) / 2
        down = (height / 2 - np.arange(height) - 0.5) / scale + (y[0] + y[1]) / 2
        across, down = across.astype(np.float32)[None, None], down.astype(np.float32)[None, :, None]
        return tree.rebuild(self, x=across, y=down, scale=float(scale))

    def view_cells(self, rows: int, columns: int) -> "Canvas":
        """Chooses a view in which each cell of `tiles` is a unit square, x from 0 to ``columns``, y up to ``rows``."""
        height, width = self.pixels.shape[1:3]
        side = _tiles.side(height, width, rows, columns)
        left, top = (width - columns * side) // 2 / side, (height - rows * side) // 2 / side
        return self.view((-left, width / side - left), (rows + top - height / side, rows + top))

    def image(self) -> jax.Array:
        """The pictures as uint8 ``[B, H, W, 3]``."""
        return jnp.round(jnp.clip(self.pixels, 0, 1) * np.float32(255)).astype(jnp.uint8)

    def zoom(self, factor: Number) -> "Canvas":
        """Shows ``factor`` times as much of the world around the origin, where a length may differ between lanes.

        Text and numbers need a new `view` first.
        """
        factor = _number(factor)
        return tree.rebuild(self, x=self.x * factor, y=self.y * factor, scale=self.scale / factor)

    # --- shapes ------------------------------------------------------------------------------------------------------

    def disc(self, x: Number, y: Number, radius: Number, colour: Colour, alpha: Number = 1.0) -> "Canvas":
        """A filled circle."""
        x, y, radius = map(_number, (x, y, radius))
        return self._shape(_shapes.length(self.x - x, self.y - y) - radius, colour, alpha)

    def ring(
        self, x: Number, y: Number, radius: Number, width: Number, colour: Colour, alpha: Number = 1.0
    ) -> "Canvas":
        """A circle of a line with a width."""
        x, y, radius, width = map(_number, (x, y, radius, width))
        distance = jnp.abs(_shapes.length(self.x - x, self.y - y) - radius) - width / 2
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
        """A rectangle around ``(x, y)``, turned by ``angle``, with corners of radius ``corner``."""
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
        """A filled ellipse around ``(x, y)``, turned by ``angle``."""
        across, up = self._turned(x, y, angle)
        width, height = map(_number, (width, height))
        return self._shape(_shapes.ellipse(across, up, width / 2, height / 2), colour, alpha)

    def line(
        self,
        x: Number,
        y: Number,
        to_x: Number,
        to_y: Number,
        width: Number,
        colour: Colour,
        alpha: Number = 1.0,
    ) -> "Canvas":
        """A line with round ends from ``(x, y)`` to ``(to_x, to_y)``."""
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
        """A line with round ends and corners through points ``(x, y)``."""
        ends = [tuple(map(_number, point)) for point in points]
        pairs = list(zip(ends, ends[1:] + ends[:1] if closed else ends[1:], strict=False))
        lines = [_shapes.segment(self.x - a, self.y - b, c - a, d - b) for (a, b), (c, d) in pairs]
        distance = lines[0]
        for other in lines[1:]:
            distance = jnp.minimum(distance, other)
        return self._shape(distance - _number(width) / 2, colour, alpha)

    def arrow(
        self, x: Number, y: Number, to_x: Number, to_y: Number, width: Number, colour: Colour, alpha: Number = 1.0
    ) -> "Canvas":
        """An arrow from ``(x, y)`` to ``(to_x, to_y)``; one shorter than five widths is thinner, down to nothing."""
        x, y, to_x, to_y, width = map(_number, (x, y, to_x, to_y, width))
        extent = _shapes.length(to_x - x, to_y - y)
        width = jnp.minimum(width, extent / 5)
        along_x, along_y = ((end - start) / jnp.maximum(extent, 1e-6) for start, end in ((x, to_x), (y, to_y)))
        distance = _shapes.arrow(self.x - x, self.y - y, along_x, along_y, extent, width)
        return self._shape(distance, colour, _number(alpha) * (extent > 0).astype(jnp.float32))

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
        """The arc around ``(x, y)`` between two angles; with ``arrow`` it has a head at ``end``, as `arrow` has."""
        x, y, radius, start, end, width = map(_number, (x, y, radius, start, end, width))
        across, up, middle, half = self.x - x, self.y - y, (start + end) / 2, jnp.abs(end - start) / 2
        if not arrow:
            distance = _shapes.arc(across, up, radius, middle, half) - width / 2
            return self._shape(distance, colour, alpha)
        width = jnp.minimum(width, radius * 2 * half / 5)
        distance = _shapes.arc_arrow(across, up, radius, middle, half, jnp.sign(end - start), width)
        return self._shape(distance, colour, _number(alpha) * (half > 0).astype(jnp.float32))

    def sector(
        self, x: Number, y: Number, radius: Number, start: Number, end: Number, colour: Colour, alpha: Number = 1.0
    ) -> "Canvas":
        """The part of a disc between two angles."""
        x, y, radius, start, end = map(_number, (x, y, radius, start, end))
        distance = _shapes.sector(self.x - x, self.y - y, radius, (start + end) / 2, jnp.abs(end - start) / 2)
        return self._shape(distance, colour, alpha)

    def polygon(
        self, points: Sequence[tuple[Number, Number]], colour: Colour, corner: Number = 0.0, alpha: Number = 1.0
    ) -> "Canvas":
        """A filled polygon; ``corner`` widens it by a round border."""
        corners = [(_number(a), _number(b)) for a, b in points]
        return self._shape(_shapes.polygon(self.x, self.y, corners) - _number(corner), colour, alpha)

    def below(self, height: Callable[[jax.Array], jax.Array], colour: Colour, alpha: Number = 1.0) -> "Canvas":
        """The area under a curve; ``height`` maps x ``[1, 1, W]`` to y ``[1, 1, W]`` or ``[B, 1, W]``."""
        y = height(jnp.asarray(self.x))
        step = 0.5 / self.scale
        slope = (height(self.x + step) - height(self.x - step)) * self.scale
        return self._shape((self.y - y) / jnp.sqrt(1 + slope * slope), colour, alpha)

    def gauge(
        self, fraction: Number, x: float, y: float, width: float, height: float, colour: Colour, ground: Colour
    ) -> "Canvas":
        """A bar with its left lower corner at ``(x, y)``, of which ``fraction`` is filled."""
        fraction = jnp.clip(_number(fraction), 0, 1)
        canvas = self.box(x + width / 2, y + height / 2, width, height, ground, corner=height / 2)
        filled = height + (width - height) * fraction
        return canvas.box(x + filled / 2, y + height / 2, filled, height, colour, corner=height / 2)

    # --- cells -------------------------------------------------------------------------------------------------------

    def tiles(
        self, kinds: jax.Array | np.ndarray, painters: Sequence[Callable[["Canvas"], "Canvas"] | None]
    ) -> "Canvas":
        """A grid of square cells, as large as fits, in the middle of the picture. It does not depend on ``view``.

        Args:
            kinds: int32 ``[B, R, C]`` or, for all lanes, ``[1, R, C]``: the index of the painter of each cell, rows
                from the top.
            painters: functions that paint a cell, given a canvas whose view is the unit square: x and y from 0 to 1.
                What they leave free shows what was painted before. ``None`` paints nothing.
        """
        rows, columns = kinds.shape[1:]
        height, width = self.pixels.shape[1:3]
        side = _tiles.side(height, width, rows, columns)
        row, down = _tiles.cells(height, rows, side)
        column, across = _tiles.cells(width, columns, side)
        lights, shares = _sheet(painters, side)
        # One gather from [K * side * side] for each pixel.
        within = (down[:, None] * side + across[None]).astype(np.int32)
        kind = kinds[:, np.maximum(row, 0)][:, :, np.maximum(column, 0)]
        inside = jnp.asarray((row[:, None] >= 0) & (column[None] >= 0))
        index = kind * np.int32(side * side) + within[None]
        covered = jnp.where(inside[None], jnp.asarray(shares)[index], np.float32(0))
        light = jnp.where(inside[None, ..., None], jnp.asarray(lights)[index], np.float32(0))
        return tree.rebuild(self, pixels=self.pixels * (1 - covered[..., None]) + light)

    def picture(self, pixels: jax.Array) -> "Canvas":
        """An image of large square pixels, in the middle: uint8 ``[B, R, C, 3]``, or grey ones ``[B, R, C]``."""
        rows, columns = pixels.shape[1:3]
        height, width = self.pixels.shape[1:3]
        side = _tiles.side(height, width, rows, columns)
        row, column = _tiles.cells(height, rows, side)[0], _tiles.cells(width, columns, side)[0]
        colours = pixels.astype(jnp.float32) / np.float32(255)
        colours = jnp.broadcast_to(colours[..., None], (*colours.shape, 3)) if colours.ndim == 3 else colours
        shown = colours[:, np.maximum(row, 0)][:, :, np.maximum(column, 0)]
        inside = jnp.asarray((row[:, None] >= 0) & (column[None] >= 0))
        return tree.rebuild(self, pixels=jnp.where(inside[None, ..., None], shown, self.pixels))

    # --- text --------------------------------------------------------------------------------------------------------

    def text(
        self, text: str, x: float, y: float, height: float, colour: Colour, align: float = 0.0, alpha: Number = 1.0
    ) -> "Canvas":
        """A line of text whose letters are ``height`` high and stand on y.

        Args:
            text: letters, digits, blanks and ``.,:;+-=/%()!?``; lower case is shown as upper case.
            x: where it begins; with ``align=0.5`` its middle, with ``align=1`` its end.
            y: its base line.
            height: the height of a letter.
            colour: its colour.
            align: the fraction of its length that lies left of x.
            alpha: its opacity.
        """
        covered = _font.coverage(text, (self.x - np.float32(x)), (self.y - np.float32(y)), height, self.scale, align)
        return self._cover(jnp.asarray(covered)[None], colour, alpha)

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
        """An integer, int32 ``[B]`` at least 0: its last ``digits`` digits, without leading zeros."""
        advance = height * _font.ADVANCE
        start = x - align * (digits * advance - height * _font.GAP)
        value, canvas = jnp.asarray(value, jnp.int32), self
        for place in range(digits):
            power = 10 ** (digits - 1 - place)
            glyphs = [
                _font.coverage(
                    d, self.x - np.float32(start + place * advance), self.y - np.float32(y), height, self.scale
                )
                for d in "0123456789"
            ]
            shown = jnp.asarray(np.stack(glyphs))[value // np.int32(power) % 10]
            visible = (value >= np.int32(power)) | (power == 1)
            canvas = canvas._cover(shown * visible[:, None, None].astype(jnp.float32), colour, alpha)
        return canvas

    # --- lanes -------------------------------------------------------------------------------------------------------

    def where(self, mask: jax.Array, other: "Canvas") -> "Canvas":
        """This canvas in the lanes of ``mask``, bool ``[B]``, and ``other`` in the rest."""
        return tree.rebuild(self, pixels=jnp.where(mask[:, None, None, None], self.pixels, other.pixels))

    # --- painting ----------------------------------------------------------------------------------------------------

    def _turned(self, x: Number, y: Number, angle: Number) -> tuple[jax.Array, jax.Array]:
        """The coordinates of the pixels seen from ``(x, y)`` and turned by ``angle``."""
        across, up = self.x - _number(x), self.y - _number(y)
        if isinstance(angle, int | float) and angle == 0:
            return across, up
        cos, sin = jnp.cos(_number(angle)), jnp.sin(_number(angle))
        return across * cos + up * sin, up * cos - across * sin

    def _shape(self, distance: jax.Array, colour: Colour, alpha: Number) -> "Canvas":
        """Paints where the signed distance to a shape, in units of the world, is negative."""
        return self._cover(jnp.clip(0.5 - distance * self.scale, 0, 1), colour, alpha)

    def _cover(self, covered: jax.Array, colour: Colour, alpha: Number) -> "Canvas":
        """Mixes a colour into the fraction of each pixel that is ``covered``, float32 ``[B, H, W]``."""
        share = (covered * _number(alpha))[..., None]
        return tree.rebuild(self, pixels=self.pixels + share * (_colour(colour) - self.pixels))


def check_size(owner: str, size: Any) -> tuple[int, int]:
    """Height and width in pixels; raises a ``ValueError`` for anything but one or two integers in 8 .. 4096."""
    both = tuple(size) if isinstance(size, tuple | list) else (size, size)
    if len(both) != 2 or not all(isinstance(n, int | np.integer) and 8 <= n <= 4096 for n in both):
        raise ValueError(f"{owner}: size must be one or two numbers of pixels in 8 .. 4096, got {size!r}")
    return int(both[0]), int(both[1])


def _number(value: Number) -> jax.Array:
    """A number for all lanes or one per lane, float32 ``[1, 1, 1]`` or ``[B, 1, 1]``."""
    return jnp.asarray(value, jnp.float32).reshape(-1, 1, 1)


def _colour(value: Colour) -> jax.Array:
    return jnp.asarray(value, jnp.float32).reshape(-1, 1, 1, 3)


def _sheet(painters: Sequence[Callable | None], side: int) -> tuple[np.ndarray, np.ndarray]:
    """All cells, drawn once: their light float32 ``[K * side * side, 3]``, and how much they cover."""
    with jax.ensure_compile_time_eval():
        sheets = []
        for ground in (0.0, 1.0):
            blank = Canvas.blank(1, side, np.full(3, ground, np.float32)).view((0, 1), (0, 1))
            sheets.append([(blank if paint is None else paint(blank)).pixels[0] for paint in painters])
        black, white = (np.asarray(jnp.stack(sheet)).reshape(-1, 3) for sheet in sheets)
    # On black only its own light is seen, on white also what shines through.
    return black, np.clip(1 - (white - black).mean(axis=-1), 0, 1)


def turn(x: Number, y: Number, angle: Number) -> tuple[Any, Any]:
    """The point ``(x, y)`` turned around the origin."""
    cos, sin = (
        (math.cos(angle), math.sin(angle)) if isinstance(angle, int | float) else (jnp.cos(angle), jnp.sin(angle))
    )
    return x * cos - y * sin, x * sin + y * cos
