"""What surrounds the updates of a learner: its two stacks fit the settings and each other, weights fit the stack."""

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv import rollout, specs
from jaxenv.testing import Counting, mock_012, random_environment
from jaxenv.training import dqn, evaluation, ppo, sac
from jaxenv.training.config import RunConfig
from jaxenv.training.lanes import Lanes
from jaxenv.wrappers import AutoReset, NormalizeObservation


def environments(env, eval_env):
    return evaluation.environments("learner", RunConfig, RunConfig(), env, eval_env)


def test_two_stacks_of_one_task_are_required():
    env = AutoReset(mock_012(16))
    with pytest.raises(ValueError, match="learner: env and eval_env must be given together"):
        environments(env, None)
    with pytest.raises(ValueError, match="learner: env and eval_env must have the same observation_spec"):
        environments(env, jaxenv.make("CartPole-v1", 100))
    assert environments(env, env) == (env, env)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (lambda: AutoReset(mock_012(16), "same_step"), "autoreset='next_step', got 'same_step'"),
        (lambda: mock_012(16), "autoreset='next_step', got None"),
        (lambda: AutoReset(mock_012(3)), "config.num_envs is 16, .* has 3 lanes"),
        (
            lambda: AutoReset(
                random_environment(
                    specs.discrete(2), specs.discrete(2), specs.Bounded((2,), np.float32, 0, 1), num_envs=16
                )
            ),
            "reward must be one number per lane",
        ),
        (
            lambda: NormalizeObservation(
                AutoReset(random_environment(specs.Array((2,), np.float32), specs.discrete(2), num_envs=16))
            ),
            "evaluation cannot share the statistics of .*, set normalize_observation",
        ),
    ],
)
def test_a_stack_that_no_learner_takes_is_refused(env, message):
    with pytest.raises(ValueError, match=f"^learner: .*{message}"):
        environments(env(), env())


def test_a_vector_reward_of_the_evaluation_is_refused():
    one, two = (
        AutoReset(random_environment(specs.discrete(2), specs.discrete(2), reward, num_envs=16))
        for reward in (specs.Array((), np.float32), specs.Array((2,), np.float32))
    )
    with pytest.raises(ValueError, match=r"learner: the reward must be one number per lane, got .* of <AutoReset"):
        environments(one, two)


@pytest.mark.parametrize("lanes", [4, 2])
def test_the_step_limit_is_that_of_an_episode_however_many_a_lane_plays(lanes):
    config = RunConfig(num_eval_episodes=4, max_eval_steps=3)
    env = AutoReset(Counting(np.array([3]), num_envs=lanes))
    policy = rollout.random_policy(env)
    played = evaluation.evaluate(config, env, policy, (), (), jax.random.key(0), Lanes(config, None))
    assert played["finished"].all()
    assert played["lengths"].tolist() == [3] * 4


@pytest.mark.parametrize("learner", [ppo, dqn, sac])
def test_a_config_of_another_kind_is_refused(learner):
    name = learner.__name__.rpartition(".")[2]
    with pytest.raises(ValueError, match=rf"^{name}: config must be {name}\.Config\(\.\.\.\), got 'CartPole-v1'"):
        learner.make_train("CartPole-v1")


@pytest.mark.parametrize(("learner", "id"), [(ppo, "CartPole-v1"), (dqn, "CartPole-v1"), (sac, "Pendulum-v1")])
def test_weights_that_are_not_those_of_one_seed_for_the_stack_are_refused(learner, id):
    config = learner.Config(env_id=id, normalize_observation=True, wrappers=("TimeAwareObservation",))
    init, _ = learner.make_iteration(config)
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), 3))
    seeds, one = jax.eval_shape(jax.vmap(init), keys), jax.eval_shape(init, jax.random.key(0))
    env = config.make_env(2, "eval")
    with pytest.raises(ValueError, match=r"params are the weights of 3 seeds: choose one of params and statistics, "):
        learner.make_policy(config, env, seeds.params, seeds.statistics)
    with pytest.raises(ValueError, match=r"normalises observations: pass statistics=learner\.statistics"):
        learner.make_policy(config, env, one.params)
    bare = jaxenv.make(id, num_envs=2)
    with pytest.raises(
        ValueError, match=r"kernel must have shape .*, got .*: config\.make_env\(num_envs, 'eval'\) makes"
    ):
        learner.make_policy(config, bare, one.params, one.statistics)
    other = learner.Config(env_id=id, wrappers=("TimeAwareObservation",), hidden=(8, 8, 8))
    with pytest.raises(ValueError, match=r"^\w+: params\..* must be a dict with 'Dense_0', "):
        learner.make_policy(other, env, one.params)
