"""The constants of a world: bodies, their polygons and masses, joints. Computed once, with NumPy."""

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from jaxenv.envs.physics2d._vector import pick

Points: TypeAlias = Sequence[tuple[float, float]]


@dataclasses.dataclass(frozen=True)
class Body:
    """A dynamic body made of a convex polygon, and possibly of more polygons that touch nothing.

    The ground pushes a solid body. Touches of others are only reported: if one ends the episode, no impulse is visible.
    """

    vertices: Points  # corners in metres relative to the body's origin, counterclockwise, 3 or more
    density: float  # kg/m^2
    friction: float = 0.2  # a contact has the geometric mean of the body's and the ground's
    solid: bool = True
    parts: Sequence[Points] = ()  # more polygons like ``vertices``; they have the same density and add to the mass only


@dataclasses.dataclass(frozen=True)
class RevoluteJoint:
    """A hinge between two bodies, with limits and a motor."""

    body_a: int
    body_b: int  # its angle is measured relative to the first body
    anchor_a: tuple[float, float]  # the hinge relative to the origin of the first body, in metres
    anchor_b: tuple[float, float]
    lower: float  # the smallest angle in radians, relative to ``reference_angle``
    upper: float
    reference_angle: float = 0.0  # pybox2d takes it from the angles at which the bodies were created


@dataclasses.dataclass(frozen=True)
class Polygons:
    """Polygons of n bodies, padded to V corners by repeating the last corner and its normal. float32 ``[V, n]``."""

    x: np.ndarray
    y: np.ndarray
    normal_x: np.ndarray  # of the side from this corner to the next
    normal_y: np.ndarray
    count: np.ndarray  # int32 [n], corners before padding


class Scene:
    """Bodies and joints with everything derived from them. Every array is float32 with a leading axis of bodies.

    With ``slots`` at most so many contacts are solved per lane, which costs less where bodies are near many edges and
    touch few of them. ``blocks`` is how many fixed boxes a body can meet in a step, besides the edges: those whose x is
    within 0.6 m of it. ``joints`` are in the order in which Box2D's island solves them.
    """

    def __init__(
        self,
        bodies: Sequence[Body],
        joints: Sequence[RevoluteJoint],
        ground_friction: float,
        slots: int | None = None,
        blocks: int = 0,
    ):
        self.bodies, self.joints, self.slots, self.blocks = tuple(bodies), tuple(joints), slots, blocks
        self.solid = tuple(i for i, body in enumerate(bodies) if body.solid)
        if self.solid and self.solid != tuple(range(self.solid[0], self.solid[-1] + 1)):
            raise ValueError(f"the solid bodies must be neighbours in the list of bodies, got {self.solid}")
        mass, centre, inertia = zip(*(_mass([b.vertices, *b.parts], b.density) for b in bodies), strict=True)
        self.inverse_mass = (1 / np.array(mass)).astype(np.float32)
        self.inverse_inertia = (1 / np.array(inertia)).astype(np.float32)
        self.centre_x, self.centre_y = np.array(centre, np.float32).T
        self.friction = np.sqrt(np.array([b.friction for b in bodies], np.float32) * np.float32(ground_friction))
        self.polygons = _padded([np.array(b.vertices, np.float64) for b in bodies])
        reach = np.hypot(self.polygons.x - self.centre_x, self.polygons.y - self.centre_y)
        self.radius = reach.max(axis=0).astype(np.float32)

    def centre(self, body: Any) -> tuple[Any, Any]:
        """Returns the centre of mass of the body with this index, a number or an array, relative to its origin."""
        return pick(body, list(self.centre_x)), pick(body, list(self.centre_y))


def _mass(polygons: Sequence[Points], density: float) -> tuple[float, np.ndarray, float]:
    """Returns mass, centre of mass and moment of inertia about it, for polygons of uniform density."""
    area, moment, about_origin = 0.0, np.zeros(2), 0.0
    for vertices in polygons:
        first = np.array(vertices, np.float64)
        second = np.roll(first, -1, axis=0)
        cross = first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]
        area += cross.sum() / 2
        moment += (cross[:, None] * (first + second)).sum(axis=0) / 6
        about_origin += (cross * (first**2 + first * second + second**2).sum(axis=1)).sum() / 12
    centre = moment / area
    return density * area, centre, density * (about_origin - area * (centre**2).sum())


def _padded(polygons: Sequence[np.ndarray]) -> Polygons:
    size = max(len(p) for p in polygons)

    def pad(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values, np.repeat(values[-1:], size - len(values), axis=0)])

    corners = np.stack([pad(p) for p in polygons], axis=1)
    sides = [np.roll(p, -1, axis=0) - p for p in polygons]
    outward = [np.stack([s[:, 1], -s[:, 0]], axis=1) / np.hypot(*s.T)[:, None] for s in sides]
    normals = np.stack([pad(n) for n in outward], axis=1)
    planes = (*np.moveaxis(corners, 2, 0), *np.moveaxis(normals, 2, 0))
    x, y, normal_x, normal_y = (plane.astype(np.float32) for plane in planes)
    return Polygons(x, y, normal_x, normal_y, np.array([len(p) for p in polygons], np.int32))
