"""``make`` and ``load``: limits, modes, evaluation, fixed starts and suites."""

import importlib
import subprocess
import sys

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv import specs
from jaxenv.core import registry
from jaxenv.testing import Chain, random_environment
from jaxenv.wrappers import FixedResetKey, FrameStack, TimeLimit
from tests.toys import Double, Mean, Remember, Repeat, RewardAndObservation, find, names, stepped
from tests.toys import registered as registered

# --- the time limit --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "duration"), [(None, 200), (50, 50), ([3, 4], [3, 4]), (np.array([3, 4]), [3, 4])])
def test_max_episode_steps_replaces_the_registered_limit(given, duration):
    limit = find(jaxenv.make("MountainCar-v0", 2, max_episode_steps=given), TimeLimit)
    assert limit.duration.tolist() == duration


@pytest.mark.parametrize("id", ["MountainCar-v0", "CardGame-v0"])
def test_max_episode_steps_of_0_removes_the_limit(id):
    assert find(jaxenv.make(id, max_episode_steps=0), TimeLimit) is None


def test_an_environment_without_a_registered_limit_has_none():
    assert find(jaxenv.make("CardGame-v0"), TimeLimit) is None
    assert find(jaxenv.make("CardGame-v0", max_episode_steps=3), TimeLimit).duration == 3


