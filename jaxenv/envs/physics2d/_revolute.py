"""Solves revolute joints with motor and limits: b2RevoluteJoint.

All functions are elementwise. Joints share bodies, so they are solved one after the other in the scene's order.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.core import clip, sin_cos
from jaxenv.envs.physics2d._contact import Triple
from jaxenv.envs.physics2d._scene import RevoluteJoint, Scene
from jaxenv.envs.physics2d._settings import ANGULAR_SLOP, LINEAR_SLOP, MAX_ANGULAR_CORRECTION
from jaxenv.envs.physics2d._vector import Vector, cross

Two = tuple[Triple, Triple]  # poses or velocities of the joint's two bodies


@tree.struct
class JointImpulses:
    """Accumulated impulses of a joint, float32: of the hinge (N s), of the limit and of the motor (N m s)."""

    x: Any
    y: Any
    limit: Any
    motor: Any


@tree.struct
class Constraint:
    """The data of a joint that the iterations of a step read."""

    arm_a: Vector  # from the centre of mass of the first body to the hinge
    arm_b: Vector
    at_lower: Any  # bool
    at_upper: Any


class Solver:
    """The joint ``joint`` of a scene: constants as NumPy scalars, and the solver's functions."""

    def __init__(self, scene: Scene, joint: RevoluteJoint):
        self.a, self.b = joint.body_a, joint.body_b
        self.masses = tuple(scene.inverse_mass[[self.a, self.b]])
        self.inertias = tuple(scene.inverse_inertia[[self.a, self.b]])
        centres = [np.array([scene.centre_x[i], scene.centre_y[i]]) for i in (self.a, self.b)]
        anchors = zip((joint.anchor_a, joint.anchor_b), centres, strict=True)
        self.anchors = [np.array(anchor, np.float32) - centre for anchor, centre in anchors]
        self.lower, self.upper = np.float32(joint.lower), np.float32(joint.upper)
        self.reference = np.float32(joint.reference_angle)
        self.motor_mass = np.float32(1) / (self.inertias[0] + self.inertias[1])

    def prepare(self, angles: tuple[Any, Any], old: JointImpulses) -> tuple[Constraint, JointImpulses]:
        """Returns the constraint at the start of a step, and the impulses to start with.

        The impulse of the limit is kept only if the joint is still at that limit, which its sign identifies.
        """
        arm_a, arm_b = (_turned(anchor, *sin_cos(angle)) for anchor, angle in zip(self.anchors, angles, strict=True))
        angle = angles[1] - angles[0] - self.reference
        at_lower = angle <= self.lower
        at_upper = ~at_lower & (angle >= self.upper)
        kept = jnp.where(at_lower, jnp.maximum(old.limit, 0), jnp.where(at_upper, jnp.minimum(old.limit, 0), 0))
        return Constraint(arm_a, arm_b, at_lower, at_upper), JointImpulses(old.x, old.y, kept, old.motor)

    def _system(self, c: Constraint) -> tuple[tuple[Any, ...], tuple[Any, ...], Vector]:
        """Returns the inverses of two symmetric systems, and k13 and k23. Cheaper to recompute than to load.

        11, 12, 22 of the hinge; 11, 12, 13, 22, 23, 33 of the hinge with its limit.
        """
        arm_a, arm_b = c.arm_a, c.arm_b
        inertia_a, inertia_b = self.inertias
        k11, k12, k22 = self._hinge(arm_a, arm_b)
        k13 = -arm_a[1] * inertia_a - arm_b[1] * inertia_b
        k23 = arm_a[0] * inertia_a + arm_b[0] * inertia_b
        k33 = inertia_a + inertia_b
        of_two = 1 / (k11 * k22 - k12 * k12)
        c11, c12, c13 = k22 * k33 - k23 * k23, k13 * k23 - k12 * k33, k12 * k23 - k13 * k22
        of_three = 1 / (k11 * c11 + k12 * c12 + k13 * c13)
        rest = k11 * k33 - k13 * k13, k12 * k13 - k11 * k23, k11 * k22 - k12 * k12
        inverse_3 = tuple(of_three * c for c in (c11, c12, c13, *rest))
        return (of_two * k22, -of_two * k12, of_two * k11), inverse_3, (k13, k23)

    def apply(self, c: Constraint, impulses: JointImpulses, velocities: Two) -> Two:
        """Returns the velocities of the two bodies after impulses."""
        (ax, ay, aw), (bx, by, bw) = velocities
        (mass_a, mass_b), (inertia_a, inertia_b) = self.masses, self.inertias
        push = impulses.x, impulses.y
        turn = impulses.limit + impulses.motor
        first = ax - mass_a * push[0], ay - mass_a * push[1], aw - inertia_a * (cross(c.arm_a, push) + turn)
        return first, (bx + mass_b * push[0], by + mass_b * push[1], bw + inertia_b * (cross(c.arm_b, push) + turn))

    def solve_velocity(
        self, c: Constraint, total: JointImpulses, velocities: Two, speed: Any, bound: Any
    ) -> tuple[JointImpulses, Two]:
        """Iterates once: the motor, then the hinge, together with the limit while that holds.

        ``speed`` is the motor's target (rad/s), ``bound`` its largest impulse in a step.
        """
        (j11, j12, j22), (i11, i12, i13, i22, i23, i33), coupling = self._system(c)
        (ax, ay, aw), (bx, by, bw) = velocities
        motor = clip(total.motor - self.motor_mass * (bw - aw - speed), -bound, bound) - total.motor
        aw, bw = aw - self.inertias[0] * motor, bw + self.inertias[1] * motor

        error_x = bx - bw * c.arm_b[1] - ax + aw * c.arm_a[1]
        error_y = by + bw * c.arm_b[0] - ay - aw * c.arm_a[0]
        error_w = bw - aw
        limit = -(i13 * error_x + i23 * error_y + i33 * error_w)
        after = total.limit + limit
        holds = (c.at_lower & (after >= 0)) | (c.at_upper & (after <= 0))
        # Where the limit no longer holds, its impulse is removed and only the hinge is solved.
        back = jnp.where(c.at_lower | c.at_upper, total.limit, 0)
        rest_x, rest_y = back * coupling[0] - error_x, back * coupling[1] - error_y
        x = jnp.where(holds, -(i11 * error_x + i12 * error_y + i13 * error_w), j11 * rest_x + j12 * rest_y)
        y = jnp.where(holds, -(i12 * error_x + i22 * error_y + i23 * error_w), j12 * rest_x + j22 * rest_y)
        change = JointImpulses(x, y, jnp.where(holds, limit, -back), motor)
        return jax.tree.map(jnp.add, total, change), self.apply(c, change, velocities)

    def solve_position(self, c: Constraint, poses: Two) -> tuple[Two, Any]:
        """Iterates once: the limit, then the hinge; also returns whether both errors were within the slop before."""
        (ax, ay, aa), (bx, by, ba) = poses
        (mass_a, mass_b), (inertia_a, inertia_b) = self.masses, self.inertias
        angle = ba - aa - self.reference
        below, above = angle - self.lower, angle - self.upper
        error = jnp.where(c.at_lower, -below, jnp.where(c.at_upper, above, 0))
        most = MAX_ANGULAR_CORRECTION
        up = clip(below + ANGULAR_SLOP, -most, np.float32(0))
        down = clip(above - ANGULAR_SLOP, np.float32(0), most)
        impulse = -self.motor_mass * jnp.where(c.at_lower, up, jnp.where(c.at_upper, down, 0))
        aa, ba = aa - inertia_a * impulse, ba + inertia_b * impulse
        arm_a, arm_b = _turned(self.anchors[0], *sin_cos(aa)), _turned(self.anchors[1], *sin_cos(ba))
        gap_x, gap_y = bx + arm_b[0] - ax - arm_a[0], by + arm_b[1] - ay - arm_a[1]
        gap = jnp.sqrt(gap_x * gap_x + gap_y * gap_y)
        k11, k12, k22 = self._hinge(arm_a, arm_b)
        inverse = 1 / (k11 * k22 - k12 * k12)
        x, y = -inverse * (k22 * gap_x - k12 * gap_y), -inverse * (k11 * gap_y - k12 * gap_x)
        first = ax - mass_a * x, ay - mass_a * y, aa - inertia_a * cross(arm_a, (x, y))
        second = bx + mass_b * x, by + mass_b * y, ba + inertia_b * cross(arm_b, (x, y))
        return (first, second), (gap <= LINEAR_SLOP) & (error <= ANGULAR_SLOP)

    def _hinge(self, arm_a: Vector, arm_b: Vector) -> tuple[Any, Any, Any]:
        """Returns k11, k12, k22 of the hinge."""
        (mass_a, mass_b), (inertia_a, inertia_b) = self.masses, self.inertias
        k11 = mass_a + mass_b + arm_a[1] * arm_a[1] * inertia_a + arm_b[1] * arm_b[1] * inertia_b
        k12 = -arm_a[1] * arm_a[0] * inertia_a - arm_b[1] * arm_b[0] * inertia_b
        k22 = mass_a + mass_b + arm_a[0] * arm_a[0] * inertia_a + arm_b[0] * arm_b[0] * inertia_b
        return k11, k12, k22


def _turned(anchor: np.ndarray, sin: Any, cos: Any) -> Vector:
    return cos * anchor[0] - sin * anchor[1], sin * anchor[0] + cos * anchor[1]
