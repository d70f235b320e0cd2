"""One step of the world: b2World::Step. Collide, solve one island, sleep, continuous collision, bounding boxes."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxenv import tree
from jaxenv._xla import computed_once
from jaxenv.physics2d import _broad, _contact, _impact, _revolute
from jaxenv.physics2d._broad import Box, Chain, Contacts
from jaxenv.physics2d._contact import Impulses, Masses, Triple
from jaxenv.physics2d._revolute import JointImpulses
from jaxenv.physics2d._scene import Scene
from jaxenv.physics2d._segment import Corners, Manifold, Segment, collide
from jaxenv.physics2d._settings import (
    ANGULAR_SLEEP_TOLERANCE,
    BAUMGARTE,
    LINEAR_SLEEP_TOLERANCE,
    LINEAR_SLOP,
    MAX_ROTATION,
    MAX_TRANSLATION,
    TIME_TO_SLEEP,
)
from jaxenv.physics2d._vector import Transform

T = TypeVar("T")

_BLOCK = 64  # rows of continuous collision that are solved at a time


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
    contacts = Contacts(fill(np.int32(-1), n, num_edges), fill(none, n, num_edges), fill(none, n, num_edges), keys,
                        Impulses(pair, pair))
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
    transform = Transform.of_pose(tuple(x[body] for x in world.pose), centre)  # type: ignore[arg-type]
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
    island = _Island(scene, world, before, manifold, motor_speed, bounds)
    velocity, joints, impulses = island.solve_velocities(velocity, world.joints, contacts.impulses, velocity_iterations)
    contacts = tree.rebuild(contacts, impulses=impulses)

    vx, vy, w = _limited(velocity, time)
    pose = tuple(x + time * v for x, v in zip(world.pose, (vx, vy, w), strict=True))
    pose, solved = island.solve_positions(pose, position_iterations)

    slow = (w * w <= ANGULAR_SLEEP_TOLERANCE**2) & (vx * vx + vy * vy <= LINEAR_SLEEP_TOLERANCE**2)
    still = jnp.where(jnp.all(slow, axis=0), world.still + time, 0)
    asleep = (still >= TIME_TO_SLEEP) & solved
    velocity = tuple(jnp.where(asleep[None], 0, v) for v in (vx, vy, w))

    after = World(pose, velocity, joints, contacts, touched, world.fat, still)
    if collide_with_ground:
        after, begun, hit = _impacts(scene, world, after, begun, segment, asleep, time, velocity_iterations)
    transform = Transform.of_pose(after.pose, centre)
    corners = scene.polygons.x[:, :, None], scene.polygons.y[:, :, None]
    boxes = [_broad.bounds(corners, t) for t in (before, transform)]
    after = tree.rebuild(after, fat=_broad.moved(world.fat, *boxes, before, transform))
    return after, Step(begun, hit, solved, asleep)


def _collide(scene: Scene, world: World, chain: Chain, transform: Transform):
    """Finds manifolds and updates contacts in Box2D's order (b2ContactManager::Collide)."""
    edge, segment = _broad.window(chain, world.pose[0], world.contacts.edge.shape[1])
    exists = _broad.overlapping(edge, segment, world.fat)
    age, rank = _broad.newest_first(edge, exists, world.contacts)
    edge, age, segment = _broad.reordered(rank, (jnp.where(exists, edge, np.int32(-1)), age, segment))
    centre = scene.centre_x[:, None, None], scene.centre_y[:, None, None]
    lifted = jax.tree.map(lambda x: x[:, None], transform)
    manifold = collide(segment, lifted, _corners(scene), centre)
    count = jnp.where(edge >= 0, manifold.count, 0)
    manifold = tree.rebuild(manifold, count=count)
    contacts, did_touch = _broad.matched(edge, age, count, manifold.keys, world.contacts)

    gone = ~jnp.any(world.contacts.edge[:, :, None] == edge[:, None], axis=2) & (world.contacts.count > 0)
    touched, begun = world.touched & ~jnp.any(gone, axis=1), jnp.zeros_like(world.touched)
    for k in range(edge.shape[1]):
        begins, ends = (count[:, k] > 0) & ~did_touch[:, k], (count[:, k] == 0) & did_touch[:, k]
        touched, begun = jnp.where(begins, True, jnp.where(ends, False, touched)), begun | begins
    return contacts, touched, begun, manifold, segment


