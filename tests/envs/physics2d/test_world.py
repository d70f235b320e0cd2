"""Steps of the rigid-body kernel next to recorded steps of Box2D 2.3.10, from Gymnasium's LunarLander.

``steps.npz`` is made by ``tests.envs.physics2d.record``. Both sides compute in float32 with sequential impulses.
Rounding grows over 180 iterations that have not converged: by a step in contact most of all, and through the time of
impact, which Box2D itself finds to a tolerance. Tolerances are ten times the differences found, or allow single rows
more.
"""

import dataclasses

import numpy as np
import pytest

from jaxenv.envs.box2d.lunar_lander import SCENE
from jaxenv.envs.physics2d import Body, Scene, _broad, _impact
from tests.envs.physics2d import steps


@pytest.fixture(scope="module")
def data():
    return steps.load()


@pytest.fixture(scope="module")
def differences(data):
    return steps.compare(data)


def worst(differences, rows):
    """The largest difference of each row in poses and velocities, and in angular velocities."""
    numbers = differences.numbers[rows]
    return numbers[..., :5].max(axis=(1, 2)), numbers[..., 5].max(axis=1)


def test_free_flight_equals_box2d(data, differences):
    linear, angular = worst(differences, data["kind"] == steps.FREE)
    assert linear.max() < 4e-5
    assert angular.max() < 2e-4


@pytest.mark.parametrize(
    ("kind", "usual", "largest"), [(steps.GROUND, 1e-4, 1e-2), (steps.TWO_EDGES, 5e-4, 1e-2)], ids=["one", "two edges"]
)
def test_legs_on_the_ground_equal_box2d(data, differences, kind, usual, largest):
    rows = data["kind"] == kind
    both = np.maximum(*worst(differences, rows))
    assert np.quantile(both, 0.95) < usual
    assert both.max() < largest
    assert differences.touched[rows].mean() >= 0.99


def test_impacts_are_found_and_solved_as_in_box2d(data, differences):
    rows = data["kind"] == steps.IMPACT
    assert (differences.hit[rows].any(axis=1)).mean() >= 0.97
    linear, angular = worst(differences, rows & ~steps.crashed(data))
    assert np.quantile(linear, 0.95) < 3e-4
    assert np.quantile(angular, 0.95) < 1e-3
    assert differences.touched[rows].mean() >= 0.97


def test_the_hull_is_reported_to_touch_exactly_when_box2d_says_so(data, differences):
    assert np.mean(differences.begun[:, 0] == steps.crashed(data)) >= 0.998


def test_free_flight_needs_no_ground(data):
    free = steps.chosen(data, steps.FREE)
    linear, angular = worst(steps.compare(free, collide_with_ground=False), slice(None))
    assert linear.max() < 4e-5
    assert angular.max() < 2e-4


# The recorded steps reject faults that are easily made. Each was found by comparing with Box2D.


def test_joints_that_start_at_angle_zero_differ(data):
    joints = [dataclasses.replace(joint, reference_angle=0.0) for joint in SCENE.joints]
    free = steps.chosen(data, steps.FREE)
    found = steps.compare(free, Scene(SCENE.bodies, joints, 0.1), collide_with_ground=False)
    assert np.quantile(worst(found, slice(None))[0], 0.9) > 1e-3


@pytest.mark.slow
def test_a_step_without_continuous_collision_differs(data, monkeypatch):
    monkeypatch.setattr(_impact, "solve", lambda scene, rows, *rest: rows)
    rows = steps.chosen(data, steps.IMPACT)
    found = steps.compare(rows)
    linear, _ = worst(found, ~steps.crashed(rows))
    assert np.median(linear) > 1e-3
    assert np.mean(found.begun[:, 0] == steps.crashed(rows)) < 0.9


@pytest.mark.slow
def test_contacts_in_the_order_of_their_age_differ(data, monkeypatch):
    ranks = _broad.ranks
    monkeypatch.setattr(_broad, "ranks", lambda age: age.shape[1] - 1 - ranks(age))
    monkeypatch.setattr(_impact, "solve", lambda scene, rows, *rest: rows)
    scene = Scene(SCENE.bodies, SCENE.joints, 0.1)  # kernels of another scene have been traced
    found = worst(steps.compare(steps.chosen(data, steps.TWO_EDGES), scene), slice(None))[0]
    assert np.quantile(found, 0.9) > 3e-3


def test_masses_are_those_of_box2d():
    # Of the lander's bodies, as Box2D 2.3.10 reports them: mass, inertia about the origin, centre.
    np.testing.assert_allclose(1 / SCENE.inverse_mass, [4.816666603088379, *[0.07111112028360367] * 2], rtol=1e-6)
    about_centre = 0.8333148956298828 - 4.816666603088379 * 0.10130719095468521**2
    np.testing.assert_allclose(1 / SCENE.inverse_inertia, [about_centre, *[0.0017909470479935408] * 2], rtol=1e-5)
    np.testing.assert_allclose(SCENE.centre_y, [0.10130719095468521, 0, 0], atol=1e-7)
    np.testing.assert_allclose(SCENE.centre_x, 0, atol=1e-7)


def test_a_triangle_has_the_mass_of_half_its_rectangle():
    scene = Scene([Body([(0, 0), (2, 0), (0, 1)], density=3.0)], [], ground_friction=0.1)
    np.testing.assert_allclose(scene.inverse_mass, [1 / 3], rtol=1e-6)
    np.testing.assert_allclose([scene.centre_x[0], scene.centre_y[0]], [2 / 3, 1 / 3], rtol=1e-6)
    np.testing.assert_allclose(scene.inverse_inertia, [1 / (3 * (4 + 1) / 18)], rtol=1e-5)
