"""The two stacks of a learner: they are given together, fit the settings and each other, and share no statistics."""

import numpy as np
import pytest

import jaxenv
from jaxenv import specs
from jaxenv.testing import mock_012, random_environment
from jaxenv.training import evaluation
from jaxenv.training.config import RunConfig
from jaxenv.wrappers import AutoReset, NormalizeObservation


def environments(env, eval_env):
    return evaluation.environments("learner", RunConfig(), env, eval_env)


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
