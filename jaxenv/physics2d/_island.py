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
from jaxenv.physics2d._vector import Transform

_AT_ONCE = 3  # iterations on velocities in one kernel; more run faster and compile slower


@tree.struct
class Motors:
    """What drives the joints, one entry per joint: numbers, or arrays ``[B]``."""

    speeds: tuple[Any, ...]  # rad/s
    bounds: tuple[Any, ...]  # the largest impulse in a step, N m s


@tree.struct
class Island:
    """Bodies with their constraints; a list of the contacts' slots for each solid body, or none without ground."""

    bodies: tuple[Triple, ...]  # velocities
    joints: tuple[JointImpulses, ...]
    pushes: tuple[tuple[Impulses, ...], ...]
    hinges: tuple[_revolute.Constraint, ...]
    contacts: tuple[tuple[_contact.Constraint, ...], ...]


class Solver:
    """The iterations for a scene. `solver_of` makes one object for each."""

    def __init__(self, scene: Scene):
        self.scene = scene
        self.hinges = [_revolute.Solver(scene, joint) for joint in scene.joints]
        self.masses = [_contact.masses_of(scene, i) for i in scene.solid]

    def start(self, poses, velocities, joints, manifolds, pushes) -> Island:
        """Constraints at the poses of the bodies, and velocities after warm starting."""
        hinges, kept, bodies = [], [], list(velocities)
        contacts = []
        for i, masses, slots, own in zip(self._touching(manifolds), self.masses, manifolds, pushes, strict=False):
            transform = Transform.of_pose(poses[i], self.scene.centre(i))
            contacts.append(tuple(_contact.prepare(manifold, poses[i], transform) for manifold in slots))
            for constraint, push in zip(contacts[-1], own, strict=True):
                bodies[i] = _contact.warm_start(constraint, push, bodies[i], masses)
        for solver, old in zip(self.hinges, joints, strict=True):
            hinge, impulses = solver.prepare((poses[solver.a][2], poses[solver.b][2]), old)
            two = bodies[solver.a], bodies[solver.b]
            bodies[solver.a], bodies[solver.b] = solver.apply(hinge, impulses, two)
            hinges.append(hinge)
            kept.append(impulses)
        pushes = tuple(tuple(own) for own in pushes)
        return Island(tuple(bodies), tuple(kept), pushes, tuple(hinges), tuple(contacts))

    def solve_velocities(self, island: Island, motors: Motors, iterations: int) -> Island:
        """The island after all iterations on velocities."""
        at_once = _AT_ONCE if iterations % _AT_ONCE == 0 else 1

        def step(_, moving):
            return in_one_kernel(self._velocity_iterations, at_once, *moving, island.hinges, island.contacts, motors)

        moving = island.bodies, island.joints, island.pushes
        bodies, joints, pushes = lax.fori_loop(0, iterations // at_once, step, moving)
        return tree.rebuild(island, bodies=bodies, joints=joints, pushes=pushes)

    def _velocity_iterations(self, num: int, bodies, joints, pushes, hinges, contacts, motors: Motors):
        bodies, joints = list(bodies), list(joints)
        pushes = [list(own) for own in pushes]
        for _ in range(num):
            for j, solver in enumerate(self.hinges):
                joints[j], (bodies[solver.a], bodies[solver.b]) = solver.solve_velocity(
                    hinges[j], joints[j], (bodies[solver.a], bodies[solver.b]), motors.speeds[j], motors.bounds[j]
                )
            for i, masses, slots, own in zip(self._touching(contacts), self.masses, contacts, pushes, strict=False):
                for k, constraint in enumerate(slots):
                    own[k], bodies[i] = _contact.solve_velocity(constraint, own[k], bodies[i], masses)
        return tuple(bodies), tuple(joints), tuple(tuple(own) for own in pushes)

    def solve_positions(
        self,
        poses: tuple[Triple, ...],
        hinges: Sequence[_revolute.Constraint],
        manifolds: Sequence[Sequence[Manifold]],
        iterations: int,
    ) -> tuple[tuple[Triple, ...], jax.Array]:
        """Poses after iterations until the errors of a lane are small enough; and whether they are, bool ``[B]``."""

        def step(carry):
            count, *moving = carry
            return count + 1, *in_one_kernel(self._position_iteration, *moving, hinges, manifolds)

        start = np.int32(0), jnp.zeros_like(poses[0][0], bool), poses
        _, solved, poses = lax.while_loop(lambda c: (c[0] < iterations) & ~jnp.all(c[1]), step, start)
        return poses, solved

    def _position_iteration(self, done, poses, hinges, manifolds):
        bodies, good = list(poses), done | True
        for i, masses, slots in zip(self._touching(manifolds), self.masses, manifolds, strict=False):
            for manifold in slots:
                bodies[i], least = _contact.solve_position(manifold, bodies[i], self.scene.centre(i), masses, BAUMGARTE)
                good = good & (least >= np.float32(-3) * LINEAR_SLOP)
        for solver, constraint in zip(self.hinges, hinges, strict=True):
            (bodies[solver.a], bodies[solver.b]), within = solver.solve_position(
                constraint, (bodies[solver.a], bodies[solver.b])
            )
            good = good & within
        return done | good, jax.tree.map(lambda old, new: jnp.where(done, old, new), tuple(poses), tuple(bodies))

    def _touching(self, slots: Sequence[Any]) -> tuple[int, ...]:
        """Indices of the solid bodies, or none without ground."""
        return self.scene.solid if slots else ()


@functools.lru_cache(maxsize=64)
def solver_of(scene: Scene) -> Solver:
    """The solver of a scene, the same at every call, so that its kernels are traced once."""
    return Solver(scene)
