"""Pictures of gymnax's environments by gymnax's own drawings."""

import jax
import numpy as np
import pytest

import jaxenv
from tests.packages import imported


@pytest.fixture(autouse=True)
def _gymnax():
    imported("gymnax")


def test_a_picture_shows_the_state_of_its_lane():
    env = jaxenv.make("gymnax:FourRooms-misc", num_envs=2, wrappers=[("PixelObservation", {"size": (26, 39)})])
    step = jax.jit(env.step)
    state, _ = env.reset(jax.random.key(0))
    for _ in range(4):  # the lanes go in different directions
        state, timestep = step(state, np.array([0, 2]))
    pictures = np.asarray(timestep.observation)
    np.testing.assert_array_equal(pictures, env.render(state, (26, 39)))
    # Squares of 2 by 2 pixels in the middle of a wider picture: black walls and, but for two letters, a white floor.
    walls = np.asarray(env.unwrapped._single.env.occupied_map) > 0
    squares = pictures[:, 1::2, 7:33:2].mean(axis=-1)
    assert (squares[:, walls] < 128).mean() > 0.9
    assert (squares[:, ~walls] > 128).mean() > 0.7
    assert not np.array_equal(*pictures)  # the letters


def test_an_environment_that_gymnax_does_not_draw_is_refused():
    env = jaxenv.make("gymnax:DeepSea-bsuite")
    state = jax.eval_shape(lambda: env.reset(jax.random.key(0))[0])
    with pytest.raises(ValueError, match=r"^render: gymnax:DeepSea-bsuite has no picture.* Acrobot-v1"):
        jax.eval_shape(env.render, state)
