"""Settings of runs: wrong ones are refused by name, and some of the numbers may be arrays."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import tree
from jaxenv.training import dqn, evaluation, ppo


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_envs": 0}, r"num_envs .*got 0"),
        ({"total_steps": 2**31}, r"total_steps .*got 2147483648"),
        ({"recurrent": -1}, r"recurrent .*got -1"),
        ({"num_steps": 2.0}, r"num_steps .*got 2.0"),
        ({"max_eval_steps": 0}, r"max_eval_steps .*got 0"),
        ({"max_eval_steps": 2.5}, r"max_eval_steps .*got 2.5"),
        ({"num_envs": True}, r"num_envs .*got True"),
        ({"normalize_observation": "no"}, r"normalize_observation .*got 'no'"),
        ({"env_id": 3}, r"env_id .*got 3"),
        ({"wrappers": 3}, r"wrappers .*got 3"),
        ({"env_options": 3}, r"env_options .*got 3"),
        ({"env_options": {3: 1}}, r"env_options .*got \{3: 1\}"),
        ({"env_options": {"mode": "eval"}}, r"env_options .*'mode'"),
        ({"env_options": {"gravity": jnp.ones(3)}}, r"env_options .*got {'gravity': "),
        ({"hidden": 8}, r"hidden .*got 8"),
        ({"learning_rate": -1.0}, r"learning_rate .*got -1.0"),
        ({"entropy_cost": float("inf")}, r"entropy_cost .*got inf"),
        ({"hidden": (64, 0)}, r"hidden .*got 0"),
        ({"hidden": (64, 0.5)}, r"hidden .*got \(64, 0.5\)"),
        ({"torso": "rnn"}, r"torso .*got 'rnn'"),
        ({"gamma": 1.5}, r"gamma .*got 1.5"),
        ({"lambda_": float("nan")}, "lambda_ must be .*, got nan"),
        ({"max_gradient_norm": 0.0}, r"max_gradient_norm .*got 0.0"),
        ({"total_steps": 10_239}, r"total_steps .*got 10239"),
        ({"num_minibatches": 3}, r"num_minibatches .*got 3"),
        ({"num_minibatches": 32, "recurrent": 4}, r"num_minibatches .*got 32"),
        ({"cell": "rnn", "recurrent": 4}, r"cell .*got 'rnn'"),
        ({"cell": "mingru"}, r"recurrent .*cell='mingru', got 0"),
        ({"cell": "mingru", "recurrent": 4, "num_layers": 0}, r"num_layers .*got 0"),
        ({"num_layers": 2}, r"num_layers .*recurrent=0 is no memory, got 2"),
        ({"cell": "gru", "recurrent": 4, "num_layers": 2}, r"num_layers .*cell='gru' has one layer, got 2"),
        ({"cell": "gtrxl", "recurrent": 6, "num_heads": 4}, r"num_heads .*recurrent = 6, got 4"),
        ({"cell": "gtrxl", "recurrent": 8, "window": 65}, r"window .*num_steps = 64, .*got 65"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(options, message):
    with pytest.raises(ValueError, match=f"ppo.Config: {message}"):
        ppo.Config(**options)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("lr", r", use Config\(learning_rate=...\); settings: env_id, "),
        ("NUM_ENVS", r", use Config\(num_envs=...\); "),
        ("max_episode_steps", r", use env_options={'max_episode_steps': ...}; "),
        ("gama", r", did you mean 'gamma'\? "),
        ("colour", "; settings: env_id, "),
    ],
)
def test_a_setting_that_a_learner_does_not_have_is_explained(name, hint):
    with pytest.raises(TypeError, match=f"^ppo.Config: unknown keyword '{name}'{hint}"):
        ppo.Config(**{name: 1})


def test_settings_may_be_lists_and_are_hashable():
    assert hash(ppo.Config(hidden=[8, 8])) == hash(ppo.Config(hidden=(8, 8)))


def test_options_of_the_environment_reach_both_stacks_and_survive_json():
    config = ppo.Config(env_id="DeepSea-bsuite", env_options={"size": 4, "max_episode_steps": 3})
    stacks = evaluation.environments(ppo.Config, config, None, None)
    assert [env.observation_spec().shape for env in stacks] == [(4, 4)] * 2
    assert config.make_env(size=5).observation_spec().shape == (5, 5)
    stored = json.loads(json.dumps(dataclasses.asdict(config)))
    assert ppo.Config(**stored) == config
    assert hash(ppo.Config(**stored)) == hash(config)


def test_updates_are_equally_many_before_each_evaluation():
    config = ppo.Config(total_steps=10_000, num_envs=10, num_steps=32, num_minibatches=1, num_evaluations=4)
    assert (config.rows_per_update, config.num_updates) == (320, 28)  # 31 updates would fit
    assert config.num_rows == 320 * 28


def test_the_rows_of_a_run_include_those_of_the_warm_up():
    config = dqn.Config(total_steps=5000, num_envs=8, num_steps=8, warmup_steps=1000, num_evaluations=2)
    assert config.num_rows == 1000 + 64 * config.num_updates == 1000 + 64 * 62


def test_hyperparameters_are_those_of_the_config_where_none_are_given():
    values = ppo.Config(gamma=0.5, clip=0.1).arrays({"clip": 0.3})
    assert all((x.shape, x.dtype) == ((), np.float32) for x in values.values())
    assert float(values["gamma"]) == 0.5
    assert float(values["clip"]) == pytest.approx(0.3)
    assert set(values) == set(ppo.Config().hyperparameters)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"learnin_rate": 1.0}, r"no hyperparameter 'learnin_rate'.*'learning_rate'?"),
        ({"num_envs": 4}, "no hyperparameter 'num_envs', they are learning_rate, gamma"),
        ({"gamma": 1.5}, r"gamma .*got 1.5"),
        ({"clip": jnp.zeros(())}, r"clip .*got 0.0"),
        ({"gamma": jnp.ones(3)}, r"gamma .*got shape \(3,\)"),
    ],
)
def test_wrong_hyperparameters_are_refused_by_name(given, message):
    with pytest.raises(ValueError, match=f"ppo.Config: {message}"):
        ppo.Config().arrays(given)


def test_a_config_with_arrays_is_read_inside_of_compiled_code():
    config = ppo.Config(gamma=0.5)

    @jax.jit
    def sum_of(values):
        settings = tree.rebuild(config, **values)
        return settings.gamma + settings.clip + settings.num_envs

    assert float(sum_of({"gamma": jnp.float32(0.25)})) == pytest.approx(0.25 + 0.2 + 16)
    assert config.gamma == 0.5
