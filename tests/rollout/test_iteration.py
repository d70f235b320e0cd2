"""The number of steps in an iteration, by platform, lanes and step."""

import jax
import pytest

import jaxenv
from jaxenv.rollout import policy_stream, random_policy, steps_per_iteration


def plain(x, _):
    return x + 1, None


def with_loop(x, _):
    return jax.jit(lambda x: jax.lax.fori_loop(0, x, lambda i, y: y + i, x))(x), None


@pytest.mark.parametrize(
    ("step", "lanes", "platform", "expected"),
    [
        (plain, 2048, "cpu", 1),
        (plain, 2048, "tpu", 1),
        (plain, 2048, "gpu", 4),
        (plain, 131_072, "gpu", 4),
        (plain, 131_073, "gpu", 1),
        (with_loop, 2048, "gpu", 1),
    ],
)
def test_the_choice_depends_on_platform_lanes_and_step(step, lanes, platform, expected):
    assert steps_per_iteration(step, 3, lanes, platform=platform) == expected


def test_cart_pole_has_several_steps_in_an_iteration_on_a_gpu():
    env = jaxenv.make("CartPole-v1", num_envs=3)
    policy = random_policy(env)
    step = lambda carry, _: (env.step(carry[0], policy(carry[1], policy_stream(env, carry[0]))), None)  # noqa: E731
    assert steps_per_iteration(step, env.reset(jax.random.key(0)), 3, platform="gpu") == 4


@pytest.mark.parametrize(("lanes", "platform"), [(0, "gpu"), (2.0, "gpu"), (3, "abacus")])
def test_an_impossible_choice_is_named(lanes, platform):
    with pytest.raises(ValueError, match=r"steps_per_iteration: (num_envs|platform) must be"):
        steps_per_iteration(plain, 3, lanes, platform=platform)
