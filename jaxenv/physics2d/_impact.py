"""Continuous collision of moving bodies with static edges: b2World::SolveTOI.

Without it a fast body ends a step inside the ground. Box2D takes such a body back to the moment of impact, solves its
contacts alone (without joints), and moves it on. The ground does not move and bodies do not touch each other, so bodies
are independent: a row is one body of one lane. Shapes: ``[1, R]`` for rows, ``[1, K, R]`` for contacts.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxenv import tree
from jaxenv._xla import computed_once
from jaxenv.physics2d import _contact as contact
from jaxenv.physics2d._broad import Contacts, matched, reordered
from jaxenv.physics2d._contact import Impulses, Masses, Triple
from jaxenv.physics2d._distance import TARGET, TOLERANCE, Sweep, time_of_impact
from jaxenv.physics2d._segment import Corners, Manifold, Segment, collide
from jaxenv.physics2d._settings import LINEAR_SLOP, MAX_SUB_STEPS, TOI_BAUMGARTE
from jaxenv.physics2d._vector import Transform, Vector

_POSITION_ITERATIONS = 20
_EVENTS = 20


@tree.struct
class Row:
    """A body of one lane in R rows."""

    corners: Corners  # [V, 1, 1, R] and [1, 1, R]
    centre: Vector  # [1, R]
    masses: Masses  # [1, R]
    start: Triple  # pose at the start of the step, [1, R]
    end: Triple
    velocity: Triple
    segment: Segment  # [1, K, R]
    contacts: Contacts  # [1, K, R], newest first
    touched: jax.Array  # bool [1, R], the last event of a contact was a beginning
    begun: jax.Array  # bool [1, R], a contact began in this step
    hit: jax.Array  # bool [1, R], an impact was found


def may_hit(row: Row, radius: Any) -> jax.Array:
    """Rows whose body comes close enough to the line of an edge for an impact; others have none. Bool ``[1, R]``.

    Corners stay within ``radius * (1 - cos(turn / 2))`` of a straight motion.
    """
    first, second = row.segment
    along = second[0] - first[0], second[1] - first[1]
    length = jnp.sqrt(along[0] * along[0] + along[1] * along[1])
    normal = along[1] / length, -along[0] / length
    heights = []
    for pose in (row.start, row.end):
        transform = Transform.of_pose(tuple(x[:, None] for x in pose), _expanded(row.centre))
        x, y = jax.tree.map(lambda t: t[None], transform).to_world(row.corners.vertex)
        heights.append((x - first[0][None]) * normal[0][None] + (y - first[1][None]) * normal[1][None])
    below, above = (f(jnp.stack([f(h, axis=0) for h in heights]), axis=0) for f in (jnp.min, jnp.max))
    turn = jnp.minimum(jnp.abs(row.end[2] - row.start[2]), np.float32(np.pi))
    sag = (radius * (1 - jnp.cos(np.float32(0.5) * turn)))[:, None]
    nearest = jnp.maximum(below, -above) - sag
    close = nearest < TARGET + TOLERANCE + np.float32(1e-3)
    return jnp.any(close & (row.contacts.edge >= 0), axis=1)


def solve(row: Row, dt: np.float32, velocity_iterations: int) -> Row:
    """The rows after all their impacts."""
    shape = row.contacts.edge.shape[1:]  # [K, R]
    start = (
        np.int32(0),
        jnp.ones(row.touched.shape, bool),
        jnp.zeros(row.touched.shape, jnp.float32),
        jnp.zeros(shape, jnp.int32),
        jnp.ones(shape, bool),
        row,
    )

    def event(carry):
        count, active, past, events, enabled, row = carry
        first = tuple(v[0] for v in row.segment[0]), tuple(v[0] for v in row.segment[1])
        vertex, normal = (tuple(x[:, 0] for x in v) for v in (row.corners.vertex, row.corners.normal))
        sweep = Sweep(row.start, row.end, row.centre, vertex, normal)
        live = active & (row.contacts.edge[0] >= 0) & enabled & (events <= MAX_SUB_STEPS)
        meets, when = time_of_impact(first, sweep, live)
        time = jnp.where(live & meets, jnp.minimum(past + (1 - past) * when, 1), 1)
        earliest = jnp.min(time, axis=0, keepdims=True)
        slots = np.arange(shape[0], dtype=np.int32)[:, None]
        minimal = slots == jnp.argmin(time, axis=0).astype(jnp.int32)[None]
        active = active & (earliest <= np.float32(1 - 10 * np.finfo(np.float32).eps))
        row, go = lax.cond(
            jnp.any(active),
            lambda row: _advance(row, active, earliest, past, minimal, dt, velocity_iterations),
            lambda row: (row, active),
            row,
        )
        # An edge that is not touched at the impact is disabled until its contact is updated again.
        events = events + (active & minimal).astype(jnp.int32)
        enabled = jnp.where(active & minimal, go, enabled | go)
        return count + 1, active, jnp.where(go, earliest, past), events, enabled, row

    return lax.while_loop(lambda c: (c[0] < _EVENTS) & jnp.any(c[1]), event, start)[-1]


def _advance(row: Row, active, earliest, past, minimal, dt, velocity_iterations: int) -> tuple[Row, jax.Array]:
    """Moves the rows to their earliest impact, solves it, and moves them on; also in which rows it was one."""
    part = (earliest - past) / jnp.where(past < 1, 1 - past, np.float32(1))
    pose = tuple((1 - part) * a + part * b for a, b in zip(row.start, row.end, strict=True))
    transform = Transform.of_pose(tuple(x[:, None] for x in pose), _expanded(row.centre))
    manifold = collide(row.segment, transform, row.corners, _expanded(row.centre))
    count = jnp.where(row.contacts.edge >= 0, manifold.count, 0)
    manifold = tree.rebuild(manifold, count=count)
    touches = (count > 0)[0]
    go = active & jnp.any(minimal & touches, axis=0, keepdims=True)
    updated = jnp.where(minimal, active, go)

    new, did_touch = matched(row.contacts.edge, row.contacts.age, count, manifold.keys, row.contacts)
    contacts = jax.tree.map(lambda now, old: jnp.where(updated[None], now, old), new, row.contacts)
    touched, begun = row.touched, row.begun
    # The contact of the impact is updated first, then the others in their order.
    for turn in (minimal, ~minimal):
        for k in range(updated.shape[0]):
            mine = (turn & updated)[k : k + 1]
            now, before = touches[k : k + 1], did_touch[:, k]
            begins, ends = mine & now & ~before, mine & ~now & before
            touched, begun = jnp.where(begins, True, jnp.where(ends, False, touched)), begun | begins

    # Box2D solves the contact of the impact first.
    this, other = minimal[:, None], minimal[None]
    place = np.arange(minimal.shape[0])
    earlier = (place[None, :] < place[:, None])[:, :, None]
    rank = jnp.sum(((other & ~this) | ((this == other) & earlier)).astype(jnp.int32), axis=1)
    manifold = reordered(computed_once(rank)[None], manifold)
    slots = [jax.tree.map(lambda x, k=k: x[:, k], manifold) for k in range(updated.shape[0])]
    pose = _solve_positions(slots, pose, row, go)
    transform = Transform.of_pose(pose, row.centre)
    velocity = _solve_velocities(slots, pose, transform, row, go, velocity_iterations)
    rest = (1 - earliest) * dt
    end = tuple(x + rest * v for x, v in zip(pose, velocity, strict=True))

    def where(now, old):
        return tuple(jnp.where(go, a, b) for a, b in zip(now, old, strict=True))

    row = tree.rebuild(
        row,
        start=where(pose, row.start),
        end=where(end, row.end),
        velocity=where(velocity, row.velocity),
        contacts=contacts,
        touched=touched,
        begun=begun,
        hit=row.hit | go,
    )
    return row, go


def _solve_positions(slots: list[Manifold], pose: Triple, row: Row, go: jax.Array) -> Triple:
    def iterate(carry):
        count, done, pose = carry
        smallest, moved = jnp.zeros_like(pose[0]), pose
        for manifold in slots:
            moved, found = contact.solve_position(manifold, moved, row.centre, row.masses, TOI_BAUMGARTE, computed_once)
            smallest = jnp.minimum(smallest, found)
        pose = tuple(jnp.where(done, old, new) for old, new in zip(pose, moved, strict=True))
        return count + 1, done | (smallest >= np.float32(-1.5) * LINEAR_SLOP), pose

    start = (np.int32(0), ~go, pose)
    return lax.while_loop(lambda c: (c[0] < _POSITION_ITERATIONS) & ~jnp.all(c[1]), iterate, start)[2]


def _solve_velocities(
    slots: list[Manifold], pose: Triple, transform: Transform, row: Row, go: jax.Array, iterations: int
) -> Triple:
    """Iterates until no velocity and no impulse changes: all later iterations would change nothing either."""
    constraints = [contact.prepare(manifold, pose, transform, row.masses) for manifold in slots]
    zero = jnp.zeros_like(pose[0])

    def iterate(carry):
        count, _, velocity, impulses = carry
        old, after = (velocity, impulses), []
        for constraint, push in zip(constraints, impulses, strict=True):
            new, velocity = contact.solve_velocity(constraint, push, velocity, row.masses, computed_once)
            after.append(new)
        pairs = zip(jax.tree.leaves((velocity, after)), jax.tree.leaves(old), strict=True)
        changed = jnp.any(jnp.stack([x != y for x, y in pairs]) & go[None])
        return count + 1, changed, velocity, after

    impulses = [Impulses((zero, zero), (zero, zero)) for _ in constraints]
    start = (np.int32(0), jnp.bool_(True), row.velocity, impulses)
    return lax.while_loop(lambda c: (c[0] < iterations) & c[1], iterate, start)[2]


def _expanded(v: Vector) -> Vector:
    return v[0][:, None], v[1][:, None]