def _corners(scene: Scene) -> Corners:
    p = scene.polygons
    vertex, normal = ((x[:, :, None, None], y[:, :, None, None]) for x, y in ((p.x, p.y), (p.normal_x, p.normal_y)))
    return Corners(vertex, normal, p.count[:, None, None])


class _Island:
    """Constraints of one step, and the iterations over them (b2Island)."""

    def __init__(self, scene, world, transform, manifold: Manifold | None, motor_speed, motor_bound):
        self.scene = scene
        self.solvers = [_revolute.Solver(scene, joint) for joint in scene.joints]
        self.speeds, self.bounds = motor_speed, motor_bound
        self.joints, self.kept = [], []
        for j, solver in enumerate(self.solvers):
            angles = world.pose[2][solver.a], world.pose[2][solver.b]
            constraint, kept = solver.prepare(angles, jax.tree.map(lambda x, j=j: x[j], world.joints))
            self.joints.append(constraint)
            self.kept.append(kept)
        self.solid = np.array(scene.solid, np.int32)
        self.manifolds, self.contacts = [], []
        if manifold is not None:
            masses = [x[self.solid][:, None, None] for x in (scene.inverse_mass, scene.inverse_inertia, scene.friction)]
            chosen = jax.tree.map(lambda x: x[self.solid], manifold)
            pose, transform = jax.tree.map(lambda x: x[self.solid][:, None], (world.pose, transform))
            constraint = _contact.prepare(chosen, pose, transform, Masses(*masses))
            slots = range(manifold.count.shape[1])
            self.manifolds = [jax.tree.map(lambda x, k=k: x[:, k], chosen) for k in slots]
            self.contacts = [jax.tree.map(lambda x, k=k: x[:, k], constraint) for k in slots]
        self.masses = Masses(
            *(x[self.solid][:, None] for x in (scene.inverse_mass, scene.inverse_inertia, scene.friction))
        )

    def solve_velocities(self, velocity, _, impulses: Impulses, iterations: int):
        """Warm starts and iterates; velocities ``[n, B]``, impulses of joints ``[J, B]`` and contacts ``[n, K, B]``."""
        bodies = [tuple(v[i] for v in velocity) for i in range(len(self.scene.bodies))]
        chosen = jax.tree.map(lambda x: x[self.solid], impulses)
        pushes = [jax.tree.map(lambda x, k=k: x[:, k], chosen) for k in range(len(self.contacts))]
        if self.contacts:
            touching = self._together(bodies)
            for constraint, push in zip(self.contacts, pushes, strict=True):
                touching = _contact.warm_start(constraint, push, touching, self.masses)
            bodies = self._apart(bodies, touching)
        for solver, constraint, kept in zip(self.solvers, self.joints, self.kept, strict=True):
            two = solver.apply(constraint, kept, (bodies[solver.a], bodies[solver.b]))
            bodies = _with_two(bodies, solver, two)

        def iterate(_, carry):
            bodies, joints, pushes = carry
            joints, pushes = list(joints), list(pushes)
            for j, solver in enumerate(self.solvers):
                two = bodies[solver.a], bodies[solver.b]
                speed, bound = self.speeds[j], self.bounds[j]
                joints[j], two = solver.solve_velocity(self.joints[j], joints[j], two, speed, bound, computed_once)
                bodies = _with_two(bodies, solver, two)
            if self.contacts:
                touching = computed_once(self._together(bodies))
                for k, constraint in enumerate(self.contacts):
                    pushes[k], touching = _contact.solve_velocity(
                        constraint, pushes[k], touching, self.masses, computed_once
                    )
                bodies = self._apart(bodies, touching)
            return bodies, joints, pushes

        bodies, joints, after = lax.fori_loop(0, iterations, iterate, (bodies, self.kept, pushes))
        velocity = tuple(jnp.stack(x) for x in zip(*bodies, strict=True))
        if self.contacts:
            # Points that were not solved keep their impulses.
            after = [
                jax.tree.map(lambda *x: jnp.where(*x), _live(c), new, old)
                for c, new, old in zip(self.contacts, after, pushes, strict=True)
            ]
            stacked = jax.tree.map(lambda *x: jnp.stack(x, axis=1), *after)
            impulses = jax.tree.map(lambda x, new: x.at[self.solid].set(new), impulses, stacked)
        return velocity, jax.tree.map(lambda *x: jnp.stack(x), *joints), impulses

    def solve_positions(self, pose: Triple, iterations: int) -> tuple[Triple, jax.Array]:
        """Iterates until the errors of a lane are within the slops; later iterations leave that lane alone."""
        scene = self.scene
        centre = scene.centre_x[self.solid][:, None], scene.centre_y[self.solid][:, None]

        def iterate(carry):
            count, done, bodies = carry
            old, good = bodies, jnp.ones_like(done)
            if self.contacts:
                touching = self._together(bodies)
                for manifold in self.manifolds:
                    touching, smallest = _contact.solve_position(
                        manifold, touching, centre, self.masses, BAUMGARTE, computed_once
                    )
                    good &= jnp.all(smallest >= np.float32(-3) * LINEAR_SLOP, axis=0)
                bodies = self._apart(bodies, touching)
            for solver, constraint in zip(self.solvers, self.joints, strict=True):
                two, within = solver.solve_position(constraint, (bodies[solver.a], bodies[solver.b]), computed_once)
                bodies = _with_two(bodies, solver, two)
                good &= within
            bodies = jax.tree.map(lambda a, b: jnp.where(done, a, b), old, bodies)
            return count + 1, done | good, bodies

        bodies = [tuple(x[i] for x in pose) for i in range(len(scene.bodies))]
        carry = (np.int32(0), jnp.zeros(pose[0].shape[1:], bool), bodies)
        _, solved, bodies = lax.while_loop(lambda c: (c[0] < iterations) & ~jnp.all(c[1]), iterate, carry)
        return tuple(jnp.stack(x) for x in zip(*bodies, strict=True)), solved  # type: ignore[return-value]

    def _together(self, bodies: list[Triple]) -> Triple:
        """The solid bodies as arrays ``[m, B]``."""
        return tuple(jnp.stack(x) for x in zip(*(bodies[i] for i in self.solid), strict=True))  # type: ignore[return-value]

    def _apart(self, bodies: list[Triple], solid: Triple) -> list[Triple]:
        bodies = list(bodies)
        for m, i in enumerate(self.solid):
            bodies[i] = tuple(x[m] for x in solid)  # type: ignore[assignment]
        return bodies


