"""Levels of BipedalWalker: the ground as its generator draws it, edits for curricula, and the rules of both."""

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv.core import Range
from jaxenv.envs.box2d import bipedal_obstacles, bipedal_terrain
from jaxenv.envs.box2d.bipedal_obstacles import GRASS, PIT, STAIRS, length
from jaxenv.envs.box2d.bipedal_terrain import FLAT, PAD, POINTS

PUSH = 5.0  # largest force at the start, in N
ROUGHEST = 10.0  # largest bump
SMALLEST = np.array([0, 1, 1, 3], np.int32)  # sizes of obstacles, by their kind
LARGEST = np.array([0, 5, 4, 10], np.int32)

GAP = FLAT[0]  # points of grass between obstacles, at least

_INDEX = np.arange(POINTS, dtype=np.int32)[None]
_STRETCH = 20  # points whose bumps an edit redraws
_NEW_ROUGHNESS = 3.0  # most of an edit
_BUMPS, _RESIZE, _PLACE, _REMOVE = range(4)  # edits
_NAMES = ("", "stump", "stairs", "pit")


@tree.struct
class WalkerLevel:
    """The ground at 200 points, 0.467 m apart, and the push at the start; the first 20 points are flat.

    Attributes:
        bumps: float32 ``[B, 200]``, changes of the slope before a point, in [-10, 10]. Gymnasium's are in [-1, 1].
        force: float32 ``[B]``, the push along x in the first step, in N, in [-5, 5].
        flat: bool ``[B, 200]``, without ``hardcore``: whether the edge before a point is flat.
        obstacles: int8 ``[B, 200]``, with ``hardcore``: what begins at a point, 0 nothing, 1 a stump, 2 stairs, 3 a
            pit. None begins before point 20, or within 5 points of the end of another one.
        sizes: int8 ``[B, 200]``, with ``hardcore``: the size of what begins at a point. Stumps are 1 to 5 points wide
            and as high. Stairs have 1 to 4 steps of 4 points each, which lead down if the number is negative. Pits of 3
            to 10 have a gap that is one point narrower, and end after 2 points more. Gymnasium has stumps of 1 and 2,
            stairs of 3 and 4, and pits of 3 and 4.
    """

    bumps: jax.Array
    force: jax.Array
    flat: jax.Array | None = None
    obstacles: jax.Array | None = None
    sizes: jax.Array | None = None


def sample(stream: random.Stream, hardcore: bool) -> WalkerLevel:
    """Draws levels as Gymnasium does."""
    ground = random.fold_in(stream, "ground")
    force = random.uniform(random.fold_in(stream, "force"), (), -PUSH, PUSH)
    if hardcore:
        bumps, obstacles, sizes = bipedal_obstacles.draw(ground)
        return WalkerLevel(bumps, force, obstacles=obstacles, sizes=sizes)
    bumps, flat = bipedal_terrain.draw(ground)
    return WalkerLevel(bumps, force, flat=flat)


def ground(level: WalkerLevel) -> tuple[jax.Array, jax.Array | None]:
    """Returns heights ``[B, 200]`` and with ``hardcore`` blocks ``[B, 4, 38]``, in metres."""
    if level.obstacles is None:
        assert level.flat is not None
        return bipedal_terrain.heights(level.bumps, level.flat), None
    assert level.sizes is not None
    return bipedal_obstacles.ground(level.bumps, level.obstacles, level.sizes)


