"""One step of the world: b2World::Step. Collide, solve one island, sleep, continuous collision, bounding boxes."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxenv import tree
from jaxenv.core import in_one_kernel
from jaxenv.envs.physics2d import _block, _broad, _impact
from jaxenv.envs.physics2d._block import Blocks
from jaxenv.envs.physics2d._broad import Box, Chain, Contacts, joined
from jaxenv.envs.physics2d._contact import Impulses, Triple, Triples
from jaxenv.envs.physics2d._impact import BodyContacts, manifold_of
from jaxenv.envs.physics2d._island import End, Start, solver_of
from jaxenv.envs.physics2d._revolute import JointImpulses
from jaxenv.envs.physics2d._rows import in_blocks, packed, unpacked
from jaxenv.envs.physics2d._scene import Scene
from jaxenv.envs.physics2d._segment import Manifold, Segment, corners_of
from jaxenv.envs.physics2d._settings import ANGULAR_SLEEP_TOLERANCE, LINEAR_SLEEP_TOLERANCE, TIME_TO_SLEEP
from jaxenv.envs.physics2d._slots import Slots, by_place, impulses_of, slots_of
from jaxenv.envs.physics2d._vector import Transform, apart, together


@tree.struct
class World:
    """The state of n bodies, J joints and K contacts per body. float32 unless stated otherwise.

    Shapes are those within the package, with the lanes last; `pack` makes two arrays with the lanes first.
    """

    pose: Triple  # [n, B] each: x and y of the centres of mass, angle
    velocity: Triple  # [n, B]: of the centre of mass, and angular
    joints: JointImpulses  # [J, B]
    contacts: Contacts  # [n, K, B], with blocks and then with edges, from left to right
    touched: Array  # bool [n, B]: whether the last event of any contact of the body was a beginning
    fat: Box  # [n, B]
    still: Array  # [B], seconds since a body moved


@tree.struct
class FreeWorld:
    """The state of n bodies that touch nothing and J joints, float32 with the lanes last."""

    pose: Triple  # [n, B] each: x and y of the centres of mass, angle
    velocity: Triple  # [n, B]: of the centre of mass, and angular
    joints: JointImpulses  # [J, B]
    still: Array  # [B], seconds since a body moved


@tree.struct
class Step:
    """The events of a step."""

    begun: Array  # bool [n, B]: a contact of the body began
    hit: Array  # bool [n, B]: continuous collision found an impact
    solved: Array  # bool [B]: the position iterations met their tolerances
    asleep: Array  # bool [B]: all bodies fell asleep


@tree.struct
class Packed:
    """A world between two steps, with the lanes first. Two arrays are stored, gathered and donated faster than many."""

    floats: Array  # float32 [B, F]
    integers: Array  # int32 [B, I], flags are 0 or 1


def pack(world: World) -> Packed:
    """Packs the world into two arrays; `unpack` is the inverse."""
    floats, integers = packed(world)
    return Packed(floats.T, integers.T)


def unpack(packed: Packed, scene: Scene, num_edges: int) -> World:
    """Unpacks the world of a scene whose bodies touch ``num_edges`` edges each, with the lanes last."""
    return unpacked((packed.floats.T, packed.integers.T), _shapes(scene, num_edges))


@functools.lru_cache(maxsize=64)
def _shapes(scene: Scene, num_edges: int) -> World:
    """Returns shapes and dtypes of a world with one lane."""
    return jax.eval_shape(lambda: start(scene, [(0.0, 0.0, 0.0)] * len(scene.bodies), 1, num_edges))


def start(scene: Scene, origins: Sequence[tuple[Any, Any, Any]], lanes: int, num_edges: int) -> World:
    """Returns bodies at rest with origins (x, y, angle), each near ``num_edges`` edges."""
    n, joints = len(scene.bodies), len(scene.joints)
    origin = np.array(origins, np.float32).T[:, :, None]
    transform = Transform(np.sin(origin[2]), np.cos(origin[2]), origin[0], origin[1])
    centre = transform.to_world((scene.centre_x[:, None], scene.centre_y[:, None]))

    def fill(value: Any, *shape: Any) -> Array:
        return jnp.full((*shape, lanes), value)

    def wide(x: np.ndarray) -> Array:
        return jnp.broadcast_to(x, (n, lanes)).astype(jnp.float32)

    zero, none = np.float32(0), np.int32(0)
    size = n, scene.blocks + num_edges
    pair = (fill(zero, *size),) * 2
    keys = (fill(none, *size),) * 2
    absent = fill(np.int32(-1), *size)
    contacts = Contacts(absent, absent, fill(none, *size), keys, Impulses(pair, pair))
    box = _broad.bounds(corners_of(scene, np.arange(n)[:, None]).vertex, jax.tree.map(wide, transform))
    return World(
        pose=(wide(centre[0]), wide(centre[1]), wide(origin[2])),
        velocity=(fill(zero, n),) * 3,
        joints=JointImpulses(*(fill(zero, joints),) * 4),
        contacts=contacts,
        touched=fill(False, n),
        fat=_broad.fattened(box),
        still=fill(zero),
    )


def with_blocks(world: World, scene: Scene) -> World:
    """Adds ``scene.blocks`` blocks near each body, none of which it touches yet, to a world without blocks."""
    n, lanes = world.touched.shape
    none = start(scene, [(0.0, 0.0, 0.0)] * n, lanes, 0).contacts
    return tree.rebuild(world, contacts=joined([none, world.contacts]))


def corners(scene: Scene, world: World, body: int) -> list[tuple[Array, Array]]:
    """Returns the corners of a body in the world: x and y, ``[B]`` each. The world's lanes are last."""
    transform = _transform(scene, world, body)
    return [transform.to_world((np.float32(x), np.float32(y))) for x, y in scene.bodies[body].vertices]