def _live(constraint: _contact.Constraint) -> Impulses:
    """Which points were solved, as a tree of the impulses' structure."""
    pair = tuple(i < constraint.points for i in range(2))
    return Impulses(pair, pair)


def _with_two(bodies: list[Triple], solver: _revolute.Solver, two: tuple[Triple, Triple]) -> list[Triple]:
    bodies = list(bodies)
    bodies[solver.a], bodies[solver.b] = two
    return bodies


def _limited(velocity: Triple, dt: np.float32) -> Triple:
    """Velocities of which a step moves no body by more than MAX_TRANSLATION and MAX_ROTATION."""
    vx, vy, w = velocity
    length = dt * jnp.sqrt(vx * vx + vy * vy)
    scale = jnp.where(length > MAX_TRANSLATION, MAX_TRANSLATION / jnp.maximum(length, MAX_TRANSLATION), 1)
    turn = dt * jnp.abs(w)
    return vx * scale, vy * scale, w * jnp.where(turn > MAX_ROTATION, MAX_ROTATION / jnp.maximum(turn, MAX_ROTATION), 1)


def _impacts(scene: Scene, before: World, after: World, begun, segment: Segment, asleep, dt, iterations: int):
    """Continuous collision of the bodies that may need it, a block of rows at a time."""
    moving = (after.pose, after.velocity, after.contacts, after.touched, begun, jnp.zeros_like(begun))
    fixed = (before.pose, segment)

    def rows(constants, fixed, moving):
        pose, velocity, *rest = moving
        return _impact.Row(*constants, fixed[0], pose, velocity, fixed[1], *rest)

    masses = Masses(*(x[:, None] for x in (scene.inverse_mass, scene.inverse_inertia, scene.friction)))
    constants = _corners(scene), (scene.centre_x[:, None], scene.centre_y[:, None]), masses
    live = _impact.may_hit(rows(constants, fixed, moving), scene.radius[:, None]) & ~asleep[None]
    n, lanes = begun.shape
    num = jnp.sum(live, dtype=jnp.int32)
    size = min(_BLOCK, n * lanes)
    slots = -(-n * lanes // size) * size
    index = jnp.nonzero(live.reshape(-1), size=slots, fill_value=n * lanes)[0].astype(jnp.int32)
    packed, unpack = _packed(moving)
    still, unpack_still = _packed(fixed)

    def block(carry):
        done, packed = carry
        here = lax.dynamic_slice(index, (done,), (size,))
        body = jnp.minimum(here // np.int32(lanes), np.int32(n - 1))
        row = rows(
            _constants_of(scene, body),
            unpack_still([jnp.take(x, here, axis=1, mode="clip") for x in still]),
            unpack([jnp.take(x, here, axis=1, mode="clip") for x in packed]),
        )
        row = _impact.solve(row, dt, iterations)
        new, _ = _packed((row.end, row.velocity, row.contacts, row.touched, row.begun, row.hit))
        packed = [x.at[:, here].set(y, mode="drop") for x, y in zip(packed, new, strict=True)]
        return done + np.int32(size), packed

    _, packed = lax.while_loop(lambda c: c[0] < num, block, (jnp.int32(0), packed))
    whole = unpack(packed)
    pose, velocity, contacts, touched, begun, hit = jax.tree.map(lambda x: _unfolded(x, n), whole)
    after = tree.rebuild(after, pose=pose, velocity=velocity, contacts=contacts, touched=touched)
    return after, begun, hit


def _packed(values: Any) -> tuple[list[jax.Array], Callable]:
    """Arrays ``[n, ..., B]`` as one of float32 and one of int32, ``[C, n B]``; and the inverse for some columns.

    The inverse gives arrays ``[1, ..., R]``. Gathers and scatters of two arrays compile and run faster than of many.
    """
    leaves, structure = jax.tree.flatten(values)
    middles = [x.shape[1:-1] for x in leaves]
    kinds = [x.dtype for x in leaves]
    real = [jnp.issubdtype(kind, jnp.floating) for kind in kinds]
    rows = [jnp.moveaxis(x, 0, -2).reshape(-1, x.shape[0] * x.shape[-1]) for x in leaves]
    floats = [x for x, r in zip(rows, real, strict=True) if r]
    whole = [x.astype(jnp.int32) for x, r in zip(rows, real, strict=True) if not r]

    def unpack(packed):
        at, out = [0, 0], []
        for middle, kind, r in zip(middles, kinds, real, strict=True):
            source, size = int(not r), int(np.prod(middle, dtype=int))
            x = packed[source][at[source] : at[source] + size]
            at[source] += size
            out.append(x.reshape(1, *middle, x.shape[-1]).astype(kind))
        return structure.unflatten(out)

    return [jnp.concatenate(x) for x in (floats, whole) if x], unpack


def _unfolded(x: jax.Array, n: int) -> jax.Array:
    """``[1, ..., n B]`` to ``[n, ..., B]``."""
    return jnp.moveaxis(x[0].reshape(*x.shape[1:-1], n, x.shape[-1] // n), -2, 0)


def _constants_of(scene: Scene, body: jax.Array) -> tuple[Corners, Any, Masses]:
    """Constants of the bodies with these indices, int32 ``[R]``, in the shapes of `_impact.Row`."""
    p = scene.polygons
    size = len(p.x)
    names = (scene.centre_x, scene.centre_y, scene.inverse_mass, scene.inverse_inertia, scene.friction)
    table = np.concatenate([p.x, p.y, p.normal_x, p.normal_y, np.stack(names), p.count[None]]).astype(np.float32)
    chosen = jnp.take(table, body, axis=1)[:, None]
    x, y, normal_x, normal_y = (chosen[i * size : (i + 1) * size, :, None] for i in range(4))
    centre_x, centre_y, mass, inertia, friction, count = chosen[4 * size :]
    corners = Corners((x, y), (normal_x, normal_y), count[:, None].astype(jnp.int32))
    return corners, (centre_x, centre_y), Masses(mass, inertia, friction)
