"""Simulates the car of CarRacing: a hull and four wheels on hinges, seen from above, and the forces of its tyres.

Reference: ``car_dynamics.Car`` of Gymnasium, on Box2D 2.3 by Erin Catto (tests/envs/box2d/test_car_racing.py). Nothing
collides. The road decides only how much force a tyre transmits.

Wheels are numbered as in the original: front left, front right, rear left, rear right. The rear wheels are driven.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.core import in_one_kernel, sin_cos
from jaxenv.envs import physics2d
from jaxenv.envs.physics2d import Body, FreeWorld, JointImpulses, RevoluteJoint, Scene

DT = 1 / 50  # s
SIZE = 0.02  # metres per unit of the drawings below
WHEEL_RADIUS = 27 * SIZE
WHEEL_HALF_WIDTH = 14 * SIZE
WHEELS = ((-55, 80), (55, 80), (-55, -82), (55, -82))  # places on the hull
HULL = (
    ((-60, 110), (60, 110), (60, 130), (-60, 130)),
    ((-20, 20), (20, 20), (15, 120), (-15, 120)),
    ((-25, 20), (-50, -10), (-50, -40), (-20, -90), (20, -90), (50, -40), (50, -10), (25, 20)),
    ((-50, -120), (50, -120), (50, -90), (-50, -90)),
)

_ENGINE_POWER = 1e8 * SIZE**2
_WHEEL_INERTIA = 4000 * SIZE**2
_ROAD_FRICTION = 1e6 * SIZE**2  # N, the largest force of a tyre
_GRASS_FRICTION = 0.6 * _ROAD_FRICTION
_STIFFNESS = 205000 * SIZE**2  # N per m/s of slip
_BRAKE = 15.0  # rad/s that a full brake takes away in a step
_STEER_LIMIT, _STEER_TORQUE = 0.4, 180 * 900 * SIZE**2


def _metres(points: tuple[tuple[int, int], ...]) -> list[tuple[float, float]]:
    return [(x * SIZE, y * SIZE) for x, y in points]


_WHEEL = [(-WHEEL_HALF_WIDTH, -WHEEL_RADIUS), (WHEEL_HALF_WIDTH, -WHEEL_RADIUS)]
_WHEEL += [(-x, -y) for x, y in _WHEEL]
_PLACES = np.array(_metres(WHEELS), np.float32)

SCENE = Scene(
    [
        Body(_metres(HULL[0]), density=1.0, parts=tuple(_metres(part) for part in HULL[1:])),
        *[Body(_WHEEL, density=0.1)] * 4,
    ],
    # Box2D's island begins with the body created last.
    [
        RevoluteJoint(0, 1 + i, tuple(_PLACES[i].tolist()), (0, 0), -_STEER_LIMIT, _STEER_LIMIT)
        for i in reversed(range(4))
    ],
    ground_friction=0.0,
)


@tree.struct
class Car:
    """A car, float32; lanes first."""

    bodies: jax.Array  # [B, 6, 5]: x, y, angle (m, rad) of the centres of mass and their velocities; hull and wheels
    impulses: jax.Array  # [B, 4, 4] of the hinges: x, y, of the limit, of the motor; in the order of SCENE.joints
    still: jax.Array  # [B], seconds since a body moved
    gas: jax.Array  # [B], from 0 to 1
    omega: jax.Array  # [B, 4], rate at which each wheel rolls, rad/s
    phase: jax.Array  # [B, 4], angle by which it has rolled


def parked(x: jax.Array, y: jax.Array, angle: jax.Array) -> Car:
    """Returns a car at rest whose hull has its origin at ``(x, y)``; float32 ``[B]`` each.

    As in the original, the wheels are placed as if the angle were 0. The hinges pull them to the hull in a few steps.
    """
    lanes = x.shape[0]
    s, c = sin_cos(angle)
    centre_x, centre_y = SCENE.centre_x[0], SCENE.centre_y[0]
    hull = x + (c * centre_x - s * centre_y), y + (s * centre_x + c * centre_y), angle
    wheels = [(x + place[0], y + place[1], angle) for place in _PLACES]
    poses = [jnp.stack(numbers, axis=-1) for numbers in zip(hull, *wheels, strict=True)]
    rest = jnp.zeros((lanes, 3, 5), jnp.float32)
    none = jnp.zeros((lanes, 4), jnp.float32)
    bodies = jnp.concatenate([jnp.stack(poses, axis=1), rest], axis=1)
    return Car(bodies, jnp.zeros((lanes, 4, 4), jnp.float32), none[:, 0], none[:, 0], none, none)


def origin(car: Car) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Returns x and y of the hull's origin, and sine and cosine of its angle, float32 ``[B]`` each."""
    x, y, angle = car.bodies[:, 0, 0], car.bodies[:, 1, 0], car.bodies[:, 2, 0]
    s, c = sin_cos(angle)
    centre_x, centre_y = SCENE.centre_x[0], SCENE.centre_y[0]
    return x - (c * centre_x - s * centre_y), y - (s * centre_x + c * centre_y), s, c


