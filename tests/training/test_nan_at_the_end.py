"""The observation after the end of a task does not matter to a learner, also if it is NaN."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import random, specs, tree
from jaxenv.core import Task, Transition
from jaxenv.training import alphazero, dqn, ppo, sac
from jaxenv.wrappers import AutoReset, StateInInfo, TimeLimit
from tests.rows import assert_equal


class Countdown(Task):
    """Counts 1 to 6 steps down to the end of the task, where it shows NaN, or 7; the time limit of 4 ends some earlier.

    It pays for an action near half of the count.
    """

    nan: bool = tree.static(default=True)
    continuous: bool = tree.static(default=False)

    def initial(self, stream):
        return random.integers(stream, (), 1, 7)

    def transition(self, state, action, stream):
        paid = 1 - jnp.abs(action.reshape(state.shape).astype(jnp.float32) - state.astype(jnp.float32) / 6)
        return Transition(state - 1, paid, state <= 1)

    def observe(self, state):
        return jnp.where(state > 0, state.astype(jnp.float32), np.float32(np.nan if self.nan else 7))[:, None]

    def observation_spec(self):
        return specs.Array((1,), np.float32)

    def action_spec(self):
        return specs.Bounded((1,), np.float32, -1, 1) if self.continuous else specs.discrete(2)


SHORT = {"num_envs": 5, "hidden": (8,), "num_evaluations": 1, "num_eval_episodes": 5}
PPO = {"num_steps": 13, "num_epochs": 2, "num_minibatches": 1, "total_steps": 5 * 13 * 3, **SHORT}
DQN = {"total_steps": 5 * 8 * 3, "warmup_steps": 60, "num_gradient_steps": 4, "n_step": 3, **SHORT}
LEARNERS = {
    "ppo": (ppo, PPO),
    "ppo, clipped values": (ppo, {**PPO, "clip_value": True, "entropy_cost": 0.01}),
    "ppo, continuous": (ppo, PPO),
    "ppo, gru": (ppo, {**PPO, "recurrent": 4}),
    "ppo, lstm": (ppo, {**PPO, "recurrent": 4, "cell": "lstm"}),
    "ppo, mingru": (ppo, {**PPO, "recurrent": 4, "cell": "mingru"}),
    "ppo, gtrxl": (ppo, {**PPO, "recurrent": 4, "cell": "gtrxl", "window": 3}),
    "dqn": (dqn, DQN),
    "dqn, dueling, by priority": (dqn, {**DQN, "dueling": True, "loss": "huber", "priority_exponent": 0.5}),
    "sac, continuous": (sac, {"total_steps": 100, "warmup_steps": 60, "batch_size": 32, **SHORT}),
    "alphazero": (alphazero, {"num_steps": 13, "batch_size": 32, "num_simulations": 6, "total_steps": 130, **SHORT}),
}


def trained(name, **options):
    module, settings = LEARNERS[name]
    config = module.Config(**{"torso": "mlp", **settings})

    def stack(**kwargs):
        env = TimeLimit(Countdown(num_envs=5, continuous="continuous" in name, **kwargs), 4)
        return AutoReset(StateInInfo(env) if module is alphazero else env)

    train = module.make_train(config, stack(**options), stack(nan=False))
    learner, curve = jax.jit(train)(jax.random.key(0))
    return jax.device_get(jax.jit(train.init)(jax.random.key(0)).params), *jax.device_get((learner.params, curve))


@pytest.mark.parametrize("name", LEARNERS)
def test_the_observation_after_the_end_of_a_task_may_be_nan_and_does_not_matter(name):
    start, params, curve = trained(name)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(params))
    moved = [np.abs(a - b).max(initial=0) for a, b in zip(*map(jax.tree.leaves, (start, params)), strict=True)]
    assert max(moved) > 1e-4
    _, other_params, other_curve = trained(name, nan=False)
    assert_equal(params, other_params, rtol=1e-5)
    assert_equal(curve.losses, other_curve.losses, rtol=1e-5)


@pytest.mark.parametrize("name", ["ppo", "dqn", "sac, continuous"])
def test_normalised_observations_stay_finite_if_the_last_one_is_nan(name, monkeypatch):
    monkeypatch.setitem(LEARNERS[name][1], "normalize_observation", True)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(trained(name)[1]))