@pytest.mark.parametrize("given", [-1, 2.5, True, False, [-1, 5], "x"])
def test_a_limit_that_is_not_a_positive_integer_is_refused(given):
    with pytest.raises(ValueError, match=r"^make: max_episode_steps(: TimeLimit: duration)? must"):
        jaxenv.make("MountainCar-v0", 2, max_episode_steps=given)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"clip_action": "no"}, r"make: clip_action .*got 'no'"),
        ({"id": 5}, r"id .*got 5: jaxenv.register gives an environment.*"),
        ({"num_envs": True}, r"MountainCar-v0: num_envs .*got True"),
        ({"wrappers": None}, r"make: wrappers .*got None"),
        ({"wrappers": FrameStack, "num_envs": 2}, r"make: wrappers .*got <class .*FrameStack'>"),
        ({"wrappers": [5]}, r"make: wrappers\[0\] .*got 5"),
        ({"wrappers": ("SignReward", {})}, r"make: wrappers\[1\] .*got \{\}.*one entry.*"),
        ({"wrappers": [("Sticky",)]}, r"make: wrappers\[0\] .*got \('Sticky',\)"),
        ({"wrappers": [print]}, r"make: wrappers\[0\] .*got None"),
        (
            {"wrappers": "image"},
            r"make: wrappers .*got 'image'",
        ),
        ({"id": ["A-v0"]}, r"no environment 'A-v0', .*"),
        ({"id": [Chain]}, r"make: id .*got \[.*Chain.*\]"),
        ({"id": Chain}, r"id .*Chain.*EnvSpec.*"),
        ({"params": 3}, r"MountainCar-v0: unknown keyword 'params', use the params.*; params.*"),
        (
            {"batch_size": 3},
            r"MountainCar-v0: unknown keyword 'batch_size', use jaxenv.make\(..., num_envs=...\); params.*",
        ),
        ({"mode": "test"}, r"make: mode .*got 'test'"),
    ],
)
def test_arguments_of_another_kind_are_refused(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        jaxenv.make(**{"id": "MountainCar-v0", **arguments})


def test_lanes_may_have_different_limits():
    env = jaxenv.make("MountainCar-v0", 2, max_episode_steps=[1, 2], autoreset=None)
    _, (_, timestep) = stepped(env, 1)
    assert timestep.truncated.tolist() == [True, False]


def test_limits_for_a_different_number_of_lanes_are_refused():
    with pytest.raises(ValueError, match=r"^make: max_episode_steps .*got 3"):
        jaxenv.make("MountainCar-v0", 2, max_episode_steps=[1, 2, 3])


@pytest.mark.parametrize(("limit", "fault"), [([-1, 5], "must be at least 1"), ("ten", "must be a number")])
def test_an_invalid_limit_is_reported_as_max_episode_steps(limit, fault):
    with pytest.raises(ValueError, match=f"^make: max_episode_steps: .*{fault}"):
        jaxenv.make("MountainCar-v0", 2, max_episode_steps=limit)


def test_a_negative_limit_is_refused_by_the_rule_that_allows_0():
    with pytest.raises(ValueError, match=r"^make: max_episode_steps .*got -1$"):
        jaxenv.make("MountainCar-v0", max_episode_steps=-1)


def test_evaluation_keeps_params_that_a_callable_set():
    lighter = [lambda env: env.with_params(gravity=1.6)]
    for mode in ("train", "eval"):
        assert jaxenv.make("CartPole-v1", wrappers=lighter, mode=mode).unwrapped.params.gravity == np.float32(1.6)


def test_fixed_reset_key_must_wrap_the_environment_directly():
    with pytest.raises(ValueError, match=r"put it around.* <Remember"):
        jaxenv.wrappers.FixedResetKey(Remember(jaxenv.spec("CartPole-v1").make()), jax.random.key(0))


# --- evaluation ------------------------------------------------------------------------------------------------------


def test_evaluation_omits_wrappers_that_own_only_the_reward():
    env = jaxenv.make("Chain-v0", wrappers=[Double, Remember, RewardAndObservation], mode="eval")
    assert names(env) == ["AutoReset", "RewardAndObservation", "Remember", "TimeLimit", "Chain"]


def test_evaluation_keeps_the_shape_of_the_reward():
    def two(num_envs):
        return random_environment(
            specs.discrete(2), specs.discrete(2), specs.Array((2,), np.float32), num_envs=num_envs
        )

    scalar = ("ScalarizeReward", {"weights": (1.0, 0.0)})
    env = jaxenv.make(jaxenv.EnvSpec("Two-v0", two), wrappers=[scalar, Double], mode="eval")
    assert names(env)[:2] == ["AutoReset", "ScalarizeReward"]


def test_evaluation_cannot_omit_a_reward_that_the_observation_shows():
    shows, hides = (("PreviousActionAndReward", {"reward": reward}) for reward in (True, False))
    assert names(jaxenv.make("Chain-v0", wrappers=[shows, Double], mode="eval"))[1] == "PreviousActionAndReward"
    with pytest.raises(ValueError, match="put PreviousActionAndReward before Double in wrappers"):
        jaxenv.make("Chain-v0", wrappers=[Double, shows], mode="eval")
    jaxenv.make("Chain-v0", wrappers=[Double, hides], mode="eval")


def test_evaluation_omits_reward_wrappers_inside_callables():
    env = jaxenv.make("Chain-v0", wrappers=[lambda env: Remember(Double(Repeat(env)))], mode="eval")
    assert names(env) == ["AutoReset", "Remember", "TimeLimit", "Repeat", "Chain"]


@pytest.mark.parametrize(("mode", "rows"), [("train", 8), ("eval", 0)])
def test_evaluation_freezes_wrappers_with_batch_state(mode, rows):
    env = jaxenv.make("Counting-v0", 2, wrappers=[Mean], mode=mode)
    assert env.frozen is (mode == "eval")
    _, (state, _) = stepped(env, 3)
    assert state.shared.value["rows"] == rows


def test_evaluation_keeps_the_arguments_of_wrappers():
    env = jaxenv.make("Pendulum-v1", wrappers=[("RescaleAction", {"minimum": 0, "maximum": 1})], mode="eval")
    assert env.action_spec() == specs.Bounded((1,), np.float32, 0, 1)


# --- a fixed start ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key_shape", [(), (3,)])
@pytest.mark.parametrize("reset", ["select", "cond", "compact"])
def test_a_fixed_reset_key_starts_every_episode_of_a_lane_in_the_same_state(key_shape, reset):
    fixed = jax.random.key(7) if key_shape == () else jax.random.split(jax.random.key(7), key_shape)
    env = jaxenv.make("Scatter-v0", 3, fixed_reset_key=fixed, reset_strategy=reset)
    observations, _ = stepped(env, 6)  # FIRST, MID, LAST, FIRST, ...
    assert names(env) == ["AutoReset", "TimeLimit", "FixedResetKey", "Scatter"]
    starts = observations[::3]
    assert (starts == starts[:1]).all()
    assert len(set(starts[0].tolist())) == 3
    steps = np.concatenate([np.diff(observations[i : i + 3], axis=0) for i in (0, 3)])
    assert len(set(steps.ravel().tolist())) == steps.size
    others, _ = stepped(env, 6, key=jax.random.key(1))
    assert (others[0] == starts[0]).all()
    assert (others[1] != observations[1]).all()


def test_without_a_fixed_reset_key_episodes_start_differently():
    observations, _ = stepped(jaxenv.make("Scatter-v0", 3), 3)
    assert (observations[0] != observations[3]).all()


@pytest.mark.parametrize("key", [0, np.zeros(2, np.uint32)])
def test_a_fixed_reset_key_must_be_a_typed_key(key):
    with pytest.raises(ValueError, match=r": key .*jax\.random\.key"):
        jaxenv.make("Scatter-v0", fixed_reset_key=key)


def test_there_is_no_fixed_reset_key_by_default():
    assert find(jaxenv.make("Scatter-v0"), FixedResetKey) is None


# --- load ------------------------------------------------------------------------------------------------------------


def test_load_without_a_prefix_is_make():
    assert jaxenv.load.batched is True
    env = jaxenv.load("MountainCar-v0", num_envs=2, max_episode_steps=5, wrappers=[Double])
    assert env.describe() == jaxenv.make("MountainCar-v0", 2, max_episode_steps=5, wrappers=[Double]).describe()


def test_lanes_with_a_limit_of_0_have_none():
    limit = find(jaxenv.make("MountainCar-v0", 2, max_episode_steps=[0, 3]), TimeLimit)
    assert limit.duration.tolist() == [2**31 - 1, 3]
    assert find(jaxenv.make("MountainCar-v0", 2, max_episode_steps=[0, 0]), TimeLimit) is None
    with pytest.raises(ValueError, match=r"max_episode_steps .*got 0 numbers"):
        jaxenv.make("MountainCar-v0", 2, max_episode_steps=[])


def test_an_entry_point_with_a_limit_of_its_own_is_refused():
    limited = registry.EnvSpec("Limited-v0", lambda num_envs: TimeLimit(Chain(num_envs=num_envs), 5))
    with pytest.raises(ValueError, match=r"Limited-v0: make adds the time limit"):
        jaxenv.make(limited, 2)


@pytest.mark.parametrize("id", ["elsewhere:Chain-v0", "elsewhere:module:Chain-v0", ":Chain-v0"])
def test_load_refuses_an_unknown_suite_and_lists_the_known_ones(id):
    with pytest.raises(
        ValueError,
        match=rf"no suite and.* '{id.rpartition(':')[0]}' on Python's path; .* the suites are .*gymnax",
    ):
        jaxenv.make(id)


@pytest.fixture
def hover_module(tmp_path, monkeypatch):
    """A module that registers ``Hover-v0`` when it is imported, and one that needs a library that is missing."""
    text = "import jaxenv\nfrom jaxenv.testing import Chain\njaxenv.register('Hover-v0', Chain, max_episode_steps=7)\n"
    (tmp_path / "hover_tasks.py").write_text(text)
    (tmp_path / "needy_tasks.py").write_text("import a_library_that_is_missing\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    registry._registry.pop("Hover-v0", None)
    sys.modules.pop("hover_tasks", None)


@pytest.mark.parametrize("use", [jaxenv.load, jaxenv.make])
def test_a_prefix_that_is_no_suite_is_a_module_to_import_first(hover_module, use):
    env = use("hover_tasks:Hover-v0", 3)
    assert (env.num_envs, find(env, TimeLimit).duration, repr(env.unwrapped)) == (3, 7, "<Hover-v0>")
    assert repr(env) == repr(jaxenv.make("Hover-v0", 3))


def test_modules_that_do_not_register_the_id_or_cannot_be_imported_are_errors(hover_module):
    with pytest.raises(ValueError, match=r"no environment 'Hovr-v0'.*'Hover-v0'"):
        jaxenv.make("hover_tasks:Hovr-v0")
    with pytest.raises(ValueError, match=r"no environment 'x', .* list all ids, hover_tasks registers no such"):
        jaxenv.make("hover_tasks:x")
    with pytest.raises(ModuleNotFoundError, match="a_library_that_is_missing"):
        jaxenv.make("needy_tasks:x")
    with pytest.raises(ValueError, match=r"no suite and.* 'gymna'.*'gymnax'"):
        jaxenv.make("gymna:Catch-bsuite")


# --- names that are not known ----------------------------------------------------------------------------------------


def test_a_misspelt_option_of_make_is_refused_with_the_closest_one_and_all_names_by_group():
    with pytest.raises(
        ValueError, match=r"CartPole-v1: unknown keyword 'auto_reset', use jaxenv.make\(..., autoreset=...\); "
    ) as error:
        jaxenv.make("CartPole-v1", 4, auto_reset="same_step")
    for group in (
        "params: gravity, ",
        "constructor arguments: position_limit, ",
        "options of make: num_envs, max_episode_steps, ",
    ):
        assert group in str(error.value)


@pytest.mark.parametrize(
    ("wrapper", "message"),
    [
        ("FrameStak", r"make: wrappers\[0\]: no wrapper 'FrameStak'.*'FrameStack'"),
        ("FrameStackObservation", r"no wrapper 'FrameStackObservation', use jaxenv.wrappers.FrameStack$"),
        ("LogWrapper", r"no wrapper 'LogWrapper', use jaxenv.wrappers.EpisodeStatistics$"),
        ("RewardClip", r"no wrapper 'RewardClip', use jaxenv.wrappers.ClipReward$"),
        (
            "RewardWrapper",
            r"\[0\]: RewardWrapper is a base to subclass, pass the class that you derive from it$",
        ),
        (("TimeLimit", {"max_episode_steps": 9}), r"'max_episode_steps', use TimeLimit\(env, duration=...\); its"),
        ("Nothing", r"wrappers\[0\]: no wrapper 'Nothing', jaxenv.wrappers has the names"),
        (("FrameStack", {"n": 4}), r"wrappers\[0\]: FrameStack: unknown keyword 'n'; its arguments: num"),
        (("FrameStack", {"paddin": 4}), r"unknown keyword 'paddin'.*'padding'"),
        ("TimeLimit", r"TimeLimit needs the argument 'duration': pass \('TimeLimit', {'duration': ...}\)"),
        (TimeLimit, "TimeLimit needs the argument 'duration'"),
        (("FrameStack", 4), r"wrappers\[0\]: the arguments of FrameStack .*got 4"),
        (lambda env: None, r"wrappers\[0\] .*got None"),
        (3, r"wrappers\[0\] .*got 3"),
    ],
)
def test_a_wrapper_that_make_cannot_build_is_refused_with_a_way_out(wrapper, message):
    with pytest.raises(ValueError, match=message):
        jaxenv.make("CartPole-v1", wrappers=[wrapper])


def test_an_instance_in_place_of_a_wrapper_class_is_refused():
    instance = FrameStack(jaxenv.spec("CartPole-v1").make(), 4)
    with pytest.raises(ValueError, match=r"make: wrappers\[0\] is the environment <FrameStack.*, pass a class"):
        jaxenv.make("CartPole-v1", wrappers=[instance])


@pytest.mark.parametrize("wrappers", ["FrameStack", FrameStack, None, 3])
def test_wrappers_that_are_not_a_sequence_are_refused(wrappers):
    with pytest.raises(ValueError, match="make: wrappers must"):
        jaxenv.make("CartPole-v1", wrappers=wrappers)


# --- suites ----------------------------------------------------------------------------------------------------------


def test_load_calls_the_suite_named_by_the_prefix(monkeypatch):
    asked = []

    class Suite:
        @staticmethod
        def load(name, num_envs, **kwargs):
            asked.append((name, num_envs, kwargs))
            return "environment"

    monkeypatch.setattr(registry, "SUITES", {"toys": "toys_module"})
    real = importlib.import_module
    monkeypatch.setattr(importlib, "import_module", lambda n: Suite if n == "toys_module" else real(n))
    assert jaxenv.make("toys:module:Name-v0", 4, speed=2) == "environment"
    assert asked == [("module:Name-v0", 4, {"speed": 2})]


def test_make_accepts_a_spec_that_is_not_registered():
    env = jaxenv.make(registry.EnvSpec("Other-v0", Chain, max_episode_steps=7, terminal_limit=True))
    assert repr(env.unwrapped) == "<Other-v0>"
    assert (find(env, TimeLimit).duration, find(env, TimeLimit).terminal) == (7, True)
    assert not find(jaxenv.make("Chain-v0"), TimeLimit).terminal
    assert "Other-v0" not in jaxenv.ids()


# --- several tasks ---------------------------------------------------------------------------------------------------


def test_load_of_several_ids_makes_a_task_of_each_with_its_own_limit():
    jaxenv.register("Long-v0", Chain, max_episode_steps=9, terminal_limit=True, kwargs={"length": 4})
    env = jaxenv.make(["Chain-v0", "Long-v0"], 2, task=np.array([0, 1]), autoreset="same_step")
    assert names(env) == ["AutoReset", "Multitask"]
    limits = [find(task, TimeLimit) for task in env.unwrapped.envs]
    assert [(limit.duration, limit.terminal) for limit in limits] == [(7, False), (9, True)]
    assert (env.task_names, env.num_tasks, env.num_envs) == (("Chain-v0", "Long-v0"), 2, 2)
    assert env.autoreset == "same_step"
    _, (_, timestep) = stepped(env, 7)
    assert timestep.is_last().tolist() == [True, False]
    assert timestep.env_info["task_id"].tolist() == [0, 1]


def test_a_task_without_a_limit_gets_one_that_is_never_reached_among_tasks_with_limits():
    jaxenv.register("Endless-v0", Chain, kwargs={"length": 4})
    tasks = jaxenv.make(["Endless-v0", "Chain-v0"]).unwrapped.envs
    assert [find(task, TimeLimit).duration for task in tasks] == [2**31 - 1, 7]
    alone = jaxenv.make(["Endless-v0", "Endless-v0"])
    assert [find(task, TimeLimit) for task in alone.unwrapped.envs] == [None, None]
    assert alone.task_names == ("0", "1")


def test_wrappers_of_several_tasks_go_around_them_except_those_inside_the_limit():
    env = jaxenv.make(
        ["Chain-v0", "Chain-v0"], 2, wrappers=[Remember, Repeat, Double, Mean], mode="eval", agent_chooses=True
    )
    assert names(env) == ["Mean", "AutoReset", "Multitask"]
    assert [names(task) for task in env.unwrapped.envs] == [["TimeLimit", "Repeat", "Remember", "Chain"]] * 2
    assert env.frozen
    assert env.unwrapped.agent_chooses


def test_several_tasks_are_guarded_once_each():
    env = jaxenv.make(["Pendulum-v1", "Pendulum-v1"], 2, gravity=[1.0, 2.0])
    assert names(env) == ["AutoReset", "Multitask"]
    for task in env.unwrapped.envs:
        assert names(task) == ["TimeLimit", "ClipAction", "GuardNonFinite", "Pendulum"]
        assert task.unwrapped.params.gravity.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("ids", "kwargs", "message"),
    [
        (
            ["Chain-v0", "CartPole-v1"],
            {},
            r"Multitask: observation specs of.* 0 \(Chain-v0\) and 1 \(CartPole-v1\)",
        ),
        (["CartPole-v0", "CartPole-v1"], {"mass": 1}, "CartPole-v0: unknown keyword 'mass'"),
        (["Chain-v0", "elsewhere:Chain-v0"], {}, "no suite and no module 'elsewhere'"),
        (["Chain-v0", "Chain-v0"], {"wrappers": "FrameStack"}, r"make: wrappers .*got 'FrameStack'"),
        (["Chain-v0", "Chain-v0"], {"task": 2}, r"Multitask: task .*got 2"),
        ([], {}, r"make: id .*got \[\]"),
        (["Chain-v0", Chain], {}, r"make: id .*got \['Chain-v0'"),
    ],
)
def test_tasks_that_do_not_fit_together_are_refused(ids, kwargs, message):
    with pytest.raises(ValueError, match=message):
        jaxenv.make(ids, 2, **kwargs)


# --- devices ---------------------------------------------------------------------------------------------------------

# After JAX has started its devices, the number of the CPU's can no longer be set, nor can processes be connected.
MAKE_ALL = """
import subprocess
import sys
import jax, jaxenv
from tests.wrappers.catalogue import WRAPPERS

made = {id: lambda id=id: jaxenv.make(id, 2) for id in jaxenv.ids()}
made |= {name: lambda entry=entry: entry.wrapper(entry.env()) for name, entry in WRAPPERS.items()}
for number, (name, make) in enumerate(made.items()):
    make()
    try:
        jax.config.update("jax_num_cpu_devices", 3 + number % 2)
    except RuntimeError:
        sys.exit(f"{name} starts JAX's devices")
jax.config.update("jax_num_cpu_devices", 3)
print(len(made), jax.device_count("cpu"))
"""


def test_making_an_environment_or_a_wrapper_starts_no_device():
    done = subprocess.run([sys.executable, "-c", MAKE_ALL], capture_output=True, text=True)
    assert done.stderr == ""
    count, devices = map(int, done.stdout.split())
    assert count > len(jaxenv.ids()) + 60
    assert devices == 3
