"""Runs of several seeds: what a folder holds, and that a killed run goes on as if nothing had happened."""

import csv
import itertools
import json

import jax
import numpy as np
import pytest

from jaxenv import data
from jaxenv.training import ppo, seeds
from tests.rows import assert_equal

TINY = ppo.Config(
    total_steps=1024, num_envs=8, num_steps=32, num_epochs=2, hidden=(8,), num_evaluations=4, num_eval_episodes=4
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder and the last `Run` of two seeds that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    *_, run = seeds.train(TINY, 2, seed=3, folder=folder, threshold=475.0)
    return folder, run


def bits(tree):
    plain = jax.tree.map(lambda x: jax.random.key_data(x) if data.checkpoint._is_key(x) else x, tree)
    return [np.asarray(x).tobytes() for x in jax.tree.leaves(plain)]


def test_a_folder_holds_curve_picture_and_config(whole):
    folder, run = whole
    assert sorted(p.name for p in folder.iterdir()) == ["checkpoint.npz", "config.json", "curve.csv", "curve.png"]
    rows = list(csv.DictReader((folder / "curve.csv").read_text().splitlines()))
    assert [(int(row["steps"]), int(row["seed"])) for row in rows] == list(
        itertools.product([256, 512, 768, 1024], [0, 1])
    )
    returns = np.asarray(run.curve.returns)
    np.testing.assert_allclose(
        [float(row["eval_return"]) for row in rows], returns.mean(axis=-1).reshape(-1), rtol=1e-6
    )
    error = returns.std(axis=-1, ddof=1).reshape(-1) / 2
    np.testing.assert_allclose([float(row["eval_standard_error"]) for row in rows], error, rtol=1e-6)
    assert all(8 < float(row["train_return"]) < 100 for row in rows if row["train_return"])
    assert (folder / "curve.png").read_bytes()[:4] == b"\x89PNG"
    assert json.loads((folder / "config.json").read_text())["num_seeds"] == 2


def test_a_run_that_was_killed_in_the_middle_goes_on_bit_for_bit(whole, tmp_path):
    killed = seeds.train(TINY, 2, seed=3, folder=tmp_path)
    half = next(itertools.islice(killed, 1, 2))
    assert int(half.legs) == 2
    assert (half.learner.timestep.step_type == 1).any()  # in the middle of episodes
    killed.close()
    legs, last = [], half
    for last in seeds.train(TINY, 2, seed=3, folder=tmp_path, resume=True):
        legs.append(int(last.legs))
    assert legs == [3, 4]
    folder, run = whole
    assert bits(last) == bits(run)
    assert (tmp_path / "curve.csv").read_bytes() == (folder / "curve.csv").read_bytes()


def test_a_complete_run_is_given_as_it_is(whole):
    folder, run = whole
    (again,) = seeds.train(TINY, 2, seed=3, folder=folder, resume=True)
    assert_equal(jax.device_get(again.curve), jax.device_get(run.curve))


def test_a_folder_with_a_run_is_not_overwritten(whole):
    with pytest.raises(ValueError, match="holds a run: resume it, or take another folder"):
        next(seeds.train(TINY, 2, seed=3, folder=whole[0]))


@pytest.mark.parametrize(("num_seeds", "seed", "name"), [(3, 3, "num_seeds = 2, not 3"), (2, 4, "seed = 3, not 4")])
def test_another_run_does_not_go_on_from_a_folder(whole, num_seeds, seed, name):
    with pytest.raises(ValueError, match=f"holds a run with {name}"):
        next(seeds.train(TINY, num_seeds, seed=seed, folder=whole[0], resume=True))
