"""``describe`` and ``repr`` of a stack."""

import jax
import numpy as np

import jaxenv
from jaxenv import specs, wrappers
from jaxenv.core.multitask import Multitask
from jaxenv.testing import count_to_two
from jaxenv.wrappers import AutoReset, RescaleAction, TimeLimit
from tests.toys import Double
from tests.toys import registered as registered


def test_describe_lists_the_layers_the_lanes_and_the_specs():
    # In bytes: the clock has two key words, lane, episode and step; Chain has its position; AutoReset has a flag.
    assert jaxenv.make("Chain-v0", 2, max_episode_steps=[1, 2], wrappers=[Double]).describe().splitlines() == [
        "AutoReset(reset_strategy=select)  +1 B",
        "Double",
        "TimeLimit(duration=<per lane>)",
        "Chain-v0(length=4)                +24 B, observation int32[], action int32[]",
        "lanes 2, autoreset next_step, 25 bytes of state per lane",
        "observation Bounded((), int32, 0, 3, name='observation')",
        "action Bounded((), int32, 0, 1, name='action')",
    ]


def test_describe_shows_the_params_with_values_units_and_ranges():
    env = jaxenv.make("CartPole-v1", 2, length=[0.5, 0.75], force=20, position_limit=3, autoreset="same_step")
    assert env.describe().splitlines()[:11] == [
        "AutoReset(mode=same_step, reset_strategy=select)",
        "TimeLimit(duration=500)",
        "CartPole-v1(position_limit=3)                     +36 B, observation float32[4], action int32[]",
        "params",
        "  gravity      9.8 m/s^2",
        "  masscart     1.0 kg, above 0",
        "  masspole     0.1 kg, at least 0",
        "  length       0.5 to 0.75 m per lane, above 0",
        "  force        20.0 N",
        "  tau          0.02 s, above 0",
        "  start_range  0.05, at least 0",
    ]


def test_describe_shows_the_params_of_every_task_and_marks_traced_ones():
    def described(gravity):
        pendulum = jaxenv.spec("Pendulum-v1").make()
        lines.extend(Multitask((pendulum, pendulum.with_params(gravity=gravity))).describe().splitlines())
        return gravity

    lines: list[str] = []
    jax.eval_shape(described, 1.0)
    assert "  envs.0.gravity      10.0 m/s^2" in lines
    assert "  envs.1.gravity      traced m/s^2" in lines


def test_describe_shows_changed_specs_and_shared_state():
    env = wrappers.NormalizeObservation(AutoReset(RescaleAction(jaxenv.spec("Pendulum-v1").make(num_envs=2), 0, 1)))
    outermost, _, _, bottom, *_, lanes, _, _ = env.describe().splitlines()
    assert outermost.endswith(" B shared")
    assert bottom.endswith("+28 B, observation float32[3], action float32[1]")
    assert lanes.startswith("lanes 2, autoreset next_step, 29 bytes of state per lane and ")
    filtered = wrappers.FrameStack(jaxenv.spec("Pendulum-v1").make(), 4).describe()
    assert "observation float32[4, 3]" in filtered.splitlines()[0]


def test_repr_nests_like_the_wrappers():
    base = jaxenv.spec("Pendulum-v1").make()
    env = AutoReset(RescaleAction(TimeLimit(base, 200), 0, 1))
    assert repr(env) == "<AutoReset<RescaleAction<TimeLimit<Pendulum-v1>>>>"
    assert repr(env.env) == "<RescaleAction<TimeLimit<Pendulum-v1>>>"
    assert env.env.env.env is base
    assert env.unwrapped is base
    assert base.unwrapped is base
    assert env.action_spec() == specs.Bounded((1,), np.float32, 0, 1)


def test_rescaled_actions_reach_the_environment_in_its_own_range():
    env = RescaleAction(jaxenv.spec("Pendulum-v1").make(num_envs=3), 0, 1)
    assert env.action(np.array([[0.0], [0.5], [1.0]], np.float32)).tolist() == [[-2], [0], [2]]


def test_repr_of_an_unregistered_environment_is_its_class_name():
    assert repr(TimeLimit(count_to_two(), 3)) == "<TimeLimit<Counting>>"
