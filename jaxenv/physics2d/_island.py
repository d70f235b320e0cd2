"""The constraints of one step and the iterations over them: b2Island."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxenv._xla import computed_once
from jaxenv.physics2d import _contact, _revolute
from jaxenv.physics2d._contact import Impulses, Masses, Triple
from jaxenv.physics2d._revolute import JointImpulses
from jaxenv.physics2d._scene import Scene
from jaxenv.physics2d._segment import Manifold
from jaxenv.physics2d._settings import BAUMGARTE, LINEAR_SLOP
from jaxenv.physics2d._vector import Transform


class Island:
    """Constraints of one step, and the iterations over them (b2Island)."""

    def __init__(
        self,
        scene: Scene,
        pose: Triple,
        old: JointImpulses,
        transform: Transform,
        manifold: Manifold | None,
        motor_speed: Sequence[Any],
        motor_bound: Sequence[Any],
    ):
        self.scene = scene
        self.solvers = [_revolute.Solver(scene, joint) for joint in scene.joints]
        self.speeds, self.bounds = motor_speed, motor_bound
        self.joints, self.kept = [], []
        for j, solver in enumerate(self.solvers):
            angles = pose[2][solver.a], pose[2][solver.b]
            constraint, kept = solver.prepare(angles, jax.tree.map(lambda x, j=j: x[j], old))
            self.joints.append(constraint)
            self.kept.append(kept)
        self.solid = np.array(scene.solid, np.int32)
        self.manifolds, self.contacts = [], []
        if manifold is not None:
            masses = [x[self.solid][:, None, None] for x in (scene.inverse_mass, scene.inverse_inertia, scene.friction)]
            chosen = jax.tree.map(lambda x: x[self.solid], manifold)
            pose, transform = jax.tree.map(lambda x: x[self.solid][:, None], (pose, transform))
            together = _contact.prepare(chosen, pose, transform, Masses(*masses))
            slots = range(manifold.count.shape[1])
            self.manifolds = [jax.tree.map(lambda x, k=k: x[:, k], chosen) for k in slots]
            self.contacts = [jax.tree.map(lambda x, k=k: x[:, k], together) for k in slots]
        self.masses = Masses(
            *(x[self.solid][:, None] for x in (scene.inverse_mass, scene.inverse_inertia, scene.friction))
        )

    def solve_velocities(self, velocity: Triple, impulses: Impulses, iterations: int):
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
        return tuple(jnp.stack(x) for x in zip(*bodies, strict=True)), solved

    def _together(self, bodies: list[Triple]) -> Triple:
        """The solid bodies as arrays ``[m, B]``."""
        return tuple(jnp.stack(x) for x in zip(*(bodies[i] for i in self.solid), strict=True))

    def _apart(self, bodies: list[Triple], solid: Triple) -> list[Triple]:
        bodies = list(bodies)
        for m, i in enumerate(self.solid):
            bodies[i] = tuple(x[m] for x in solid)
        return bodies


def _live(constraint: _contact.Constraint) -> Impulses:
    """Which points were solved, as a tree of the impulses' structure."""
    pair = constraint.points > 0, constraint.points > 1
    return Impulses(pair, pair)


def _with_two(bodies: list[Triple], solver: _revolute.Solver, two: tuple[Triple, Triple]) -> list[Triple]:
    bodies = list(bodies)
    bodies[solver.a], bodies[solver.b] = two
    return bodies
