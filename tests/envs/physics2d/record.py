"""Records steps of Gymnasium's tasks as Box2D computes them: states before and after, contacts and impulses.

    python -m tests.envs.physics2d.record lander tests/envs/physics2d/steps.npz     # needs gymnasium[box2d]
    python -m tests.envs.physics2d.record walker tests/envs/physics2d/walker_steps.npz
    python -m tests.envs.physics2d.record hardcore tests/envs/physics2d/hardcore_steps.npz
    python -m tests.envs.physics2d.record lander steps.npz --rows 2000 2000 300 60

The rows are a sample of all steps of episodes under a random and under Gymnasium's heuristic policy: free flight, a leg
on the ground, steps in which continuous collision found an impact, and a leg on two edges or more. Of the walker's
hardcore variant only steps near a block or on one.

Each episode is played in a new environment: Box2D orders contacts by ids, which it reuses in a world that was emptied.
"""

import argparse

import numpy as np

from jaxenv.envs.box2d import bipedal_obstacles

POINTS = 2  # of a contact
BLOCK = 1000  # added to the index of a block where indices of edges are recorded


class Lander:
    """What is read of LunarLander, from the environment ``env``."""

    id, spacing, rows = "LunarLander-v3", 2.0, (400, 400, 120, 30)
    edges = contacts = 2

    def bodies(self, env):
        return [env.lander, *env.legs]

    def joints(self, env):
        """In the order in which the island solves them."""
        return [env.legs[1].joint, env.legs[0].joint]

    def touched(self, env):
        return [env.game_over, *(leg.ground_contact for leg in env.legs)]

    def ground(self, env):
        return {"heights": np.array([env.sky_polys[0][0][1], *(p[1][1] for p in env.sky_polys)], np.float32)}

    def policy(self, env, module):
        return lambda observation: module.heuristic(env, observation)

    def random(self, rng):
        return int(rng.integers(4))


class Walker:
    """The same of BipedalWalker; of its ground the part near the walker."""

    id, spacing, rows = "BipedalWalker-v3", 14 / 30, (150, 150, 60, 60)
    points, edges, contacts = 24, 6, 6

    def bodies(self, env):
        return [env.hull, *env.legs]

    def joints(self, env):
        return [env.joints[i] for i in (3, 2, 0, 1)]

    def touched(self, env):
        return [env.game_over, False, env.legs[1].ground_contact, False, env.legs[3].ground_contact]

    def ground(self, env):
        first = np.clip(int(env.hull.position[0] / self.spacing) - 9, 0, len(env.terrain_y) - self.points)
        heights = np.array(env.terrain_y[first : first + self.points], np.float32)
        return {"heights": heights, "first": np.int32(first), "shaping": np.float32(env.prev_shaping)}

    def policy(self, env, module):
        pilot = module.BipedalWalkerHeuristics()
        pilot.a = np.zeros(4)
        return pilot.step_heuristic

    def random(self, rng):
        return rng.uniform(-1, 1, 4).astype(np.float32)


class Hardcore(Walker):
    """The same with blocks."""

    id, contacts, rows = "BipedalWalkerHardcore-v3", 9, (80, 150, 80, 80, 5)

    def ground(self, env):
        x = env.hull.worldCenter[0]
        boxes = boxes_of(env)
        first = np.sum(boxes[:, 2] < x - bipedal_obstacles.BEHIND)
        near = np.full((bipedal_obstacles.NEAR, 4), 1e6, np.float32) * (1, -1, 1, -1)
        found = boxes[first : first + len(near)]
        near[: len(found)] = found
        return {**super().ground(env), "blocks": near.T.astype(np.float32), "first_block": np.int32(first)}


TASKS = {"lander": Lander(), "walker": Walker(), "hardcore": Hardcore()}


