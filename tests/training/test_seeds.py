"""Runs of several seeds: what a folder holds, and that a killed run resumes as if it had never stopped."""

import csv
import dataclasses
import itertools
import json

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv import data
from jaxenv.training import ppo, seeds
from tests.rows import assert_equal

SHORT = ppo.Config(total_steps=20_480, num_evaluations=4, num_eval_episodes=20)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder and the last `Run` of two seeds that ran without interruption."""
    folder = tmp_path_factory.mktemp("whole")
    *_, run = seeds.train(SHORT, 2, seed=3, folder=folder, threshold=475.0)
    return folder, run


def bits(tree):
    plain = jax.tree.map(lambda x: jax.random.key_data(x) if data.checkpoint._is_key(x) else x, tree)
    return [np.asarray(x).tobytes() for x in jax.tree.leaves(plain)]


def test_every_seed_balances_the_pole_five_times_longer_than_chance(whole):
    best = np.asarray(whole[1].curve.returns).mean(axis=-1).max(axis=0)
    assert (best > 110).all(), best


def test_the_curve_counts_steps_and_episodes(whole):
    learner, curve = jax.device_get((whole[1].learner, whole[1].curve))
    assert curve.steps.tolist() == [[n, n] for n in (5120, 10_240, 15_360, 20_480)]
    assert learner.update.tolist() == [20, 20]
    assert curve.returns.shape == curve.lengths.shape == curve.terminated.shape == (4, 2, 20)
    np.testing.assert_array_equal(curve.returns, curve.lengths)
    # A pole may fall on step 500 itself; then the termination wins over the time limit.
    assert curve.terminated[curve.lengths < 500].all()
    assert (curve.lengths <= 500).all()
    # FIRST rows are no steps, and every episode has one: those of all iterations but the newest row of each lane.
    rows = sum(np.asarray(curve.train[name]).sum(axis=0, dtype=np.int64) for name in ("steps", "episodes"))
    assert (np.abs(rows - 20_480) <= 16).all()


def test_seeds_learn_differently(whole):
    learner, curve = jax.device_get((whole[1].learner, whole[1].curve))
    assert not np.array_equal(curve.returns[:, 0], curve.returns[:, 1])
    for x in jax.tree.leaves(learner.params):
        assert not x.size or not np.array_equal(x[0], x[1])


def test_a_folder_holds_curve_picture_and_config(whole):
    folder, run = whole
    assert sorted(p.name for p in folder.iterdir()) == ["checkpoint.npz", "config.json", "curve.csv", "curve.png"]
    rows = list(csv.DictReader((folder / "curve.csv").read_text().splitlines()))
    assert [(int(row["steps"]), int(row["seed"])) for row in rows] == list(
        itertools.product([5120, 10_240, 15_360, 20_480], [0, 1])
    )
    returns = np.asarray(run.curve.returns)
    np.testing.assert_allclose(
        [float(row["eval_return"]) for row in rows], returns.mean(axis=-1).reshape(-1), rtol=1e-6
    )
    error = returns.std(axis=-1, ddof=1).reshape(-1) / np.sqrt(20)
    np.testing.assert_allclose([float(row["eval_standard_error"]) for row in rows], error, rtol=1e-6)
    assert all(8 < float(row["train_return"]) <= 500 for row in rows)
    assert (folder / "curve.png").read_bytes()[:4] == b"\x89PNG"
    assert json.loads((folder / "config.json").read_text())["num_seeds"] == 2


def test_a_killed_run_resumes_bit_for_bit(whole, tmp_path):
    killed = seeds.train(SHORT, 2, seed=3, folder=tmp_path)
    half = next(itertools.islice(killed, 1, 2))
    assert int(half.iterations) == 2
    assert (half.learner.timestep.step_type == 1).any()  # in the middle of episodes
    killed.close()
    iterations, last = [], half
    for last in seeds.train(SHORT, 2, seed=3, folder=tmp_path, resume=True):
        iterations.append(int(last.iterations))
    assert iterations == [3, 4]
    folder, run = whole
    assert bits(last) == bits(run)
    assert (tmp_path / "curve.csv").read_bytes() == (folder / "curve.csv").read_bytes()


def test_a_complete_run_is_yielded_once_without_training(whole):
    folder, run = whole
    (again,) = seeds.train(SHORT, 2, seed=3, folder=folder, resume=True)
    assert_equal(jax.device_get(again.curve), jax.device_get(run.curve))


def test_the_policy_of_a_folder_is_that_of_its_last_evaluation(whole):
    folder, run = whole
    trained = jaxenv.training.load(folder)
    means = np.asarray(run.curve.returns)[-1].mean(axis=-1)
    assert (trained.seed, trained.steps) == (means.argmax(), 20_480)
    assert trained.eval_return == pytest.approx(means.max())
    expected = jax.tree.map(lambda x: x[trained.seed], run.learner.params)
    assert bits(trained.params) == bits(expected)


def test_a_folder_of_before_algorithms_had_names_resumes(whole, tmp_path):
    folder, _ = whole
    settings = json.loads((folder / "config.json").read_text())
    assert settings.pop("algorithm") == "ppo"
    (tmp_path / "config.json").write_text(json.dumps(settings))
    seeds.train(SHORT, 2, seed=3, folder=tmp_path, resume=True)
    with pytest.raises(ValueError, match="holds a run with learning_rate"):
        seeds.train(dataclasses.replace(SHORT, learning_rate=0.5), 2, seed=3, folder=tmp_path, resume=True)


@pytest.mark.parametrize(
    ("folder", "film_every", "message"),
    [(None, 1, "film_every needs a folder"), ("new", 0, "film_every must be ")],
)
def test_films_need_a_folder_and_a_number(tmp_path, folder, film_every, message):
    with pytest.raises(ValueError, match=f"train: {message}"):
        seeds.train(SHORT, 2, folder=folder and tmp_path / folder, film_every=film_every)


def test_a_folder_with_a_run_is_not_overwritten(whole):
    with pytest.raises(ValueError, match=r"holds a run \(checkpoint.npz\): resume it, or choose another folder"):
        seeds.train(SHORT, 2, seed=3, folder=whole[0])


@pytest.mark.parametrize("text", ["[]", "no JSON"])
def test_a_folder_that_is_not_a_run_is_left_alone(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=r"holds a run \(config.json\)"):
        seeds.train(SHORT, 2, folder=tmp_path)
    with pytest.raises(ValueError, match=r"config\.json is not the config of a run"):
        seeds.train(SHORT, 2, folder=tmp_path, resume=True)
    with pytest.raises(ValueError, match="no environment 'Nope'"):
        seeds.train(ppo.Config(env_id="Nope"), 2, folder=tmp_path / "new")
    assert (tmp_path / "config.json").read_text() == text
    assert not (tmp_path / "new").exists()


def test_an_episode_that_was_cut_off_is_excluded(whole):
    run = jax.device_get(whole[1])
    cut = run.curve.finished.copy()
    cut[0, 0, :5] = False
    cut[0, 1] = False
    first, second = seeds.rows(dataclasses.replace(run, curve=run.curve._replace(finished=cut)))[:2]
    assert first["eval_return"] == pytest.approx(run.curve.returns[0, 0, 5:].mean())
    assert (first["eval_unfinished"], second["eval_unfinished"]) == (5, 20)
    assert second["eval_return"] is second["eval_standard_error"] is second["eval_length"] is None


@pytest.mark.parametrize(("num_seeds", "seed", "name"), [(3, 3, "num_seeds = 2, not 3"), (2, 4, "seed = 3, not 4")])
def test_a_folder_of_another_run_is_not_resumed(whole, num_seeds, seed, name):
    with pytest.raises(ValueError, match=f"holds a run with {name}"):
        seeds.train(SHORT, num_seeds, seed=seed, folder=whole[0], resume=True)


def test_a_checkpoint_copied_from_another_run_is_not_resumed(whole, tmp_path):
    settings = json.loads((whole[0] / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**settings, "learning_rate": 0.5}))
    (tmp_path / "checkpoint.npz").write_bytes((whole[0] / "checkpoint.npz").read_bytes())
    other = dataclasses.replace(SHORT, learning_rate=0.5)
    with pytest.raises(ValueError, match=r"holds a run with learning_rate = 0\.001, not 0\.5"):
        seeds.train(other, 2, seed=3, folder=tmp_path, resume=True)


@pytest.mark.parametrize(("num_seeds", "seed", "name"), [(0, 0, "num_seeds"), (True, 0, "num_seeds"), (1, -1, "seed")])
def test_numbers_out_of_range_are_refused(num_seeds, seed, name):
    with pytest.raises(ValueError, match=f"train: {name} must be "):
        seeds.train(SHORT, num_seeds, seed=seed)
