"""Wrapper: what it forwards, which specs it has, and what a subclass must declare."""

import copy
import dataclasses
import pickle
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import Wrapper, specs, tree
from jaxenv.testing import Chain, Counting
from jaxenv.wrappers import AutoReset, FrameStack, LaneWrapper, ObservationWrapper, RewardWrapper, TimeLimit
from tests.core.bases.toys import Return, RewardMean


def test_overriding_proceed_without_declaring_owned_fields_is_refused():
    with pytest.raises(TypeError, match=r"Silent: .* proceed"):

        class Silent(Wrapper):
            def proceed(self, state, action):
                return self.env.proceed(state, action)


def test_a_wrapper_that_keeps_specs_has_those_of_its_environment():
    class Kept(LaneWrapper):
        owns = frozenset({"reward", "observation"})
        keeps_specs = frozenset({"observation"})

        def init(self, timestep, stream):
            return ()

    env = jaxenv.spec("CartPole-v1").make(num_envs=3)
    assert Kept(env).observation_spec() == env.observation_spec()
    assert Kept(env).reward_spec() == specs.Array((), np.float32)


def test_specs_follow_what_a_wrapper_owns():
    class Twice(LaneWrapper):
        owns = frozenset({"reward", "observation"})

        def init(self, timestep, stream):
            return ()

        def after(self, own, timestep, stream):
            reward = jnp.stack([timestep.reward] * 2, axis=-1)
            return own, dataclasses.replace(timestep, reward=reward, observation=timestep.observation * 2.0)

    env = Twice(jaxenv.spec("CartPole-v1").make(num_envs=3))
    assert env.reward_spec() == specs.Array((2,), np.float32)
    assert env.observation_spec() == specs.Array((4,), np.float32)


def test_with_params_and_close_reach_through_wrappers():
    class Closing(Counting):
        closed = []

        def close(self):
            self.closed.append(True)

    with RewardMean(AutoReset(Return(Closing(np.array([2]), num_envs=1)))) as env:
        assert env.unwrapped.closed == []
    assert env.unwrapped.closed == [True]
    assert jaxenv.make("CartPole-v1").with_params(gravity=1.0).unwrapped.params.gravity == 1


def test_every_layer_is_closed_that_holds_something():
    closed = []

    class Holds(Wrapper):
        def close(self):
            closed.append(type(self.env).__name__)
            super().close()

    with TimeLimit(Holds(Holds(Chain())), 5):
        assert not closed
    assert closed == ["Holds", "Chain"]


@pytest.mark.parametrize("base", [Wrapper, ObservationWrapper])
def test_a_field_that_would_hide_a_fact_of_the_stack_is_refused(base):
    with pytest.raises(TypeError, match=r"Loud: a field 'turns' would hide env.turns"):

        class Loud(base):
            turns: int = tree.static(default=3)

            def observation(self, observation):
                return observation

    class Told(base):
        turns: int = tree.static(default=3)

        def facts_of(self, inner):
            return dataclasses.replace(super().facts_of(inner), turns=self.turns == 3)

        def observation(self, observation):
            return observation

    class Still(Told):
        louder: int = tree.static(default=1)

    assert Still(Chain()).facts.turns


def test_params_are_those_of_the_task_through_wrappers():
    env = jaxenv.make("CartPole-v1", gravity=1.5, wrappers=[("FrameStack", {"num": 2})])
    assert env.params is env.unwrapped.params
    assert env.params.gravity == 1.5
    assert not hasattr(AutoReset(Counting([3])), "params")


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("action_space", r"env.action_spec\(\)"),
        ("observation_space", r"env.observation_spec\(\)"),
        ("num_actions", r"env.action_spec\(\).num_values"),
        # Gym
        ("metadata", r"env.autoreset for the mode"),
        ("spec", r"jaxenv.spec\(env.name\)"),
        ("state", "the state that reset and step return"),
        ("np_random", r"env.reset\(jax.random.key\(seed\)\)"),
        ("render_mode", r"env.render\(state\)"),
        ("_max_episode_steps", r"jaxenv.spec\(id\).max_episode_steps"),
        # names of this library elsewhere
        ("unroll", r"jaxenv.unroll\(env, policy,"),
        # TF-Agents
        ("current_time_step", "the timestep that reset and step return"),
        ("get_info", "timestep.env_info"),
        ("get_state", "the state that reset and step return"),
        ("set_state", r"env.step\(state, action\)"),
        # DI-engine
        ("info", "timestep.env_info"),
        ("agent_num", "env.num_agents$"),
        ("obs_space", r"env.observation_spec\(\)"),
        ("act_space", r"env.action_spec\(\)"),
        ("rew_space", r"env.reward_spec\(\)"),
    ],
)
def test_a_name_of_another_library_is_refused_with_the_word_of_this_one(name, word, wrapped):
    env = AutoReset(Counting([3])) if wrapped else Counting([3])
    with pytest.raises(AttributeError, match=f"{type(env).__name__} has no attribute '{name}': use {word}"):
        getattr(env, name)
    assert not hasattr(env, name)


