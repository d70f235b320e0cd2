"""Conversion of stacks to plain data and back."""

import json

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv import tree, wrappers
from jaxenv.wrappers import RewardWrapper, from_data, to_data


class Halved(RewardWrapper):
    """A custom wrapper."""

    def reward(self, reward):
        return reward / 2


def stack():
    env = jaxenv.spec("Pendulum-v1").make(num_envs=2)
    env = wrappers.RescaleAction(wrappers.TimeLimit(env, [3, 4]), (0.0,), 1)
    return wrappers.NormalizeObservation(wrappers.AutoReset(Halved(env), "same_step", "compact"), epsilon=0.5)


def test_a_stack_round_trips_through_json():
    env = stack()
    data = json.loads(json.dumps(to_data(env)))
    again = from_data(jaxenv.spec("Pendulum-v1").make(num_envs=2), data)
    assert again.describe() == env.describe()
    assert tree.structure(again) == tree.structure(env)
    for x, y in zip(jax.tree.leaves(again), jax.tree.leaves(env), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


def test_custom_wrappers_are_named_with_their_module():
    assert [name for name, _ in to_data(stack())] == [
        "TimeLimit",
        "RescaleAction",
        "tests.test_stack_data:Halved",
        "AutoReset",
        "NormalizeObservation",
    ]
    assert to_data(stack())[0][1] == {"duration": [3, 4], "terminal": False}


def test_make_accepts_a_stack_as_data():
    data = to_data(wrappers.FrameStack(jaxenv.spec("CartPole-v1").make(), 3))
    env = jaxenv.make("CartPole-v1", wrappers=data)
    assert env.observation_spec().shape == (3, 4)


def test_arguments_that_are_not_plain_data_are_refused_by_wrapper_and_name():
    env = wrappers.TransformReward(jaxenv.spec("CartPole-v1").make(), abs)
    with pytest.raises(ValueError, match="to_data: TransformReward's fn is not plain data"):
        to_data(env)


@pytest.mark.parametrize("name", ["Nothing", "json:dumps", "nowhere:Halved", "jaxenv.environment:Environment"])
def test_an_unknown_name_is_refused(name):
    with pytest.raises(ValueError, match=f"from_data: no wrapper '{name}'"):
        from_data(jaxenv.spec("CartPole-v1").make(), [(name, {})])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"p": 0.5}, "from_data: StickyAction does not take 'p', its arguments are probability, duration"),
        ({}, "from_data: StickyAction needs 'probability', its arguments are probability, duration"),
    ],
)
def test_unknown_and_missing_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        from_data(jaxenv.spec("CartPole-v1").make(), [("StickyAction", arguments)])
