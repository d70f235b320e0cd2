"""The particle tasks compared with recorded steps and episodes of mpe2 1.1.1, made by ``make_mpe2.py``.

mpe2 computes in float64. One step in float32 differs by a few rounding errors. In an episode of 25 steps collisions
amplify them, by a stiff contact up to 100 times.
"""

import functools
import pathlib

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.canvas import BLUE, GREEN, INK, RED
from jaxenv.envs.particle._particles import Particles
from jaxenv.envs.particle.simple_reference import SimpleReference, State
from jaxenv.envs.particle.simple_spread import SimpleSpread
from jaxenv.envs.particle.simple_tag import SimpleTag
from tests.envs.classic_control.reference import assert_uniform
from tests.parity import certify
from tests.pictures import centre, picture

CLASSES = {"spread": SimpleSpread, "tag": SimpleTag, "reference": SimpleReference}
IDS = {"spread": "SimpleSpread-mpe", "tag": "SimpleTag-mpe", "reference": "SimpleReference-mpe"}
WORLD = {"dt": 0.15, "damping": 0.4, "contact_force": 60.0, "contact_margin": 1e-2}
OTHER = {
    "spread": ({"agents": 4}, {"agent_radius": 0.2, "acceleration": 3.0, "local_ratio": 0.2}),
    "tag": (
        {"prey": 2, "adversaries": 2, "obstacles": 3},
        dict(
            {f"{kind}_radius": 0.1 for kind in ("adversary", "prey")},
            **{f"{kind}_acceleration": 5.0 for kind in ("adversary", "prey")},
            **{f"{kind}_max_speed": 0.8 for kind in ("adversary", "prey")},
        ),
    ),
    "reference": ({}, {"acceleration": 2.0, "local_ratio": 0.8}),
}
CASES = [(task, setting) for task in CLASSES for setting in ("default", "other")]


@functools.cache
def task_of(task, setting):
    if setting == "default":
        return CLASSES[task]()
    options, params = OTHER[task]
    return CLASSES[task](**options).with_params(**WORLD, **params)


@functools.cache
def recorded(task, setting, kind):
    start = f"{task}_{setting}_{kind}_"
    with np.load(pathlib.Path(__file__).with_name("mpe2.npz")) as arrays:
        return {name.removeprefix(start): arrays[name] for name in arrays.files if name.startswith(start)}


def columns(points):
    """The coordinates of points ``[B, E, 2]``: x and y, tuples of arrays ``[B]``."""
    return tuple(tuple(np.ascontiguousarray(points[:, i, axis]) for i in range(points.shape[1])) for axis in (0, 1))


def particles(place, speed):
    return Particles(*columns(np.float32(place)), *columns(np.float32(speed)))


def start(task, rows):
    state = particles(rows["place"], rows["speed"])
    return State(state, np.int32(rows["goal"]), np.int32(rows["word"])) if task == "reference" else state


@jax.jit
def follow(env, state, actions):
    """Observations and rewards ``[T, B, ...]`` of actions ``[T, B, A]``, the last state."""

    def one(state, action):
        out = env.transition(state, action, None)
        return out.state, (env.observe(out.state), out.reward)

    state, rows = jax.lax.scan(one, state, actions)
    return rows


def difference(ours, theirs):
    """The largest difference of observations and rewards, relative to 1 or the number if that is larger."""
    return max(
        (np.abs(a - b) / np.maximum(1, np.abs(b))).max() for a, b in zip(jax.device_get(ours), theirs, strict=True)
    )


@pytest.mark.parametrize(("task", "setting"), CASES)
def test_one_step_from_random_states_equals_mpe2(task, setting):
    rows = recorded(task, setting, "step")
    ours = follow(task_of(task, setting), start(task, rows), np.int32(rows["action"])[None])
    error = difference(ours, (rows["observation"][None], rows["reward"][None]))
    assert error <= 1e-5
    certify(IDS[task], "mpe2 1.1.1", states=len(rows["action"]), tolerance=1e-5, error=error)


@pytest.mark.parametrize(("task", "setting"), CASES)
def test_whole_episodes_equal_mpe2(task, setting):
    rows = recorded(task, setting, "episode")
    actions = np.int32(rows["action"]).swapaxes(0, 1)
    ours = follow(task_of(task, setting), start(task, rows), actions)
    error = difference(ours, (rows["observation"].swapaxes(0, 1), rows["reward"].swapaxes(0, 1)))
    assert error <= 1e-3
    episodes, steps = rows["action"].shape[:2]
    certify(IDS[task], "mpe2 1.1.1", episodes=episodes, steps=episodes * steps, tolerance=1e-3, error=error)


@pytest.mark.parametrize("task", ["spread", "tag"])
def test_the_recorded_steps_contain_contacts_and_agents_at_their_greatest_speed(task):
    rows = recorded(task, "default", "step")
    assert len(np.unique(rows["reward"].round(1))) > 4
    speed = np.linalg.norm(rows["observation"][..., :2], axis=-1)
    if task == "tag":
        assert np.isclose(speed, [1, 1, 1, 1.3], atol=1e-5).mean(axis=0).min() > 0.05
    else:
        assert speed.max() > 2  # pushed


