"""`jaxenv eval`: whole episodes with the policy of a run, of one seed or of all."""

import dataclasses
import re

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv import cli, data
from jaxenv.training import ppo
from tests.cli.commands import printed_json, refusal

CONFIG = ppo.Config(
    env_id="Catch-bsuite",
    total_steps=256,
    num_envs=4,
    num_steps=16,
    num_evaluations=1,
    num_eval_episodes=2,
    hidden=(4,),
)
SETTINGS = {"algorithm": "ppo", **dataclasses.asdict(CONFIG), "num_seeds": 3, "seed": 0}


def write(folder, settings):
    """A run with the initial weights of three seeds; the second one is the best."""
    init = ppo.make_train(CONFIG).init
    learner = jax.jit(jax.vmap(init))(jax.random.split(jax.random.key(0), 3))
    # Some logits, so that the seeds differ.
    params = jax.tree.map(lambda x: x * 30, learner.params)
    curve = {
        "steps": np.array([[256] * 3], np.int32),
        "returns": np.array([[[0, 1], [1, 1], [0, 0]]], np.float32),
        "finished": np.ones((1, 3, 2), bool),
    }
    saved = {"learner": {"params": params, "statistics": ()}, "curve": curve, "iterations": np.int32(1)}
    data.save(folder / "checkpoint.npz", saved, config=settings)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("run"), SETTINGS)


def expected(folder, seed, explore=False):
    """The summary of 8 episodes, one per lane."""
    trained = jaxenv.training.load(folder, seed)
    policy = trained.explore if explore else trained.policy
    env, key = trained.make_env(8), jax.random.key(5)
    episodes = jaxenv.evaluate(env, policy, key, initial_memory=trained.make_memory(8))
    return float(np.mean(episodes.returns)), float(np.mean(episodes.lengths))


def test_all_seeds_play_the_same_whole_episodes(folder, capsys):
    found = printed_json(capsys, "eval", str(folder), "--episodes", "8", "--seed", "5", "--seeds", "all")
    assert (found["id"], found["algorithm"], found["steps"]) == ("Catch-bsuite", "ppo", 256)
    assert [result["seed"] for result in found["results"]] == [0, 1, 2]
    for seed, result in enumerate(found["results"]):
        assert (result["return_mean"], result["length_mean"]) == pytest.approx(expected(folder, seed))
        assert (result["episodes"], result["unfinished"]) == (8, 0)
        assert result["return_low"] <= result["return_mean"] <= result["return_high"]
    assert len({result["return_mean"] for result in found["results"]}) > 1


def test_episodes_that_were_cut_off_are_counted_on_stderr(tmp_path, capsys):
    folder = write(tmp_path, {**SETTINGS, "max_eval_steps": 2})
    for json in ([], ["--json"]):
        assert cli.main(["eval", str(folder), "--episodes", "8", "--seed", "5", *json]) == 0
        assert re.fullmatch(r"jaxenv eval: 8 of 8 episodes of seed 1 .*max_eval_steps.* 2\n", capsys.readouterr().err)


@pytest.mark.parametrize("by", ["option", "run"])
def test_the_best_seed_is_evaluated_and_explores_if_the_option_or_the_run_says_so(folder, tmp_path, capsys, by):
    if by == "run":
        folder, option = write(tmp_path, {**SETTINGS, "eval_explore": True}), []
    else:
        option = ["--explore"]
    assert cli.main(["eval", str(folder), "--episodes", "8", "--seed", "5", *option]) == 0
    title, names, line = capsys.readouterr().out.splitlines()
    assert title == "Catch-bsuite, ppo after 256 steps: 8 episodes, exploring"
    assert names.split("  ")[0].strip() == "seed"
    options = ["--episodes", "8", "--max-episode-steps", "3"]
    assert cli.main(["eval", str(folder), *options]) == 0
    title = capsys.readouterr().out.splitlines()[0]
    assert title.startswith("Catch-bsuite, max_episode_steps=3, ppo after 256 steps: ")
    seed, mean = line.split()[:2]
    assert seed == "1"
    assert float(mean) == pytest.approx(expected(folder, 1, explore=True)[0], abs=1e-4)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("nowhere",), "load: there is no folder 'nowhere', `jaxenv train ID` writes a run to runs/ID"),
        (("runs/nothing",), "load: there is no folder 'runs/nothing', `jaxenv train ID` writes a run to runs/ID"),
        (("RUN", "--policy-seed", "3"), "load: seed must be at least 0 and below 3"),
        (("RUN", "--policy-seed", "1", "--seeds", "all"), "argument --seeds: not allowed with argument --policy-seed"),
        (("RUN", "--seeds", "2"), "argument --seeds: invalid choice: '2'"),
        (("RUN", "--episodes", "0"), "argument --episodes: must be an integer from 1 "),
        (("RUN", "--env", "gravity=1"), "unknown keyword 'gravity'"),
    ],
)
def test_eval_refuses_what_does_not_fit_in_one_line(folder, capsys, argv, message):
    assert message in refusal(capsys, "eval", *(str(folder) if part == "RUN" else part for part in argv))