def origin(scene: Scene, world: World, body: int = 0) -> tuple[Array, Array]:
    """Returns x and y of a body's origin, ``[B]`` each. The world's lanes are last."""
    transform = _transform(scene, world, body)
    return transform.x, transform.y


def _transform(scene: Scene, world: World, body: int) -> Transform:
    return Transform.from_pose(tuple(x[body] for x in world.pose), (scene.centre_x[body], scene.centre_y[body]))


def step(
    scene: Scene,
    world: World,
    chain: Chain,
    *,
    blocks: Blocks | None = None,
    gravity: Any,
    motor_speed: Sequence[Any],
    motor_torque: Sequence[Any],
    force: Triple | None = None,
    dt: float = 1 / 50,
    collide_with_ground: bool = True,
    compile_fast: bool = False,
) -> tuple[World, Step]:
    """Advances the world by ``dt`` seconds over the ground ``chain``.

    Blocks stand on the ground of a scene with ``blocks``. Gravity acts along y (m/s^2). Each joint has a motor with a
    speed (rad/s) and a largest torque (N m). These are scalars or ``[B]``. ``force`` has x and y (N) and the torque
    (N m) on the bodies, ``[n, B]`` each. Without ``collide_with_ground`` the ground is left out, for a step in which no
    body can reach it. With ``compile_fast`` the contacts of a scene with shared slots are solved one by one in all
    lanes, for a step that is taken once in an episode: it takes longer and compiles faster.
    """
    if (blocks is None) != (scene.blocks == 0):
        raise ValueError(f"step: blocks must be given if scene.blocks is not 0, got blocks={blocks}, {scene.blocks}")
    time = np.float32(dt)
    n = len(scene.bodies)
    begun = hit = jnp.zeros_like(world.touched)
    contacts, touched = world.contacts, world.touched
    if collide_with_ground:
        contacts, manifold, segment, block, rank, touched, begun = _collide(scene, world, chain, blocks)

    bounds = tuple(time * (np.float32(t) if np.ndim(t) == 0 else t) for t in motor_torque)
    forces = None if force is None else apart(force, n)
    joints = apart(world.joints, len(scene.joints))
    # Returns what later kernels also read: slices that only one kernel reads become a part of it.
    poses, velocities = in_one_kernel(
        _pushed, scene, time, apart(world.pose, n), apart(world.velocity, n), forces, jnp.float32(gravity)
    )
    slots, place = None, None
    if collide_with_ground and scene.solid:
        slots, place = slots_of(scene, manifold, contacts.impulses, rank)
    end = _solved(scene, Start(poses, velocities, joints, tuple(motor_speed), bounds, slots), time, compile_fast)
    velocities, still, asleep = in_one_kernel(_slept, time, end.velocities, world.still, end.solved)
    pose, velocity = together(end.poses), together(velocities)
    if collide_with_ground:
        if place is not None:
            contacts = tree.rebuild(contacts, impulses=impulses_of(scene, place, end.impulses, contacts.impulses))
        body = jnp.broadcast_to(np.arange(n, dtype=np.int32)[:, None], touched.shape)
        rows = BodyContacts(body, world.pose, segment, block, rank, pose, velocity, contacts, touched, begun, hit)
        rows = _impact.solve(scene, rows, ~asleep, time)
        pose, velocity, contacts = rows.end, rows.velocity, rows.contacts
        touched, begun, hit = rows.touched, rows.begun, rows.hit

    boxes = in_one_kernel(_fat, scene, np.arange(n, dtype=np.int32)[:, None], world.pose, pose, world.fat)
    after = World(pose, velocity, together(end.joints), contacts, touched, boxes, still)
    return after, Step(begun, hit, end.solved, asleep)


