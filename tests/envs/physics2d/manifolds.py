"""Manifolds of blocks and the walker's bodies as Box2D computes them, at random poses.

python -m tests.envs.physics2d.manifolds FILE     # records them, needs Box2D
"""

import sys

import numpy as np

from jaxenv.envs.box2d.bipedal_walker import SCENE

ROWS = 1500


def manifold(body, pose, box):
    """Contact points in the world and their keys, and the body's centre of mass."""
    import Box2D

    world = Box2D.b2World(gravity=(0, 0))
    left, low, right, high = (float(x) for x in box)
    corners = [(left, high), (right, high), (right, low), (left, low)]
    world.CreateStaticBody(fixtures=Box2D.b2FixtureDef(shape=Box2D.b2PolygonShape(vertices=corners)))
    shape = Box2D.b2PolygonShape(vertices=SCENE.bodies[body].vertices)
    if len(SCENE.bodies[body].vertices) == 4:
        shape = Box2D.b2PolygonShape(box=SCENE.bodies[body].vertices[2])
    x, y, angle = (float(v) for v in pose)
    moving = world.CreateDynamicBody(position=(x, y), angle=angle, fixtures=Box2D.b2FixtureDef(shape=shape, density=1))
    world.Step(0.0, 1, 1)
    out = {"count": 0, "keys": np.zeros(2, np.int32), "points": np.zeros((2, 2), np.float32)}
    for contact in world.contacts:
        assert contact.fixtureB.body == moving
        if contact.touching:
            found = contact.manifold.pointCount
            out["count"] = found
            keys = [np.uint32(contact.manifold.points[i].id.key).astype(np.int32) for i in range(found)]
            out["keys"][:found] = keys
            out["points"][:found] = contact.worldManifold.points[:found]
    out["centre"] = np.array(moving.worldCenter)
    return out


def record(file):
    rng = np.random.default_rng(0)
    rows = []
    while len(rows) < ROWS:
        body, (width, height) = rng.integers(3), [(1, 1), (2, 2), (4, 1), (1, 4)][rng.integers(4)]
        box = np.float32([20, 3, 20 + width * 14 / 30, 3 + height * 14 / 30])
        angle = rng.choice([rng.uniform(-4, 4), rng.integers(-4, 5) * np.pi / 2])
        pose = np.float32([rng.uniform(box[0] - 0.7, box[2] + 0.7), rng.uniform(box[1] - 0.7, box[3] + 0.7), angle])
        row = {"body": body, "box": box, "angle": pose[2], **manifold(body, pose, box)}
        if row["count"] or rng.random() < 0.2:
            rows.append(row)
    arrays = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    narrow = {np.dtype(np.int64): np.int32, np.dtype(np.float64): np.float32}
    np.savez_compressed(file, **{name: x.astype(narrow.get(x.dtype, x.dtype)) for name, x in arrays.items()})
    print(np.bincount(arrays["count"]))


if __name__ == "__main__":
    record(sys.argv[1])