def drive(car: Car, steer: jax.Array, gas: jax.Array, brake: jax.Array, on_road: jax.Array) -> Car:
    """Returns the car after a step; the controls are float32 ``[B]``.

    ``steer`` is the target angle of the front wheels in rad, positive to the left. ``gas``, from 0 to 1, rises by at
    most 0.1 in a step and falls at once. ``brake`` is from 0 to 1; above 0.9 the wheels do not roll. ``on_road`` says
    which wheels touch the road, bool ``[B, 4]``.
    """
    # The solver's loops have no derivative in reverse mode.
    car, steer, gas, brake = tree.detach((car, steer, gas, brake))
    gas = jnp.minimum(gas, car.gas + np.float32(0.1))
    front = np.array([1, 1, 0, 0], np.float32)[:, None]
    driven = np.array([0, 0, 1, 1], np.float32)[:, None]
    bodies = jnp.moveaxis(car.bodies, 0, -1)
    pose, velocity = bodies[:3], bodies[3:]
    controls = steer[None] * front, gas[None] * driven, jnp.broadcast_to(brake[None], (4, *brake.shape)), on_road.T
    motion = pose[2, :1], pose[2, 1:], velocity[0, 1:], velocity[1, 1:], car.omega.T, car.phase.T
    motors, omega, phase, force_x, force_y = in_one_kernel(_tyre, controls, motion)
    on_hull = jnp.zeros_like(force_x[:1])
    force_x, force_y = (jnp.concatenate([on_hull, f]) for f in (force_x, force_y))
    world = physics2d.step_free(
        SCENE,
        FreeWorld(tuple(pose), tuple(velocity), JointImpulses(*jnp.moveaxis(car.impulses, 0, -1)), car.still),
        gravity=0.0,
        motor_speed=[motors[joint.body_b - 1] for joint in SCENE.joints],
        motor_torque=[_STEER_TORQUE] * 4,
        force=(force_x, force_y, jnp.zeros_like(force_x)),
        dt=DT,
    )
    hinges = world.joints
    stacks = [*world.pose, *world.velocity], [hinges.x, hinges.y, hinges.limit, hinges.motor]
    bodies, impulses = (jnp.moveaxis(jnp.stack(numbers), -1, 0) for numbers in stacks)
    return Car(bodies, impulses, world.still, gas, omega.T, phase.T)


def _tyre(controls: tuple[jax.Array, ...], motion: tuple[jax.Array, ...]) -> tuple[Any, ...]:
    """Returns the motor speed and rate of a wheel, its angle, and the force on it. Elementwise."""
    steer, gas, brake, on_road = controls
    hull_angle, angle, vx, vy, omega, phase = motion
    error = steer - (angle - hull_angle)
    motor = jnp.sign(error) * jnp.minimum(50 * jnp.abs(error), np.float32(3))

    omega = omega + np.float32(DT * _ENGINE_POWER / _WHEEL_INERTIA) * gas / (jnp.abs(omega) + 5)
    taken = jnp.minimum(np.float32(_BRAKE) * brake, jnp.abs(omega))
    # The original compares with 0.9 in float64, where the float32 next to 0.9 is less.
    blocked = brake > np.float32(0.9)
    omega = jnp.where(blocked, 0, jnp.where(brake > 0, omega - jnp.sign(omega) * taken, omega))
    phase = phase + omega * np.float32(DT)

    s, c = sin_cos(angle)
    along = -s * vx + c * vy
    across = c * vx + s * vy
    rolling = np.float32(_STIFFNESS) * (omega * np.float32(WHEEL_RADIUS) - along)
    sliding = np.float32(_STIFFNESS) * -across
    size = jnp.sqrt(rolling * rolling + sliding * sliding)
    limit = jnp.where(on_road, np.float32(_ROAD_FRICTION), np.float32(_GRASS_FRICTION))
    ratio = jnp.where(size > limit, limit / jnp.maximum(size, limit), 1)
    rolling, sliding = rolling * ratio, sliding * ratio
    omega = omega - np.float32(DT * WHEEL_RADIUS / _WHEEL_INERTIA) * rolling
    return motor, omega, phase, sliding * c - rolling * s, sliding * s + rolling * c
