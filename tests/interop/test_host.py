"""`host`: stepping a batch from Python."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.interop import batch, host
from jaxenv.testing import Counting
from tests.errors import like
from tests.rows import assert_equal


def counting(mode="next_step", **options):
    env = Counting(np.array([[2], [3]]), num_envs=2)
    return host(env if mode is None else jaxenv.wrappers.AutoReset(env, mode), **options)


def test_the_function_is_imported_after_its_module_too():
    import jaxenv.interop._adapter  # noqa: F401
    from jaxenv.interop import host as function

    assert callable(function)


@pytest.mark.parametrize("mode", ["next_step", "same_step", None])
def test_rows_are_those_of_the_environment(mode):
    env = jaxenv.make("CartPole-v1", 2, autoreset=mode, max_episode_steps=3)
    hosted, step = host(env, seed=4), jax.jit(env.step)
    state, timestep = env.reset(jax.random.key(4))
    rows, expected = [hosted.reset()], [timestep]
    for t in range(8):
        action = np.array([t % 2, 1], np.int32)
        rows.append(hosted.step(action))
        state, timestep = step(state, action)
        expected.append(timestep)
    # All rows are compared at the end: the memory of none was reused.
    assert_equal(jax.device_get(rows), jax.device_get(expected), rtol=1e-5)
    assert hosted.timestep is rows[-1]


def test_a_reset_without_a_seed_starts_the_next_episodes():
    hosted = host("CartPole-v1", 2, seed=1)
    first, second, third = (np.asarray(hosted.reset().observation) for _ in range(3))
    assert len(np.unique(np.concatenate([first, second, third]), axis=0)) == 6
    np.testing.assert_array_equal(hosted.reset(seed=1).observation, first)
    np.testing.assert_array_equal(hosted.reset().observation, second)
    with hosted.env as env:
        np.testing.assert_allclose(first, env.reset(jax.random.key(1))[1].observation, rtol=1e-6)


def test_a_seed_given_with_a_mask_is_that_of_its_lanes():
    hosted = host("CartPole-v1", 2, seed=1)
    first = np.asarray(hosted.reset().observation)
    second = hosted.reset(seed=7, mask=np.array([False, True])).observation
    np.testing.assert_array_equal(second[0], first[0])
    np.testing.assert_array_equal(second[1], host("CartPole-v1", 2, seed=7).reset().observation[1])


def test_seeds_per_lane_may_repeat():
    observation = host("CartPole-v1", 3, seed=[5, 5, 6]).reset().observation
    np.testing.assert_array_equal(observation[0], observation[1])
    alone = jaxenv.make("CartPole-v1").reset(jax.random.key(6)[None])[1].observation
    np.testing.assert_allclose(observation[2:], alone, rtol=1e-6)


def test_a_mask_restarts_its_lanes():
    hosted = counting(None)
    hosted.reset()
    hosted.step(np.array([4, 5]))
    before = hosted.step(np.array([4, 5]))
    assert before.is_last().tolist() == [True, False]
    after = hosted.reset(mask=before.is_last())
    assert after.observation.tolist() == [0, 2]
    assert after.step_type.tolist() == [0, 1]
    assert after.reward.tolist() == [0, 5]
    assert hosted.step(np.array([4, 5])).observation.tolist() == [1, 3]


def test_it_is_compiled_once(caplog):
    hosted = counting()
    hosted.reset()
    hosted.step(np.array([0, 0]))
    hosted.reset()
    with jax.log_compiles():
        for action in (np.array([0, 0]), [0, 0], jnp.array([0, 0]), jax.device_put(np.int32([0, 0]), jax.devices()[0])):
            hosted.step(action)
        hosted.reset(mask=np.array([True, False]))
        counting().reset()  # an equal environment has the same programs
    assert not re.search(r"jit\((start|step|restart)\)", caplog.text)


def test_leaves_are_arguments_and_environments_of_one_structure_share_their_programs():
    lengths = np.full((1, 3000), 2, np.int32)
    one, other = (host(Counting(x, num_envs=1)) for x in (lengths, lengths + 1))
    assert one._programs is other._programs
    for hosted, length in ((one, 2), (other, 3)):
        hosted.reset()
        ended = [hosted.step(np.array([0])).is_last().item() for _ in range(length)]
        assert ended == [False] * (length - 1) + [True]
    small, changed = (host(Counting(np.array([n]), num_envs=1)) for n in (2, 3))
    assert small._programs is changed._programs
    for hosted, length in ((small, 2), (changed, 3)):
        hosted.reset()
        assert [hosted.step(np.array([0])).is_last().item() for _ in range(length)] == [False] * (length - 1) + [True]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: host("CartPole-v1", seed=-1), "host: seed ...got -1"),
        (
            lambda: host("CartPole-v1", seed=jax.random.key(0)),
            "one per lane, got a JAX key",
        ),
        (lambda: host("CartPole-v1", 2, seed=[1]), "host: seed ...got 1 of them"),
        (lambda: host(jaxenv.make("CartPole-v1"), gravity=1.0), "host: options belong to an id"),
        (lambda: counting().step(np.zeros(2, int)), "host: call reset before step"),
        (lambda: counting().reset(mask=np.array([True, False])), "host: the first reset starts all lanes"),
    ],
)
def test_wrong_calls_are_refused(call, message):
    with pytest.raises(ValueError, match=like(message)):
        call()


def test_a_closed_environment_says_so():
    with counting() as hosted:
        hosted.reset()
        with pytest.raises(ValueError, match=like("action ...got (1,)")):
            hosted.step(np.array([0]))
        with pytest.raises(ValueError, match=like("host: mask ...got bool[3]")):
            hosted.reset(mask=np.ones(3, bool))
    for call in (hosted.reset, lambda: hosted.step(np.zeros(2, int))):
        with pytest.raises(ValueError, match="host: the environment is closed"):
            call()


def pushed_buttons():
    """Two bools per lane, which the observation shows."""
    zeros = jnp.zeros(2, bool)
    return host(
        batch(
            lambda key: (zeros, zeros),
            lambda state, action, key: (action, action, 0.0, False),
            action=jaxenv.specs.Bounded((2,), np.bool_, False, True),
            num_envs=2,
        )
    )


def test_bools_may_come_as_floats_of_zero_and_one():
    hosted = pushed_buttons()
    hosted.reset()
    buttons = np.array([[0.0, 1.0], [1.0, 0.0]], np.float32)
    assert hosted.step(buttons).observation.tolist() == [[False, True], [True, False]]


@pytest.mark.parametrize("wrong", [0.5, -1.0, 2.0, np.nan])
def test_other_floats_are_no_bools(wrong):
    hosted = pushed_buttons()
    hosted.reset()
    with pytest.raises(ValueError, match=rf"^host: action\[1\] .*got {wrong} in lane 0"):
        hosted.step(np.array([[0.0, wrong], [1.0, 0.0]]))
    with pytest.raises(ValueError, match=r"^host: action .*got float32"):
        hosted.step(jnp.ones((2, 2)))
