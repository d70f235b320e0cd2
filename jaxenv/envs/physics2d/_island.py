"""Solves the constraints of one step: b2Island.

The functions given to `in_one_kernel` are elementwise over the lanes. They take tuples of bodies, joints or contacts,
whose entries are arrays ``[B]``. Each kernel does as much work as possible, because storing costs more than computing.
"""

import functools
from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxenv import tree
from jaxenv.core import in_one_kernel
from jaxenv.envs.physics2d import _contact, _revolute, _settings
from jaxenv.envs.physics2d._contact import Impulses, Triple, Triples
from jaxenv.envs.physics2d._revolute import JointImpulses
from jaxenv.envs.physics2d._scene import Scene
from jaxenv.envs.physics2d._segment import Manifold
from jaxenv.envs.physics2d._settings import BAUMGARTE, LINEAR_SLOP, MAX_ROTATION, MAX_TRANSLATION
from jaxenv.envs.physics2d._slots import Slots
from jaxenv.envs.physics2d._vector import Transform, apart, entry, pick, together

_AT_ONCE = 3  # iterations on velocities in one kernel; more run faster and compile slower
_AT_ONCE_SHARED = 2  # the same where contacts share slots; jaxlib 0.10.2 never leaves a kernel of three with 64 lanes

Hinges: TypeAlias = tuple[_revolute.Constraint, ...]


@tree.struct
class Start:
    """Input of the solver: bodies after forces, and the impulses of the step before."""

    poses: Triples  # one per body, [B]
    velocities: Triples
    joints: tuple[JointImpulses, ...]
    speeds: tuple[Any, ...]  # of the joints' motors, rad/s: numbers, or arrays [B]
    bounds: tuple[Any, ...]  # their largest impulses in a step, N m s
    slots: Slots | None = None  # None without ground


@tree.struct
class End:
    """Output of the solver."""

    poses: Triples
    velocities: Triples
    joints: tuple[JointImpulses, ...]
    impulses: Any  # [S, B], None without ground
    solved: Array  # bool [B], whether the errors of positions are small enough


@tree.struct
class _Island:
    bodies: Triples  # velocities
    joints: tuple[JointImpulses, ...]
    pushes: tuple[Impulses, ...]  # of the contacts that are solved together with the joints
    later: Impulses | None  # [R, B], of those that are solved one by one
    hinges: Hinges
    contacts: _contact.Constraint | None  # [S, B]


