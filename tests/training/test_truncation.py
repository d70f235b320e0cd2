"""Every learner bootstraps at a time limit and not at a termination, in a task whose values have a closed form."""

import pathlib
import runpy

import jax
import pytest

from jaxenv.training import dqn, ppo, sac
from jaxenv.wrappers import AutoReset, TimeLimit

# The script that draws the values of this task for the documentation.
SCRIPT = runpy.run_path(str(pathlib.Path(__file__).parents[2] / "docs" / "pictures" / "truncation.py"))
GAMMA, LIMIT = 0.8, 5
COMMON = {"num_envs": 8, "gamma": GAMMA, "hidden": (8,), "learning_rate": 0.02, "num_evaluations": 1}
COMMON |= {"num_eval_episodes": 1, "max_eval_steps": 1}
LEARNERS = {
    "ppo": (ppo, ppo.Config(total_steps=16_384, num_steps=64, lambda_=0.0, **COMMON)),
    "dqn": (dqn, dqn.Config(total_steps=4000, n_step=1, target_rate=0.1, num_gradient_steps=16, **COMMON)),
    "sac": (sac, sac.Config(total_steps=6000, target_rate=0.1, temperature=1e-4, learn_temperature=False, **COMMON)),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_a_state_under_a_time_limit_is_worth_what_it_pays_without_one(name):
    module, config = LEARNERS[name]
    believed = {}
    for terminal in (False, True):
        tasks = (SCRIPT["Income"](num_envs=n, continuous=module is sac) for n in (8, 1))
        env, eval_env = (AutoReset(TimeLimit(task, LIMIT, terminal=terminal)) for task in tasks)
        learner, _ = jax.jit(module.make_train(config, env, eval_env))(jax.random.key(0))
        believed[terminal] = float(SCRIPT["value"](module, config, env, learner))
    # With a termination at the limit, all but one of its transitions bootstrap from the same value.
    assert believed[False] == pytest.approx(1 / (1 - GAMMA), rel=0.1)
    assert believed[True] == pytest.approx(1 / (1 - GAMMA * (1 - 1 / LIMIT)), rel=0.15)