def _solved(scene: Scene, start: Start, time: np.float32, compile_fast: bool) -> End:
    """Solves the island: few contacts in all lanes at once, more contacts only in the lanes that have them."""
    solver, slots = solver_of(scene), start.slots
    if slots is None or scene.slots is None:
        return solver.solve(start, time)
    if compile_fast:
        return solver.solve(start, time, one_by_one=True)
    few, rest = scene.slots // 2, scene.slots - scene.slots // 2
    lanes = slots.used.shape[0]
    body, manifold, impulses = jax.tree.map(lambda x: x[:few], (slots.body, slots.manifold, slots.impulses))
    first = Slots(body, manifold, impulses, jnp.minimum(slots.used, np.int32(few)))
    end = solver.solve(tree.rebuild(start, slots=first), time)
    more = jax.tree.map(lambda x: jnp.pad(x, ((0, rest), (0, 0))), end.impulses)
    motors = start.speeds, start.bounds
    speeds, bounds = jax.tree.map(lambda x: jnp.broadcast_to(x, (lanes,)), motors)
    start = tree.rebuild(start, speeds=speeds, bounds=bounds)
    return in_blocks(
        lambda start, _: solver.solve(start, time, one_by_one=True),
        slots.used > few,
        start,
        tree.rebuild(end, impulses=more),
    )


def step_free(
    scene: Scene,
    world: FreeWorld,
    *,
    gravity: Any,
    motor_speed: Sequence[Any],
    motor_torque: Sequence[Any],
    force: Triple,
    dt: float = 1 / 50,
) -> FreeWorld:
    """Advances the world by ``dt`` seconds, without ground. Bodies that fell asleep are awake in the next step.

    Takes the arguments of `step`. A force wakes a body, so sleep lasts for the rest of the step and zeroes velocities.
    """
    time, n = np.float32(dt), len(scene.bodies)
    bounds = tuple(time * np.float32(t) for t in motor_torque)
    joints = apart(world.joints, len(scene.joints))
    poses, velocities = in_one_kernel(
        _pushed, scene, time, apart(world.pose, n), apart(world.velocity, n), apart(force, n), jnp.float32(gravity)
    )
    end = solver_of(scene).solve(Start(poses, velocities, joints, tuple(motor_speed), bounds), time)
    velocities, still, asleep = in_one_kernel(_slept, time, end.velocities, world.still, end.solved)
    return FreeWorld(together(end.poses), together(velocities), together(end.joints), jnp.where(asleep, 0, still))


