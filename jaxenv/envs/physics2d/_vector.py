"""Plane vectors as pairs of arrays, rotations, rigid transforms, and entries of a few values or of arrays."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxenv import tree
from jaxenv.core import sin_cos

Vector: TypeAlias = tuple[Any, ...]  # x and y


def dot(a: Vector, b: Vector) -> Any:
    return a[0] * b[0] + a[1] * b[1]


def cross(a: Vector, b: Vector) -> Any:
    return a[0] * b[1] - a[1] * b[0]


def minus(a: Vector, b: Vector) -> Vector:
    return a[0] - b[0], a[1] - b[1]


def where(mask: jax.Array, a: Vector, b: Vector) -> Vector:
    return jnp.where(mask, a[0], b[0]), jnp.where(mask, a[1], b[1])


def pick(index: Any, values: Sequence[Any]) -> Any:
    """Returns ``values[index]`` by comparisons; each value is a scalar, an array or a tree of them."""
    if isinstance(index, int):
        return values[index]
    here = [index == i for i in range(len(values))]

    def choose(*entries: Any) -> jax.Array:
        constant = all(isinstance(x, np.generic) for x in entries)
        usual = max(entries, key=entries.count) if constant else entries[0]
        out = usual
        for mask, entry in zip(here, entries, strict=True):
            if entry is not usual and not (constant and entry == usual):
                out = jnp.where(mask, entry, out)
        return out

    return jax.tree.map(choose, *values)


def entry(values: Any, index: jax.Array) -> Any:
    """Returns the entry ``index``, an int32 scalar, of the arrays of a tree."""
    return jax.tree.map(lambda x: lax.dynamic_index_in_dim(x, index, keepdims=False), values)


def apart(values: Any, num: int) -> tuple[Any, ...]:
    """Splits a tree of arrays ``[num, ...]`` into ``num`` trees."""
    return tuple(jax.tree.map(lambda x, i=i: x[i], values) for i in range(num))


def together(values: Sequence[Any]) -> Any:
    """Joins what `apart` has split; None if there is nothing."""
    return jax.tree.map(lambda *x: jnp.stack(x), *values) if values else None


def smallest(values: Sequence[Any]) -> tuple[Any, Any]:
    """Returns the smallest of some values, and the index of its first occurrence, int32."""
    least: Any = values[0]
    index: Any = np.int32(0)
    for i, value in enumerate(values[1:], 1):
        less = value < least
        least, index = jnp.minimum(least, value), jnp.where(less, np.int32(i), index)
    return least, index


def point_velocity(velocity: tuple[Any, Any, Any], r: Vector) -> Vector:
    """Returns the velocity of the point at ``r`` from the centre of mass; ``velocity`` is (x, y, angular)."""
    vx, vy, w = velocity
    return vx - w * r[1], vy + w * r[0]


@tree.struct
class Transform:
    """Rotation and position of a body's origin (b2Transform); arrays of one shape."""

    sin: Any
    cos: Any
    x: Any
    y: Any

    @classmethod
    def from_pose(cls, pose: tuple[Any, Any, Any], centre: Vector) -> "Transform":
        """Converts a pose ``(x, y, angle)`` of the centre of mass, which lies at ``centre`` relative to the origin."""
        x, y, angle = pose
        s, c = sin_cos(angle)
        return cls(s, c, x - (c * centre[0] - s * centre[1]), y - (s * centre[0] + c * centre[1]))

    def turn(self, v: Vector) -> Vector:
        return self.cos * v[0] - self.sin * v[1], self.sin * v[0] + self.cos * v[1]

    def to_world(self, v: Vector) -> Vector:
        x, y = self.turn(v)
        return x + self.x, y + self.y

    def to_local(self, v: Vector) -> Vector:
        x, y = v[0] - self.x, v[1] - self.y
        return self.cos * x + self.sin * y, self.cos * y - self.sin * x
