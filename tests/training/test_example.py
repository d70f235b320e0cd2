"""The learner of ``docs/examples/ppo.py``, which users copy, next to `ppo`."""

import importlib.util
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import jaxenv
from jaxenv.training import ppo
from jaxenv.training.lanes import DeviceLanes

PATH = pathlib.Path(__file__).parents[2] / "docs" / "examples" / "ppo.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("example_ppo", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_has_at_most_200_lines():
    assert len(PATH.read_text().splitlines()) <= 200


def layers(params, name):
    return [params["params"][name][f"Dense_{number}"] for number in range(3)]


def test_the_example_makes_the_update_of_ppo_from_the_same_rows(example):
    # One minibatch in one pass, so that the order of the rows makes no difference. Episodes end within the rows, by a
    # fall and by the limit of 25 steps.
    settings = {
        "num_envs": 8, "num_steps": 70, "num_epochs": 1, "num_minibatches": 1, "hidden": (16, 8), "total_steps": 560,
        "entropy_cost": 0.3, "value_cost": 0.7, "max_gradient_norm": 0.2, "gamma": 0.97, "lambda_": 0.8,
    }  # fmt: skip
    config = ppo.Config(**settings, num_evaluations=1)
    env = jaxenv.make("CartPole-v1", num_envs=8, max_episode_steps=25)
    stages = ppo.make_stages(config, env, DeviceLanes(config, None))

    @jax.jit
    def update(key):
        learner = stages.init(key, config.arrays())
        # Biases of 0 would hide a confusion of layers. Weights after the rows differ from those that collected them.
        noisy = jax.tree.map(lambda x: x + 0.05 * jnp.sin(jnp.arange(x.size) + 1.0).reshape(x.shape), learner.params)
        collected, rows, last_observation = stages.collect(learner, env)
        collected = jaxenv.tree.rebuild(collected, params=noisy)
        batch, _ = stages.advantages(config, (), collected, rows, last_observation)
        return noisy, rows, batch, collected.timestep, last_observation, stages.optimise(config, collected, batch)[0]

    params, rows, expected, last, last_observation, learned = update(jax.random.key(0))
    given = {name: layers(params, name) for name in ("actor", "critic")}
    info = rows.policy_info
    timestep = jaxenv.tree.rebuild(rows.timestep, observation=info["observation"][-1])
    info = {"sample": info["sample"], "log_probability": expected.log_probability.reshape(70, 8)}
    rows = jaxenv.tree.rebuild(rows, timestep=timestep, action=info["sample"], policy_info=info)
    last = jaxenv.tree.rebuild(last, observation=last_observation[-1])
    own = example.Config(**settings)
    batch = example.batch_of(own, given, rows, last)
    assert 0 < batch.valid.mean() < 1
    for name in ("advantage", "return_", "valid"):
        np.testing.assert_allclose(getattr(batch, name), getattr(expected, name), atol=1e-4, err_msg=name)
    learner = example.Learner(given, example.make_optimizer(own).init(given), (), last)
    found = example.optimise(own, learner, batch, jax.random.key(1))
    # Adam's first step hides the size of a gradient. The moments are the clipped gradient, times 0.1, and its square.
    moments = [x for x in jax.tree.leaves(learned.optimizer) if x.ndim]
    adam = found.optimizer[1][0]
    network = ppo.model(config, env)[1]
    _, tree_of = ravel_pytree(network.joined(params))
    for given_moment, moment in zip((adam.mu, adam.nu), moments, strict=True):
        of_networks = network.parted(tree_of(moment))
        for name in given:
            expected_moment = layers(of_networks, name)
            for x, expected_x in zip(
                jax.tree.leaves(given_moment[name]), jax.tree.leaves(expected_moment), strict=True
            ):
                np.testing.assert_allclose(x, expected_x, rtol=0, atol=0.005 * np.abs(expected_x).max())
    assert np.linalg.norm(moments[0]) == pytest.approx(0.1 * 0.2, rel=1e-3)
    for name, each in found.params.items():
        before, after = given[name], layers(learned.params, name)
        for number, layer in enumerate(each):
            for part, x in layer.items():
                assert np.abs(after[number][part] - before[number][part]).max() > 1e-4
                np.testing.assert_allclose(x, after[number][part], atol=2e-5, err_msg=f"{name}.{number}.{part}")


def test_the_example_collects_by_its_policy(example):
    config = example.Config(num_envs=512, num_steps=3, hidden=(4,))
    env = jaxenv.make(config.env_id, num_envs=512)
    params = example.init_params(config, env, jax.random.key(0))
    params["actor"][-1]["bias"] = jnp.array([0.0, 1.0])
    learner = example.Learner(params, (), *env.reset(jax.random.key(1)))
    after, rows = jax.jit(lambda learner: example.collect(config, env, learner))(learner)
    assert rows.action.shape == (3, 512)
    assert rows.action.mean() == pytest.approx(1 / (1 + np.exp(-1)), abs=0.06)
    np.testing.assert_allclose(
        np.exp(rows.policy_info["log_probability"][rows.action == 1]), 1 / (1 + np.exp(-1)), atol=0.02
    )
    assert (after.timestep.observation != rows.timestep.observation[-1]).any()


@pytest.mark.thorough
def test_the_example_learns_cart_pole(example):
    config = example.Config(total_steps=100_000)
    params = jax.jit(lambda key: example.train(config, key))(jax.random.key(0)).params
    env = jaxenv.make(config.env_id, num_envs=50, mode="eval")
    played = jaxenv.evaluate(
        env,
        lambda timestep, _: jaxenv.random.argmax(example.apply(params["actor"], timestep.observation)),
        jax.random.key(1),
    )
    assert played.returns.mean() > 300
