"""The types that a type checker finds in programs of users, under ``mypy --strict``."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

import jaxenv

# A comment is the type that mypy reveals, without the modules of its names.
PROGRAM = """
import dataclasses
from typing import reveal_type

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from jaxenv import TimeStep, interop, random, rollout, specs, tree, wrappers
from jaxenv.interop import gymnax
from jaxenv.training import ppo, seeds


@tree.struct
class State:
    position: jax.Array


class Line(jaxenv.Task):
    length: int = tree.static(default=7, low=2)

    def initial(self, stream: random.Stream) -> State:
        return State(random.integers(stream, (), 0, self.length))

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> jaxenv.Transition:
        position = state.position + action
        return jaxenv.Transition(State(position), jnp.ones(position.shape), position >= self.length)

    def observe(self, state: State) -> jax.Array:
        return state.position

    def observation_spec(self) -> specs.Array:
        return specs.Array((), np.int32, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(2)


class Scaled(jaxenv.Wrapper):
    factor: float = tree.leaf(default=2.0)
    owns = frozenset({"reward"})

    def proceed(self, state: tree.Tree, action: tree.Tree) -> tuple[tree.Tree, TimeStep]:
        state, timestep = self.env.proceed(state, action)
        return state, dataclasses.replace(timestep, reward=self.factor * timestep.reward)


class Pessimist(wrappers.RewardWrapper):
    def reward(self, reward: jax.Array) -> jax.Array:
        return jnp.minimum(reward, 0)


def policy(timestep: TimeStep, stream: random.Stream) -> jax.Array:
    return random.integers(stream, (), 0, 2)


def recurrent(timestep: TimeStep, stream: random.Stream, memory: jax.Array) -> rollout.PolicyStep:
    return rollout.PolicyStep(memory, memory)


line = Scaled(Line(num_envs=5), factor=3.0)
reveal_type(line.num_envs)  # int
env = jaxenv.make("CartPole-v1", num_envs=3, wrappers=[Scaled, Pessimist])
reveal_type(env)  # Environment
reveal_type(env.num_envs)  # int
reveal_type(env.name)  # str
reveal_type(env.reward_spec())  # Array
reveal_type(env.with_params(gravity=11.0))  # Environment
framed = wrappers.FrameStack(env, num=4)
reveal_type(framed.with_params(gravity=11.0))  # FrameStack
reveal_type(framed.num_envs)  # int
reveal_type(framed.task_names)  # tuple[str, ...]

state, timestep = env.reset(jax.random.key(0))
state, timestep = env.step(state, jnp.zeros(3, jnp.int32))
reveal_type(timestep)  # TimeStep
reveal_type(timestep.reward)  # Array
reveal_type(timestep.discount)  # Array
reveal_type(timestep.terminated)  # Array
reveal_type(timestep.env_info)  # dict[str, Any]
reveal_type(env.render(state))  # Array

reveal_type(rollout.random_policy(env))  # Policy
(state, timestep, _), experience = jaxenv.unroll(env, policy, state, timestep, 5)
reveal_type(experience)  # Experience
reveal_type(experience.timestep.reward)  # Array
_, experience = jaxenv.unroll(env, recurrent, state, timestep, 5, initial_memory=jnp.zeros(3, jnp.int32))
_, experience = jaxenv.unroll(env, lambda timestep, stream: jnp.zeros(3, jnp.int32), state, timestep, 5)
reveal_type(jaxenv.evaluate(env, policy, jax.random.key(1), 4).returns)  # Array

config = ppo.Config(env_id="CartPole-v1", num_envs=4)
learner, curve = ppo.make_train(config)(jax.random.key(2))
reveal_type(curve.returns)  # Array
for run in seeds.train(config, num_seeds=2):
    reveal_type(run.iterations)  # Array
trained = jaxenv.training.load("runs/cart_pole")
reveal_type(trained.policy)  # Policy
reveal_type(trained.make_env(2))  # Environment

single = interop.to_gymnasium("CartPole-v1")
observation, reward, terminated, truncated, info = single.step(0)
reveal_type(reward)  # float
reveal_type(truncated)  # bool
reveal_type(interop.to_gymnasium_vector(env))  # JaxenvVectorEnv
reveal_type(interop.to_gymnax(env))  # GymnaxEnv
gymnax_env, params = gymnax.make("CartPole-v1")
reveal_type(gymnax_env.reset(jax.random.key(0), params))  # tuple[Any, GymnaxState]
"""

# A comment is the code of the error that mypy finds.
MISTAKES = """
import jax

import jaxenv
from jaxenv.random import Stream

env = jaxenv.make("CartPole-v1", num_envs=3)
state, timestep = env.reset(jax.random.key(0))
timestep.obs  # attr-defined
env.max_steps_in_episode  # attr-defined
env.step(state)  # call-arg
env.num_envs.shape  # attr-defined
timestep.reward.mean(axes=0)  # call-arg


def without_stream(timestep: jaxenv.TimeStep) -> jax.Array:
    return timestep.reward


def other_order(stream: Stream, timestep: jaxenv.TimeStep) -> jax.Array:
    return timestep.reward


jaxenv.unroll(env, without_stream, state, timestep, 5)  # arg-type
jaxenv.unroll(env, other_order, state, timestep, 5)  # arg-type
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Lines and messages of both programs."""
    folder = tmp_path_factory.mktemp("types")
    names = {"program.py": PROGRAM, "mistakes.py": MISTAKES}
    for name, text in names.items():
        (folder / name).write_text(text)
    options = ["--strict", "--config-file=", "--cache-dir=cache", "--no-error-summary", "--no-pretty"]
    root = str(pathlib.Path(jaxenv.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])}
    command = [sys.executable, "-m", "mypy", *options, *names]
    output = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert not output.stderr
    rows = [re.fullmatch(r"(\w+\.py):(\d+): (.*)", line) for line in output.stdout.splitlines()]
    assert all(rows), output.stdout
    return {name: [(int(row[2]), row[3]) for row in rows if row[1] == name] for name in names}


def comments(text):
    lines = enumerate(text.split("\n"), start=1)
    return {number: line.split("  # ")[1] for number, line in lines if "  # " in line}


def test_a_program_of_a_user_is_clean(found):
    assert [row for row in found["program.py"] if "error:" in row[1]] == []


def test_the_members_that_a_user_reads_have_types(found):
    revealed = {
        line: re.sub(r"(\w+\.)+(?=\w)", "", re.search(r'Revealed type is "(.*)"', message)[1])
        for line, message in found["program.py"]
        if "Revealed" in message
    }
    assert revealed == comments(PROGRAM)


def test_mistakes_of_a_user_are_found(found):
    errors = {
        line: re.search(r"\[([a-z-]+)\]$", message)[1] for line, message in found["mistakes.py"] if "error:" in message
    }
    assert errors == comments(MISTAKES)
