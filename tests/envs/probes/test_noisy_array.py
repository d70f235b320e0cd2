"""NoisyArray: parity with recorded episodes of ALF, and properties from its docstring and tests."""

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.canvas import GREEN, GREY, ORANGE
from jaxenv.envs.probes.noisy_array import FIRE, LEFT, RIGHT, NoisyArray, State
from tests.envs.probes import reference
from tests.parity import certify
from tests.pictures import centre, picture, shows

ID = "NoisyArray-v0"
SIZES = {"small": {"num_positions": 5, "num_noise_bits": 3}, "default": {}}


def packed(bits):
    """Packs noise bits ``[N, M]`` into our words."""
    padded = np.zeros((len(bits), -(-bits.shape[1] // 32) * 32), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return np.packbits(padded, axis=-1, bitorder="little").view("<u4").astype(np.uint32)


@pytest.mark.parametrize("size", SIZES)
def test_steps_match_recordings_of_alf(size):
    recorded = {k.removeprefix(f"array_{size}_"): v for k, v in reference.recordings().items()}
    env = reference.bare(ID, **SIZES[size])
    k, m = env.num_positions, env.num_noise_bits
    observation = np.unpackbits(recorded["observation"], axis=-1, count=k + m)
    stepped = recorded["action"] >= 0  # other rows are restarts
    before, after, action = observation[:-1][stepped], observation[1:][stepped], recorded["action"][stepped]
    task = State(np.argmax(before[:, :k], axis=-1).astype(np.int32), packed(before[:, k:]))
    _, rows = reference.follow(env, reference.placed(env, task), action.astype(np.int32)[None])
    np.testing.assert_array_equal(rows.observation[0, :, :k], after[:, :k])
    quiet = action != FIRE
    np.testing.assert_array_equal(rows.observation[0, quiet, k:], after[quiet, k:])
    np.testing.assert_array_equal(rows.reward[0], recorded["reward"][stepped])
    np.testing.assert_array_equal(rows.terminated[0], recorded["terminated"][stepped])
    assert rows.terminated.sum() > 10
    certify(ID, "alf 3d29b85", states=len(before))


def test_walking_right_terminates_at_the_right_end_and_the_left_end_is_a_wall():
    # Lane 0 walks through 5 cells, as in ALF's test. Lane 1 first runs into the wall, and lane 2 fires once.
    env = reference.bare(ID, 3, **SIZES["small"])
    actions = np.array([[RIGHT, LEFT, RIGHT], [RIGHT, RIGHT, FIRE], *[[RIGHT] * 3] * 3], np.int32)
    state, first = reference.reset(env, 3)
    _, rows = reference.follow(env, state, actions)
    assert rows.terminated.tolist() == [[False] * 3] * 3 + [[True, False, False], [False, True, True]]
    assert np.array_equal(rows.reward, rows.terminated)
    assert np.argmax(rows.observation[:, 1, :5], axis=-1).tolist() == [0, 1, 2, 3, 4]
    assert rows.observation[4, 0, :5].tolist() == [
        1,
        0,
        0,
        0,
        0,
    ]  # past the right end the position wraps to the left end
    assert first.observation[:, 0].tolist() == [1, 1, 1]


def test_firing_redraws_every_bit_and_moving_none():
    lanes = 4000
    env = reference.bare(ID, lanes)
    state, first = reference.reset(env, lanes)
    actions = np.full((2, lanes), FIRE, np.int32)
    actions[:, ::2] = RIGHT
    noise = np.concatenate([np.asarray(first.observation)[None], reference.follow(env, state, actions)[1].observation])
    noise = noise[..., 11:]
    assert np.all(noise[:, ::2] == noise[0, ::2])
    drawn = noise[:, 1::2].reshape(-1, 100)
    assert set(np.unique(drawn)) == {0, 1}
    ones = drawn.sum(axis=0)
    assert np.all(np.abs(ones - len(drawn) / 2) < 4.5 * np.sqrt(len(drawn) / 4))
    # Different bits are uncorrelated, and so are successive draws of one bit.
    related = np.abs(np.corrcoef(drawn.T) - np.eye(100))
    assert related.max() < 5.5 / np.sqrt(len(drawn))
    assert abs(np.mean(noise[1, 1::2] == noise[0, 1::2]) - 0.5) < 4.5 * 0.5 / np.sqrt(lanes / 2 * 100)


def test_the_optimal_return_is_one():
    env = jaxenv.make(ID, num_envs=2, max_episode_steps=50)

    @jax.jit
    def play(env, key):
        state, _ = env.reset(key)
        return jax.lax.scan(lambda s, _: env.step(s, np.array([RIGHT, RIGHT])), state, length=22)[1]

    rows = jax.device_get(play(env, jax.random.key(0)))
    assert rows.reward.sum(axis=0).tolist() == [2, 2]
    assert np.flatnonzero(rows.terminated[:, 0]).tolist() == [9, 20]


@pytest.mark.parametrize("name", ["num_positions", "num_noise_bits"])
def test_sizes_that_are_too_small_raise_an_error(name):
    with pytest.raises(ValueError, match=rf"NoisyArray-v0: {name} .*got 0"):
        reference.bare(ID, **{name: 0})


def test_the_picture_shows_the_agent_in_its_cell_the_goal_and_the_bits():
    task = NoisyArray(num_positions=6, num_noise_bits=12)
    images = picture(task, State(np.int32([0, 5]), np.uint32([[0b1], [0b11]])), 2)
    for image, column in zip(images, (0, 5), strict=True):
        assert abs(centre(image, ORANGE)[0] - (column + 0.5) / 6) < 0.01
        assert abs(centre(image, GREEN)[0] - 5.5 / 6) < 0.01
    one, two = (shows(image, GREY).sum() for image in images)
    assert two == 2 * one > 0
