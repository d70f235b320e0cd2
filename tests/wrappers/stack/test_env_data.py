"""Conversion of whole environments to plain data and back."""

import json
import sys

import chex
import numpy as np
import pytest

import jaxenv
from jaxenv import from_data, to_data
from jaxenv.core import registry


def assert_round_trips(env):
    data = json.loads(json.dumps(to_data(env)))
    again = from_data(data)
    assert again.describe() == env.describe()
    chex.assert_trees_all_equal(again, env, strict=True)
    return data


# Kinds of stacks: no guards, guards and clipping, options in the registry, no limit, a terminal limit, `compact`.
IDS = ["CartPole-v1", "Pendulum-v1", "FrozenLake8x8-v1", "Catch-bsuite", "MetaMaze-misc", "Maze-13x13-v0"]


@pytest.mark.parametrize("id", IDS)
def test_a_registered_environment_round_trips_through_json(id):
    assert assert_round_trips(jaxenv.make(id, num_envs=2))["params"] == {}


def test_params_options_limit_and_wrappers_round_trip():
    env = jaxenv.make(
        "Pendulum-v1",
        num_envs=2,
        max_episode_steps=[3, 5],
        autoreset="same_step",
        reset_strategy="compact",
        wrappers=[("FrameStack", {"num": 2}), "NormalizeObservation"],
        mode="eval",
        gravity=[1.5, 2.5],
        max_torque=1.5,
    )
    data = assert_round_trips(env)
    assert data["params"] == {"gravity": [1.5, 2.5], "max_torque": 1.5}
    assert "TimeLimit" in dict(data["wrappers"])


def test_one_value_per_lane_equal_to_the_default_stays_one_per_lane():
    default = float(jaxenv.spec("CartPole-v1").make().params.gravity)
    env = jaxenv.make("CartPole-v1", num_envs=2, gravity=[default, default])
    assert assert_round_trips(env)["params"] == {"gravity": [9.8, 9.8]}


def test_a_map_given_as_an_option_round_trips():
    assert assert_round_trips(jaxenv.make("FrozenLake-v1", desc=["SF", "HG"]))["params"]["desc"] == ["SF", "HG"]


@pytest.mark.parametrize(
    "env",
    [
        jaxenv.testing.Chain(),
        jaxenv.testing.Chain(name="CartPole-v1"),
        jaxenv.wrappers.AutoReset(jaxenv.Multitask((jaxenv.testing.Chain(), jaxenv.testing.Chain()))),
    ],
    ids=["no id", "id of another class", "multitask"],
)
def test_an_environment_without_a_registered_id_is_refused(env):
    with pytest.raises(ValueError, match=r"to_data: '.*' must"):
        to_data(env)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "Cartpole"}, "no environment 'Cartpole', did you mean 'CartPole"),
        ({"id": 3}, r"from_data: id .*got 3 and"),
        ({"params": []}, r"from_data: id .*got 'CartPole-v1' and \[\]"),
        ({"params": {"gravty": 1}}, "CartPole-v1: unknown keyword 'gravty'"),
        ({"params": {"num_envs": 1}}, r"from_data: params .*num_envs"),
        ({"params": {"gravity": "high"}}, r"gravity .*got 'high'"),
        ({"num_envs": 0}, r"num_envs .*got 0"),
        ({"num_envs": 3}, "lanes"),
        ({"wrappers": [["os:system", {}]]}, "from_data: no wrapper 'os:system'"),
        ({"more": 1}, r"from_data: data .*'more'$"),
    ],
)
def test_data_of_another_form_are_refused(change, message):
    data = to_data(jaxenv.make("CartPole-v1", num_envs=2, max_episode_steps=[3, 4]))
    with pytest.raises(ValueError, match=message):
        from_data({**data, **change})


def test_a_missing_entry_of_data_is_named():
    data = to_data(jaxenv.make("CartPole-v1"))
    del data["wrappers"]
    with pytest.raises(ValueError, match=r"^from_data: data .*'wrappers'$"):
        from_data(data)


@pytest.fixture
def hover_data(tmp_path, monkeypatch):
    """Data whose id names a module that registers it, and which is not imported."""
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))
    monkeypatch.setitem(sys.modules, "hover_tasks", None)  # removed at the end
    del sys.modules["hover_tasks"]
    monkeypatch.syspath_prepend(tmp_path)
    entry_point = jaxenv.spec("CartPole-v1").entry_point
    (tmp_path / "hover_tasks.py").write_text(f"import jaxenv\njaxenv.register('Hover-v0', {entry_point!r})\n")
    return {**to_data(jaxenv.make("CartPole-v1", 3)), "id": "hover_tasks:Hover-v0"}


def test_data_import_no_module_that_the_caller_does_not_name(hover_data):
    rule = r"^from_data: the id 'hover_tasks:Hover-v0' from data names a module, which would run its code: import it"
    for options in ({}, {"modules": ["json"]}):
        with pytest.raises(ValueError, match=rule):
            from_data(hover_data, **options)
    assert "hover_tasks" not in sys.modules
    env = from_data(hover_data, modules=["hover_tasks"])
    assert repr(env.unwrapped) == "<Hover-v0>"
    assert repr(from_data(hover_data)) == repr(env)  # it is imported now
    assert repr(from_data({**hover_data, "id": "Hover-v0"})) == repr(env)


def test_modules_are_names_of_modules_that_exist(hover_data, tmp_path):
    for modules in ("hover_tasks", [3], None):
        with pytest.raises(ValueError, match=r"^from_data: modules .*got "):
            from_data(hover_data, modules)
    with pytest.raises(ValueError, match=r"^from_data: modules: no module 'hover_task' on Python's path"):
        from_data(hover_data, ["hover_task"])
    (tmp_path / "raising_tasks.py").write_text("raise ValueError('the id is taken')")
    with pytest.raises(ValueError, match=r"^the id is taken$"):
        from_data(hover_data, ["raising_tasks"])
    assert "hover_tasks" not in sys.modules


def test_numbers_are_the_shortest_that_round_to_the_floats_of_the_environment():
    given = [9.8, 1 / 3, 1e-30, 3e38]
    env = jaxenv.make("CartPole-v1", 4, gravity=given)
    data = json.loads(json.dumps(to_data(env)))
    assert data["params"]["gravity"] == [9.8, 0.33333334, 1e-30, 3e38]
    np.testing.assert_array_equal(from_data(data).params.gravity, np.float32(given))
