"""BipedalWalker compared with Gymnasium's: recorded steps, the first steps of recorded episodes, and the ground.

``walks.npz`` is made by ``tests.envs.box2d.walks``, and the steps by ``tests.envs.physics2d.record``. The physics of
single steps is compared in tests/envs/physics2d/test_world.py.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import random, tree
from jaxenv.canvas import PURPLE
from jaxenv.envs import physics2d
from jaxenv.envs.box2d import bipedal_terrain
from jaxenv.envs.box2d.bipedal_terrain import PAD, POINTS
from jaxenv.envs.box2d.bipedal_walker import END, BipedalWalker, State, world_of
from tests.envs.box2d import walks
from tests.envs.physics2d import steps
from tests.envs.physics2d.steps import QUICK
from tests.parity import certify
from tests.pictures import centre, picture

ENV = BipedalWalker()


@pytest.fixture(scope="module")
def recorded():
    with np.load(walks.FILE) as data:
        return dict(data)


@pytest.fixture(scope="module")
def advance():
    def step(state, action):
        out = ENV.transition(state, action, None)
        return out.state, ENV.observe(out.state), out.reward, out.terminated

    return jax.jit(step, compiler_options=QUICK)


@pytest.fixture(scope="module")
def data():
    return steps.load("walker_steps.npz")


def ground(bumps, gaps):
    """Heights for the numbers that Gymnasium draws."""
    return bipedal_terrain.heights(jnp.array(bumps), bipedal_terrain.flat_edges(jnp.array(gaps)))


def state_before(data):
    """States from which recorded steps start; the ground is known near the walker only."""
    heights = np.zeros((len(data["first"]), POINTS), np.float32)
    places = data["first"][:, None] + np.arange(data["heights"].shape[1])
    np.put_along_axis(heights, places, data["heights"], axis=1)
    world = physics2d.pack(steps.world_before(data))
    return State(world, jnp.asarray(heights), jnp.asarray(data["shaping"]))


def test_observations_and_rewards_of_recorded_steps_equal_gymnasiums(data, advance):
    _, observation, reward, terminated = advance(state_before(data), jnp.asarray(data["action"]))
    fell = steps.crashed(data)
    np.testing.assert_array_equal(terminated[~fell], False)
    assert np.mean(terminated[fell]) > 0.9
    difference = np.abs(np.asarray(observation) - data["observation"]).max(axis=1)
    error = np.maximum(difference, np.abs(reward - data["reward"]))[~fell]
    assert np.quantile(error, 0.95) < 1e-4
    close = error < 1e-3
    assert close.mean() >= 0.99
    certify("BipedalWalker-v3", "gymnasium 1.3.0", states=close.sum(), tolerance=1e-3, error=error[close].max())


def test_rays_that_look_through_the_ground_are_found():
    # Rays from below the ground meet it as well, in the original too; from above none starts beyond its range.
    ground = jnp.full((2, POINTS), 1.0)
    rays = np.asarray(bipedal_terrain.lidar(ground, jnp.array([20.0, 20.0]), jnp.array([3.0, 9.0])))
    expected = 2 / bipedal_terrain.RANGE / np.cos(1.5 * np.arange(10) / 10)
    np.testing.assert_allclose(rays[0], np.minimum(expected, 1), rtol=1e-5)
    np.testing.assert_array_equal(rays[1], 1)


def test_the_ground_follows_from_gymnasiums_draws(recorded):
    bumps, gaps, _ = zip(*(walks.draws(seed) for seed in range(walks.SEEDS)), strict=True)
    found = ground(bumps, gaps)
    np.testing.assert_allclose(found, recorded["ground"], atol=2e-5)


def test_heights_have_gymnasiums_distribution(recorded):
    stream = random.stream(jax.random.split(jax.random.key(0), 4000))
    ground = np.asarray(jax.jit(lambda stream: bipedal_terrain.heights(*bipedal_terrain.draw(stream)))(stream))
    np.testing.assert_array_equal(ground[:, : PAD + 1], np.float32(bipedal_terrain.LEVEL))
    for column, percentiles in zip(walks.COLUMNS, recorded["percentiles"].T, strict=True):
        share = (ground[:, column, None] < percentiles).mean(axis=0)
        np.testing.assert_allclose(share, np.arange(5, 100, 5) / 100, atol=0.045)
    flat = (np.diff(ground[:, PAD:], axis=1) == 0).mean()
    assert abs(flat - 1 / 7) < 0.01  # after the start one edge in six to ten


def test_the_first_steps_of_episodes_equal_gymnasiums(recorded, advance):
    # Later ones do not: rounding grows with each step on the ground, and most with each impact.
    bumps, gaps, force = zip(*(walks.draws(seed) for seed in range(walks.SEEDS)), strict=True)
    heights = ground(bumps, gaps)
    state = jax.jit(ENV._started, compiler_options=QUICK)(heights, jnp.array(force))
    actions = np.stack([walks.actions(seed, walks.STEPS) for seed in range(walks.SEEDS)])
    observations, rewards = [ENV.observe(state)], []
    for t in range(walks.STEPS):
        state, observation, reward, _ = advance(state, jnp.asarray(actions[:, t]))
        observations.append(observation)
        rewards.append(reward)
    difference = np.abs(np.stack(observations, axis=1) - recorded["observations"])
    flags = difference[..., [8, 13]]
    assert flags[:, 0].max() == 0
    assert (flags > 0).mean() < 0.02
    error = np.delete(difference, [8, 13], axis=2).max(axis=2)  # [seeds, steps]
    assert error[:, 0].max() < 1e-4
    assert np.quantile(error.max(axis=1), 0.75) < 5e-3
    assert error.max() < 5e-2
    np.testing.assert_allclose(np.stack(rewards, axis=1), recorded["rewards"], atol=5e-2)


def moved(data, x):
    """A state of free flight, with the walker moved to ``x``."""
    row = {name: values[:1] for name, values in steps.chosen(data, steps.FREE).items()}
    row["heights"] = np.full_like(row["heights"], -50)
    state = state_before(row)
    world = world_of(state)
    shift = x - world.pose[0][:1]
    world = tree.rebuild(world, pose=(world.pose[0] + shift, *world.pose[1:]))
    return tree.rebuild(state, world=physics2d.pack(world), heights=jnp.full((1, POINTS), -50.0))


@pytest.mark.parametrize(
    ("x", "ends", "lost"), [(-0.5, True, True), (1, False, False), (END - 1, False, False), (END + 1, True, False)]
)
def test_episodes_end_beyond_either_end_of_the_ground(data, advance, x, ends, lost):
    _, _, reward, terminated = advance(moved(data, x), jnp.zeros((1, 4)))
    assert terminated[0] == ends
    assert (reward[0] == -100) == lost


def test_torque_costs_and_turns_a_hip_away_from_its_limit(data, advance):
    # The first hip is at its upper limit, the second one at its lower limit.
    state = moved(data, 20.0)
    rates, rewards = [], []
    for action in ([0, 0, 0, 0], [1, 0, -1, 0], [-1, 0, 1, 0]):
        out, observation, reward, _ = advance(state, jnp.array([action], jnp.float32))
        rates.append(observation[0, np.array([5, 10])])
        rewards.append(reward[0] - out.shaping[0] + state.shaping[0])
    still, towards, away = np.array(rates)
    np.testing.assert_allclose([still, towards], 0, atol=1e-3)
    assert away[0] < -0.1
    assert away[1] > 0.1
    np.testing.assert_allclose(np.array(rewards) - rewards[0], [0, -0.056, -0.056], atol=1e-4)


def test_specs_and_registry_rows_equal_gymnasiums():
    gymnasium = pytest.importorskip("gymnasium")
    theirs, ours = gymnasium.spec("BipedalWalker-v3"), jaxenv.spec("BipedalWalker-v3")
    assert ours.max_episode_steps == theirs.max_episode_steps
    assert ours.reward_threshold == theirs.reward_threshold
    spec = ENV.observation_spec()
    assert spec.shape == (24,)
    np.testing.assert_allclose(spec.maximum[[0, 1, 8, 13, 14]], [np.pi, 5, 5, 5, 1])
    np.testing.assert_allclose(spec.minimum[[0, 1, 8, 13, 14]], [-np.pi, -5, 0, 0, -1])


def test_the_picture_follows_the_walker(data):
    for x in (10.0, 60.0):
        left, _ = centre(picture(ENV, moved(data, x), 1)[0], PURPLE)
        assert abs(left - 0.2) < 0.03
