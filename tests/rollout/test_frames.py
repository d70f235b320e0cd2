"""What a frame of a film shows, and when a film ends."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.rollout._frames import Lanes
from jaxenv.rollout._frames import moments as moments_of


@pytest.fixture(scope="module")
def env():
    return jaxenv.make("CartPole-v1", 3)


def push_right(timestep, stream):
    return jnp.ones(timestep.reward.shape, jnp.int32)


def moments(env, num_steps=None, max_steps=40):
    return list(moments_of("film", env, push_right, jax.random.key(1), num_steps, max_steps, (8, 8), ()))


def test_a_film_shows_the_first_episode_of_every_lane_and_lanes_that_ended_stand_still(env):
    shown = moments(env)
    rows = jaxenv.unroll(env, push_right, *env.reset(jax.random.key(1)), len(shown) + 1)[1].timestep
    lengths = np.argmax(rows.step_type == 2, axis=0)
    assert len(shown) == lengths.max() + 1
    for lane, length in enumerate(lengths):
        assert [m.step[lane] for m in shown] == [min(t, length) for t in range(len(shown))]
        np.testing.assert_array_equal([m.total[lane] for m in shown], [min(t, length) for t in range(len(shown))])
        assert not shown[length - 1].over[lane]
        np.testing.assert_array_equal(shown[-1].picture[lane], shown[length].picture[lane])


def test_a_film_of_a_number_of_steps_goes_on_with_the_next_episodes(env):
    shown = moments(env, num_steps=35)
    assert len(shown) == 36
    assert not any(m.over.any() for m in shown)
    first = [m.step.tolist().index(0) if 0 in m.step else None for m in shown]
    assert any(lane is not None for lane in first[1:])  # a restart
    ends = [t for t in range(1, 36) if shown[t].step[0] == 0]
    assert all(shown[t].total[0] == 0 and shown[t - 1].total[0] == shown[t - 1].step[0] for t in ends)


def test_a_film_ends_at_its_limit(env):
    assert len(moments(env, max_steps=4)) == 5


def test_a_frame_shows_every_lane_with_its_step_and_return(env):
    moment = moments(env, max_steps=1)[-1]
    plain, titled = (Lanes((8, 8), 3, captions).frame(moment) for captions in (False, True))
    np.testing.assert_array_equal(plain[:8, :8], moment.picture[0])
    np.testing.assert_array_equal(plain[:8, 14:22], moment.picture[1])
    np.testing.assert_array_equal(plain[14:22, :8], moment.picture[2])
    np.testing.assert_array_equal(titled[:8, :8], moment.picture[0])
    assert (titled[8:18, :8] < 200).any()  # the caption
