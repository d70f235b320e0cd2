"""Policies that ship: their figures, what stays of the weights, and that every file is one of a known environment."""

import chex
import jax
import numpy as np
import pytest

import jaxenv
from jaxenv import training
from jaxenv.training import baselines, dqn
from tests.cli.commands import printed_json, refusal

CONFIG = dqn.Config(env_id="Catch-bsuite", hidden=(4,), normalize_observation=True, num_eval_episodes=2)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A policy that is not trained, in a folder that takes the place of the library's."""
    learner = jax.jit(dqn.make_train(CONFIG).init)(jax.random.key(0))
    found = training.Baseline(
        folder=tmp_path_factory.mktemp("baselines"),
        algorithm="dqn",
        config=CONFIG,
        seed=0,
        num_seeds=1,
        steps=7,
        eval_return=0.5,
        params=learner.params,
        statistics=learner.statistics,
        eval_episodes=9,
        eval_interval=(0.25, 0.75),
        command="jaxenv train Catch-bsuite",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(baselines, "_FOLDER", found.folder)
        baselines.write("Catch-bsuite", found)
    return found


@pytest.fixture
def shipped(written, monkeypatch):
    monkeypatch.setattr(baselines, "_FOLDER", written.folder)
    return written


def test_a_baseline_has_its_figures_and_its_weights_in_half_precision(shipped):
    found = training.baseline("Catch-bsuite")
    assert training.baseline_ids() == [("Catch-bsuite", "dqn")]
    names = ("algorithm", "config", "steps", "eval_return", "eval_episodes", "eval_interval", "command")
    assert {name: getattr(found, name) for name in names} == {name: getattr(shipped, name) for name in names}
    assert {x.dtype for x in jax.tree.leaves(found.params)} == {np.dtype(np.float32)}
    exact, read = (jax.tree.map(lambda x: np.asarray(x, np.float16), x.params) for x in (shipped, found))
    chex.assert_trees_all_equal(exact, read)
    chex.assert_trees_all_equal(shipped.statistics, found.statistics)


def test_a_learner_starts_from_a_baseline(shipped):
    found = training.baseline("Catch-bsuite", "dqn")
    learner = jax.eval_shape(dqn.make_train(found.config).init, jax.random.key(0))
    assert jax.tree.map(lambda x: (x.shape, x.dtype), learner.params) == jax.tree.map(
        lambda x: (x.shape, x.dtype), found.params
    )


def test_the_commands_take_baselines(shipped, capsys):
    argv = ["eval", "baseline:Catch-bsuite", "--episodes", "3", "--seeds", "all"]
    assert len(printed_json(capsys, *argv)["results"]) == 1
    assert "there is none by 'ppo'" in refusal(capsys, "eval", "baseline:Catch-bsuite:ppo")
    argv[1] = "baseline:Catch-bsuite:dqn"
    assert printed_json(capsys, *argv)["algorithm"] == "dqn"
    assert "jaxenv render baseline:Catch-bsuite --out" in refusal(capsys, "watch", "baseline:Catch-bsuite")
    assert "leave out --policy-seed" in refusal(capsys, "eval", "baseline:Catch-bsuite", "--policy-seed", "0")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("Catch-bsute",), r"there is none.* 'Catch-bsute'.*'Catch-bsuite'\? there"),
        (("Catch-bsuite", "ppo"), r"there is none.* 'ppo' for 'Catch-bsuite'; there are Catch-bsuite \(dqn\)"),
    ],
)
def test_an_id_without_a_baseline_is_refused(shipped, given, message):
    with pytest.raises(ValueError, match=f"baseline: {message}"):
        training.baseline(*given)


@pytest.mark.parametrize(("env_id", "algorithm"), training.baseline_ids())
def test_every_file_that_ships_plays_its_environment(env_id, algorithm):
    found = training.baseline(env_id, algorithm)
    env = found.make_env(num_envs=2)

    def play(memory, key):
        return jaxenv.evaluate(env, found.policy, key, initial_memory=memory, max_steps=1)

    assert jax.eval_shape(play, found.make_memory(2), jax.random.key(0)).returns.shape == (2,)
    assert found.config.env_id == env_id
    assert found.eval_interval[0] <= found.eval_return <= found.eval_interval[1]
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(found.params))