def _collide(scene: Scene, world: World, chain: Chain, blocks: Blocks | None) -> tuple[Any, ...]:
    """Finds manifolds and updates contacts (b2ContactManager::Collide).

    Contacts, manifolds, segments, boxes (or None) and the order of each body's contacts, arrays ``[n, K, B]``; and for
    each body whether its last event was a beginning, and whether a contact began.
    """
    num = world.contacts.edge.shape[1] - scene.blocks
    edge, segment = _broad.window(chain, world.pose[0], num)
    box: Box | None = None
    groups: list[Any] = [(edge, segment, world.contacts)]
    if blocks is not None:
        index, box = _block.window(scene, blocks, world.pose[0])
        parts = np.s_[: scene.blocks, scene.blocks :]
        first, rest = (jax.tree.map(lambda x, s=s: x[:, s], world.contacts) for s in parts)
        groups = [(index, box, first), (edge, segment, rest)]
    contacts, manifold, begins, ends = joined([_updated(scene, world, *group) for group in groups])
    rank = _broad.ranks(contacts.age)
    # Which old contacts touched something that is no longer near.
    left = joined([(old.count > 0) & ((old.edge < i[:, :1]) | (old.edge > i[:, -1:])) for i, _, old in groups])
    touched = _broad.last_event(begins, ends, rank, world.touched & ~jnp.any(left, axis=1))
    return contacts, manifold, segment, box, rank, touched, jnp.any(begins, axis=1)


def _updated(
    scene: Scene, world: World, index: Array, ground: Segment | Box, old: Contacts
) -> tuple[Contacts, Manifold, Array, Array]:
    """Returns contacts with edges or blocks ``[n, K, B]``, manifolds, and whether they begin or end to touch."""
    body = np.arange(len(scene.bodies), dtype=np.int32)[:, None, None]
    pose, fat = jax.tree.map(lambda x: x[:, None], (world.pose, world.fat))
    return in_one_kernel(_contact, scene, body, pose, fat, index, ground, by_place(old))


def _contact(
    scene: Scene, body: Array, pose: Triple, fat: Box, index: Array, ground: Segment | Box, old: Sequence[Contacts]
) -> tuple[Contacts, Manifold, Array, Array]:
    before = _broad.same_edge(index, old)
    bounds = ((ground.left, ground.low), (ground.right, ground.high)) if isinstance(ground, Box) else ground
    age = jnp.where(_broad.overlapping(bounds, fat), before.age + 1, np.int32(-1))
    manifold = manifold_of(scene, body, pose, ground)
    contact = _broad.matched(age, manifold.count, manifold.keys, before)
    now, earlier = manifold.count > 0, before.count > 0
    return contact, tree.rebuild(manifold, keys=()), now & ~earlier, earlier & ~now


def _pushed(
    scene: Scene, time: np.float32, poses: Triples, velocities: Triples, forces: Triples | None, gravity: Array
) -> tuple[Any, ...]:
    """Returns the poses unchanged, and the velocities after forces."""
    pushed = []
    for i, (vx, vy, w) in enumerate(velocities):
        mass, inertia = scene.inverse_mass[i], scene.inverse_inertia[i]
        fx, fy, torque = (np.float32(0),) * 3 if forces is None else forces[i]
        pushed.append((vx + time * (mass * fx), vy + time * (gravity + mass * fy), w + time * (inertia * torque)))
    return poses, tuple(pushed)


def _slept(time: np.float32, velocities: Triples, still: Array, solved: Array) -> tuple[Any, ...]:
    """Returns velocities, for how long no body moved, and whether all bodies are asleep now."""
    slow = solved | True
    for vx, vy, w in velocities:
        slow &= (w * w <= ANGULAR_SLEEP_TOLERANCE**2) & (vx * vx + vy * vy <= LINEAR_SLEEP_TOLERANCE**2)
    still = jnp.where(slow, still + time, 0)
    asleep = (still >= TIME_TO_SLEEP) & solved
    return jax.tree.map(lambda v: jnp.where(asleep, 0, v), velocities), still, asleep


def _fat(scene: Scene, body: Array, before: Triple, after: Triple, old: Box) -> Box:
    """Returns the fat bounding boxes after a step."""
    corners, centre = corners_of(scene, body).vertex, scene.centre(body)
    start, end = (Transform.from_pose(pose, centre) for pose in (before, after))
    return _broad.moved(old, _broad.bounds(corners, start), _broad.bounds(corners, end), start, end)