def boxes_of(env):
    """Left, lower, right and upper sides of the blocks from left to right, float32 ``[N, 4]``."""
    if getattr(env, "boxes", None) is None or env.boxes[0] is not env.terrain:
        shapes = [fixture.shape.vertices for body in reversed(env.terrain) for fixture in body.fixtures]
        corners = np.array([vertices for vertices in shapes if len(vertices) == 4], np.float32)
        env.boxes = env.terrain, np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
    return env.boxes[1]


def pose_of(body):
    return body.position[0], body.position[1], body.angle


def snapshot(task, env):
    """Bodies, joint impulses and contacts, as arrays."""
    bodies, joints = task.bodies(env), task.joints(env)
    n, size = len(bodies), (len(bodies), task.contacts)
    out = {"bodies": np.zeros((n, 6), np.float32), "joints": np.zeros((len(joints), 4), np.float32)}
    for i, b in enumerate(bodies):
        out["bodies"][i] = (*b.worldCenter, b.angle, *b.linearVelocity, b.angularVelocity)
    for j, joint in enumerate(joints):
        out["joints"][j] = (
            *joint.GetReactionForce(1.0),
            joint.GetReactionTorque(1.0),
            joint.GetMotorTorque(1.0),
        )
    out["edge"] = np.full(size, -1, np.int32)
    out["count"] = np.zeros(size, np.int32)
    out["keys"] = np.zeros((*size, POINTS), np.int32)
    out["normal"] = np.zeros((*size, POINTS), np.float32)
    out["tangent"] = np.zeros((*size, POINTS), np.float32)
    used = [0] * n
    lefts = boxes_of(env)[:, 0] if isinstance(task, Hardcore) else ()
    for contact in reversed(list(env.world.contacts)):  # pybox2d lists the oldest first
        body = bodies.index(contact.fixtureB.body)
        corners = contact.fixtureA.shape.vertices
        if all(y == 0 for _, y in corners):
            continue  # the floor below LunarLander's terrain
        if len(corners) == 4:
            edge = BLOCK + int(np.argmin(np.abs(lefts - min(x for x, _ in corners))))
        else:
            edge = round(corners[0][0] / task.spacing)
        away = edge - round(bodies[body].worldCenter[0] / task.spacing)
        if body == 0 or (edge < BLOCK and not -task.edges <= 2 * away < task.edges):
            # The hull's contacts are not followed. A leg may be close to further edges, but too short to touch them.
            assert body == 0 or not contact.touching, "a leg touches an edge that is not near it"
            continue
        k = used[body]
        used[body] += 1
        out["edge"][body, k] = edge
        points = contact.manifold.points[: contact.manifold.pointCount] if contact.touching else []
        out["count"][body, k] = len(points)
        for i, point in enumerate(points):
            key = point.id.key
            out["keys"][body, k, i] = np.uint32(key).astype(np.int32)
            out["normal"][body, k, i], out["tangent"][body, k, i] = point.normalImpulse, point.tangentImpulse
    out["touched"] = np.array(task.touched(env))
    if isinstance(task, Hardcore):
        out["on_block"] = any(
            c.touching and c.fixtureB.body == bodies[0] and len(c.fixtureA.shape.vertices) == 4
            for c in env.world.contacts
        )
    return out


def record(task, episodes, heuristic, seed):
    """All steps of some episodes: a list of dicts."""
    rows = []
    for s in range(seed, seed + episodes):
        rows += episode(task, heuristic, s)
    return rows