@pytest.mark.parametrize("task", CLASSES)
def test_agents_and_landmarks_start_at_rest_and_uniform_in_their_squares(task):
    env = CLASSES[task](num_envs=4096)
    state = env.reset(jax.random.key(0))[0].task
    placed = state.particles if task == "reference" else state
    for axis in (placed.x, placed.y):
        for i, column in enumerate(axis):
            reach = 0.9 if task == "tag" and i >= 4 else 1.0
            assert_uniform(np.asarray(column), -reach, reach)
    everything = np.stack([*placed.x, *placed.y])
    assert np.abs(np.corrcoef(everything) - np.eye(len(everything))).max() < 5 / np.sqrt(4096)
    assert not np.any(placed.x_speed)
    assert not np.any(placed.y_speed)
    if task == "reference":
        assert (np.bincount(np.asarray(state.goal[:, 0] * 3 + state.goal[:, 1])) > 350).all()
        assert (state.word == -1).all()
        assert not np.any(env.observe(state)[:, :, 11:])


@pytest.mark.parametrize("task", ["spread", "tag"])
def test_agents_at_one_point_stay_finite(task):
    env = CLASSES[task]()
    count = env.num_agents + (3 if task == "spread" else 2)
    state = particles(np.zeros((1, count, 2)), np.zeros((1, env.num_agents, 2)))
    observation, reward = follow(env, state, np.zeros((3, 1, env.num_agents), np.int32))
    assert np.isfinite(observation).all()
    assert np.isfinite(reward).all()


def test_exchanging_agents_of_simple_spread_exchanges_their_rows():
    rows, order = recorded("spread", "default", "step"), np.array([2, 0, 1])
    places = [*order, 3, 4, 5]
    exchanged = (
        rows | {name: rows[name][:, order] for name in ("speed", "action")} | {"place": rows["place"][:, places]}
    )
    (seen, reward), (seen_2, reward_2) = (
        jax.device_get(follow(SimpleSpread(), start("spread", r), np.int32(r["action"])[None]))
        for r in (rows, exchanged)
    )
    np.testing.assert_allclose(reward_2, reward[..., order], atol=1e-5)
    np.testing.assert_allclose(seen_2[..., :10], seen[:, :, order, :10], atol=1e-5)


def test_the_prey_of_simple_tag_observes_zeros_where_adversaries_observe_its_velocity():
    env = jaxenv.make("SimpleTag-mpe", num_envs=8)
    state, timestep = env.reset(jax.random.key(0))
    state, timestep = env.step(state, np.full((8, 4), 2, np.int32))
    observation = np.asarray(timestep.observation)
    assert observation.shape == (8, 4, 16)
    assert not observation[:, 3, 14:].any()
    np.testing.assert_array_equal(observation[:, :3, 14:], observation[:, [3, 3, 3], :2])
    assert (observation[:, 3, 0] > 0).all()


@pytest.mark.parametrize("id", IDS.values())
def test_an_episode_is_truncated_after_25_steps_for_all_agents(id):
    env = jaxenv.make(id, num_envs=2)
    state, timestep = env.reset(jax.random.key(0))
    (_, timestep, _), played = jaxenv.unroll(env, jaxenv.rollout.random_policy(env), state, timestep, 25)
    assert np.asarray(timestep.truncated).all()
    assert not np.asarray(played.timestep.is_last())[:25].all()
    assert played.timestep.reward.shape == (25, 2, env.num_agents)


def test_invalid_options_raise():
    for task, option, least in ((SimpleSpread, "agents", 2), (SimpleTag, "prey", 1), (SimpleTag, "obstacles", 0)):
        with pytest.raises(ValueError, match=rf"{task.__name__}: {option} .*got {least - 1}"):
            task(**{option: least - 1})
    with pytest.raises(ValueError, match=r"SimpleSpread: local_ratio .*got 1.5"):
        SimpleSpread().with_params(local_ratio=1.5)


def test_the_pictures_show_agents_and_landmarks_at_their_places():
    place = np.float32([[[-0.7, -0.7], [0.7, -0.7], [0.7, 0.7], [0, 0], [0, 0], [0, 0]]])
    rest = np.zeros((1, 4, 2))
    spread = picture(SimpleSpread(), particles(place, rest[:, :3]), 1)[0]
    np.testing.assert_allclose(centre(spread, INK), (0.5, 0.5), atol=0.02)
    np.testing.assert_allclose(centre(spread, BLUE), (0.5 + 0.7 / 2.8 / 3, 0.5 + 0.7 / 2.8 / 3), atol=0.02)
    tag = picture(SimpleTag(), particles(place[:, [0, 0, 0, 2, 3, 3]], rest), 1)[0]
    np.testing.assert_allclose(centre(tag, RED), (0.25, 0.75), atol=0.02)
    np.testing.assert_allclose(centre(tag, GREEN), (0.75, 0.25), atol=0.02)
    goal = np.int32([[2, 2]])
    state = State(particles(place[:, [0, 0, 3, 3, 2]], rest[:, :2]), goal, goal - 3)
    image = picture(SimpleReference(), state, 1)[0]
    assert image[:48, 48:].min(axis=-1).max() > 0
    assert np.abs(image[72, 24] - 255 * BLUE).max() < 3