def mutated(level: WalkerLevel, stream: random.Stream) -> WalkerLevel:
    """Edits each level once at random; `BipedalWalker.mutate_level` says how."""

    def drawn(name: str, low: Any, high: Any) -> jax.Array:
        return random.integers(random.fold_in(stream, name), (), low, high)

    def one_of(points: jax.Array, name: str) -> jax.Array:
        """Chooses one of the ``points``, bool ``[B, 200]``, if there is any."""
        number = jnp.cumsum(points, axis=1, dtype=jnp.int32)
        return points & (number == 1 + drawn(name, 0, jnp.maximum(number[:, -1], 1))[:, None])

    at = drawn("at", PAD, POINTS)[:, None]
    roughness = random.uniform(random.fold_in(stream, "roughness"), (1,), 0.0, _NEW_ROUGHNESS)
    bumps = roughness * random.uniform(random.fold_in(stream, "bumps"), (POINTS,), -1.0, 1.0)
    edit = (jnp.zeros_like(at[:, 0]) if level.obstacles is None else drawn("edit", 0, 4))[:, None]
    along = _INDEX - at
    stretch = (edit == _BUMPS) & (along >= 0) & (along < _STRETCH)
    level = tree.rebuild(level, bumps=jnp.where(stretch, bumps, level.bumps))
    if level.obstacles is None:
        return level

    assert level.sizes is not None
    kinds, sizes = level.obstacles.astype(jnp.int32), level.sizes.astype(jnp.int32)
    exists = kinds > GRASS
    removed = (edit == _REMOVE) & one_of(exists, "removed")
    resized = (edit == _RESIZE) & one_of(exists, "resized")
    change = 2 * drawn("change", 0, 2)[:, None] - 1
    kind = drawn("kind", 1, len(SMALLEST))
    size = drawn("size", jnp.asarray(SMALLEST)[kind], jnp.asarray(LARGEST)[kind] + 1)[:, None]
    kind = kind[:, None]
    following = jnp.minimum.accumulate(jnp.where(exists, _INDEX, np.int32(2 * POINTS))[:, ::-1], axis=1)[:, ::-1]
    has_room = (_free_from(jnp, kinds, sizes) <= _INDEX) & (_INDEX + length(kind, size) + np.int32(GAP) <= following)
    placed = (edit == _PLACE) & one_of(has_room, "placed")
    size = jnp.where((kind == STAIRS) & (drawn("down", 0, 2)[:, None] == 1), -size, size)

    kinds = jnp.where(placed, kind, jnp.where(removed, np.int32(GRASS), kinds))
    sizes = jnp.where(placed, size, jnp.where(removed, np.int32(0), sizes + jnp.where(resized, change, 0)))
    legal = jnp.all(_legal(jnp, kinds, sizes), axis=1)[:, None]
    obstacles = jnp.where(legal, kinds.astype(jnp.int8), level.obstacles)
    return tree.rebuild(level, obstacles=obstacles, sizes=jnp.where(legal, sizes.astype(jnp.int8), level.sizes))


def check(owner: str, level: WalkerLevel) -> None:
    """Raises a ``ValueError`` for levels that break the rules of `WalkerLevel`; it names the first lane and point."""
    Range(-ROUGHEST, ROUGHEST).check(owner, "level.bumps", np.asarray(level.bumps), rank=1)
    Range(-PUSH, PUSH).check(owner, "level.force", np.asarray(level.force))
    if level.obstacles is None:
        return
    kinds, sizes = (np.asarray(x).astype(np.int32) for x in (level.obstacles, level.sizes))
    if (wrong := np.argwhere(~_legal(np, kinds, sizes))).size:
        lane, point = wrong[0]
        got = f"got obstacle {kinds[lane, point]} of size {sizes[lane, point]} at point {point} in lane {lane}"
        ranges = ", ".join(f"{k} ({_NAMES[k]}) of size {SMALLEST[k]} to {LARGEST[k]}" for k in range(1, 4))
        where = f"from point {PAD} on and {GAP} points after the end of the one before"
        raise ValueError(f"{owner}: level.obstacles must be 0, {ranges}, {where}; stairs may be negative; {got}")


def _legal(library: ModuleType, kinds: Any, sizes: Any) -> Any:
    """Returns at which points the obstacle is one that may begin there, bool ``[B, 200]``; for NumPy or for JAX."""
    known = (kinds >= GRASS) & (kinds <= PIT)
    kinds = library.where(known, kinds, np.int32(GRASS))
    size = library.where(kinds == STAIRS, library.abs(sizes), sizes)
    fits = (size >= library.asarray(SMALLEST)[kinds]) & (size <= library.asarray(LARGEST)[kinds])
    return known & ((kinds == GRASS) | (fits & (_free_from(library, kinds, size) <= _INDEX)))


def _free_from(library: ModuleType, kinds: Any, sizes: Any) -> Any:
    """Returns the first point at which an obstacle may begin after those to the left of a point, int32 ``[B, 200]``."""
    end = _INDEX + length(kinds, library.abs(sizes))
    free = library.where(kinds > GRASS, end + np.int32(GAP), np.int32(PAD))
    free = library.maximum.accumulate(free, axis=1)
    return library.concatenate([library.full_like(kinds[:, :1], PAD), free[:, :-1]], axis=1)
