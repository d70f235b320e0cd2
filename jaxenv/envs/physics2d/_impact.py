"""Solves continuous collision of moving bodies with static edges and blocks: b2World::SolveTOI.

Without it a fast body ends a step inside the ground. Box2D takes such a body back to the moment of impact, solves its
contacts alone (without joints), and moves it on. The ground does not move and bodies do not touch each other, so bodies
are independent: a row is one body of one lane. Arrays are ``[R]``, or ``[K, R]`` for the contacts of a body: with the
blocks near it and then with the edges.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxenv import tree
from jaxenv.core import in_one_kernel
from jaxenv.envs.physics2d import _block, _segment
from jaxenv.envs.physics2d import _contact as contact
from jaxenv.envs.physics2d._broad import Box, Contacts, joined, last_event, matched
from jaxenv.envs.physics2d._contact import Impulses, Triple, masses_of
from jaxenv.envs.physics2d._distance import TARGET, TOLERANCE, Motion, time_of_impact
from jaxenv.envs.physics2d._rows import in_blocks
from jaxenv.envs.physics2d._scene import Scene
from jaxenv.envs.physics2d._segment import Manifold, Segment, corners_of
from jaxenv.envs.physics2d._settings import LINEAR_SLOP, MAX_SUB_STEPS, TOI_BAUMGARTE, VELOCITY_ITERATIONS
from jaxenv.envs.physics2d._vector import Transform, apart, entry, pick, smallest, together

_POSITION_ITERATIONS = 20
_EVENTS = 20
_MOST = 4  # edges and blocks that a body touches at a time
_TOGETHER = 2  # of these are solved in one kernel; the others, which are rare, one by one


@tree.struct
class BodyContacts:
    """A body of one lane, and the ground near it from left to right, with which it has K contacts."""

    body: Any  # int32 [R], index of the body
    start: Triple  # [R], pose at the start of the step
    segment: Segment  # [E, R]
    block: Box | None  # [K - E, R], None without blocks
    rank: Any  # int32 [K, R], order of the contacts, newest first
    end: Triple  # [R]
    velocity: Triple  # [R]
    contacts: Contacts  # [K, R]
    touched: Any  # bool [R], the last event of a contact was a beginning
    begun: Any  # bool [R], a contact began in this step
    hit: Any  # bool [R], an impact was found


def may_hit(scene: Scene, body: Array, start: Triple, end: Triple, ground: Segment | Box) -> Any:
    """Returns whether a body comes close enough to a block or the line of an edge for an impact. Elementwise.

    Corners stay within ``radius * (1 - cos(turn / 2))`` of a straight motion.
    """
    corners, centre = corners_of(scene, body).vertex, scene.centre(body)
    transforms = [Transform.from_pose(pose, centre) for pose in (start, end)]
    places = [transform.to_world(v) for transform in transforms for v in corners]
    turn = jnp.minimum(jnp.abs(end[2] - start[2]), np.float32(np.pi))
    sag = pick(body, list(scene.radius)) * (1 - jnp.cos(np.float32(0.5) * turn))
    reach = TARGET + TOLERANCE + np.float32(1e-3)
    if isinstance(ground, Box):
        x, y = zip(*places, strict=True)
        gaps = [smallest(x)[0] - ground.right, ground.left + smallest([-v for v in x])[0]]
        gaps += [smallest(y)[0] - ground.high, ground.low + smallest([-v for v in y])[0]]
        return -smallest([-gap for gap in gaps])[0] - sag < reach
    first, second = ground
    along = second[0] - first[0], second[1] - first[1]
    length = jnp.sqrt(along[0] * along[0] + along[1] * along[1])
    normal = along[1] / length, -along[0] / length
    heights = [(x - first[0]) * normal[0] + (y - first[1]) * normal[1] for x, y in places]
    below, above = smallest(heights)[0], -smallest([-h for h in heights])[0]
    return jnp.maximum(below, -above) - sag < reach


def solve(scene: Scene, bodies: BodyContacts, awake: Array, dt: np.float32) -> BodyContacts:
    """Returns all bodies after the impacts of the lanes that are ``awake``, bool ``[B]``, in ``dt`` seconds.

    The bodies are arrays ``[n, B]`` and, for ground and contacts, ``[n, K, B]``.
    """
    n, lanes = bodies.hit.shape
    wide = jax.tree.map(lambda x: x[:, None], (bodies.body, bodies.start, bodies.end))
    live = jnp.any(in_one_kernel(may_hit, scene, *wide, bodies.segment), axis=1)
    if bodies.block is not None:
        live = live | jnp.any(in_one_kernel(may_hit, scene, *wide, bodies.block), axis=1)
    live = live & awake[None]

    def solved(fixed: tuple[Any, ...], moving: tuple[Any, ...]) -> tuple[Any, ...]:
        return _moving(_solve(scene, BodyContacts(*fixed, *moving), dt))

    fixed, moving = jax.tree.map(lambda x: _flat(x, n, lanes), (_fixed(bodies), _moving(bodies)))
    moving = in_blocks(solved, live.reshape(n * lanes), fixed, moving)
    moving = jax.tree.map(lambda x: x.reshape(*x.shape[:-1], n, lanes), moving)
    moving = jax.tree.map(lambda x: x if x.ndim == 2 else jnp.moveaxis(x, 0, 1), moving)
    return BodyContacts(*_fixed(bodies), *moving)


def _flat(x: Array, n: int, lanes: int) -> Array:
    """Reshapes ``[n, B]`` to ``[R]``, and ``[n, K, B]`` to ``[K, R]``."""
    return x.reshape(n * lanes) if x.ndim == 2 else jnp.moveaxis(x, 1, 0).reshape(-1, n * lanes)


def _fixed(row: BodyContacts) -> tuple[Any, ...]:
    return row.body, row.start, row.segment, row.block, row.rank


def _moving(row: BodyContacts) -> tuple[Any, ...]:
    return row.end, row.velocity, row.contacts, row.touched, row.begun, row.hit


def _solve(scene: Scene, row: BodyContacts, dt: np.float32) -> BodyContacts:
    size = row.rank.shape[0]
    no, zero = jnp.zeros_like(row.hit), jnp.zeros_like(row.start[0])
    start = (np.int32(0), ~no, zero, jnp.zeros_like(row.rank), jnp.ones_like(row.rank, bool), row)

    def event(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        count, active, past, events, enabled, row = carry
        live = active[None] & enabled & (events <= MAX_SUB_STEPS)
        grounds = _grounds(row)
        sizes = [jax.tree.leaves(ground)[0].shape[0] for ground in grounds]
        lives = jnp.split(live, np.cumsum(sizes[:-1])) if len(sizes) > 1 else [live]
        pairs = zip(grounds, lives, strict=True)
        found = [time_of_impact(scene, Motion(x, row.body, row.start, row.end), flags) for x, flags in pairs]
        meets, when = joined(found)
        times = jnp.where(live & meets, jnp.minimum(past[None] + (1 - past[None]) * when, 1), 1)
        earliest = jnp.min(times, axis=0)
        first = jnp.argmin(jnp.where(times == earliest[None], row.rank, np.int32(size)), axis=0).astype(jnp.int32)
        mine = first[None] == np.arange(size, dtype=np.int32)[:, None]
        active = active & (earliest <= np.float32(1 - 10 * np.finfo(np.float32).eps))
        row, go = lax.cond(
            jnp.any(active),
            lambda row: _advance(scene, row, active, earliest, past, mine, dt),
            lambda row: (row, active),
            row,
        )
        # An edge that is not touched at the impact is disabled until its contact is updated again.
        met = mine & active[None]
        enabled = jnp.where(met, go[None], enabled | go[None])
        return count + 1, active, jnp.where(go, earliest, past), events + met.astype(jnp.int32), enabled, row

    return lax.while_loop(lambda c: (c[0] < _EVENTS) & jnp.any(c[1]), event, start)[-1]


def _grounds(row: BodyContacts) -> list[Any]:
    """Returns the blocks and the edges near the bodies, in the order of the contacts."""
    return [row.segment] if row.block is None else [row.block, row.segment]


def _advance(
    scene: Scene, row: BodyContacts, active: Array, earliest: Array, past: Array, mine: Array, dt: np.float32
) -> tuple[BodyContacts, Array]:
    """Moves the rows to their earliest impact, solves it and moves them on; also returns which rows had one.

    ``mine [K, R]`` marks the contact of the impact.
    """
    pose = in_one_kernel(_between, row.start, row.end, earliest, past)
    manifold = joined([in_one_kernel(manifold_of, scene, row.body, pose, ground) for ground in _grounds(row)])
    touches = manifold.count > 0
    go = active & jnp.any(mine & touches, axis=0)
    updated = jnp.where(mine, active[None], go[None])
    contacts, begins, ends = in_one_kernel(_updated, row.contacts, manifold, updated)
    # The contact of the impact is updated and solved first, then the others in their order.
    of_first = jnp.sum(jnp.where(mine, row.rank, 0), axis=0)
    rank = jnp.where(mine, 0, row.rank + (row.rank < of_first[None]).astype(jnp.int32))
    row = tree.rebuild(
        row,
        contacts=contacts,
        touched=last_event(begins, ends, rank, row.touched),
        begun=row.begun | jnp.any(begins, axis=0),
    )
    manifolds = _in_order(tree.rebuild(manifold, keys=()), touches, rank)
    more = jnp.max(jnp.sum(touches, axis=0, dtype=jnp.int32)) - np.int32(_TOGETHER)
    pose = _solve_positions(scene, row.body, manifolds, more, pose, go)
    velocity = _solve_velocities(scene, row, manifolds, more, pose, go)
    pose, end, velocity = in_one_kernel(_moved_on, (row.start, row.end, row.velocity), go, earliest, pose, velocity, dt)
    return tree.rebuild(row, start=pose, end=end, velocity=velocity, hit=row.hit | go), go


def _between(start: Triple, end: Triple, earliest: Any, past: Any) -> Triple:
    """Returns the pose at the impact. Elementwise."""
    part = (earliest - past) / jnp.where(past < 1, 1 - past, np.float32(1))
    return tuple((1 - part) * a + part * b for a, b in zip(start, end, strict=True))


def _moved_on(
    old: tuple[Triple, Triple, Triple], go: Any, earliest: Any, pose: Triple, velocity: Triple, dt: np.float32
) -> Any:
    """Returns pose, end pose and velocity; unchanged where there was no impact. Elementwise."""
    rest = (1 - earliest) * dt
    end = tuple(x + rest * v for x, v in zip(pose, velocity, strict=True))
    return jax.tree.map(lambda new, old: jnp.where(go, new, old), (pose, end, velocity), old)


def manifold_of(scene: Scene, body: Array, pose: Triple, ground: Segment | Box) -> Manifold:
    """Returns the manifold of a body and an edge or a block. Elementwise."""
    corners, centre = corners_of(scene, body), scene.centre(body)
    transform = Transform.from_pose(pose, centre)
    if isinstance(ground, Box):
        return _block.collide(ground, transform, corners, centre)
    return _segment.collide(ground, transform, corners, centre)


def _updated(known: Contacts, manifold: Manifold, update: Any) -> tuple[Contacts, Any, Any]:
    """Updates a contact; also returns whether it begins or ends to touch. Elementwise."""
    new = matched(known.age, manifold.count, manifold.keys, known)
    now, before = update & (manifold.count > 0), update & (known.count > 0)
    contact = jax.tree.map(lambda new, old: jnp.where(update, new, old), new, known)
    return contact, now & ~before, before & ~now


def _in_order(manifold: Manifold, touches: Array, rank: Array) -> tuple[Manifold, ...]:
    """Returns the manifolds of touching edges ``[R]`` in the solver's order."""
    size = rank.shape[0]
    before = touches[None] & (rank[None] < rank[:, None])
    place = jnp.where(touches, jnp.sum(before, axis=1, dtype=jnp.int32), np.int32(size))
    index = np.arange(size, dtype=np.int32)[:, None]
    num = min(size, _MOST)
    sources = [jnp.sum(jnp.where(place == k, index, 0), axis=0, dtype=jnp.int32) for k in range(num)]
    used = jnp.sum(touches, axis=0, dtype=jnp.int32)
    return in_one_kernel(_chosen, apart(manifold, size), sources, used)


