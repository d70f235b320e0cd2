"""Bodies on static blocks: manifolds and steps of the rigid-body kernel next to those of Box2D 2.3.10.

``manifolds.npz`` is made by ``tests.envs.physics2d.manifolds`` and ``hardcore_steps.npz`` by
``tests.envs.physics2d.record``. Tolerances of steps are those of test_world.py.
"""

import jax
import numpy as np
import pytest

from jaxenv.envs import physics2d
from jaxenv.envs.box2d.bipedal_walker import HARDCORE as SCENE
from jaxenv.envs.physics2d import Box, _block
from jaxenv.envs.physics2d._segment import contact_points, corners_of, in_world
from jaxenv.envs.physics2d._vector import Transform
from tests.envs.physics2d import steps
from tests.envs.physics2d.steps import worst


@pytest.fixture(scope="module")
def manifolds():
    with np.load(steps.FOLDER / "manifolds.npz") as data:
        return dict(data)


@pytest.fixture(scope="module")
def data():
    return steps.load("hardcore_steps.npz")


@pytest.fixture(scope="module")
def differences(data):
    return steps.compare(data)


def found(manifolds):
    """Numbers, keys and places of contact points at the recorded poses."""

    def collide(body, centre, angle, box):
        transform = Transform.from_pose((*centre.T, angle), SCENE.centre(body))
        m = _block.collide(Box(*box.T), transform, corners_of(SCENE, body), SCENE.centre(body))
        points, heights, out, _ = in_world(m, transform)
        return m.count, m.keys, contact_points(points, heights, out)

    arrays = (manifolds[name] for name in ("body", "centre", "angle", "box"))
    return jax.tree.map(np.asarray, jax.jit(collide, compiler_options=steps.QUICK)(*arrays))


def test_manifolds_equal_box2d(manifolds):
    count, keys, points = found(manifolds)
    same = count == manifolds["count"]
    assert same.mean() >= 0.998  # rounding decides where two faces are as close
    for i in range(2):
        rows = same & (count > i)
        agrees = keys[i] == manifolds["keys"][:, i]
        assert agrees[rows & (manifolds["body"] > 0)].mean() >= 0.99  # the hull's corners have other numbers here
        distance = np.abs(np.stack(points[i], axis=-1) - manifolds["points"][:, i]).max(axis=1)
        assert np.mean(distance[rows] < 1e-4) >= 0.99


@pytest.mark.parametrize(
    ("kind", "usual"),
    [(steps.FREE, 4e-5), (steps.GROUND, 1e-4), (steps.IMPACT, 3e-4), (steps.TWO_EDGES, 5e-4)],
    ids=["beside a block", "on a block", "impact", "in a corner"],
)
def test_steps_equal_box2d(data, differences, kind, usual):
    rows = (data["kind"] == kind) & ~steps.crashed(data)
    assert np.quantile(worst(differences, rows), 0.95) < usual
    assert worst(differences, rows).max() < 1e-2
    assert differences.touched[rows].mean() >= 0.99


def test_impacts_and_falls_are_found_as_in_box2d(data, differences):
    rows = data["kind"] == steps.IMPACT
    assert differences.hit[rows].any(axis=1).mean() >= 0.97
    assert np.mean(differences.begun[:, 0] == steps.crashed(data)) >= 0.99


def test_blocks_are_given_exactly_to_scenes_that_have_some(data):
    world = steps.world_before(data)
    chain = physics2d.Chain(data["heights"].T, 0.5)
    with pytest.raises(ValueError, match="blocks must be given if"):
        physics2d.step(SCENE, world, chain, gravity=-10.0, motor_speed=[0.0] * 4, motor_torque=[0.0] * 4)
