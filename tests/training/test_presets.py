"""Presets: each is a valid config of its learner for an id that exists."""

import pytest

import jaxenv
from jaxenv.training import ppo, presets
from tests.training import drift

TABLE = {
    "ppo": {"CartPole-v1": {"gamma": 0.5}},
    "drift": {"CartPole-v1": {"gamma": 0.25}, "Catch-bsuite": {"total_steps": 800}},
}


@pytest.fixture
def table(monkeypatch, drifting):
    monkeypatch.setattr(presets, "PRESETS", TABLE)


def test_a_preset_is_the_config_of_its_learner(table):
    assert jaxenv.training.preset("CartPole-v1") == ppo.Config(env_id="CartPole-v1", gamma=0.5)
    assert jaxenv.training.preset("CartPole-v1", "drift") == drift.Config(env_id="CartPole-v1", gamma=0.25)
    assert jaxenv.training.preset("Catch-bsuite") == drift.Config(env_id="Catch-bsuite", total_steps=800)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Catch-bsuite", "ppo"), r"preset: ppo has.* 'Catch-bsuite'; there are presets.* CartPole-v1$"),
        (
            ("CartPole-v0",),
            r"preset: there is.* 'CartPole-v0'.*'CartPole-v1'\? there are presets.* CartPole-v1, Catch-bsuite$",
        ),
        (("CartPole-v1", "a2c"), r"preset: algorithm .*got 'a2c'"),
    ],
)
def test_an_id_without_a_preset_is_refused_with_those_that_have_one(table, arguments, message):
    with pytest.raises(ValueError, match=message):
        jaxenv.training.preset(*arguments)


@pytest.mark.parametrize(("algorithm", "env_id"), [(name, id) for name, ids in presets.PRESETS.items() for id in ids])
def test_every_preset_is_valid_and_its_environment_exists(algorithm, env_id):
    config = jaxenv.training.preset(env_id, algorithm)
    assert config.env_id == env_id
    config.make_env()