def _chosen(manifolds: Sequence[Manifold], sources: Sequence[Any], used: Any) -> tuple[Manifold, ...]:
    found = [pick(source, manifolds) for source in sources]
    return tuple(tree.rebuild(m, count=jnp.where(k < used, m.count, 0)) for k, m in enumerate(found))


def _solve_positions(
    scene: Scene, body: Array, manifolds: tuple[Manifold, ...], more: Array, pose: Triple, go: Array
) -> Triple:
    """Returns poses of the rows ``go`` after iterations on positions; ``more`` manifolds are solved one by one."""
    first, later = manifolds[:_TOGETHER], together(manifolds[_TOGETHER:])

    def step(carry: Any) -> Any:
        count, done, pose = carry
        moving = in_one_kernel(_position_iteration, scene, body, first, done, jnp.zeros_like(pose[0]), pose)

        def one(s: Array, moving: tuple[Array, Triple]) -> tuple[Array, Triple]:
            return in_one_kernel(_position_iteration, scene, body, (entry(later, s),), done, *moving)

        least, pose = lax.fori_loop(0, more, one, moving) if later else moving
        return count + 1, done | (least >= np.float32(-1.5) * LINEAR_SLOP), pose

    start = (np.int32(0), ~go, pose)
    return lax.while_loop(lambda c: (c[0] < _POSITION_ITERATIONS) & ~jnp.all(c[1]), step, start)[2]


