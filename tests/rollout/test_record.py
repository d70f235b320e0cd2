"""Films: what a frame shows, when a film ends, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import jaxenv
from jaxenv.rollout.record import _Lanes, _moments


@pytest.fixture(scope="module")
def env():
    return jaxenv.make("CartPole-v1", 3)


def push_right(timestep, stream):
    return jnp.ones(timestep.reward.shape, jnp.int32)


def moments(env, num_steps=None, max_steps=40):
    return list(_moments(env, push_right, jax.random.key(1), num_steps, max_steps, (8, 8), ()))


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
    plain, titled = (_Lanes((8, 8), 3, captions).frame(moment) for captions in (False, True))
    np.testing.assert_array_equal(plain[:8, :8], moment.picture[0])
    np.testing.assert_array_equal(plain[:8, 14:22], moment.picture[1])
    np.testing.assert_array_equal(plain[14:22, :8], moment.picture[2])
    np.testing.assert_array_equal(titled[:8, :8], moment.picture[0])
    assert (titled[8:18, :8] < 200).any()  # the caption


@pytest.mark.parametrize("name", ["film.gif", "strip.png"])
def test_a_film_is_written_to_its_file(env, tmp_path, name):
    path = jaxenv.record(env, push_right, tmp_path / name, size=8, max_steps=9)
    with Image.open(path) as image:
        assert image.format == path.suffix[1:].upper()
        assert getattr(image, "n_frames", 1) == (10 if name == "film.gif" else 1)
        columns = 1 if name == "film.gif" else 8
        assert image.size == (columns * 28 - 6, 42)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"path": "film.avi"}, r"record: path must end in .gif, .mp4 or .png, got 'film.avi'"),
        ({"size": 2}, "record: size must be one or two numbers of pixels in 8 .. 4096, got 2"),
        ({"fps": 0}, "record: fps must be at least 1, got 0"),
        ({"num_steps": 2.5}, "record: num_steps must be an integer"),
    ],
)
def test_what_does_not_fit_is_refused(env, arguments, message):
    with pytest.raises(ValueError, match=message):
        jaxenv.record(env, **arguments)
