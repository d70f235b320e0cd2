"""Bodies near many edges: steps of the rigid-body kernel next to recorded steps of Gymnasium's BipedalWalker.

``walker_steps.npz`` is made by ``tests.envs.physics2d.record``; the steps have up to six contacts in a lane. Tolerances
are those of test_world.py.
"""

import numpy as np
import pytest

from jaxenv.envs.box2d.bipedal_walker import SCENE
from jaxenv.envs.physics2d import Scene, _world
from tests.envs.physics2d import steps
from tests.envs.physics2d.steps import worst


@pytest.fixture(scope="module")
def data():
    return steps.load("walker_steps.npz")


@pytest.fixture(scope="module")
def differences(data):
    return steps.compare(data)


@pytest.mark.parametrize(
    ("kind", "usual"),
    [(steps.FREE, 4e-5), (steps.GROUND, 1e-4), (steps.IMPACT, 3e-4), (steps.TWO_EDGES, 5e-4)],
    ids=["free flight", "one edge", "impact", "more edges"],
)
def test_steps_equal_box2d(data, differences, kind, usual):
    rows = (data["kind"] == kind) & ~steps.crashed(data)
    assert np.quantile(worst(differences, rows), 0.95) < usual
    assert worst(differences, rows).max() < 1e-2
    assert differences.touched[rows].mean() >= 0.99


def test_impacts_are_found_as_in_box2d(data, differences):
    rows = data["kind"] == steps.IMPACT
    assert differences.hit[rows].any(axis=1).mean() >= 0.97
    assert np.mean(differences.begun[:, 0] == steps.crashed(data)) >= 0.99


def many(data):
    """Rows with more contacts than are solved together."""
    num = np.maximum(*((data[f"{when}_count"] > 0).sum(axis=(1, 2)) for when in ("before", "after")))
    return {name: x[num > SCENE.slots // 2] for name, x in data.items()}


def test_contacts_beyond_those_that_are_solved_together_count(data, monkeypatch):
    rows = many(data)
    assert len(rows["kind"]) >= 10
    assert worst(steps.compare(rows), slice(None)).max() < 1e-2
    monkeypatch.setattr(_world, "in_blocks", lambda function, live, given, values: values)
    assert worst(steps.compare(rows), slice(None)).max() > 0.1


def test_joints_in_another_order_differ(data):
    free = steps.chosen(data, steps.FREE)
    scene = Scene(SCENE.bodies, SCENE.joints[::-1], 2.5, SCENE.slots)
    free = {**free, "before_joints": free["before_joints"][:, ::-1]}
    speeds, torques = steps.setting_of(free).motors(np.asarray(free["action"]))
    found = steps.compare(free, scene, motor_speed=speeds[::-1], motor_torque=torques[::-1], collide_with_ground=False)
    assert np.quantile(worst(found, slice(None)), 0.9) > 1e-4


def test_masses_are_those_of_box2d():
    # As Box2D 2.3.10 reports them: mass, and of the symmetrical legs the inertia.
    np.testing.assert_allclose(1 / SCENE.inverse_mass, [5.42222261, *[0.30222222, 0.24177778] * 2], rtol=1e-6)
    np.testing.assert_allclose(1 / SCENE.inverse_inertia[1:3], [0.03413992, 0.02679614], rtol=1e-5)
    centre = [-0.02003640, -0.00564664]
    np.testing.assert_allclose([SCENE.centre_x[0], SCENE.centre_y[0]], centre, rtol=1e-4)
    about_origin = 1 / SCENE.inverse_inertia[0] + 5.42222261 * np.dot(centre, centre)
    np.testing.assert_allclose(about_origin, 2.00174475, rtol=1e-5)
