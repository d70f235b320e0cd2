"""Contact constraints between static edges and bodies: b2ContactSolver with its block solver.

Shapes: one contact slot of m bodies has arrays ``[m, B]``; a body's slots are solved one after the other. Bodies do not
touch each other and the ground does not move, so all bodies of a slot are independent and are solved at once.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._numeric import clip
from jaxenv._xla import computed_once
from jaxenv.physics2d._segment import Manifold, Pair, contact_points, in_world
from jaxenv.physics2d._settings import LINEAR_SLOP, MAX_CONDITION, MAX_LINEAR_CORRECTION, TOTAL_RADIUS
from jaxenv.physics2d._vector import Transform, Vector, cross, dot, minus, point_velocity

Triple = tuple[Any, ...]  # x, y and angle, of poses or velocities


@tree.struct
class Masses:
    """Inverse mass, inverse inertia and friction of each body, float32; shapes that broadcast over the bodies'."""

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
    """What the iterations on velocities need of a contact (b2ContactVelocityConstraint)."""

    touching: jax.Array
    block: jax.Array  # whether two points are solved together
    points: jax.Array  # int32, points that are solved
    normal: Vector  # from the edge to the body
    arms: tuple[Vector, Vector]  # from the centre of mass to the points
    arm_normal: Pair  # cross products
    arm_tangent: Pair
    normal_mass: Pair
    tangent_mass: Pair
    k: Triple  # k11, k12, k22 of the symmetric 2 x 2 system
    inverse: Triple


def prepare(manifold: Manifold, pose: Triple, transform: Transform, masses: Masses) -> Constraint:
    """Constraints at the pose at which the manifold was found (InitializeVelocityConstraints)."""
    points, heights, out, normal = in_world(manifold, transform)
    arms = [minus(p, (pose[0], pose[1])) for p in contact_points(points, heights, out)]
    arms, normal = computed_once((arms, normal))
    tangent = normal[1], -normal[0]
    mass, inertia = masses.inverse_mass, masses.inverse_inertia
    n, t = [cross(r, normal) for r in arms], [cross(r, tangent) for r in arms]
    k11, k22 = (mass + inertia * x * x for x in n)
    k12 = mass + inertia * n[0] * n[1]
    determinant = k11 * k22 - k12 * k12
    block = (manifold.count == 2) & (k11 * k11 < MAX_CONDITION * determinant)
    inverse = 1 / jnp.where(determinant != 0, determinant, np.float32(1))
    return Constraint(
        touching=manifold.count > 0,
        block=block,
        points=jnp.where(block, np.int32(2), jnp.minimum(manifold.count, 1)),
        normal=normal,
        arms=(arms[0], arms[1]),
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
    for i in range(2):
        n, t = (jnp.where(i < constraint.points, x[i], 0) for x in (impulses.normal, impulses.tangent))
        push = n * constraint.normal[0] + t * tangent[0], n * constraint.normal[1] + t * tangent[1]
        velocity = _pushed(velocity, push, cross(constraint.arms[i], push), masses)
    return velocity


def solve_velocity(
    c: Constraint, impulses: Impulses, velocity: Triple, masses: Masses, cut: Callable
) -> tuple[Impulses, Triple]:
    """One iteration: friction of each point, then the normal impulses of both (SolveVelocityConstraints)."""
    tangent = c.normal[1], -c.normal[0]
    normal_impulse, tangent_impulse = impulses.normal, list(impulses.tangent)
    for i in range(2):
        speed = dot(point_velocity(velocity, c.arms[i]), tangent)
        bound = masses.friction * normal_impulse[i]
        total = clip(tangent_impulse[i] - c.tangent_mass[i] * speed, -bound, bound)
        change = cut(jnp.where(i < c.points, total - tangent_impulse[i], 0))
        tangent_impulse[i] = tangent_impulse[i] + change
        push = change * tangent[0], change * tangent[1]
        velocity = _pushed(velocity, push, c.arm_tangent[i] * change, masses)

    speeds = [dot(point_velocity(velocity, r), c.normal) for r in c.arms]
    one = jnp.maximum(normal_impulse[0] - c.normal_mass[0] * speeds[0], 0)
    both = _block_solution(c, normal_impulse, speeds)
    first = jnp.where(c.block, both[0], one)
    second = jnp.where(c.block, both[1], normal_impulse[1])
    totals = cut(tuple(jnp.where(c.touching, x, old) for x, old in zip((first, second), normal_impulse, strict=True)))
    change = totals[0] - normal_impulse[0], totals[1] - normal_impulse[1]
    size = change[0] + change[1]
    torque = c.arm_normal[0] * change[0] + c.arm_normal[1] * change[1]
    velocity = _pushed(velocity, (size * c.normal[0], size * c.normal[1]), torque, masses)
    return Impulses(totals, (tangent_impulse[0], tangent_impulse[1])), velocity


def _block_solution(c: Constraint, old: Pair, speeds: list[jax.Array]) -> Pair:
    """Total normal impulses of both points: the first of four cases of complementarity that holds."""
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
    manifold: Manifold,
    pose: Triple,
    centre: Vector,
    masses: Masses,
    baumgarte: np.float32,
    cut: Callable,
) -> tuple[Triple, jax.Array]:
    """One iteration on positions; also the smallest separation found, at most 0 (b2PositionSolverManifold)."""
    smallest = jnp.zeros_like(pose[0])
    mass, inertia = masses.inverse_mass, masses.inverse_inertia
    for i in range(2):
        transform = Transform.of_pose(pose, centre)
        transform = tree.rebuild(
            transform, **dict(zip(("sin", "cos"), cut((transform.sin, transform.cos)), strict=True))
        )
        points, heights, _, normal = in_world(manifold, transform)
        separation = jnp.where(i < manifold.count, heights[i] - TOTAL_RADIUS, np.float32(1))
        separation, arm = cut((separation, cross(minus(points[i], (pose[0], pose[1])), normal)))
        smallest = jnp.minimum(smallest, separation)
        error = clip(baumgarte * (separation + LINEAR_SLOP), -MAX_LINEAR_CORRECTION, np.float32(0))
        impulse = -error / (mass + inertia * arm * arm)
        pose = _pushed(pose, (impulse * normal[0], impulse * normal[1]), arm * impulse, masses)
    return pose, smallest


def _pushed(moving: Triple, push: Vector, turn: Any, masses: Masses) -> Triple:
    """A velocity after an impulse, or a pose after a pseudo-impulse."""
    mass = masses.inverse_mass
    return moving[0] + mass * push[0], moving[1] + mass * push[1], moving[2] + masses.inverse_inertia * turn
