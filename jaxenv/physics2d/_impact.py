"""Continuous collision of moving bodies with static edges: b2World::SolveTOI.

Without it a fast body ends a step inside the ground. Box2D takes such a body back to the moment of impact, solves its
contacts alone (without joints), and moves it on. The ground does not move and bodies do not touch each other, so bodies
are independent: a row is one body of one lane, and arrays are ``[R]``.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxenv import tree
from jaxenv._xla import in_one_kernel
from jaxenv.physics2d import _contact as contact
from jaxenv.physics2d._broad import Contacts, matched, reordered
from jaxenv.physics2d._contact import Impulses, Triple, masses_of
from jaxenv.physics2d._distance import TARGET, TOLERANCE, Motion, time_of_impact
from jaxenv.physics2d._scene import Scene
from jaxenv.physics2d._segment import Manifold, Segment, collide, corners_of
from jaxenv.physics2d._settings import LINEAR_SLOP, MAX_SUB_STEPS, TOI_BAUMGARTE
from jaxenv.physics2d._vector import Transform, pick, smallest

_POSITION_ITERATIONS = 20
_EVENTS = 20


@tree.struct
class Row:
    """A body of one lane; segments and contacts are tuples over the K edges near it, newest first."""

    body: Any  # int32, index of the body
    start: Triple  # pose at the start of the step
    segments: tuple[Segment, ...]
    end: Triple
    velocity: Triple
    contacts: tuple[Contacts, ...]
    touched: Any  # bool, the last event of a contact was a beginning
    begun: Any  # bool, a contact began in this step
    hit: Any  # bool, an impact was found


def may_hit(scene: Scene, row: Row, awake: Any) -> Any:
    """Whether the body comes close enough to the line of an edge for an impact; others have none. Elementwise.

    Corners stay within ``radius * (1 - cos(turn / 2))`` of a straight motion.
    """
    corners, centre = corners_of(scene, row.body).vertex, scene.centre(row.body)
    transforms = [Transform.of_pose(pose, centre) for pose in (row.start, row.end)]
    places = [transform.to_world(v) for transform in transforms for v in corners]
    turn = jnp.minimum(jnp.abs(row.end[2] - row.start[2]), np.float32(np.pi))
    sag = pick(row.body, list(scene.radius)) * (1 - jnp.cos(np.float32(0.5) * turn))
    hits = row.touched & False
    for (first, second), known in zip(row.segments, row.contacts, strict=True):
        along = second[0] - first[0], second[1] - first[1]
        length = jnp.sqrt(along[0] * along[0] + along[1] * along[1])
        normal = along[1] / length, -along[0] / length
        heights = [(x - first[0]) * normal[0] + (y - first[1]) * normal[1] for x, y in places]
        below, above = smallest(heights)[0], -smallest([-h for h in heights])[0]
        nearest = jnp.maximum(below, -above) - sag
        hits = hits | ((nearest < TARGET + TOLERANCE + np.float32(1e-3)) & (known.edge >= 0))
    return hits & awake


def solve(scene: Scene, row: Row, dt: np.float32, velocity_iterations: int) -> Row:
    """The rows after all their impacts."""
    size = len(row.contacts)
    no, zero = jnp.zeros_like(row.hit), jnp.zeros_like(row.start[0])
    start = (np.int32(0), ~no, zero, (jnp.zeros_like(row.body),) * size, (~no,) * size, row)

    def event(carry):
        count, active, past, events, enabled, row = carry
        segment = jax.tree.map(lambda *x: jnp.stack(x), *row.segments)
        edge = jnp.stack([known.edge for known in row.contacts])
        live = active[None] & (edge >= 0) & jnp.stack(enabled) & (jnp.stack(events) <= MAX_SUB_STEPS)
        meets, when = time_of_impact(scene, Motion(segment, row.body, row.start, row.end), live)
        times = jnp.where(live & meets, jnp.minimum(past[None] + (1 - past[None]) * when, 1), 1)
        earliest, first = jnp.min(times, axis=0), jnp.argmin(times, axis=0).astype(jnp.int32)
        active = active & (earliest <= np.float32(1 - 10 * np.finfo(np.float32).eps))
        row, go = lax.cond(
            jnp.any(active),
            lambda row: _advance(scene, row, active, earliest, past, first, dt, velocity_iterations),
            lambda row: (row, active),
            row,
        )
        # An edge that is not touched at the impact is disabled until its contact is updated again.
        mine = [active & (first == k) for k in range(size)]
        events = tuple(n + m.astype(jnp.int32) for n, m in zip(events, mine, strict=True))
        enabled = tuple(jnp.where(m, go, on | go) for on, m in zip(enabled, mine, strict=True))
        return count + 1, active, jnp.where(go, earliest, past), events, enabled, row

    return lax.while_loop(lambda c: (c[0] < _EVENTS) & jnp.any(c[1]), event, start)[-1]


def _advance(
    scene: Scene, row: Row, active, earliest, past, first, dt: np.float32, velocity_iterations: int
) -> tuple[Row, jax.Array]:
    """Moves the rows to their earliest impact, solves it, and moves them on; also in which rows it was one."""
    row, go, pose, manifolds = in_one_kernel(_met, scene, row, active, earliest, past, first)
    pose = _solve_positions(scene, row.body, manifolds, pose, go)
    velocity = _solve_velocities(scene, row, manifolds, pose, go, velocity_iterations)

    pose, end, velocity = in_one_kernel(_moved_on, row, go, earliest, pose, velocity, dt)
    return tree.rebuild(row, start=pose, end=end, velocity=velocity, hit=row.hit | go), go


def _moved_on(row: Row, go: Any, earliest: Any, pose: Triple, velocity: Triple, dt: np.float32) -> Any:
    """Pose, end pose and velocity; those of the row where there was no impact. Elementwise."""
    rest = (1 - earliest) * dt
    end = tuple(x + rest * v for x, v in zip(pose, velocity, strict=True))
    old = row.start, row.end, row.velocity
    return jax.tree.map(lambda new, old: jnp.where(go, new, old), (pose, end, velocity), old)


def _met(scene: Scene, row: Row, active, earliest, past, first):
    """Contacts at the time of impact: the row, whether it is an impact, the pose, and manifolds in the solver's order.

    Elementwise.
    """
    size = len(row.contacts)
    part = (earliest - past) / jnp.where(past < 1, 1 - past, np.float32(1))
    pose = tuple((1 - part) * a + part * b for a, b in zip(row.start, row.end, strict=True))
    corners, centre = corners_of(scene, row.body), scene.centre(row.body)
    transform = Transform.of_pose(pose, centre)
    manifolds = []
    for segment, known in zip(row.segments, row.contacts, strict=True):
        manifold = collide(segment, transform, corners, centre)
        manifolds.append(tree.rebuild(manifold, count=jnp.where(known.edge >= 0, manifold.count, 0)))
    touches = [manifold.count > 0 for manifold in manifolds]
    go = active & pick(first, touches)

    updated = [jnp.where(first == k, active, go) for k in range(size)]
    contacts, events = [], []
    for known, manifold, update in zip(row.contacts, manifolds, updated, strict=True):
        new, before = matched(known.edge, known.age, manifold.count, manifold.keys, row.contacts)
        contacts.append(jax.tree.map(lambda now, old, update=update: jnp.where(update, now, old), new, known))
        now = manifold.count > 0
        events.append((update & now & ~before, update & ~now & before))
    # The contact of the impact is updated and solved first, then the others in their order.
    ranks = [jnp.where(first == k, np.int32(0), np.int32(k) + (first > k).astype(jnp.int32)) for k in range(size)]
    touched, begun = row.touched, row.begun
    for begins, ends in reordered(ranks, events):
        touched, begun = jnp.where(begins, True, jnp.where(ends, False, touched)), begun | begins
    row = tree.rebuild(row, contacts=tuple(contacts), touched=touched, begun=begun)
    return row, go, pose, tuple(reordered(ranks, manifolds))


def _solve_positions(scene: Scene, body, manifolds: Sequence[Manifold], pose: Triple, go: jax.Array) -> Triple:
    def step(carry):
        return carry[0] + 1, *in_one_kernel(_position_iteration, scene, body, manifolds, *carry[1:])

    start = (np.int32(0), ~go, pose)
    return lax.while_loop(lambda c: (c[0] < _POSITION_ITERATIONS) & ~jnp.all(c[1]), step, start)[2]


def _position_iteration(scene: Scene, body, manifolds: Sequence[Manifold], done, pose: Triple) -> tuple[Any, Triple]:
    centre, masses = scene.centre(body), masses_of(scene, body)
    least: Any = np.float32(0)
    moved = pose
    for manifold in manifolds:
        moved, found = contact.solve_position(manifold, moved, centre, masses, TOI_BAUMGARTE)
        least = jnp.minimum(least, found)
    pose = tuple(jnp.where(done, old, new) for old, new in zip(pose, moved, strict=True))
    return done | (least >= np.float32(-1.5) * LINEAR_SLOP), pose


def _solve_velocities(
    scene: Scene, row: Row, manifolds: Sequence[Manifold], pose: Triple, go: jax.Array, iterations: int
) -> Triple:
    """Iterates until no velocity and no impulse changes: all later iterations would change nothing either."""
    constraints = in_one_kernel(_prepare, scene, row.body, manifolds, pose)

    def step(carry):
        return carry[0] + 1, *in_one_kernel(_velocity_iteration, scene, row.body, constraints, go, *carry[2:])

    zero = jnp.zeros_like(pose[0])
    pushes = (Impulses((zero, zero), (zero, zero)),) * len(constraints)
    start = (np.int32(0), jnp.ones_like(go), row.velocity, pushes)
    return lax.while_loop(lambda c: (c[0] < iterations) & jnp.any(c[1]), step, start)[2]


def _prepare(scene: Scene, body, manifolds: Sequence[Manifold], pose: Triple) -> tuple[contact.Constraint, ...]:
    transform = Transform.of_pose(pose, scene.centre(body))
    return tuple(contact.prepare(manifold, pose, transform) for manifold in manifolds)


def _velocity_iteration(scene: Scene, body, constraints: Sequence[contact.Constraint], go, velocity: Triple, pushes):
    masses, after, old = masses_of(scene, body), [], (velocity, pushes)
    for constraint, push in zip(constraints, pushes, strict=True):
        new, velocity = contact.solve_velocity(constraint, push, velocity, masses)
        after.append(new)
    moving = velocity, tuple(after)
    changed = go & False
    for x, y in zip(jax.tree.leaves(moving), jax.tree.leaves(old), strict=True):
        changed = changed | (go & (x != y))
    return changed, *moving
