"""Every environment has a picture: its shape, its lanes, and that it is drawn from the state alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.testing import Counting


@pytest.mark.parametrize("id", jaxenv.ids())
def test_every_environment_has_a_picture(id):
    env = jaxenv.make(id, 3)
    state = jax.eval_shape(lambda: env.reset(jax.random.key(0))[0])
    assert jax.eval_shape(lambda s: env.render(s, (32, 40)), state) == jax.ShapeDtypeStruct((3, 32, 40, 3), jnp.uint8)


def test_lanes_are_drawn_independently():
    env = jaxenv.make("CartPole-v1", 4)
    state, _ = env.reset(jax.random.key(0))
    together = np.asarray(env.render(state, 32))
    for lane in range(4):
        alone = env.take(jnp.array([lane])).render(jax.tree.map(lambda x, n=lane: x[n : n + 1], state), 32)
        np.testing.assert_array_equal(alone[0], together[lane])
    assert not np.array_equal(together[0], together[1])


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda env, state: env.render(state, 4), "render: size must be a number of pixels .* 8 .. 4096, got 4"),
        (lambda env, state: env.render(state, (64, 64, 3)), r"got \(64, 64, 3\)"),
        (lambda env, state: env.render(env.reset(jax.random.key(0))[1]), "a TimeStep"),
        (lambda env, state: Counting([3]).render(Counting([3]).reset(jax.random.key(0))[0]), "has no picture"),
    ],
)
def test_what_cannot_be_drawn_is_refused(use, message):
    env = jaxenv.make("CartPole-v1", 2)
    with pytest.raises(ValueError, match=message):
        use(env, env.reset(jax.random.key(0))[0])