def _position_iteration(
    scene: Scene, body: Array, manifolds: Sequence[Manifold], done: Array, least: Array, pose: Triple
) -> tuple[Array, Triple]:
    """Returns the smallest separation, and the pose after some contacts, unchanged where ``done``. Elementwise."""
    centre, masses = scene.centre(body), masses_of(scene, body)
    moved = pose
    for manifold in manifolds:
        moved, found = contact.solve_position(manifold, moved, centre, masses, TOI_BAUMGARTE)
        least = jnp.minimum(least, found)
    return least, tuple(jnp.where(done, old, new) for old, new in zip(pose, moved, strict=True))


def _solve_velocities(
    scene: Scene, row: BodyContacts, manifolds: tuple[Manifold, ...], more: Array, pose: Triple, go: Array
) -> Triple:
    """Iterates until no velocity and no impulse changes; later iterations would change nothing."""
    constraints = in_one_kernel(_prepare, scene, row.body, manifolds, pose)
    zero = jnp.zeros_like(pose[0])
    pushes = (Impulses((zero, zero), (zero, zero)),) * len(constraints)
    first, later = constraints[:_TOGETHER], together(constraints[_TOGETHER:])

    def step(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        count, _, velocity, pushes, rest = carry
        changed, velocity, pushes = in_one_kernel(_velocity_iteration, scene, row.body, first, go, velocity, pushes)

        def one(s: Array, moving: tuple[Array, Triple, Impulses]) -> tuple[Array, Triple, Impulses]:
            changed, velocity, rest = moving
            constraint, push = entry((later, rest), s)
            state = (constraint,), go, velocity, (push,)
            now, velocity, (push,) = in_one_kernel(_velocity_iteration, scene, row.body, *state)
            write = functools.partial(lax.dynamic_update_index_in_dim, index=s, axis=0)
            return changed | now, velocity, jax.tree.map(write, rest, push)

        if later:
            changed, velocity, rest = lax.fori_loop(0, more, one, (changed, velocity, rest))
        return count + 1, changed, velocity, pushes, rest

    start = (np.int32(0), jnp.ones_like(go), row.velocity, pushes[:_TOGETHER], together(pushes[_TOGETHER:]))
    return lax.while_loop(lambda c: (c[0] < VELOCITY_ITERATIONS) & jnp.any(c[1]), step, start)[2]


def _prepare(scene: Scene, body: Array, manifolds: Sequence[Manifold], pose: Triple) -> tuple[contact.Constraint, ...]:
    transform = Transform.from_pose(pose, scene.centre(body))
    return tuple(contact.prepare(manifold, pose, transform) for manifold in manifolds)


def _velocity_iteration(
    scene: Scene,
    body: Array,
    constraints: Sequence[contact.Constraint],
    go: Array,
    velocity: Triple,
    pushes: tuple[Impulses, ...],
) -> tuple[Any, ...]:
    masses, after, old = masses_of(scene, body), [], (velocity, pushes)
    for constraint, push in zip(constraints, pushes, strict=True):
        new, velocity = contact.solve_velocity(constraint, push, velocity, masses)
        after.append(new)
    moving = velocity, tuple(after)
    changed = go & False
    for x, y in zip(jax.tree.leaves(moving), jax.tree.leaves(old), strict=True):
        changed = changed | (go & (x != y))
    return changed, *moving