class Solver:
    """The iterations for a scene. `solver_of` makes one object for each."""

    def __init__(self, scene: Scene):
        self.scene = scene
        self.hinges = [_revolute.Solver(scene, joint) for joint in scene.joints]

    def solve(self, start: Start, dt: np.float32, one_by_one: bool = False) -> End:
        """Solves velocities, moves the bodies, and solves positions.

        Contacts are solved together with the joints in one kernel, or one by one up to the largest number in a lane.
        """
        island, slots = self._island(start, one_by_one), start.slots
        island = self._solve_velocities(island, start)
        poses, velocities = in_one_kernel(_moved, dt, start.poses, island.bodies)
        poses, solved = self._solve_positions(island, slots, poses)
        impulses = island.later if one_by_one else together(island.pushes)
        return End(poses, velocities, island.joints, impulses, solved)

    def _island(self, start: Start, one_by_one: bool) -> _Island:
        """Constraints at the poses of the bodies, and velocities after warm starting."""
        slots, contacts, later = start.slots, None, None
        owners: tuple[Any, ...] = ()
        kicks: Triples = ()
        pushes: tuple[Impulses, ...] = ()
        if slots is not None:
            contacts, kick = in_one_kernel(self._prepare, slots.body, start.poses, slots.manifold, slots.impulses)
            num = slots.manifold.count.shape[0]
            owners, kicks = _owners(slots), apart(kick, num)
            pushes = () if one_by_one else apart(slots.impulses, num)
            later = slots.impulses if one_by_one else None
        angles = tuple(pose[2] for pose in start.poses)
        bodies, kept, hinges = in_one_kernel(self._start, angles, start.velocities, start.joints, owners, kicks)
        return _Island(bodies, kept, pushes, later, hinges, contacts)

    def _prepare(
        self, body: Array, poses: Triples, manifold: Manifold, impulses: Impulses
    ) -> tuple[_contact.Constraint, Triple]:
        """Returns a contact's constraint, and how warm starting changes the velocity of its body."""
        pose = self._body_entry(body, poses)
        constraint = _contact.prepare(manifold, pose, Transform.from_pose(pose, self.scene.centre(body)))
        still = tuple(jnp.zeros_like(x) for x in pose)
        return constraint, _contact.warm_start(constraint, impulses, still, _contact.masses_of(self.scene, body))

    def _start(
        self,
        angles: tuple[Array, ...],
        velocities: Triples,
        joints: tuple[JointImpulses, ...],
        owners: tuple[Any, ...],
        kicks: Triples,
    ) -> tuple[Any, ...]:
        bodies, hinges, kept = list(velocities), [], []
        for body, kick in zip(owners, kicks, strict=True):
            self._put(bodies, body, tuple(x + y for x, y in zip(self._body_entry(body, bodies), kick, strict=True)))
        for solver, old in zip(self.hinges, joints, strict=True):
            hinge, impulses = solver.prepare((angles[solver.a], angles[solver.b]), old)
            two = bodies[solver.a], bodies[solver.b]
            bodies[solver.a], bodies[solver.b] = solver.apply(hinge, impulses, two)
            hinges.append(hinge)
            kept.append(impulses)
        return tuple(bodies), tuple(kept), tuple(hinges)

    def _solve_velocities(self, island: _Island, start: Start) -> _Island:
        """Returns the island after all iterations on velocities."""
        slots: Any = start.slots
        at_once = 1 if island.later is not None else _AT_ONCE if self.scene.slots is None else _AT_ONCE_SHARED

        def step(_: Array, moving: tuple[Any, ...]) -> tuple[Any, ...]:
            bodies, joints, pushes, later = moving
            owners = _owners(slots) if pushes else ()
            given = island.hinges, owners, apart(island.contacts, len(pushes)), start.speeds, start.bounds
            bodies, joints, pushes = in_one_kernel(self._velocity_iterations, at_once, bodies, joints, pushes, *given)
            if later is not None:
                bodies, later = lax.fori_loop(0, jnp.max(slots.used), one, (bodies, later))
            return bodies, joints, pushes, later

        def one(s: Array, moving: tuple[Triples, Impulses]) -> tuple[Triples, Impulses]:
            bodies, later = moving
            body, constraint, push = entry((slots.body, island.contacts, later), s)
            bodies, push = in_one_kernel(self._one_velocity, bodies, body, constraint, push)
            write = functools.partial(lax.dynamic_update_index_in_dim, index=s, axis=0)
            return bodies, jax.tree.map(write, later, push)

        moving = island.bodies, island.joints, island.pushes, island.later
        bodies, joints, pushes, later = lax.fori_loop(0, _settings.VELOCITY_ITERATIONS // at_once, step, moving)
        return tree.rebuild(island, bodies=bodies, joints=joints, pushes=pushes, later=later)

    def _velocity_iterations(
        self,
        num: int,
        bodies: Any,
        joints: Any,
        pushes: Any,
        hinges: Hinges,
        owners: tuple[Any, ...],
        contacts: Sequence[_contact.Constraint],
        speeds: tuple[Any, ...],
        bounds: tuple[Any, ...],
    ) -> tuple[Any, ...]:
        """Iterates on the joints of ``hinges``, all or none, and on the contacts of ``owners``."""
        bodies, joints, pushes = list(bodies), list(joints), list(pushes)
        for _ in range(num):
            for j, hinge in enumerate(hinges):
                solver = self.hinges[j]
                joints[j], (bodies[solver.a], bodies[solver.b]) = solver.solve_velocity(
                    hinge, joints[j], (bodies[solver.a], bodies[solver.b]), speeds[j], bounds[j]
                )
            for k, (body, constraint) in enumerate(zip(owners, contacts, strict=True)):
                masses, velocity = _contact.masses_of(self.scene, body), self._body_entry(body, bodies)
                pushes[k], velocity = _contact.solve_velocity(constraint, pushes[k], velocity, masses)
                self._put(bodies, body, velocity)
        return tuple(bodies), tuple(joints), tuple(pushes)

    def _one_velocity(self, bodies: Any, body: Array, contact: Any, push: Impulses) -> tuple[Triples, Impulses]:
        """Returns bodies and impulses after an iteration of one contact."""
        bodies, _, (push,) = self._velocity_iterations(1, bodies, (), (push,), (), (body,), (contact,), (), ())
        return bodies, push

    def _solve_positions(self, island: _Island, slots: Any, poses: Triples) -> tuple[Triples, Array]:
        """Returns poses after iterations until the errors are small enough, and whether they are, bool ``[B]``."""

        def step(carry: tuple[Any, ...]) -> tuple[Any, ...]:
            count, done, poses = carry
            if island.later is None:
                num = len(island.pushes)
                owners, manifolds = (_owners(slots), apart(slots.manifold, num)) if num else ((), ())
                moving = in_one_kernel(self._position_iteration, done, poses, island.hinges, owners, manifolds)
                return count + 1, *moving
            good, moved = lax.fori_loop(0, jnp.max(slots.used), one, (jnp.ones_like(done), poses))
            return count + 1, *in_one_kernel(self._joint_positions, done, poses, good, moved, island.hinges)

        def one(s: Array, moving: tuple[Array, Triples]) -> tuple[Array, Triples]:
            body, manifold = entry((slots.body, slots.manifold), s)
            return in_one_kernel(self._contact_positions, *moving, (body,), (manifold,))

        start = np.int32(0), jnp.zeros_like(poses[0][0], bool), poses
        _, solved, poses = lax.while_loop(
            lambda c: (c[0] < _settings.POSITION_ITERATIONS) & ~jnp.all(c[1]), step, start
        )
        return poses, solved

    def _position_iteration(
        self, done: Array, poses: Triples, hinges: Hinges, owners: tuple[Any, ...], manifolds: Any
    ) -> tuple[Array, Triples]:
        good, moved = self._contact_positions(done | True, poses, owners, manifolds)
        return self._joint_positions(done, poses, good, moved, hinges)

    def _contact_positions(
        self, good: Array, poses: Triples, owners: tuple[Any, ...], manifolds: Any
    ) -> tuple[Array, Triples]:
        """Returns whether contacts are good, and poses, after an iteration of some contacts."""
        bodies = list(poses)
        for body, manifold in zip(owners, manifolds, strict=True):
            masses, centre = _contact.masses_of(self.scene, body), self.scene.centre(body)
            pose, least = _contact.solve_position(manifold, self._body_entry(body, bodies), centre, masses, BAUMGARTE)
            self._put(bodies, body, pose)
            good = good & (least >= np.float32(-3) * LINEAR_SLOP)
        return good, tuple(bodies)

    def _joint_positions(
        self, done: Array, poses: Triples, good: Array, moved: Triples, hinges: Hinges
    ) -> tuple[Array, Triples]:
        """Returns whether lanes are done, and poses, after an iteration of the joints in the other lanes."""
        bodies = list(moved)
        for solver, constraint in zip(self.hinges, hinges, strict=True):
            two, within = solver.solve_position(constraint, (bodies[solver.a], bodies[solver.b]))
            bodies[solver.a], bodies[solver.b] = two
            good = good & within
        return done | good, jax.tree.map(lambda old, new: jnp.where(done, old, new), tuple(poses), tuple(bodies))

    def _body_entry(self, body: Any, bodies: Sequence[Triple]) -> Triple:
        first = self.scene.solid[0]
        return pick(body - first, bodies[first : self.scene.solid[-1] + 1])

    def _put(self, bodies: list[Triple], body: Any, value: Triple) -> None:
        if isinstance(body, int):
            bodies[body] = value
            return
        for i in self.scene.solid:
            bodies[i] = jax.tree.map(lambda new, old, i=i: jnp.where(body == i, new, old), value, bodies[i])


def _owners(slots: Any) -> tuple[Any, ...]:
    """Returns the bodies of the contacts: numbers, or int32 ``[B]``."""
    if isinstance(slots.body, np.ndarray):
        return tuple(slots.body[:, 0].tolist())
    return apart(slots.body, slots.body.shape[0])


def _moved(time: np.float32, poses: Triples, velocities: Triples) -> tuple[Any, ...]:
    """Returns the poses after the step without corrections, and the velocities within Box2D's limits."""
    limited = []
    for vx, vy, w in velocities:
        length = time * jnp.sqrt(vx * vx + vy * vy)
        scale = jnp.where(length > MAX_TRANSLATION, MAX_TRANSLATION / jnp.maximum(length, MAX_TRANSLATION), 1)
        turn = time * jnp.abs(w)
        slower = jnp.where(turn > MAX_ROTATION, MAX_ROTATION / jnp.maximum(turn, MAX_ROTATION), 1)
        limited.append((vx * scale, vy * scale, w * slower))
    pairs = zip(poses, limited, strict=True)
    return tuple(tuple(x + time * v for x, v in zip(*pair, strict=True)) for pair in pairs), tuple(limited)


# The same solver at every call with a scene, so that its kernels are traced once.
solver_of = functools.lru_cache(maxsize=64)(Solver)
