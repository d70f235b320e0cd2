"""Every environment has a picture: its shape, its lanes, and that it is drawn from the state alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.testing import Counting
from tests.ids import with_first_of_class


@pytest.mark.parametrize(
    "id", [id if first else pytest.param(id, marks=pytest.mark.thorough) for id, first in with_first_of_class()]
)
def test_every_environment_has_a_picture(id):
    env = jaxenv.make(id, 3)
    state = jax.eval_shape(lambda: env.reset(jax.random.key(0))[0])
    assert jax.eval_shape(lambda s: env.render(s, (32, 40)), state) == jax.ShapeDtypeStruct((3, 32, 40, 3), jnp.uint8)


def test_lanes_are_drawn_independently():
    env = jaxenv.make("CartPole-v1", 4)
    state, _ = env.reset(jax.random.key(0))
    render = jax.jit(lambda env, state: env.render(state, 32))
    together = np.asarray(render(env, state))
    for lane in range(4):
        alone = render(env.take(jnp.array([lane])), jax.tree.map(lambda x, n=lane: x[n : n + 1], state))
        assert np.abs(np.asarray(alone[0]).astype(int) - together[lane]).max() <= 1  # rounding of the compiled code
    assert not np.array_equal(together[0], together[1])


# Numbers of pixels that leave each remainder by four.
@pytest.mark.parametrize(
    ("id", "size"),
    [
        ("CartPole-v1", (31, 45)),
        ("Breakout-MinAtar", (30, 47)),
        ("MiniGrid-DoorKey-5x5-v0", (29, 33)),
        ("Acrobot-v1", (20, 32)),
    ],
)
def test_off_a_cpu_pictures_have_the_same_bytes(monkeypatch, id, size):
    env = jaxenv.make(id, 3)
    state = jax.jit(lambda: env.reset(jax.random.key(0))[0])()
    on_cpu = jax.jit(lambda state: env.render(state, size))(state)
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *arrays, cpu, default: default(*arrays))
    elsewhere = jax.jit(lambda state: env.render(state, size))(state)
    np.testing.assert_array_equal(elsewhere, on_cpu)
    assert len({on_cpu[..., channel].tobytes() for channel in range(3)}) == 3


@pytest.mark.compiled
@pytest.mark.parametrize(("platform", "words"), [("cpu", True), ("cuda", False), ("tpu", False)])
def test_the_platform_of_the_program_decides_whether_pictures_are_cut_from_words(platform, words):
    env = jaxenv.make("CartPole-v1", 3)
    state = jax.eval_shape(lambda: env.reset(jax.random.key(0))[0])
    draw = jax.jit(lambda state: env.render(state, (31, 45)))
    text = draw.trace(state).lower(lowering_platforms=(platform,)).as_text()
    assert ("tensor<3x31x45x4xui8>" in text) == words


def test_a_drawing_that_is_not_returned_is_refused():
    class Forgetful(Counting):
        def draw(self, state, canvas):
            canvas.disc(0, 0, 1, (0, 0, 0))

    env = Forgetful([3])
    with pytest.raises(ValueError, match=r"(?m)^Forgetful: draw .*got None$"):
        env.render(env.reset(jax.random.key(0))[0], 16)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (
            lambda env, state: env.render(state, 4),
            r"render: size .*got 4",
        ),
        (lambda env, state: env.render(state, (64, 64, 3)), r"got \(64, 64, 3\)"),
        (lambda env, state: env.render(env.reset(jax.random.key(0))[1]), "a TimeStep"),
        (lambda env, state: Counting([3]).render(Counting([3]).reset(jax.random.key(0))[0]), "has no picture"),
    ],
)
def test_what_cannot_be_drawn_is_refused(use, message):
    env = jaxenv.make("CartPole-v1", 2)
    with pytest.raises(ValueError, match=message):
        use(env, env.reset(jax.random.key(0))[0])
