"""Solves contact constraints between static edges and bodies: b2ContactSolver with its block solver.

All functions are elementwise: scalars or arrays of one shape, one entry per contact.
"""

from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.core import clip
from jaxenv.envs.physics2d._scene import Scene
from jaxenv.envs.physics2d._segment import Manifold, Pair, contact_points, in_world
from jaxenv.envs.physics2d._settings import LINEAR_SLOP, MAX_CONDITION, MAX_LINEAR_CORRECTION, TOTAL_RADIUS
from jaxenv.envs.physics2d._vector import Transform, Vector, cross, dot, minus, pick, point_velocity

Triple = tuple[Any, ...]  # x, y and angle, of poses or velocities
Triples: TypeAlias = tuple[Triple, ...]  # one per body


@tree.struct
class Masses:
    """Inverse mass, inverse inertia and friction of a body, float32."""

    inverse_mass: Any
    inverse_inertia: Any
    friction: Any


@tree.struct
class Impulses:
    """Accumulated impulses in N s: for each of two points one along the normal and one along the tangent."""

    normal: Pair
    tangent: Pair


@tree.struct
class Constraint:
    """The data of a contact that the velocity iterations read."""

    count: Any  # int32, contact points
    normal: Vector  # from the edge to the body
    arms: tuple[Vector, Vector]  # from the centre of mass to the points


@tree.struct
class _System:
    """Values derived from a constraint (b2ContactVelocityConstraint). Cheaper to recompute than to load."""

    block: Any  # whether two points are solved together
    points: Any  # int32, points that are solved
    arm_normal: Pair  # cross products
    arm_tangent: Pair
    normal_mass: Pair
    tangent_mass: Pair
    k: Triple  # k11, k12, k22 of the symmetric 2 x 2 system
    inverse: Triple


def masses_of(scene: Scene, body: Any) -> Masses:
    """Returns the masses of the body with this index, a number or an array of them."""
    arrays = scene.inverse_mass, scene.inverse_inertia, scene.friction
    return Masses(*(pick(body, list(x)) for x in arrays))


def prepare(manifold: Manifold, pose: Triple, transform: Transform) -> Constraint:
    """Returns the constraint at the pose at which the manifold was found (InitializeVelocityConstraints)."""
    points, heights, out, normal = in_world(manifold, transform)
    first, second = (minus(p, (pose[0], pose[1])) for p in contact_points(points, heights, out))
    return Constraint(manifold.count, normal, (first, second))


def _system(c: Constraint, masses: Masses) -> _System:
    tangent = c.normal[1], -c.normal[0]
    mass, inertia = masses.inverse_mass, masses.inverse_inertia
    n, t = [cross(r, c.normal) for r in c.arms], [cross(r, tangent) for r in c.arms]
    k11, k22 = (mass + inertia * x * x for x in n)
    k12 = mass + inertia * n[0] * n[1]
    determinant = k11 * k22 - k12 * k12
    block = (c.count == 2) & (k11 * k11 < MAX_CONDITION * determinant)
    inverse = 1 / jnp.where(determinant != 0, determinant, np.float32(1))
    return _System(
        block=block,
        points=jnp.where(block, np.int32(2), jnp.minimum(c.count, 1)),
        arm_normal=(n[0], n[1]),
        arm_tangent=(t[0], t[1]),
        normal_mass=(1 / k11, 1 / k22),
        tangent_mass=(1 / (mass + inertia * t[0] * t[0]), 1 / (mass + inertia * t[1] * t[1])),
        k=(k11, k12, k22),
        inverse=(inverse * k22, -inverse * k12, inverse * k11),
    )


def warm_start(constraint: Constraint, impulses: Impulses, velocity: Triple, masses: Masses) -> Triple:
    """Applies the impulses of the step before."""
    tangent = constraint.normal[1], -constraint.normal[0]
    points = _system(constraint, masses).points
    for i in range(2):
        n, t = (jnp.where(i < points, x[i], 0) for x in (impulses.normal, impulses.tangent))
        push = n * constraint.normal[0] + t * tangent[0], n * constraint.normal[1] + t * tangent[1]
        velocity = _pushed(velocity, push, cross(constraint.arms[i], push), masses)
    return velocity


