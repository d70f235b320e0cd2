"""Records steps of Gymnasium's LunarLander as Box2D computes them: states before and after, contacts and impulses.

    python -m tests.physics2d.record tests/physics2d/steps.npz     # needs gymnasium[box2d]
    python -m tests.physics2d.record steps.npz --rows 2000 2000 300 60

The rows are a sample of all steps of episodes under a random and under Gymnasium's heuristic policy: free flight, a leg
on the ground, steps in which continuous collision found an impact, and a leg on two edges.
"""

import argparse

import numpy as np

BODIES = ("x", "y", "angle", "vx", "vy", "w")
CONTACTS, POINTS = 2, 2  # of a leg


def pose_of(body):
    return body.position[0], body.position[1], body.angle


def snapshot(env):
    """Bodies, joint impulses and contacts of a LunarLander, as arrays."""
    bodies = [env.lander, *env.legs]
    out = {"bodies": np.zeros((3, 6), np.float32), "joints": np.zeros((2, 4), np.float32)}
    for i, b in enumerate(bodies):
        out["bodies"][i] = (*b.worldCenter, b.angle, *b.linearVelocity, b.angularVelocity)
    for j, leg in enumerate((env.legs[1], env.legs[0])):  # the order in which the island solves them
        joint = leg.joint
        out["joints"][j] = (
            *joint.GetReactionForce(1.0),
            joint.GetReactionTorque(1.0),
            joint.GetMotorTorque(1.0),
        )
    out["edge"] = np.full((3, CONTACTS), -1, np.int32)
    out["count"] = np.zeros((3, CONTACTS), np.int32)
    out["keys"] = np.zeros((3, CONTACTS, POINTS), np.int32)
    out["normal"] = np.zeros((3, CONTACTS, POINTS), np.float32)
    out["tangent"] = np.zeros((3, CONTACTS, POINTS), np.float32)
    used = [0, 0, 0]
    for contact in reversed(list(env.world.contacts)):  # pybox2d lists the oldest first
        body = bodies.index(contact.fixtureB.body)
        (x1, y1), (_, y2) = contact.fixtureA.shape.vertices
        if y1 == 0 and y2 == 0:
            continue  # the floor below the terrain
        edge = round(x1 / 2)
        if body == 0 or edge - round(bodies[body].worldCenter[0] / 2) not in (-1, 0):
            # The hull's contacts are not followed. A leg may be close to a third edge, but too short to touch it.
            assert body == 0 or not contact.touching, "a leg touches an edge that is not one of its two"
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
    out["touched"] = np.array([env.game_over, *(leg.ground_contact for leg in env.legs)])
    return out


def heights_of(env):
    return np.array([env.sky_polys[0][0][1], *(p[1][1] for p in env.sky_polys)], np.float32)


def record(episodes, heuristic, seed):
    """All steps of some episodes: a list of dicts with the state ``before`` and ``after`` each World.Step."""
    import Box2D
    import gymnasium
    from gymnasium.envs.box2d import lunar_lander

    rows = []

    class Detector(lunar_lander.ContactDetector):
        """Notes which bodies are away from where they started the step when a contact is updated."""

        def PreSolve(self, contact, old_manifold):
            env, bodies = self.env, [self.env.lander, *self.env.legs]
            if getattr(env, "before", None) is not None:
                i = bodies.index(contact.fixtureB.body)
                env.hit[i] |= pose_of(bodies[i]) != env.before[i]

    lunar_lander.ContactDetector = Detector
    env = gymnasium.make("LunarLander-v3")
    task = env.unwrapped
    for s in range(seed, seed + episodes):
        task.before = None
        observation, _ = env.reset(seed=s)
        rng = np.random.default_rng(s)
        heights = heights_of(task)

        def step(*args, heights=heights):
            task.before = [pose_of(b) for b in (task.lander, *task.legs)]
            task.hit = np.zeros(3, bool)
            row = {"heights": heights, "before": snapshot(task)}
            Box2D.b2World.Step(task.world, *args)
            row.update(after=snapshot(task), hit=task.hit, awake=task.lander.awake)
            rows.append(row)

        task.world.Step = step
        ended = False
        while not ended:
            action = lunar_lander.heuristic(env, observation) if heuristic else int(rng.integers(4))
            observation, _, terminated, truncated, _ = env.step(action)
            ended = terminated or truncated
        del task.world.Step
    return rows


def kinds(rows):
    """For each row 0: free, 1: a leg touches, 2: an impact, 3: a leg touches two edges."""
    hit = np.array([r["hit"].any() for r in rows])
    touching = np.array([(r["before"]["count"] > 0).any() or (r["after"]["count"] > 0).any() for r in rows])
    two = np.array([(r["after"]["count"] > 0).all(axis=1).any() for r in rows])
    return np.where(hit, 2, np.where(two, 3, np.where(touching, 1, 0)))


def packed(rows, kind):
    """Rows as one array per quantity, lanes first."""
    out = {"heights": np.array([r["heights"] for r in rows]), "kind": np.asarray(kind, np.int32)}
    out["hit"] = np.array([r["hit"] for r in rows])
    out["awake"] = np.array([r["awake"] for r in rows])
    for when in ("before", "after"):
        for name in rows[0][when]:
            out[f"{when}_{name}"] = np.array([r[when][name] for r in rows])
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--rows", type=int, nargs=4, default=(400, 400, 120, 30), help="of each kind")
    args = parser.parse_args()
    rows = []
    enough, seed = False, 0
    while not enough:
        rows += record(10, True, seed) + record(60, False, seed)
        seed += 1000
        kind = kinds(rows)
        # The hull's touch ends the episode, so its impulses are not followed.
        crashed = np.array([r["after"]["touched"][0] for r in rows])
        eligible = [np.flatnonzero((kind == k) & ((k == 2) | ~crashed)) for k in range(4)]
        enough = all(len(e) >= n for e, n in zip(eligible, args.rows, strict=True))
        print(len(rows), [len(e) for e in eligible], flush=True)
    rng = np.random.default_rng(0)
    chosen = np.concatenate([rng.choice(e, n, replace=False) for e, n in zip(eligible, args.rows, strict=True)])
    np.savez_compressed(args.file, **packed([rows[i] for i in chosen], kind[chosen]))


if __name__ == "__main__":
    main()
