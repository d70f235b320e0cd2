"""BouncingSquares: parity with recorded episodes of ALF, and the distribution of its starts."""

import itertools

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.canvas import GREEN, PINK
from jaxenv.envs.probes.bouncing_squares import COLOURS, BouncingSquares, Square, State
from tests.envs.probes import reference
from tests.parity import certify
from tests.pictures import centre, picture

ID = "BouncingSquares-v0"
OPTIONS = {
    "plain": {"size": 17, "color": False},
    "color": {},
    "large": {"size": 11, "pixels_per_cell": 3},
}


def task_of(states, noise=()):
    """Translates ALF's states, ``[N, 14]``: corner, side lengths, speeds and colour of each square."""
    columns = np.ascontiguousarray(states.T, np.int32)
    return State(Square(*columns[:7]), Square(*columns[7:]), noise)


def states_of(task):
    return np.stack(jax.tree.leaves((task.first, task.second)), axis=-1)


@pytest.mark.parametrize("name", OPTIONS)
def test_steps_episodes_and_images_match_recordings_of_alf(name):
    recorded, images = (reference.recordings()[f"squares_{name}_{k}"] for k in ("rows", "images"))
    steps, lanes = len(recorded) - 1, recorded.shape[1]
    # The first lanes start from every recorded state and use the first step only; the last lanes run whole episodes.
    every = np.concatenate([recorded[:-1].reshape(-1, 14), recorded[0]])
    env = reference.bare(ID, **OPTIONS[name])
    moved = jax.device_get(step_on(env, task_of(every), steps))
    ours = states_of(moved)
    np.testing.assert_array_equal(ours[0, :-lanes], recorded[1:].reshape(-1, 14))
    np.testing.assert_array_equal(ours[:, -lanes:], recorded[1:])
    shown = recorded[:: steps // 2, : len(images)]
    ours = jax.device_get(image(env, task_of(shown.reshape(-1, 14))))
    np.testing.assert_array_equal(ours, images.swapaxes(0, 1).reshape(ours.shape))
    certify(ID, "alf 7399e12", states=steps * lanes, episodes=lanes, steps=steps * lanes)


@jax.jit
def image(env, task):
    return env.observe(task)


def step_on(env, task, steps):
    """Returns the task states after each of ``steps`` steps, without images."""
    return _step_on(env, task, np.arange(steps, dtype=np.int32))


@jax.jit
def _step_on(env, task, numbers):
    def step(task, number):
        task = env.transition(task, number, None).state
        return task, task

    return jax.lax.scan(step, task, numbers)[1]


@jax.jit
def outcome(env, task, action):
    return env.transition(task, action, None)


def test_actions_have_no_effect_and_rewards_are_zero():
    task = task_of(reference.recordings()["squares_color_rows"][0])
    env = reference.bare(ID)
    first, second = (jax.device_get(outcome(env, task, np.full(60, a, np.int32))) for a in (0, 1))
    np.testing.assert_array_equal(states_of(first.state), states_of(second.state))
    assert not first.reward.any()
    assert not first.terminated.any()
    assert jaxenv.spec(ID).max_episode_steps == 10  # as in the only example of ALF that uses it


def test_the_second_square_is_uniform_over_all_free_positions():
    # Size 5 gives side lengths of 1 and corners in 0 to 3: 16 positions for the first square, 15 for the second.
    task = starts(reference.bare(ID, size=5, color=False), 20_000)
    counts = np.zeros((4, 4, 4, 4))
    np.add.at(counts, (task.first.row, task.first.column, task.second.row, task.second.column), 1)
    for a, b in itertools.product(range(4), range(4)):
        assert counts[a, b, a, b] == 0
        counts[a, b, a, b] = 20_000 / 240
    assert np.all(np.abs(counts - 20_000 / 240) < 5 * np.sqrt(20_000 / 240))


def test_starts_have_the_distribution_of_rejection_sampling():
    lanes = 20_000
    task = starts(reference.bare(ID, size=22), lanes)  # side lengths 5 and 4
    rows = states_of(task)
    for side in (rows[:, 2], rows[:, 3], rows[:, 9], rows[:, 10]):
        assert_uniform_over(side, [4, 5])
    for speed in (rows[:, 4], rows[:, 5], rows[:, 11], rows[:, 12]):
        assert_uniform_over(speed, range(-3, 4))
    for colour in (rows[:, 6], rows[:, 13]):
        assert_uniform_over(colour, range(8))
    related = np.corrcoef(rows[:, [2, 3, 4, 5, 6, 9, 10, 11, 12, 13]].T) - np.eye(10)
    assert np.abs(related).max() < 5 / np.sqrt(lanes)
    rng = np.random.default_rng(0)
    for sides in itertools.product((4, 5), repeat=4):
        these = np.all(rows[:, [2, 3, 9, 10]] == sides, axis=-1)
        # Rejection sampling, as in the original; the marginal distributions are compared.
        corners = rng.integers(0, 22 - np.array(sides), (40_000, 4))
        first, second = corners[:, :2], corners[:, 2:]
        apart = np.any((first + sides[:2] <= second) | (second + sides[2:] <= first), axis=-1)
        ours = rows[these][:, [0, 1, 7, 8]]
        assert np.all(np.any((ours[:, :2] + sides[:2] <= ours[:, 2:]) | (ours[:, 2:] + sides[2:] <= ours[:, :2]), -1))
        for axis in range(2, 4):
            expected = np.bincount(second[apart, axis - 2], minlength=18) / apart.sum() * len(ours)
            counts = np.bincount(ours[:, axis], minlength=18)
            assert np.all(np.abs(counts - expected) <= 5 * np.sqrt(expected + 1))


def test_noise_is_redrawn_on_the_squares_only_and_overflows():
    level, rows = 0.05, reference.recordings()["squares_plain_rows"][::4].reshape(-1, 14)
    clean = jax.device_get(image(reference.bare(ID, **OPTIONS["plain"]), task_of(np.tile(rows, (4, 1)))))
    # The second half has the same squares with different noise.
    words = np.random.default_rng(0).integers(0, 2**32, (2, len(clean)), np.uint32)
    env = reference.bare(ID, **OPTIONS["plain"], noise_level=level)
    noisy = jax.device_get(image(env, task_of(np.tile(rows, (4, 1)), tuple(words))))
    inside = clean > 0
    assert not noisy[~inside].any()
    added = (noisy[inside].astype(int) - 255) % 256
    zeros, mean = np.mean(added == 0), np.mean(added) / (255 * level)
    # Half of the noise is clipped. Values below 1 are rounded down to 0; the others lose 0.5 on average.
    assert abs(zeros - (0.5 + 0.3989 / (255 * level))) < 0.01
    assert abs(mean - (0.3989 - 0.25 / (255 * level))) < 0.01
    first, second = np.split(noisy.astype(int), 2)
    both = np.split(inside, 2)[0]
    assert abs(np.corrcoef(first[both] == 255, second[both] == 255)[0, 1]) < 0.02


@jax.jit
def _starts(env, key, number):
    return env.reset(key, number)[0].task


def starts(env, lanes):
    return jax.device_get(_starts(env, jax.random.key(5), np.arange(lanes, dtype=np.int32)))


def assert_uniform_over(sample, values):
    counts = np.array([np.sum(sample == v) for v in values])
    assert counts.sum() == len(sample)
    expected = len(sample) / len(counts)
    assert np.all(np.abs(counts - expected) < 4.5 * np.sqrt(expected))


def test_every_colour_has_a_nonzero_channel():
    assert np.all(COLOURS.max(axis=-1) > 0)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("size", 4, "must be at least 5, got 4"),
        ("pixels_per_cell", 0, "must be at least 1, got 0"),
        ("noise_level", -0.5, "must be finite and at least 0, got -0.5"),
        ("noise_level", float("inf"), "must be finite and at least 0, got inf"),
        ("noise_level", (0.1, 0.2), r"must be one number, got \(0.1, 0.2\)"),
    ],
)
def test_options_out_of_range_raise_an_error(option, value, message):
    with pytest.raises(ValueError, match=f"BouncingSquares-v0: {option} {message}"):
        reference.bare(ID, **{option: value})


def test_the_picture_shows_the_rectangles_in_their_colours_where_the_observation_shows_them():
    def square(row, column, colour):
        return Square(*(np.int32([n]) for n in (row, column, 16, 12, 0, 0, colour)))

    task, state = BouncingSquares(color=True), State(square(4, 40, 0), square(30, 8, 5), ())
    image, observation = picture(task, state, 1)[0], np.asarray(task.observe(state))[0]
    for colour, paint in ((0, GREEN), (5, PINK)):
        rows, columns = np.nonzero((observation == COLOURS[colour]).all(axis=-1))
        place = 0.02 / 1.04 + (np.array([columns.mean(), rows.mean()]) + 0.5) / (64 * 1.04)
        np.testing.assert_allclose(centre(image, paint), place, atol=0.01)
