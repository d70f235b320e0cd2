"""The number of steps in an iteration, by platform, lanes and step."""

import chex
import jax
import jax.export
import numpy as np
import pytest

import jaxenv
from jaxenv.rollout import policy_stream, random_policy, steps_per_iteration
from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset


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


def unrolls(jaxpr):
    """Yields the steps in an iteration of every loop over steps, also of loops inside others."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "scan":
            yield equation.params["unroll"]
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns")):
            if hasattr(inner, "eqns"):
                yield from unrolls(getattr(inner, "jaxpr", inner))


def unroll(env, policy, start, **options):
    return jaxenv.unroll(env, policy, *start, 13, **options)


def fold(env, policy, start, **options):
    rewards = lambda total, _, following: total + following.reward.sum()  # noqa: E731
    return jaxenv.rollout.fold(env, policy, rewards, 0.0, *start, 13, **options)


def fold_until(env, policy, start, **options):
    return fold(env, policy, start, until=lambda fold: fold.episodes >= 9, **options)


def evaluate(env, policy, start):
    return jaxenv.evaluate(env, policy, jax.random.key(0), max_steps=13)


@pytest.mark.parametrize(
    ("loop", "platform", "options", "expected"),
    [
        (unroll, "gpu", {}, 4),
        (unroll, "cpu", {}, 1),
        (unroll, "gpu", {"steps_per_iteration": 3}, 3),
        (fold, "gpu", {}, 4),
        (fold, "cpu", {}, 1),
        (fold, "gpu", {"steps_per_iteration": 3}, 3),
        (fold_until, "gpu", {}, 4),
        (fold_until, "cpu", {}, 1),
        (fold_until, "gpu", {"steps_per_iteration": 3}, 3),
        (evaluate, "gpu", {}, 4),
        (evaluate, "cpu", {}, 1),
    ],
)
def test_loops_take_the_steps_that_are_chosen_unless_the_user_gives_them(
    loop, platform, options, expected, monkeypatch
):
    env = jaxenv.make("CartPole-v1", num_envs=3)
    policy, start = random_policy(env), env.reset(jax.random.key(0))
    monkeypatch.setattr(jax, "default_backend", lambda: platform)
    jaxpr = jax.make_jaxpr(lambda start: loop(env, policy, start, **options))(start)
    assert max(unrolls(jaxpr.jaxpr), default=1) == expected


@pytest.mark.parametrize("max_steps", [1, 13, 14, 16])  # 13 and 14 end inside an iteration of four steps
def test_an_evaluation_with_several_steps_in_an_iteration_plays_the_same_episodes(max_steps, monkeypatch):
    env = AutoReset(Counting(np.array([[2, 3], [4, 6], [7, 7]]), num_envs=3))
    still = lambda timestep, stream: jax.numpy.zeros_like(timestep.step_type)  # noqa: E731
    play = lambda key: jaxenv.evaluate(env, still, key, 9, max_steps=max_steps)  # noqa: E731
    expected = jax.jit(play)(jax.random.key(0))
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    found = jax.jit(lambda key: play(key))(jax.random.key(0))
    chex.assert_trees_all_equal(expected, found)
    assert found.finished.sum() < 9


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
@pytest.mark.parametrize("loop", [unroll, fold])
def test_a_loop_is_exported_for_any_number_of_lanes(loop, platform, monkeypatch):
    env = jaxenv.make("CartPole-v1", num_envs=3)
    keys = jax.ShapeDtypeStruct(jax.export.symbolic_shape("lanes"), jax.random.key(0).dtype)
    monkeypatch.setattr(jax, "default_backend", lambda: platform)
    play = jax.jit(lambda start: loop(env, random_policy(env), start))
    assert jax.export.export(play)(jax.eval_shape(env.reset, keys)).platforms == ("cpu",)
