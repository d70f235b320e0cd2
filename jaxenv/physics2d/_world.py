"""One step of the world: b2World::Step. Collide, solve one island, sleep, continuous collision, bounding boxes."""

from collections.abc import Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.physics2d import _broad, _rows
from jaxenv.physics2d._broad import Box, Chain, Contacts
from jaxenv.physics2d._contact import Impulses, Triple
from jaxenv.physics2d._island import Island
from jaxenv.physics2d._revolute import JointImpulses
from jaxenv.physics2d._scene import Scene
from jaxenv.physics2d._segment import Segment, collide, corners_of
from jaxenv.physics2d._settings import (
    ANGULAR_SLEEP_TOLERANCE,
    LINEAR_SLEEP_TOLERANCE,
    MAX_ROTATION,
    MAX_TRANSLATION,
    TIME_TO_SLEEP,
)
from jaxenv.physics2d._vector import Transform

T = TypeVar("T")


@tree.struct
class World:
    """What moves, for n bodies, J joints and K edges near each body. float32 unless stated otherwise.

    Shapes are those within the package, with the lanes last; `lanes_first` moves them to the front.
    """

    pose: Triple  # [n, B] each: x and y of the centres of mass, angle
    velocity: Triple  # [n, B]: of the centre of mass, and angular
    joints: JointImpulses  # [J, B]
    contacts: Contacts  # [n, K, B], in Box2D's order
    touched: jax.Array  # bool [n, B]: whether the last event of any contact of the body was a beginning
    fat: Box  # [n, B]
    still: jax.Array  # [B], seconds since a body moved


@tree.struct
class Step:
    """What happened in a step."""

    begun: jax.Array  # bool [n, B]: a contact of the body began
    hit: jax.Array  # bool [n, B]: continuous collision found an impact
    solved: jax.Array  # bool [B]: the position iterations met their tolerances
    asleep: jax.Array  # bool [B]: all bodies fell asleep


def lanes_first(x: T) -> T:
    """Moves the last axis of every array to the front: ``[..., B]`` to ``[B, ...]``."""
    return jax.tree.map(lambda a: jnp.moveaxis(a, -1, 0), x)


def lanes_last(x: T) -> T:
    """The inverse of `lanes_first`."""
    return jax.tree.map(lambda a: jnp.moveaxis(a, 0, -1), x)


def start(scene: Scene, origins: Sequence[tuple[Any, Any, Any]], lanes: int, num_edges: int) -> World:
    """Bodies at rest. ``origins`` holds (x, y, angle) of each body's origin, ``num_edges`` is K."""
    n, joints = len(scene.bodies), len(scene.joints)
    origin = np.array(origins, np.float32).T[:, :, None]
    transform = Transform(np.sin(origin[2]), np.cos(origin[2]), origin[0], origin[1])
    centre = transform.to_world((scene.centre_x[:, None], scene.centre_y[:, None]))

    def fill(value, *shape):
        return jnp.full((*shape, lanes), value)

    def wide(x):
        return jnp.broadcast_to(x, (n, lanes)).astype(jnp.float32)

    zero, none = np.float32(0), np.int32(0)
    pair = (fill(zero, n, num_edges),) * 2
    keys = (fill(none, n, num_edges),) * 2
    absent = fill(np.int32(-1), n, num_edges)
    contacts = Contacts(absent, absent, fill(none, n, num_edges), keys, Impulses(pair, pair))
    corners = scene.polygons.x[:, :, None], scene.polygons.y[:, :, None]
    box = _broad.bounds(corners, jax.tree.map(wide, transform))
    return World(
        pose=(wide(centre[0]), wide(centre[1]), wide(origin[2])),
        velocity=(fill(zero, n),) * 3,
        joints=JointImpulses(*(fill(zero, joints),) * 4),
        contacts=contacts,
        touched=fill(False, n),
        fat=_broad.fattened(box),
        still=fill(zero),
    )


def corners(scene: Scene, world: World, body: int) -> list[tuple[jax.Array, jax.Array]]:
    """The corners of a body in the world: x and y, ``[B]`` each. The world's lanes are last."""
    centre = scene.centre_x[body], scene.centre_y[body]
    transform = Transform.of_pose(tuple(x[body] for x in world.pose), centre)
    return [transform.to_world((np.float32(x), np.float32(y))) for x, y in scene.bodies[body].vertices]


