"""Draws ``truncation.png``: what learners believe a state is worth, with a time limit that is read right and wrong.

``python docs/pictures/truncation.py``, about a minute. The task pays 1 at every step and never ends, and a time limit
of T = 20 steps cuts it off. A state is therefore worth ``1 / (1 - gamma)``. A learner that takes the limit for the end
of the task, and cannot see the time, bootstraps from all but one of T transitions, so it believes in
``1 / (1 - gamma (1 - 1 / T))``.
"""

import pathlib

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import jaxenv
from jaxenv import specs, tree
from jaxenv.training import dqn, ppo, sac
from jaxenv.wrappers import AutoReset, TimeLimit

GAMMA, LIMIT = 0.95, 20
RIGHT, WRONG = 1 / (1 - GAMMA), 1 / (1 - GAMMA * (1 - 1 / LIMIT))
COMMON = {"num_envs": 8, "gamma": GAMMA, "hidden": (16,), "num_evaluations": 50, "num_eval_episodes": 1}
COMMON |= {"max_eval_steps": 1}
LEARNERS = {
    "PPO": (ppo, ppo.Config(total_steps=51_200, num_steps=32, lambda_=0.0, learning_rate=1e-2, **COMMON)),
    "DQN": (dqn, dqn.Config(total_steps=20_000, n_step=1, learning_rate=3e-3, target_rate=0.05, **COMMON)),
    "SAC": (
        sac,
        sac.Config(total_steps=20_000, target_rate=0.05, temperature=1e-4, learn_temperature=False, **COMMON),
    ),
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


def value(module, config, env, learner):
    """What a learner believes the state is worth."""
    network, ones = module.model(config, env), (jnp.ones((1, 1)),)
    if module is sac:
        return network[2].apply(learner.params.critics, ones, jnp.zeros((1, 1))).min()
    found = network[1].apply(learner.params, ones)
    return found.max() if module is dqn else found[1][0]


def believed(module, config, terminal):
    """Steps and values over the run; ``terminal`` takes the time limit for the end of the task."""
    env, eval_env = (
        AutoReset(TimeLimit(Income(num_envs=n, continuous=module is sac), LIMIT, terminal=terminal))
        for n in (config.num_envs, 1)
    )
    train = module.make_train(config, env, eval_env)
    init, iteration = train.init, train.iteration

    def one(learner, _):
        learner, curve = iteration(learner)
        return learner, (curve.steps, value(module, config, env, learner))

    return jax.jit(lambda key: jax.lax.scan(one, init(key), length=config.num_evaluations)[1])(jax.random.key(0))


if __name__ == "__main__":
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), sharey=True, layout="constrained")
    for axis, (name, (module, config)) in zip(axes, LEARNERS.items(), strict=True):
        for terminal, colour, label in (
            (False, "tab:blue", "a time limit truncates"),
            (True, "tab:orange", "taken for the end of the task"),
        ):
            steps, values = jax.device_get(believed(module, config, terminal))
            axis.plot(steps / 1e3, values, color=colour, label=label, linewidth=2)
            print(f"{name}, {label}: {values[-1]:.2f}")
        for level in (RIGHT, WRONG):
            axis.axhline(level, color="black", linestyle=":", linewidth=1)
        axis.set(title=name, xlabel="thousand steps", ylim=(0, 22))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("value of the state")
    axes[2].legend(frameon=False, loc="lower right")
    figure.savefig(pathlib.Path(__file__).parent / "truncation.png", dpi=110)
