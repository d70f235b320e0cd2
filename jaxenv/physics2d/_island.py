"""The constraints of one step and the iterations over them: b2Island.

The functions given to `in_one_kernel` are elementwise over the lanes. They take tuples of bodies, joints or contacts,
whose entries are arrays ``[B]``. Each kernel does as much as it can, because storing costs more than computing.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxenv import tree
from jaxenv._xla import in_one_kernel
from jaxenv.physics2d import _contact, _revolute
from jaxenv.physics2d._contact import Impulses, Triple
from jaxenv.physics2d._revolute import JointImpulses
from jaxenv.physics2d._scene import Scene
from jaxenv.physics2d._segment import Manifold
from jaxenv.physics2d._settings import BAUMGARTE, LINEAR_SLOP
from jaxenv.physics2d._slots import Slots
from jaxenv.physics2d._vector import Transform, pick

_AT_ONCE = 2  # iterations on velocities in one kernel; more run faster and compile slower


@tree.struct
class Motors:
    """What drives the joints, one entry per joint: numbers, or arrays ``[B]``."""

    speeds: tuple[Any, ...]  # rad/s
    bounds: tuple[Any, ...]  # the largest impulse in a step, N m s


@tree.struct
class Island:
    """Bodies with their constraints. Contacts are ``[S, B]``, one entry per slot; None without ground."""

    bodies: tuple[Triple, ...]  # velocities
    joints: tuple[JointImpulses, ...]
    pushes: tuple[Impulses, ...]  # of the contacts that are solved together with the joints
    later: Impulses | None  # [R, B], of the contacts that are solved one by one
    hinges: tuple[_revolute.Constraint, ...]
    contacts: _contact.Constraint | None
    slots: Slots | None

    def solved(self) -> Impulses:
        """The impulses of all slots, ``[S, B]``."""
        stacked = jax.tree.map(lambda *x: jnp.stack(x), *self.pushes)
        return stacked if self.later is None else jax.tree.map(lambda *x: jnp.concatenate(x), stacked, self.later)


class Solver:
    """The iterations for a scene. `solver_of` makes one object for each."""

    def __init__(self, scene: Scene):
        self.scene = scene
        self.hinges = [_revolute.Solver(scene, joint) for joint in scene.joints]

    def island(self, poses, velocities, joints, slots: Slots | None) -> Island:
        """Constraints at the poses of the bodies, and velocities after warm starting."""
        contacts: Any = None
        later: Any = None
        owners, kicks, pushes = (), (), ()
        if slots is not None:
            contacts, kick = in_one_kernel(self._prepare, slots.body, poses, slots.manifold, slots.impulses)
            size = slots.manifold.count.shape[0]
            owners, kicks = _owners(slots, size), tuple(_entry(kick, s) for s in range(size))
            pushes = tuple(_entry(slots.impulses, s) for s in range(slots.num_together))
            later = jax.tree.map(lambda x: x[slots.num_together :], slots.impulses) if slots.shared else None
        angles = tuple(pose[2] for pose in poses)
        bodies, kept, hinges = in_one_kernel(self._start, angles, velocities, joints, owners, kicks)
        return Island(bodies, kept, pushes, later, hinges, contacts, slots)

    def _prepare(self, body, poses, manifold: Manifold, impulses: Impulses):
        """A contact's constraint, and the change of its body's velocity by warm starting."""
        pose = self._of(body, poses)
        constraint = _contact.prepare(manifold, pose, Transform.of_pose(pose, self.scene.centre(body)))
        still = tuple(jnp.zeros_like(x) for x in pose)
        return constraint, _contact.warm_start(constraint, impulses, still, _contact.masses_of(self.scene, body))

    def _start(self, angles, velocities, joints, owners, kicks):
        bodies, hinges, kept = list(velocities), [], []
        for body, kick in zip(owners, kicks, strict=True):
            self._put(bodies, body, tuple(x + y for x, y in zip(self._of(body, bodies), kick, strict=True)))
        for solver, old in zip(self.hinges, joints, strict=True):
            hinge, impulses = solver.prepare((angles[solver.a], angles[solver.b]), old)
            two = bodies[solver.a], bodies[solver.b]
            bodies[solver.a], bodies[solver.b] = solver.apply(hinge, impulses, two)
            hinges.append(hinge)
            kept.append(impulses)
        return tuple(bodies), tuple(kept), tuple(hinges)

    def solve_velocities(self, island: Island, motors: Motors, iterations: int) -> Island:
        """The island after all iterations on velocities."""
        slots, contacts = island.slots, island.contacts
        at_once = _AT_ONCE if iterations % _AT_ONCE == 0 and island.later is None else 1

        def step(_, moving):
            bodies, joints, pushes, later = moving
            together = [_entry(contacts, s) for s in range(len(pushes))]
            owners = _owners(slots, len(pushes))
            bodies, joints, pushes = in_one_kernel(
                self._velocity_iterations, at_once, bodies, joints, pushes, island.hinges, owners, together, motors
            )

            def one(r, moving):
                bodies, later = moving
                body, constraint = _entry((slots.body, contacts), slots.num_together + r)
                bodies, push = in_one_kernel(self._one_velocity, bodies, body, constraint, _entry(later, r))
                write = functools.partial(lax.dynamic_update_index_in_dim, index=r, axis=0)
                return bodies, jax.tree.map(write, later, push)

            if later is not None:
                bodies, later = lax.fori_loop(0, slots.num_later, one, (bodies, later))
            return bodies, joints, pushes, later

        moving = island.bodies, island.joints, island.pushes, island.later
        bodies, joints, pushes, later = lax.fori_loop(0, iterations // at_once, step, moving)
        return tree.rebuild(island, bodies=bodies, joints=joints, pushes=pushes, later=later)

    def _velocity_iterations(self, num: int, bodies, joints, pushes, hinges, owners, contacts, motors: Motors):
        bodies, joints, pushes = list(bodies), list(joints), list(pushes)
        for _ in range(num):
            for j, solver in enumerate(self.hinges):
                joints[j], (bodies[solver.a], bodies[solver.b]) = solver.solve_velocity(
                    hinges[j], joints[j], (bodies[solver.a], bodies[solver.b]), motors.speeds[j], motors.bounds[j]
                )
            for k, (body, constraint) in enumerate(zip(owners, contacts, strict=True)):
                pushes[k] = self._velocity(bodies, body, constraint, pushes[k])
        return tuple(bodies), tuple(joints), tuple(pushes)

    def _one_velocity(self, bodies, body, constraint: _contact.Constraint, push: Impulses):
        """Bodies and impulses after an iteration of one contact."""
        bodies = list(bodies)
        push = self._velocity(bodies, body, constraint, push)
        return tuple(bodies), push

    def _velocity(self, bodies: list[Triple], body, constraint: _contact.Constraint, push: Impulses) -> Impulses:
        """The impulses after an iteration of one contact; replaces the velocity of its body."""
        masses = _contact.masses_of(self.scene, body)
        push, velocity = _contact.solve_velocity(constraint, push, self._of(body, bodies), masses)
        self._put(bodies, body, velocity)
        return push

    def solve_positions(
        self, island: Island, poses: tuple[Triple, ...], iterations: int
    ) -> tuple[tuple[Triple, ...], jax.Array]:
        """Poses after iterations until the errors of a lane are small enough; and whether they are, bool ``[B]``."""
        slots, num = island.slots, len(island.pushes)

        def step(carry):
            count, done, poses = carry
            manifolds = [_entry(slots.manifold, s) for s in range(num)] if slots else []
            owners = _owners(slots, num)
            if island.later is None:
                return count + 1, *in_one_kernel(
                    self._position_iteration, done, poses, island.hinges, owners, manifolds
                )

            def one(r, moving):
                body, manifold = _entry((slots.body, slots.manifold), num + r)
                return in_one_kernel(self._contact_positions, *moving, (body,), (manifold,))

            moving = in_one_kernel(self._contact_positions, jnp.ones_like(done), poses, owners, manifolds)
            moving = lax.fori_loop(0, slots.num_later, one, moving)
            return count + 1, *in_one_kernel(self._joint_positions, done, poses, *moving, island.hinges)

        start = np.int32(0), jnp.zeros_like(poses[0][0], bool), poses
        _, solved, poses = lax.while_loop(lambda c: (c[0] < iterations) & ~jnp.all(c[1]), step, start)
        return poses, solved

    def _position_iteration(self, done, poses, hinges, owners, manifolds):
        moved = self._contact_positions(done | True, poses, owners, manifolds)
        return self._joint_positions(done, poses, *moved, hinges)

    def _contact_positions(self, good, poses, owners, manifolds):
        """Whether contacts are good, and poses, after an iteration of some contacts."""
        bodies = list(poses)
        for body, manifold in zip(owners, manifolds, strict=True):
            masses, centre = _contact.masses_of(self.scene, body), self.scene.centre(body)
            pose, least = _contact.solve_position(manifold, self._of(body, bodies), centre, masses, BAUMGARTE)
            self._put(bodies, body, pose)
            good = good & (least >= np.float32(-3) * LINEAR_SLOP)
        return good, tuple(bodies)

    def _joint_positions(self, done, poses, good, moved, hinges):
        """Whether lanes are done, and poses, after an iteration of the joints; lanes that were done keep theirs."""
        bodies = list(moved)
        for solver, constraint in zip(self.hinges, hinges, strict=True):
            (bodies[solver.a], bodies[solver.b]), within = solver.solve_position(
                constraint, (bodies[solver.a], bodies[solver.b])
            )
            good = good & within
        return done | good, jax.tree.map(lambda old, new: jnp.where(done, old, new), tuple(poses), tuple(bodies))

    def _of(self, body: Any, bodies: Sequence[Triple]) -> Triple:
        """What belongs to a solid body, an index or an array of them."""
        first = self.scene.solid[0]
        return pick(body - first, bodies[first : self.scene.solid[-1] + 1])

    def _put(self, bodies: list[Triple], body: Any, value: Triple) -> None:
        """Replaces what belongs to a solid body."""
        for i in (body,) if isinstance(body, int) else self.scene.solid:
            here = isinstance(body, int) or body == i
            bodies[i] = value if here is True else jax.tree.map(lambda new, old, here=here: jnp.where(here, new, old), value, bodies[i])


def _entry(values: Any, s: Any) -> Any:
    """The entries of slot ``s``, a number or an int32 scalar."""
    if isinstance(s, int):
        return jax.tree.map(lambda x: x[s], values)
    return jax.tree.map(lambda x: lax.dynamic_index_in_dim(x, s, keepdims=False), values)


def _owners(slots: Slots | None, num: int) -> tuple[Any, ...]:
    """The bodies of the first contacts: numbers, or int32 ``[B]``."""
    if slots is None:
        return ()
    return tuple(slots.body[s] if slots.shared else int(slots.body[s, 0]) for s in range(num))


@functools.lru_cache(maxsize=64)
def solver_of(scene: Scene) -> Solver:
    """The solver of a scene, the same at every call, so that its kernels are traced once."""
    return Solver(scene)
