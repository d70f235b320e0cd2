"""Every learner bootstraps at a time limit and not at a termination, in a task whose values have a closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs, tree
from jaxenv.training import dqn, ppo, sac
from jaxenv.wrappers import AutoReset, TimeLimit

GAMMA, LIMIT = 0.8, 5
COMMON = {"num_envs": 8, "gamma": GAMMA, "hidden": (8,), "learning_rate": 0.02, "num_evaluations": 1}
COMMON |= {"num_eval_episodes": 1, "max_eval_steps": 1}
LEARNERS = {
    "ppo": (ppo, ppo.Config(total_steps=16_384, num_steps=64, lambda_=0.0, **COMMON)),
    "dqn": (dqn, dqn.Config(total_steps=4000, n_step=1, target_rate=0.1, num_gradient_steps=16, **COMMON)),
    "sac": (sac, sac.Config(total_steps=6000, target_rate=0.1, temperature=1e-4, learn_temperature=False, **COMMON)),
}


class Income(jaxenv.Task):
    """Pays 1 at every step, whatever the action, and never ends. Every observation is 1."""

    continuous: bool = tree.static(default=False)

    def initial(self, stream):
        return jnp.ones(stream.shape)

    def transition(self, state, action, stream):
        return jaxenv.Transition(state, state, jnp.zeros(stream.shape, bool))

    def observe(self, state):
        return state[:, None]

    def observation_spec(self):
        return specs.Bounded((1,), np.float32, 0, 1)

    def action_spec(self):
        return specs.Bounded((1,), np.float32, -1, 1) if self.continuous else specs.discrete(2)


def value(module, config, env, params):
    """What a learner believes the state is worth."""
    network, ones = module._model(config, env), (jnp.ones((1, 1)),)
    if module is sac:
        return network[2].apply(params.critics, ones, jnp.zeros((1, 1))).min()
    found = network[1].apply(params, ones)
    return found.max() if module is dqn else found[1][0]


@pytest.mark.parametrize("name", LEARNERS)
def test_a_state_under_a_time_limit_is_worth_what_it_pays_without_one(name):
    module, config = LEARNERS[name]
    believed = {}
    for terminal in (False, True):
        env, eval_env = (
            AutoReset(TimeLimit(Income(num_envs=n, continuous=module is sac), LIMIT, terminal=terminal)) for n in (8, 1)
        )
        learner, _ = jax.jit(module.make_train(config, env, eval_env))(jax.random.key(0))
        believed[terminal] = float(value(module, config, env, learner.params))
    # With a termination at the limit, all but one of its transitions bootstrap from the same value.
    assert believed[False] == pytest.approx(1 / (1 - GAMMA), rel=0.1)
    assert believed[True] == pytest.approx(1 / (1 - GAMMA * (1 - 1 / LIMIT)), rel=0.15)
