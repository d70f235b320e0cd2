"""LunarLander compared with Gymnasium's, by recorded episodes: the same ground, draws and actions.

``episodes.npz`` is made by ``tests.envs.box2d.episodes``. The physics of single steps is compared in
tests/envs/physics2d/test_world.py.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import random
from jaxenv.canvas import PURPLE
from jaxenv.envs.box2d.lunar_lander import EDGES, HEIGHT, PAD, LunarLander, smoothed
from tests.envs.box2d import episodes
from tests.envs.physics2d.steps import QUICK
from tests.parity import certify
from tests.pictures import centre, picture

IDS = {False: "LunarLander-v3", True: "LunarLanderContinuous-v3"}


@pytest.mark.parametrize(
    ("kind", "num", "steps", "fraction"),
    [
        ("random", 60, 200, 0.95),
        pytest.param("heuristic", 30, 320, 0.7, marks=pytest.mark.slow),
        pytest.param("heuristic continuous", 30, 250, 0.7, marks=pytest.mark.slow),
    ],
)
def test_replayed_episodes_equal_gymnasiums(kind, num, steps, fraction):
    theirs = episodes.load(kind)
    seeds = np.flatnonzero(theirs["length"] < steps)[:num]
    ours = episodes.replay(episodes.environment(kind), seeds, kind.split()[0], steps, QUICK)
    theirs = {name: x[seeds] for name, x in theirs.items()}
    # The physics is chaotic on the ground: Gymnasium's own episodes differ if they start 1e-6 apart.
    same = ours["length"] == theirs["length"]
    assert same.mean() >= fraction
    assert np.mean(np.abs(ours["return"] - theirs["return"]) < 1) >= fraction
    for outcome in ("lost", "asleep"):
        assert np.mean(ours[outcome] == theirs[outcome]) >= 0.9
    close = same & (np.abs(ours["return"] - theirs["return"]) < 1)
    error = np.abs(ours["return"] - theirs["return"])[close].max()
    length = theirs["length"][close].sum()
    certify(IDS["continuous" in kind], "gymnasium 1.3.0", episodes=close.sum(), steps=length, tolerance=1, error=error)


def test_wind_blows_in_gymnasiums_pattern_until_a_leg_touches_the_ground():
    # A few steps: in turbulence rounding grows until the engines of the pilot fire at other steps.
    env = LunarLander(enable_wind=True)
    indices = jnp.array([[3, -7], [-9999, 9998]], jnp.int32)
    wind, torque, next_wind, next_torque = env._weather(indices[:, 0], indices[:, 1], jnp.array([True, False]))
    angle = np.array([3, -7]) * 0.01
    gusts = np.tanh(np.sin(2 * angle) + np.sin(np.pi * angle)) * [15, 1.5]
    np.testing.assert_allclose([wind[0], torque[0]], gusts, rtol=1e-5)
    assert (wind[1], torque[1]) == (0, 0)
    np.testing.assert_array_equal(next_wind, [4, -9999])
    np.testing.assert_array_equal(next_torque, [-6, 9998])


def test_the_ground_is_flat_around_the_pad_and_smoothed_over_three_points_elsewhere():
    heights = np.random.default_rng(0).uniform(0, HEIGHT / 2, (5, EDGES + 2)).astype(np.float32)
    found = np.asarray(smoothed(jnp.asarray(heights)))
    heights[:, 3:8] = PAD
    expected = [0.33 * (heights[:, i - 1] + heights[:, i] + heights[:, i + 1]) for i in range(EDGES + 1)]
    np.testing.assert_allclose(found, np.stack(expected, axis=1), rtol=1e-6)


@pytest.mark.slow
def test_heights_and_winds_are_uniform():
    env = LunarLander(enable_wind=True)
    level = jax.jit(env.sample_level)(random.stream(jax.random.split(jax.random.key(0), 4000)))
    # The sum of three independent uniform heights, at the left end of the ground.
    for column in (level.heights[:, 1], level.heights[:, 9]):
        column = np.asarray(column) / 0.33
        assert column.min() >= 0
        assert column.max() <= 1.5 * HEIGHT
        assert abs(column.mean() / (0.75 * HEIGHT) - 1) < 0.03
    for index in level.weather.T:
        assert -9999 <= np.min(index) < -9900
        assert 9900 < np.max(index) - 1 < 9999


@pytest.mark.slow
def test_params_differ_by_lane():
    env = jaxenv.make("LunarLander-v3", 2, gravity=jnp.array([-10.0, -2.0]), start_force=0.0)
    _, timestep = env.reset(jax.random.key(0))
    speeds = np.asarray(timestep.observation[:, 3])
    np.testing.assert_allclose(speeds[0] / speeds[1], 5, rtol=1e-3)


def test_specs_and_registry_rows_equal_gymnasiums():
    gymnasium = pytest.importorskip("gymnasium")
    for continuous, id in IDS.items():
        theirs, ours = gymnasium.spec(id), jaxenv.spec(id)
        assert ours.max_episode_steps == theirs.max_episode_steps
        assert ours.reward_threshold == theirs.reward_threshold
        assert jaxenv.make(id).unwrapped.continuous == continuous
    high = np.array([2.5, 2.5, 10, 10, 2 * np.pi, 10, 1, 1], np.float32)
    spec = jaxenv.make("LunarLander-v3").observation_spec()
    np.testing.assert_allclose(spec.maximum, high)
    np.testing.assert_allclose(spec.minimum, np.where(np.arange(8) < 6, -high, 0))


@pytest.mark.slow
def test_the_picture_shows_the_craft_at_the_top_in_the_middle():
    env = LunarLander(params=type(LunarLander().params)(start_force=0.0))
    stream = random.stream(jax.random.split(jax.random.key(0), 1))
    state = env.initial(stream, env.sample_level(stream))
    x, y = centre(picture(env, state, 1)[0], PURPLE)
    assert abs(x - 0.5) < 0.02
    assert y < 0.3
