"""CarRacing compared with Gymnasium's, by recorded episodes and pictures: the same tracks and actions.

``car_episodes.npz`` is made by ``tests.envs.box2d.car_episodes``. Motion is not chaotic: Gymnasium's own episodes
differ by up to 2e-4 m after 300 steps if they start one rounding error apart.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import random, tree
from jaxenv.envs.box2d import _car_dynamics, car_racing
from jaxenv.envs.box2d._car_dynamics import SCENE, drive, origin
from jaxenv.envs.box2d._car_pixels import PLAYFIELD
from jaxenv.envs.box2d.car_racing import CarRacing
from jaxenv.envs.physics2d import Scene
from tests.envs.box2d import car_episodes
from tests.envs.box2d.car_episodes import EVERY, FRAMES, STEPS, differences, frames_of, images, replay, state_at
from tests.parity import certify
from tests.pictures import centre, picture

ID = "CarRacing-v3"
RED = np.array([204, 0, 0]) / 255 - 2 / 255


@pytest.fixture(scope="module")
def data():
    return car_episodes.load()


@pytest.fixture(scope="module")
def episodes(data):
    return car_episodes.episodes_of(data)


@pytest.fixture(scope="module")
def replayed(episodes):
    return replay(episodes)


@pytest.fixture(scope="module")
def start(replayed):
    """The states after the reset of the recorded episodes."""
    return state_at(replayed[1], 0)


def test_replayed_episodes_equal_gymnasiums(episodes, replayed):
    rewards, states = replayed
    bodies, reward, other = differences(episodes, states, rewards)
    assert bodies.max() < 1e-3
    assert reward.max() < 1e-5
    assert other.sum() == 0
    assert sum((v >= 0).sum() for v in episodes["visited"]) > 400
    omega, phase = (np.moveaxis(np.asarray(x[::EVERY]), 1, 0) for x in (states.car.omega, states.car.phase))
    theirs = episodes["wheels"]
    np.testing.assert_allclose(omega, theirs[:, :, 0], atol=1e-3)
    np.testing.assert_allclose(phase, theirs[:, :, 1], atol=1e-3)
    np.testing.assert_array_equal(np.moveaxis(np.asarray(states.on_road[::EVERY]), 1, 0), theirs[:, :, 2] > 0)
    certify(ID, "gymnasium 1.3.0", episodes=len(bodies), steps=rewards.size, tolerance=1e-3, error=bodies.max())


# The recorded episodes reject faults that are easily made.

SHORT = 60


def faulty(episodes):
    rewards, states = replay(episodes, steps=SHORT)
    return differences(episodes, states, rewards)


def test_wheels_that_start_turned_with_the_hull_differ(episodes, monkeypatch):
    parked = car_racing.parked

    def turned(x, y, angle):
        car = parked(x, y, angle)
        place = _car_dynamics._PLACES[None]
        s, c = jnp.sin(angle)[:, None], jnp.cos(angle)[:, None]
        wheels = x[:, None] + c * place[..., 0] - s * place[..., 1], y[:, None] + s * place[..., 0] + c * place[..., 1]
        bodies = car.bodies.at[:, 0, 1:].set(wheels[0]).at[:, 1, 1:].set(wheels[1])
        return tree.rebuild(car, bodies=bodies)

    monkeypatch.setattr(car_racing, "parked", turned)
    assert np.median(faulty(episodes)[0]) > 0.01


def test_tyres_that_do_not_feel_the_road_differ(episodes, monkeypatch):
    monkeypatch.setattr(car_racing, "drive", lambda car, *controls, **_: drive(car, *controls[:3], controls[3] & False))
    assert np.median(faulty(episodes)[0]) > 0.01


def test_touches_that_are_found_after_the_car_moves_differ(episodes, monkeypatch):
    def late(self, state, *controls):
        moved, _ = advance(self, state, *controls)
        return advance_touches(moved, state)

    def advance_touches(moved, state):
        poses = moved.car.bodies[:, :3, 1:]
        touches = car_racing.touching(state.track, poses[:, 0], poses[:, 1], poses[:, 2])
        visited = state.visited | touches.any(axis=1)
        new = jnp.sum(visited & ~state.visited, axis=1, dtype=jnp.int32)
        return tree.rebuild(moved, visited=visited, on_road=touches.any(axis=2)), new

    advance = CarRacing._moved
    monkeypatch.setattr(CarRacing, "_moved", late)
    assert faulty(episodes)[2].sum() > 20


def test_front_wheels_that_turn_less_differ(episodes, monkeypatch):
    joints = [dataclasses.replace(joint, upper=0.3) for joint in SCENE.joints]
    monkeypatch.setattr(_car_dynamics, "SCENE", Scene(SCENE.bodies, joints, 0.0))
    assert faulty(episodes)[0].max() > 1e-3


def test_masses_and_the_order_of_the_joints_are_those_of_box2d():
    # As Box2D 2.3.10 reports them: of the hull and a wheel.
    np.testing.assert_allclose(1 / SCENE.inverse_mass, [7.06, *[0.06048] * 4], rtol=1e-5)
    about_origin = 18.260364532470703
    about_centre = about_origin - 7.06 * SCENE.centre_y[0] ** 2
    np.testing.assert_allclose(1 / SCENE.inverse_inertia, [about_centre, *[0.0074592] * 4], rtol=1e-4)
    assert [joint.body_b for joint in SCENE.joints] == [4, 3, 2, 1]


# --- pictures --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shown(replayed):
    return images(replayed[1], FRAMES)


@pytest.fixture(scope="module")
def frames(data):
    return frames_of(data)


def test_pictures_equal_gymnasiums_but_for_the_text_of_the_score(shown, frames):
    error = np.abs(shown - frames)
    assert error.mean(axis=(2, 3, 4)).max() < 3
    # Grass, road and car alone. The text is over the left part of the lowest 12 rows.
    assert error[:, :, :84].mean(axis=(2, 3, 4)).max() < 1.2
    assert error[:, 2:, :84].mean(axis=(2, 3, 4)).max() < 0.6
    assert error[:, :, 84:, 27:].mean(axis=(2, 3, 4)).max() < 3


def test_the_comparison_rejects_pictures_of_another_step_or_without_zoom(replayed, shown, frames):
    _, states = replayed
    late = images(states, [min(t + 4, STEPS) for t in FRAMES])
    unzoomed = images(tree.rebuild(states, steps=states.steps + 50), FRAMES)
    for wrong in (late, unzoomed):
        assert np.abs(wrong - frames)[:, 1, :84].mean() > 3 * np.abs(shown - frames)[:, 1, :84].mean()


def test_visited_tiles_lose_their_lighter_colour(start):
    after = tree.rebuild(start, steps=start.steps + 49)  # from close by
    plain = tree.rebuild(after, visited=jnp.ones_like(start.visited))
    ours, visited = (np.asarray(car_episodes._observe(CarRacing(), s))[:, :60] for s in (after, plain))
    assert set(np.unique(ours - visited)) >= {0, 2, 5}


def test_domain_randomization_draws_colours_for_every_lane():
    env = CarRacing(domain_randomize=True)
    colours = env._colours(random.stream(jax.random.split(jax.random.key(0), 500)))
    road, ground, patch = (np.asarray(c) for c in (colours.road, colours.ground, colours.patch))
    for drawn in (road, ground):
        assert drawn.min() >= 0
        assert drawn.max() <= 210
        assert abs(drawn.mean() - 105) < 6
    more = patch - ground
    np.testing.assert_allclose(more.sum(axis=1), 20, rtol=1e-4)
    assert np.all(np.abs((more > 10).mean(axis=0) - 1 / 3) < 0.1)


def test_the_picture_shows_the_car_below_the_middle(start):
    env = CarRacing()
    near = tree.rebuild(jax.tree.map(lambda x: x[:1], start), steps=jnp.array([50]))
    x, y = centre(picture(env, near, 1, 192)[0], RED)
    assert abs(x - 0.5) < 0.02
    assert abs(y - 0.75) < 0.02


_step = jax.jit(lambda env, state: env.transition(state, jnp.zeros((8, 3)), None))


# --- rewards and ends ------------------------------------------------------------------------------------------------


def test_leaving_the_playfield_costs_100_and_ends_the_episode(start):
    bodies = np.array(start.car.bodies)
    x, y, _, _ = origin(start.car)
    bodies[0, 0] += PLAYFIELD + 0.1 - x[0]
    bodies[1, 1] -= PLAYFIELD + 0.1 + y[1]
    bodies[2, 1] += PLAYFIELD - 0.1 - y[2]
    moved = tree.rebuild(start, car=tree.rebuild(start.car, bodies=jnp.asarray(bodies)))
    out = _step(CarRacing(), moved)
    np.testing.assert_array_equal(out.terminated, [True, True] + [False] * (len(bodies) - 2))
    np.testing.assert_array_equal(out.reward[:2], -100)
    assert out.reward[2] > -1
    assert not out.env_info["lap_finished"].any()


def test_the_last_tile_ends_the_lap(start):
    state = tree.rebuild(start, visited=start.track.exists, unpaid=jnp.zeros_like(start.unpaid))
    # The tile below the car is new again in the first two lanes, a distant one in the third.
    missing = jnp.array([0, 0, 150, 0, 0, 0, 0, 0])
    new = jax.nn.one_hot(missing, start.visited.shape[1], dtype=bool) & (np.arange(8) < 3)[:, None]
    out = _step(CarRacing(), tree.rebuild(state, visited=state.visited & ~new))
    finished = np.array([True, True, False, True, True, True, True, True])
    np.testing.assert_array_equal(out.terminated, finished)
    np.testing.assert_array_equal(out.env_info["lap_finished"], finished)
    paid = 1000 / np.asarray(start.track.length) * np.array([1, 1, 0, 0, 0, 0, 0, 0]) - 0.1
    np.testing.assert_allclose(out.reward, paid, rtol=1e-4)


@pytest.mark.parametrize(("percent", "ends"), [(0.9, True), (0.97, False)])
def test_the_first_tile_ends_the_lap_after_enough_others(start, percent, ends):
    env = CarRacing(params=car_racing.Params(lap_complete_percent=percent))
    number = np.arange(start.visited.shape[1])[None]
    length = np.asarray(start.track.length)[:, None]
    visited = jnp.asarray((number > 0) & (number < 0.95 * length))
    out = _step(env, tree.rebuild(start, visited=visited))
    np.testing.assert_array_equal(out.terminated, ends)


def test_the_tiles_of_the_reset_are_paid_with_the_first_step(start):
    assert np.all(np.asarray(start.unpaid) == np.asarray(start.visited.sum(axis=1)))
    assert np.all(np.asarray(start.unpaid) > 0)
    out = _step(CarRacing(), start)
    assert np.all(np.asarray(out.state.unpaid) == 0)


_drive = jax.jit(drive)


# --- actions and observations ----------------------------------------------------------------------------------------


def test_a_brake_of_more_than_nine_tenths_blocks_the_wheels(start):
    car = tree.rebuild(start.car, omega=jnp.full_like(start.car.omega, 40.0))
    none = jnp.zeros(8)
    for brake, blocked in ((np.float32(0.9), False), (np.float32(0.91), True)):
        after = _drive(car, none, none, none + brake, start.on_road)
        assert np.all((np.asarray(after.phase - car.phase) == 0) == blocked)


def test_gas_rises_by_a_tenth_and_falls_at_once(start):
    full, none = jnp.ones(8), jnp.zeros(8)
    car = _drive(start.car, none, full, none, start.on_road)
    np.testing.assert_allclose(car.gas, 0.1, rtol=1e-6)
    car = _drive(car, none, full, none, start.on_road)
    np.testing.assert_allclose(car.gas, 0.2, rtol=1e-6)
    np.testing.assert_array_equal(_drive(car, none, none, none, start.on_road).gas, 0)


def test_discrete_actions_are_those_of_gymnasium(start):
    controls = CarRacing(continuous=False)._controls(jnp.arange(5))
    expected = [(0, 0, 0), (-0.6, 0, 0), (0.6, 0, 0), (0, 0.2, 0), (0, 0, 0.8)]
    np.testing.assert_allclose(np.stack(controls, axis=1), expected)
    # Steering to the right turns the front wheels clockwise in both.
    steer, _, _ = CarRacing()._controls(jnp.array([[1.0, 0, 0]]))
    assert steer[0] == -1


def test_the_observation_of_the_state_sees_the_road_ahead(replayed, start):
    env = CarRacing(observe_pixels=False)
    rest, later = (np.asarray(env.observe(state_at(replayed[1], t))) for t in (0, 100))
    assert rest.shape == (8, *env.observation_spec().shape)
    places = rest[:, 14:].reshape(8, 2, 12)
    assert np.abs(places[:, :, 0]).max() < 4  # the car is near the first line
    assert np.all(np.diff(places[:, 1, :4]) > 0)
    steps = np.hypot(*np.moveaxis(np.diff(places, axis=2), 1, 0))
    assert np.all(steps <= 3 * 3.5 + 0.01)
    bodies = np.asarray(state_at(replayed[1], 100).car.bodies)
    np.testing.assert_allclose(
        np.hypot(later[:, 0], later[:, 1]), np.hypot(bodies[:, 3, 0], bodies[:, 4, 0]), rtol=1e-4
    )
    assert np.median(later[:, 1]) > 10  # it drives ahead, not aside
    np.testing.assert_array_equal(later[:, 10:14], np.asarray(state_at(replayed[1], 100).on_road))


def test_specs_and_registry_row_equal_gymnasiums():
    gymnasium = pytest.importorskip("gymnasium")
    theirs, ours = gymnasium.spec(ID), jaxenv.spec(ID)
    assert ours.max_episode_steps == theirs.max_episode_steps
    assert ours.reward_threshold == theirs.reward_threshold
    env = jaxenv.make(ID)
    assert env.observation_spec().shape == (96, 96, 3)
    np.testing.assert_array_equal(env.action_spec().minimum, [-1, 0, 0])
    np.testing.assert_array_equal(env.action_spec().maximum, [1, 1, 1])
    assert jaxenv.make(ID, continuous=False).action_spec().maximum == 4
