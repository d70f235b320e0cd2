"""Records steps of Gymnasium's tasks as Box2D computes them: states before and after, contacts and impulses.

    python -m tests.physics2d.record lander tests/physics2d/steps.npz     # needs gymnasium[box2d]
    python -m tests.physics2d.record walker tests/physics2d/walker_steps.npz
    python -m tests.physics2d.record lander steps.npz --rows 2000 2000 300 60

The rows are a sample of all steps of episodes under a random and under Gymnasium's heuristic policy: free flight, a leg
on the ground, steps in which continuous collision found an impact, and a leg on two edges or more.
"""

import argparse

import numpy as np

POINTS = 2  # of a contact


class Lander:
    """What is read of LunarLander, from the environment ``env``."""

    id, spacing, contacts, rows = "LunarLander-v3", 2.0, 2, (400, 400, 120, 30)

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

    id, spacing, contacts, rows = "BipedalWalker-v3", 14 / 30, 6, (150, 150, 60, 60)
    points = 24

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


TASKS = {"lander": Lander(), "walker": Walker()}


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
    for contact in reversed(list(env.world.contacts)):  # pybox2d lists the oldest first
        body = bodies.index(contact.fixtureB.body)
        (x1, y1), (_, y2) = contact.fixtureA.shape.vertices
        if y1 == 0 and y2 == 0:
            continue  # the floor below LunarLander's terrain
        edge = round(x1 / task.spacing)
        away = edge - round(bodies[body].worldCenter[0] / task.spacing)
        if body == 0 or not -task.contacts <= 2 * away < task.contacts:
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
    return out


def record(task, episodes, heuristic, seed):
    """All steps of some episodes: a list of dicts with the state ``before`` and ``after`` each World.Step."""
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
    for s in range(seed, seed + episodes):
        inner.before = None
        observation, _ = env.reset(seed=s)
        rng = np.random.default_rng(s)
        act = task.policy(env, module) if heuristic else lambda _, rng=rng: task.random(rng)

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
    """For each row 0: free, 1: a leg touches, 2: an impact, 3: a leg touches two edges or more."""
    hit = np.array([r["hit"].any() for r in rows])
    touching = np.array([(r["before"]["count"] > 0).any() or (r["after"]["count"] > 0).any() for r in rows])
    two = np.array([((r["after"]["count"] > 0).sum(axis=1) > 1).any() for r in rows])
    return np.where(hit, 2, np.where(two, 3, np.where(touching, 1, 0)))


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
    parser.add_argument("--rows", type=int, nargs=4, help="of each kind")
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
        eligible = [np.flatnonzero((kind == k) & ((k == 2) | ~crashed)) for k in range(4)]
        enough = all(len(e) >= n for e, n in zip(eligible, wanted, strict=True))
        print(len(rows), [len(e) for e in eligible], flush=True)
    rng = np.random.default_rng(0)
    chosen = np.concatenate([rng.choice(e, n, replace=False) for e, n in zip(eligible, wanted, strict=True)])
    np.savez_compressed(args.file, **packed([rows[i] for i in chosen], kind[chosen]))


if __name__ == "__main__":
    main()