def episode(task, heuristic, seed):
    """All steps of an episode, each with the state ``before`` and ``after`` World.Step."""
    import Box2D
    import gymnasium
    from gymnasium.envs.box2d import bipedal_walker, lunar_lander

    module = lunar_lander if isinstance(task, Lander) else bipedal_walker
    rows = []

    class Detector(module.ContactDetector):
        """Notes which bodies are away from where they started the step when a contact is updated."""

        def PreSolve(self, contact, old_manifold):
            env, bodies = self.env, task.bodies(self.env)
            if getattr(env, "before", None) is not None:
                i = bodies.index(contact.fixtureB.body)
                env.hit[i] |= pose_of(bodies[i]) != env.before[i]

    detector, module.ContactDetector = module.ContactDetector, Detector
    env = gymnasium.make(task.id)
    inner = env.unwrapped
    inner.before = None
    observation, _ = env.reset(seed=seed)
    rng = np.random.default_rng(seed)
    act = task.policy(env, module) if heuristic else lambda _: task.random(rng)

    def step(*args):
        bodies = task.bodies(inner)
        inner.before = [pose_of(b) for b in bodies]
        inner.hit = np.zeros(len(bodies), bool)
        row = {**task.ground(inner), "before": snapshot(task, inner)}
        Box2D.b2World.Step(inner.world, *args)
        row.update(after=snapshot(task, inner), hit=inner.hit, awake=bodies[0].awake)
        rows.append(row)

    inner.world.Step = step
    ended = False
    while not ended:
        action = np.array(act(observation))
        observation, reward, terminated, truncated, _ = env.step(action if action.ndim else int(action))
        rows[-1].update(action=action.astype(np.float32), observation=observation, reward=np.float32(reward))
        ended = terminated or truncated
    del inner.world.Step
    module.ContactDetector = detector
    return rows


def kinds(rows):
    """For each row 0: free, 1: a leg touches, 2: an impact, 3: a leg touches two edges or more, 4: the hull falls on a
    block; and -1 for others of the hardcore variant."""
    hit = np.array([r["hit"].any() for r in rows])
    touching = np.array([(r["before"]["count"] > 0).any() or (r["after"]["count"] > 0).any() for r in rows])
    two = np.array([((r["after"]["count"] > 0).sum(axis=1) > 1).any() for r in rows])
    kind = np.where(hit, 2, np.where(two, 3, np.where(touching, 1, 0)))
    kind = np.where(np.array([unrelated(r) for r in rows]), -1, kind)
    return np.where(np.array([r["after"].get("on_block", False) for r in rows]), 4, kind)


def unrelated(row):
    """Whether a row of the hardcore variant has nothing to do with blocks."""
    if "blocks" not in row:
        return False
    on_block = any(((row[when]["edge"] >= BLOCK) & (row[when]["count"] > 0)).any() for when in ("before", "after"))
    free = not any((row[when]["count"] > 0).any() for when in ("before", "after"))
    near = (row["before"]["edge"] >= BLOCK).any()
    return not (on_block or (free and near and not row["hit"].any()))


def packed(rows, kind):
    """Rows as one array per quantity, lanes first."""
    out = {name: np.array([r[name] for r in rows]) for name in rows[0] if name not in ("before", "after")}
    out["kind"] = np.asarray(kind, np.int32)
    for when in ("before", "after"):
        for name in rows[0][when]:
            out[f"{when}_{name}"] = np.array([r[when][name] for r in rows])
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("file")
    parser.add_argument("--rows", type=int, nargs="+", help="of each kind")
    args = parser.parse_args()
    task = TASKS[args.task]
    wanted = args.rows or task.rows
    rows = []
    enough, seed = False, 0
    while not enough:
        rows += record(task, 10, True, seed) + record(task, 60, False, seed)
        seed += 1000
        kind = kinds(rows)
        # The hull's touch ends the episode, so its impulses are not followed.
        crashed = np.array([r["after"]["touched"][0] for r in rows])
        eligible = [np.flatnonzero((kind == k) & ((k in (2, 4)) | ~crashed)) for k in range(len(wanted))]
        enough = all(len(e) >= n for e, n in zip(eligible, wanted, strict=True))
        print(len(rows), [len(e) for e in eligible], flush=True)
    rng = np.random.default_rng(0)
    chosen = np.concatenate([rng.choice(e, n, replace=False) for e, n in zip(eligible, wanted, strict=True)])
    np.savez_compressed(args.file, **packed([rows[i] for i in chosen], kind[chosen]))


if __name__ == "__main__":
    main()
