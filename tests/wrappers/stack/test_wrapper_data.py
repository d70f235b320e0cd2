"""Conversion of stacks to plain data and back."""

import json
import sys

import chex
import jax
import numpy as np
import pytest

import jaxenv
from jaxenv import wrappers
from jaxenv.wrappers import RewardWrapper, from_data, to_data
from jaxenv.wrappers.stack import _wrapper_data


@wrappers.register
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
    chex.assert_trees_all_equal(again, env, strict=True)


def test_a_registered_wrapper_is_stored_by_its_name():
    assert [name for name, _ in to_data(stack())] == [
        "TimeLimit",
        "RescaleAction",
        "Halved",
        "AutoReset",
        "NormalizeObservation",
    ]
    assert to_data(stack())[0][1] == {"duration": [3, 4], "terminal": False, "follows_params": False}


def test_make_accepts_a_stack_as_data():
    data = to_data(wrappers.FrameStack(jaxenv.spec("CartPole-v1").make(), 3))
    env = jaxenv.make("CartPole-v1", wrappers=data)
    assert env.observation_spec().shape == (3, 4)


def test_arguments_that_are_not_plain_data_are_refused_by_wrapper_and_name():
    env = wrappers.TransformReward(jaxenv.spec("CartPole-v1").make(), abs)
    with pytest.raises(ValueError, match="to_data: TransformReward's fn"):
        to_data(env)


def test_a_typed_key_is_refused_by_wrapper_and_name():
    env = wrappers.FixedResetKey(jaxenv.spec("CartPole-v1").make(), jax.random.key(0))
    with pytest.raises(ValueError, match="to_data: FixedResetKey's key"):
        to_data(env)


@pytest.mark.parametrize("name", ["Nothing", "json:dumps", "Wrapper", "RewardWrapper", "from_data", "frame_stack"])
def test_an_unknown_or_abstract_name_is_refused(name):
    message = f"{name} is a base to subclass" if "Wrapper" in name else f"no wrapper '{name}', "
    with pytest.raises(ValueError, match=f"from_data: {message}"):
        from_data(jaxenv.spec("CartPole-v1").make(), [(name, {})])


@pytest.mark.parametrize("name", ["fatal:Thing", "fatal.Thing", "fatal"])
def test_no_module_is_imported_because_data_name_it(tmp_path, monkeypatch, name):
    (tmp_path / "fatal.py").write_text("raise SystemExit('this code ran')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="from_data: no wrapper 'fatal"):
        from_data(jaxenv.spec("CartPole-v1").make(), [(name, {})])
    with pytest.raises(ValueError, match=r"make: wrappers\[0\]: no wrapper 'fatal"):
        jaxenv.make("CartPole-v1", wrappers=[(name, {})])
    assert "fatal" not in sys.modules


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("FrameStack", r"a wrapper .*got 'FrameStack'"),
        (["FrameStack"], r"a wrapper .*got \['FrameStack'\]"),
        (3, r"a wrapper .*got 3"),
        ((3, {}), r"the name of a wrapper .*got 3"),
        (("FrameStack", [3]), r"the arguments of FrameStack .*got \[3\]"),
        (("FrameStack", {1: 2}), r"FrameStack: unknown keyword '1'; its arguments: num"),
        (("FrameStack", {"count": 3}), r"FrameStack: unknown keyword 'count'; its arguments: num"),
        (("FrameStack", {"env": 3}), r"FrameStack: unknown keyword 'env'; its arguments: num"),
        (("TimeLimit", {}), r"TimeLimit needs the argument 'duration'"),
    ],
)
def test_data_of_another_form_are_refused(entry, message):
    with pytest.raises(ValueError, match=f"from_data: {message}"):
        from_data(jaxenv.spec("CartPole-v1").make(), [entry])


@pytest.mark.parametrize("data", [None, 3, "TimeLimit", {"TimeLimit": {}}])
def test_data_that_are_no_list_are_refused(data):
    with pytest.raises(ValueError, match=r"from_data: wrappers .*got "):
        from_data(jaxenv.spec("CartPole-v1").make(), data)


def test_a_dtype_may_be_given_as_a_type():
    env = jaxenv.wrappers.DtypeObservation(jaxenv.spec("CartPole-v1").make(), np.float16)
    assert jaxenv.wrappers.to_data(env)[0][1]["dtype"] == "float16"


def test_a_wrapper_that_is_not_registered_is_not_stored():
    class Local(RewardWrapper):
        def reward(self, reward):
            return reward

    with pytest.raises(ValueError, match=r"Local is not registered.* jaxenv.wrappers.register\(Local\)"):
        to_data(Local(jaxenv.spec("CartPole-v1").make()))


def test_a_class_of_the_name_of_a_wrapper_is_neither_registered_nor_stored_as_that_wrapper():
    class TimeLimit(RewardWrapper):
        def reward(self, reward):
            return reward

    with pytest.raises(
        ValueError, match=r"the name 'TimeLimit' is taken by jaxenv.wrappers.episode.time_limit.TimeLimit"
    ):
        wrappers.register(TimeLimit)
    with pytest.raises(ValueError, match="to_data: TimeLimit is not registered"):
        to_data(TimeLimit(jaxenv.spec("CartPole-v1").make()))


def test_two_classes_of_one_name_are_refused_and_a_new_definition_replaces_the_old_one():
    def define():
        class Doubled(RewardWrapper):
            def reward(self, reward):
                return 2 * reward

        return wrappers.register(Doubled)

    define()
    again = define()
    env = from_data(jaxenv.spec("CartPole-v1").make(), [("Doubled", {})])
    assert type(env) is again
    other = type("Doubled", (again,), {"__module__": "elsewhere"})
    with pytest.raises(
        ValueError, match=r"register: the name 'Doubled' is taken by tests.wrappers.stack.test_wrapper_data"
    ):
        wrappers.register(other)


@pytest.mark.parametrize("x", [abs, RewardWrapper, jaxenv.Task, "Halved", None])
def test_only_wrapper_classes_are_registered(x):
    with pytest.raises(ValueError, match="register: a wrapper class without abstract"):
        wrappers.register(x)


def test_the_name_of_a_wrapper_in_another_library_is_an_error_with_its_name_here():
    with pytest.raises(
        AttributeError, match=r"'jaxenv.wrappers' has no attribute 'LogWrapper': use jaxenv.wrappers.EpisodeStatistics$"
    ):
        jaxenv.wrappers.LogWrapper
    with pytest.raises(AttributeError, match=r"has no attribute 'RewardClip': use jaxenv.wrappers.ClipReward$"):
        jaxenv.wrappers.RewardClip
    with pytest.raises(AttributeError, match=r"has no attribute 'low'$"):
        jaxenv.wrappers.low


def test_a_registered_class_may_have_the_name_of_a_base(monkeypatch):
    monkeypatch.setattr(_wrapper_data, "_known", dict(_wrapper_data._known))

    cls = wrappers.register(type("RewardWrapper", (Halved,), {}))
    data = to_data(cls(jaxenv.spec("CartPole-v1").make()))
    assert isinstance(from_data(jaxenv.spec("CartPole-v1").make(), data), cls)
