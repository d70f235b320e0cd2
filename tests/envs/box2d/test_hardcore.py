"""BipedalWalkerHardcore compared with Gymnasium's: recorded steps, and the ground with its blocks.

``obstacles.npz`` is made by ``tests.envs.box2d.obstacles``, and the steps by ``tests.envs.physics2d.record``. The
physics of single steps is compared in tests/envs/physics2d/test_blocks.py.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import random
from jaxenv.envs import physics2d
from jaxenv.envs.box2d import bipedal_obstacles
from jaxenv.envs.box2d.bipedal_obstacles import AHEAD, BEHIND, MOST, NEAR, Draws, draw, ground
from jaxenv.envs.box2d.bipedal_terrain import LEVEL, PAD, POINTS, RANGE, SPACING
from jaxenv.envs.box2d.bipedal_walker import END, BipedalWalker, State
from jaxenv.envs.box2d.bipedal_walker import HARDCORE as SCENE
from tests.envs.box2d import obstacles
from tests.envs.physics2d import steps
from tests.envs.physics2d.steps import QUICK
from tests.parity import certify

ENV = BipedalWalker(hardcore=True)
FAR = np.array([1e6, -1e6, 1e6, -1e6], np.float32)


@pytest.fixture(scope="module")
def recorded():
    with np.load(obstacles.FILE) as data:
        return dict(data)


@pytest.fixture(scope="module")
def grounds():
    """Heights and blocks for the seeds of the recorded grounds."""
    draws, _ = obstacles.drawn(range(obstacles.SEEDS))
    return [np.asarray(x) for x in jax.jit(obstacles.ground)(draws)]


@pytest.fixture(scope="module")
def many():
    """Heights and blocks of grounds with own draws."""
    stream = random.stream(jax.random.split(jax.random.key(0), 3000))
    return [np.asarray(x) for x in jax.jit(lambda stream: ground(*draw(stream)))(stream)]


def state_before(data):
    """States from which recorded steps start; the ground is known near the walker only."""
    lanes = len(data["first"])
    heights = np.zeros((lanes, POINTS), np.float32)
    np.put_along_axis(heights, data["first"][:, None] + np.arange(data["heights"].shape[1]), data["heights"], axis=1)
    blocks = np.tile(FAR[None, :, None], (lanes, 1, MOST + NEAR))
    for lane, first in enumerate(data["first_block"]):
        blocks[lane, :, :first] = -1e3
        blocks[lane, :, first : first + NEAR] = data["blocks"][lane]
    world = physics2d.pack(steps.world_before(data))
    return State(world, *map(jnp.asarray, (heights, data["shaping"], blocks[:, :, :MOST])))


def test_observations_and_rewards_of_recorded_steps_equal_gymnasiums():
    data = steps.load("hardcore_steps.npz")

    def advance(state, action):
        out = ENV.transition(state, action, None)
        return ENV.observe(out.state), out.reward, out.terminated

    found = jax.jit(advance, compiler_options=QUICK)(state_before(data), jnp.asarray(data["action"]))
    observation, reward, terminated = map(np.asarray, found)
    fell = steps.crashed(data)
    np.testing.assert_array_equal(terminated[~fell], False)
    assert np.mean(terminated[fell]) > 0.95
    np.testing.assert_array_equal(reward[fell & terminated], -100)
    difference = np.abs(observation - data["observation"]).max(axis=1)
    error = np.maximum(difference, np.abs(reward - data["reward"]))[~fell]
    assert np.quantile(error, 0.95) < 1e-4
    close = error < 1e-3
    assert close.mean() >= 0.99
    certify("BipedalWalkerHardcore-v3", "gymnasium 1.3.0", states=close.sum(), tolerance=1e-3, error=error[close].max())


def test_the_ground_follows_from_gymnasiums_draws(recorded, grounds):
    np.testing.assert_allclose(grounds[0], recorded["heights"], atol=2e-5)
    np.testing.assert_allclose(grounds[1], recorded["blocks"], atol=2e-5)


def test_grounds_have_gymnasiums_distribution(recorded, many):
    found = [obstacles.census(h, b.T[b[0] < obstacles.SEEN]) for h, b in zip(*many, strict=True)]
    shapes, heights, places = (np.array(x) for x in zip(*found, strict=True))
    error = recorded["deviation"] * np.sqrt(2 / obstacles.MANY)
    np.testing.assert_array_less(np.abs(shapes.mean(axis=0) - recorded["shapes"]), 4 * error)
    for column, percentiles in zip(np.concatenate([heights, places], 1).T, recorded["percentiles"].T, strict=True):
        # Places are multiples of the spacing, so ties count by half.
        share = [np.mean(column < p - 1e-3) / 2 + np.mean(column <= p + 1e-3) / 2 for p in percentiles]
        below = [np.mean(column < p - 1e-3) for p in percentiles]
        width = np.array(share) - below
        np.testing.assert_array_less(np.abs(np.array(share) - np.arange(5, 100, 5) / 100) - width, 0.045)


def ground_of(kinds, long=False, gap=5):
    """A ground of the obstacles that ``kinds`` lists, as close to each other as they may be."""
    kind = np.zeros(POINTS, np.int32)
    at, lengths = PAD - 1, {1: 1 + long, 2: 12 + 4 * long, 3: 5 + long}
    for k in kinds:
        if at < POINTS:
            kind[at] = k
        at += lengths[k] + gap
    fill = [np.zeros(POINTS, np.float32), np.full(POINTS, gap, np.int32), kind]
    flags = np.full(POINTS, long), np.zeros(POINTS, bool)
    return [np.asarray(x)[0] for x in obstacles.ground(Draws(*(jnp.array(x)[None] for x in (*fill, *flags))))]


def most_blocks(first=PAD, seen=POINTS + 2):
    """The most blocks at points up to ``seen``, of obstacles that begin at points from ``first`` on."""
    best = [0] * (POINTS + 40)
    for p in range(POINTS - 1, first - 1, -1):
        shapes = [([p], 1), ([p], 2), ([p, p + 3], 5), ([p, p + 4], 6)]
        shapes += [([p + 4 * s for s in range(num)], 4 * num) for num in (3, 4)]
        best[p] = max(sum(q <= seen for q in points) + best[p + length + 5] for points, length in shapes)
    return best[first]


def test_no_ground_has_more_blocks_than_are_kept(many):
    assert most_blocks() == MOST
    pits = ground_of([3] * 20)[1]
    assert np.sum(pits[0] < 1e5) == 36
    assert np.sum(many[1][:, 0] < 1e5, axis=1).max() < MOST


def test_obstacles_have_gymnasiums_shapes():
    for kind, wide, high in ((1, 1, 1), (2, 4, 1), (3, 1, 4)):
        heights, blocks = ground_of([kind] * 3)
        left, low, right, top = blocks[:, 0]
        np.testing.assert_allclose([left, right - left, top - low], np.array([PAD, wide, high]) * SPACING, atol=1e-5)
        np.testing.assert_allclose(low if kind == 1 else top, LEVEL, atol=1e-5)
        deepest = {1: 0, 2: -3, 3: -4}[kind]  # stairs lead down
        np.testing.assert_allclose((heights[PAD : PAD + 12].min() - LEVEL) / SPACING, deepest, atol=1e-4)


def test_the_blocks_near_a_walker_are_all_that_it_touches_or_sees(many):
    rng = np.random.default_rng(0)
    mixed = [ground_of(kinds, long, 5)[1] for kinds in itertools.product((1, 2, 3), repeat=3) for long in (False, True)]
    blocks = jnp.array(np.concatenate([many[1][:200], mixed]))
    lanes = np.arange(len(blocks))
    for x in rng.uniform(0, END, (20, len(lanes))).astype(np.float32):
        found = bipedal_obstacles.near(blocks, jnp.array(x))
        index = np.arange(MOST)
        inside = (blocks[:, 2] > (x - BEHIND)[:, None]) & (blocks[:, 0] < (x + AHEAD)[:, None])
        kept = (index >= np.asarray(found.first)[:, None]) & (index < np.asarray(found.first)[:, None] + NEAR)
        assert np.all(kept | ~np.asarray(inside))
        # A body meets three at most. The hull has the largest radius.
        reach = SCENE.radius.max() + 0.6
        inside = (blocks[:, 2] > (x - reach)[:, None]) & (blocks[:, 0] < (x + reach)[:, None])
        assert np.asarray(inside).sum(axis=1).max() <= SCENE.blocks


def test_the_first_obstacle_is_out_of_reach_of_the_first_step(many):
    assert many[1][:, 0].min() > PAD / 2 * SPACING + 2 * (SCENE.radius.max() + 0.6)


def test_rays_stop_at_blocks_but_not_inside_of_them():
    # In front of the first walker is a stump, the second is inside of it, the third above, the fourth behind.
    stump = np.tile(FAR[:, None], (1, MOST))
    stump[:, 0] = 12, 0, 14, 2
    blocks = jnp.array(np.tile(stump, (4, 1, 1)))
    x, y = jnp.array([10.0, 13.0, 13.0, 15.0]), jnp.array([1.5, 1.5, 4.0, 1.5])
    found = np.asarray(bipedal_obstacles.lidar(blocks, x, y))
    angles = 1.5 * np.arange(10) / 10
    with np.errstate(divide="ignore"):
        ahead, down = 2 / (RANGE * np.sin(angles)), 2 / (RANGE * np.cos(angles))
    low = 1.5 - ahead * RANGE * np.cos(angles)
    np.testing.assert_allclose(found[0], np.where((ahead <= 1) & (low >= 0), ahead, 1), rtol=1e-5)
    np.testing.assert_array_equal(found[1], 1)
    np.testing.assert_allclose(found[2], np.where(2 * np.tan(angles) <= 1, down, 1), rtol=1e-5)
    np.testing.assert_array_equal(found[3], 1)


def test_walkers_start_as_gymnasiums_do(recorded, grounds):
    _, forces = obstacles.drawn(range(obstacles.SEEDS))
    heights, blocks = map(jnp.asarray, grounds)

    def start(heights, force, blocks):
        return ENV.observe(ENV._started(heights, force, blocks))

    observation = jax.jit(start, compiler_options=QUICK)(heights, jnp.array(forces), blocks)
    np.testing.assert_allclose(observation, recorded["first"], atol=1e-4)


def test_the_registry_row_equals_gymnasiums():
    gymnasium = pytest.importorskip("gymnasium")
    theirs, ours = gymnasium.spec("BipedalWalkerHardcore-v3"), jaxenv.spec("BipedalWalkerHardcore-v3")
    assert ours.max_episode_steps == theirs.max_episode_steps
    assert ours.reward_threshold == theirs.reward_threshold
