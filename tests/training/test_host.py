"""Learners on environments that live outside JAX."""

import pathlib

import jax
import pytest

import jaxenv
from jaxenv import training
from jaxenv.training import ppo, seeds

CONFIG = ppo.Config(
    env_id="gymnasium:CartPole-v1",
    env_options={"vectorization": "sync", "max_episode_steps": 20},
    num_envs=4,
    num_steps=16,
    total_steps=128,
    num_evaluations=2,
    num_eval_episodes=3,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("run")
    run = next(seeds.train(CONFIG, num_seeds=1, folder=folder))
    assert run.curve.returns.shape == (2, 1, 3)
    return folder


def test_the_policy_of_a_run_on_the_host_is_loaded(folder):
    trained = training.load(folder)
    env = trained.make_env(num_envs=2)
    episodes = jaxenv.evaluate(env, trained.policy, jax.random.key(0), initial_memory=trained.make_memory(2))
    assert episodes.finished.all()


def test_a_run_on_the_host_is_not_resumed(folder):
    with pytest.raises(ValueError, match="gymnasium:CartPole-v1 cannot be resumed"):
        seeds.train(CONFIG, num_seeds=1, folder=folder, resume=True)


def test_a_stopped_run_on_the_host_is_not_said_to_resume():
    assert not seeds.can_resume(CONFIG)
    assert seeds.can_resume(ppo.Config())


def test_two_seeds_on_the_host_are_refused():
    with pytest.raises(ValueError, match="cannot run under vmap"):
        next(seeds.train(CONFIG, num_seeds=2))
