"""Order of wrappers: which commute, which do not, and how `make` sorts or refuses them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import wrappers
from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset
from tests.rows import assert_equal, random_actions, unrolled
from tests.wrappers.catalogue import bound

# Pairs in which neither reads a field that the other rewrites.
COMMUTE = [
    (("TimeLimit", 4), ("ClipReward", -0.5, 0.5)),
    (("TimeLimit", 4), ("RescaleAction", 0, 1)),
    (("FrameStack", 3), ("TransformReward", jnp.tanh)),
    (("StickyAction", 0.5), ("FrameStack", 2)),
    (("EpisodeStatistics",), ("FrameStack", 2)),
    (("RescaleAction", 0, 1), ("ClipObservation", -0.5, 0.5)),
    (("Discount", 0.9), ("DelayObservation", 1)),
]


@pytest.mark.parametrize("pair", COMMUTE, ids=lambda pair: " ".join(name for name, *_ in pair))
def test_wrappers_of_different_fields_commute(pair):
    one, other = (bound(*given) for given in pair)
    env = AutoReset(wrappers.TimeLimit(pendulum(), [3, 5, 9]))
    actions = random_actions(AutoReset(one(other(env.env))), 12)
    a, b = (unrolled(AutoReset(stack), actions) for stack in (one(other(env.env)), other(one(env.env))))
    assert a.is_last().any()
    assert_equal(jax.tree.map(np.asarray, a), b, rtol=1e-5)


def pendulum():
    return jaxenv.spec("Pendulum-v1").make(num_envs=3)


def test_a_limit_counts_the_steps_of_what_it_wraps():
    env = Counting(np.array([0]), num_envs=1)
    actions = np.zeros((4, 1), np.int32)
    inside = unrolled(wrappers.ActionRepeat(wrappers.TimeLimit(env, 4), 2), actions[:2])
    outside = unrolled(wrappers.TimeLimit(wrappers.ActionRepeat(env, 2), 4), actions)
    assert np.flatnonzero(inside.is_last()).tolist() == [2]
    assert np.flatnonzero(outside.is_last()).tolist() == [4]
    assert outside.observation[-1].tolist() == [8]


def test_make_puts_the_limit_outside_repeats_and_auto_reset_inside_batch_state():
    env = jaxenv.make(
        "Pendulum-v1", wrappers=[("ActionRepeat", {"num": 2}), ("FrameStack", {"num": 2}), "NormalizeObservation"]
    )
    names = [type(layer).__name__ for layer in jaxenv.core.wrapper.layers(env)]
    assert names == [
        "NormalizeObservation",
        "AutoReset",
        "FrameStack",
        "TimeLimit",
        "ActionRepeat",
        "ClipAction",
        "GuardNonFinite",
        "Pendulum",
    ]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: jaxenv.make("Pendulum-v1", wrappers=["NormalizeObservation", ("ActionRepeat", {"num": 2})]),
            r"NormalizeObservation carries state of.* ActionRepeat",
        ),
        (lambda: AutoReset(wrappers.NormalizeReward(pendulum())), "put it outside AutoReset"),
        (lambda: wrappers.ActionRepeat(AutoReset(pendulum()), 2), "AutoReset"),
        (lambda: wrappers.NonEpisodic(AutoReset(pendulum())), "AutoReset"),
        (lambda: wrappers.FrameStack(AutoReset(pendulum(), "same_step"), 2), "put it inside AutoReset"),
        (lambda: wrappers.GuardNonFinite(wrappers.RescaleAction(pendulum())), "put it innermost"),
        (lambda: wrappers.TimeLimit(AutoReset(pendulum()), 5), "put TimeLimit inside AutoReset"),
    ],
)
def test_a_wrong_order_is_refused_with_advice(build, message):
    with pytest.raises(ValueError, match=message):
        build()