def test_a_method_that_only_the_task_has_is_answered_with_the_function_for_stacks():
    with pytest.raises(
        AttributeError, match=r"AutoReset has no attribute 'sample_level': use jaxenv.sample_level\(env"
    ):
        AutoReset(Counting([3])).sample_level


def test_a_place_that_no_stack_has_is_refused():
    with pytest.raises(TypeError, match=r"^Odd: place .*got 'outside'"):

        class Odd(Wrapper):
            place = "outside"


def test_an_error_inside_a_property_is_not_hidden():
    class Broken(jaxenv.testing.Chain):
        @property
        def smooth(self):
            return self.no_such_field

    with pytest.raises(AttributeError, match=r"'Broken' object has no.* 'no_such_field'"):
        Broken().smooth


@pytest.mark.parametrize("inner", [5, None, Chain])
def test_a_wrapper_refuses_what_is_no_environment(inner):
    with pytest.raises(ValueError, match=r"^TimeLimit: env .*got "):
        TimeLimit(inner, 3)


@pytest.mark.parametrize(
    ("owns", "message"),
    [
        (frozenset({"rewards"}), r"Wrong: owns .*got 'rewards', did you mean 'reward'"),
        (frozenset({"x"}), "got 'x', the fields are step_type, reward"),
        ("reward", r"Wrong: owns .*got 'reward'"),
    ],
)
def test_owns_must_name_fields_of_a_timestep(owns, message):
    with pytest.raises(TypeError, match=message):
        type("Wrong", (Wrapper,), {"owns": owns})


class Careless(LaneWrapper):
    """Initial state and result of ``after`` are those of the subclass."""

    def init(self, timestep, stream):
        return jnp.zeros(timestep.step_type.shape)


@pytest.mark.parametrize(
    ("hooks", "message"),
    [
        ({"init": lambda self, timestep, stream: jnp.zeros(())}, r"init: every array .*shape"),
        (
            {"after": lambda self, own, timestep, stream: timestep},
            r"after: .*got Time",
        ),
        (
            {"after": lambda self, own, timestep, stream: ((own, own), timestep)},
            r"after: state .*got a tu",
        ),
    ],
)
def test_a_hook_of_a_lane_wrapper_that_returns_something_else_is_refused(hooks, message):
    env = type("Wrong", (Careless,), hooks)(Counting(np.array([3]), num_envs=3))
    with pytest.raises(ValueError, match=f"<Wrong<Counting>>.{message}"):
        env.reset(jax.random.key(0))


def test_a_reward_wrapper_that_returns_nothing_is_refused():
    env = type("Wrong", (RewardWrapper,), {"reward": lambda self, reward: None})(Counting(np.array([3]), num_envs=3))
    with pytest.raises(ValueError, match=r"Wrong: the reward .*got None"):
        env.reset(jax.random.key(0))


@pytest.mark.parametrize(
    ("build", "given"),
    [
        (lambda: FrameStack(num=4), "{'num': 4}"),
        (lambda: FrameStack(4), "{'num': 4}"),
        (lambda: FrameStack(4, axis=0), "{'num': 4, 'axis': 0}"),
    ],
)
def test_a_wrapper_built_without_an_environment_says_how_make_takes_it(build, given):
    with pytest.raises(
        ValueError,
        match=rf"^FrameStack: env .*got .* write \('FrameStack', {re.escape(given)}\)$",
    ):
        build()


def test_a_wrapper_is_copied_and_pickled():
    env = FrameStack(Chain(), 4)
    for copied in (copy.copy(env), copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert copied.num == 4