def solve_velocity(c: Constraint, impulses: Impulses, velocity: Triple, masses: Masses) -> tuple[Impulses, Triple]:
    """Iterates once: friction of each point, then the normal impulses of both (SolveVelocityConstraints)."""
    system = _system(c, masses)
    tangent = c.normal[1], -c.normal[0]
    normal_impulse, tangent_impulse = impulses.normal, list(impulses.tangent)
    change: Any
    for i in range(2):
        speed = dot(point_velocity(velocity, c.arms[i]), tangent)
        bound = masses.friction * normal_impulse[i]
        total = clip(tangent_impulse[i] - system.tangent_mass[i] * speed, -bound, bound)
        change = jnp.where(i < system.points, total - tangent_impulse[i], 0)
        tangent_impulse[i] = tangent_impulse[i] + change
        push = change * tangent[0], change * tangent[1]
        velocity = _pushed(velocity, push, system.arm_tangent[i] * change, masses)

    speeds = [dot(point_velocity(velocity, r), c.normal) for r in c.arms]
    one = jnp.maximum(normal_impulse[0] - system.normal_mass[0] * speeds[0], 0)
    both = _block_solution(system, normal_impulse, speeds)
    first = jnp.where(system.block, both[0], one)
    second = jnp.where(system.block, both[1], normal_impulse[1])
    first, second = (jnp.where(c.count > 0, x, old) for x, old in zip((first, second), normal_impulse, strict=True))
    change = first - normal_impulse[0], second - normal_impulse[1]
    size = change[0] + change[1]
    torque = system.arm_normal[0] * change[0] + system.arm_normal[1] * change[1]
    velocity = _pushed(velocity, (size * c.normal[0], size * c.normal[1]), torque, masses)
    return Impulses((first, second), (tangent_impulse[0], tangent_impulse[1])), velocity


def _block_solution(c: _System, old: Pair, speeds: list[Any]) -> Pair:
    """Returns the total normal impulses of both points: the first of four complementarity cases that holds."""
    k11, k12, k22 = c.k
    b1 = speeds[0] - (k11 * old[0] + k12 * old[1])
    b2 = speeds[1] - (k12 * old[0] + k22 * old[1])
    i11, i12, i22 = c.inverse
    x1, x2 = -(i11 * b1 + i12 * b2), -(i12 * b1 + i22 * b2)
    only1, only2 = -c.normal_mass[0] * b1, -c.normal_mass[1] * b2
    neither = (b1 >= 0) & (b2 >= 0)
    second = (only2 >= 0) & (k12 * only2 + b1 >= 0)
    first = (only1 >= 0) & (k12 * only1 + b2 >= 0)
    both = (x1 >= 0) & (x2 >= 0)
    of_first = jnp.where(both, x1, jnp.where(first, only1, jnp.where(second | neither, 0, old[0])))
    of_second = jnp.where(both, x2, jnp.where(first, 0, jnp.where(second, only2, jnp.where(neither, 0, old[1]))))
    return of_first, of_second


def solve_position(
    manifold: Manifold, pose: Triple, centre: Vector, masses: Masses, baumgarte: np.float32
) -> tuple[Triple, Any]:
    """Iterates once on positions; also returns the smallest separation, at most 0 (b2PositionSolverManifold)."""
    least = jnp.zeros_like(pose[0])
    mass, inertia = masses.inverse_mass, masses.inverse_inertia
    for i in range(2):
        points, heights, _, normal = in_world(manifold, Transform.from_pose(pose, centre))
        separation = jnp.where(i < manifold.count, heights[i] - TOTAL_RADIUS, np.float32(1))
        arm = cross(minus(points[i], (pose[0], pose[1])), normal)
        least = jnp.minimum(least, separation)
        error = clip(baumgarte * (separation + LINEAR_SLOP), -MAX_LINEAR_CORRECTION, np.float32(0))
        impulse = -error / (mass + inertia * arm * arm)
        pose = _pushed(pose, (impulse * normal[0], impulse * normal[1]), arm * impulse, masses)
    return pose, least


def _pushed(moving: Triple, push: Vector, turn: Any, masses: Masses) -> Triple:
    """Applies an impulse to a velocity, or a pseudo-impulse to a pose."""
    mass = masses.inverse_mass
    return moving[0] + mass * push[0], moving[1] + mass * push[1], moving[2] + masses.inverse_inertia * turn