def step(
    scene: Scene,
    world: World,
    chain: Chain,
    *,
    gravity: Any,
    motor_speed: Sequence[Any],
    motor_torque: Sequence[Any],
    force: Triple | None = None,
    dt: float = 1 / 50,
    velocity_iterations: int = 180,
    position_iterations: int = 60,
    collide_with_ground: bool = True,
) -> tuple[World, Step]:
    """Advances the world by ``dt`` seconds.

    Args:
        scene: bodies and joints.
        world: the state, lanes last.
        chain: the ground.
        gravity: along y in m/s^2, a scalar or ``[B]``.
        motor_speed: of each joint in rad/s, scalars or ``[B]``.
        motor_torque: the most that the motor of each joint may apply, in N m.
        force: x and y in N and torque in N m on the bodies, ``[n, B]`` each.
        dt: duration of the step in seconds, static.
        velocity_iterations: number of iterations on velocities.
        position_iterations: most iterations on positions.
        collide_with_ground: False leaves the ground out, for a step in which no body can reach it.
    """
    time = np.float32(dt)
    n, lanes = len(scene.bodies), world.still.shape[0]
    centre = scene.centre_x[:, None], scene.centre_y[:, None]
    before = Transform.of_pose(world.pose, centre)
    begun = hit = jnp.zeros((n, lanes), bool)
    contacts, touched, manifold, segment = world.contacts, world.touched, None, None
    if collide_with_ground:
        contacts, touched, begun, manifold, segment = _collide(scene, world, chain, before)

    fx, fy, torque = force if force is not None else (np.float32(0),) * 3
    mass, inertia = scene.inverse_mass[:, None], scene.inverse_inertia[:, None]
    fall = jnp.broadcast_to(jnp.asarray(gravity, jnp.float32), (lanes,))[None]
    vx, vy, w = world.velocity
    velocity = vx + time * (mass * fx), vy + time * (fall + mass * fy), w + time * (inertia * torque)
    bounds = [time * np.float32(t) if np.ndim(t) == 0 else time * t for t in motor_torque]
    island = Island(scene, world.pose, world.joints, before, manifold, motor_speed, bounds)
    velocity, joints, impulses = island.solve_velocities(velocity, contacts.impulses, velocity_iterations)
    contacts = tree.rebuild(contacts, impulses=impulses)

    vx, vy, w = _limited(velocity, time)
    x, y, angle = world.pose
    pose = x + time * vx, y + time * vy, angle + time * w
    pose, solved = island.solve_positions(pose, position_iterations)

    slow = (w * w <= ANGULAR_SLEEP_TOLERANCE**2) & (vx * vx + vy * vy <= LINEAR_SLEEP_TOLERANCE**2)
    still = jnp.where(jnp.all(slow, axis=0), world.still + time, 0)
    asleep = (still >= TIME_TO_SLEEP) & solved
    vx, vy, w = (jnp.where(asleep[None], 0, v) for v in (vx, vy, w))

    after = World(pose, (vx, vy, w), joints, contacts, touched, world.fat, still)
    if segment is not None:
        after, begun, hit = _impacts(scene, world, after, begun, segment, asleep, time, velocity_iterations)
    transform = Transform.of_pose(after.pose, centre)
    corners = scene.polygons.x[:, :, None], scene.polygons.y[:, :, None]
    first, last = (_broad.bounds(corners, t) for t in (before, transform))
    after = tree.rebuild(after, fat=_broad.moved(world.fat, first, last, before, transform))
    return after, Step(begun, hit, solved, asleep)


def _collide(scene: Scene, world: World, chain: Chain, transform: Transform):
    """Finds manifolds and updates contacts in Box2D's order (b2ContactManager::Collide)."""
    edge, segment = _broad.window(chain, world.pose[0], world.contacts.edge.shape[1])
    exists = _broad.overlapping(edge, segment, world.fat)
    age, rank = _broad.newest_first(edge, exists, world.contacts)
    edge, age, segment = _broad.reordered(rank, (edge, age, segment))
    centre = scene.centre_x[:, None, None], scene.centre_y[:, None, None]
    lifted = jax.tree.map(lambda x: x[:, None], transform)
    manifold = collide(segment, lifted, corners_of(scene), centre)
    count = jnp.where(edge >= 0, manifold.count, 0)
    manifold = tree.rebuild(manifold, count=count)
    contacts, did_touch = _broad.matched(edge, age, count, manifold.keys, world.contacts)

    gone = ~jnp.any(world.contacts.edge[:, :, None] == edge[:, None], axis=2) & (world.contacts.count > 0)
    touched, begun = world.touched & ~jnp.any(gone, axis=1), jnp.zeros_like(world.touched)
    for k in range(edge.shape[1]):
        begins, ends = (count[:, k] > 0) & ~did_touch[:, k], (count[:, k] == 0) & did_touch[:, k]
        touched, begun = jnp.where(begins, True, jnp.where(ends, False, touched)), begun | begins
    return contacts, touched, begun, manifold, segment


def _impacts(scene: Scene, before: World, after: World, begun, segment: Segment, asleep, dt, iterations: int):
    """The world after continuous collision, whether contacts began, and which bodies were hit."""
    moving = (after.pose, after.velocity, after.contacts, after.touched, begun, jnp.zeros_like(begun))
    moving = _rows.solve(scene, before.pose, segment, moving, ~asleep, dt, iterations)
    pose, velocity, contacts, touched, begun, hit = moving
    return tree.rebuild(after, pose=pose, velocity=velocity, contacts=contacts, touched=touched), begun, hit


def _limited(velocity: Triple, dt: np.float32) -> Triple:
    """Velocities of which a step moves no body by more than MAX_TRANSLATION and MAX_ROTATION."""
    vx, vy, w = velocity
    length = dt * jnp.sqrt(vx * vx + vy * vy)
    scale = jnp.where(length > MAX_TRANSLATION, MAX_TRANSLATION / jnp.maximum(length, MAX_TRANSLATION), 1)
    turn = dt * jnp.abs(w)
    return vx * scale, vy * scale, w * jnp.where(turn > MAX_ROTATION, MAX_ROTATION / jnp.maximum(turn, MAX_ROTATION), 1)
