"""Runs of several seeds: what a folder holds, and that a run that was stopped resumes as if it never had."""

import contextlib
import csv
import dataclasses
import errno
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import data
from jaxenv.data import _index
from jaxenv.training import ppo, seeds
from tests.rows import assert_equal
from tests.training import drift

pytestmark = pytest.mark.usefixtures("drifting")

SHORT = drift.Config()
# Two updates of 4 lanes: the smallest run that stops in the middle of episodes.
PPO = ppo.Config(
    total_steps=96, num_envs=4, num_steps=12, num_epochs=1, hidden=(4,), num_evaluations=2, num_eval_episodes=2
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, drifting):
    """The folder and the last `Run` of two seeds that ran without interruption."""
    folder = tmp_path_factory.mktemp("whole")
    *_, run = seeds.train(SHORT, 2, seed=3, folder=folder, threshold=475.0)
    return folder, run


@pytest.fixture
def undrawn(monkeypatch):
    """No pictures: they take longer than the runs."""
    monkeypatch.setattr(seeds, "draw_curve", lambda path, *_: path.touch())


def bits(tree):
    plain = jax.tree.map(lambda x: jax.random.key_data(x) if _index.is_key(x) else x, tree)
    return [np.asarray(x).tobytes() for x in jax.tree.leaves(plain)]


# --- a whole run -----------------------------------------------------------------------------------------------------


def test_a_folder_holds_curve_picture_and_config(whole):
    folder, run = whole
    assert sorted(p.name for p in folder.iterdir()) == ["checkpoint.npz", "config.json", "curve.csv", "curve.png"]
    rows = list(csv.DictReader((folder / "curve.csv").read_text().splitlines()))
    assert [(int(row["steps"]), int(row["seed"])) for row in rows] == list(
        itertools.product([100, 200, 300, 400], [0, 1])
    )
    returns = np.asarray(run.curve.returns)
    np.testing.assert_allclose(
        [float(row["eval_return"]) for row in rows], returns.mean(axis=-1).reshape(-1), rtol=1e-6
    )
    error = returns.std(axis=-1, ddof=1).reshape(-1) / np.sqrt(3)
    np.testing.assert_allclose([float(row["eval_standard_error"]) for row in rows], error, rtol=1e-6)
    assert [row["train_return"] == "" for row in rows] == [True] * 2 + [False] * 6
    assert (folder / "curve.png").read_bytes()[:4] == b"\x89PNG"
    config = json.loads((folder / "config.json").read_text())
    assert (config["algorithm"], config["num_seeds"], config["sizes"]) == ("drift", 2, [1])


def test_the_losses_of_the_learner_are_columns_under_their_names(whole):
    rows = list(csv.DictReader((whole[0] / "curve.csv").read_text().splitlines()))
    assert list(rows[0])[-2:] == ["error", "surprise"]
    losses = whole[1].curve.losses
    np.testing.assert_allclose([float(row["surprise"]) for row in rows], np.asarray(losses.surprise).reshape(-1))


def test_seeds_learn_differently(whole):
    for x in jax.tree.leaves(jax.device_get(whole[1].learner.params)):
        assert x[0] != x[1]


def test_an_episode_that_was_cut_off_is_excluded(whole):
    run = jax.device_get(whole[1])
    cut = run.curve.finished.copy()
    cut[0, 0, :2] = False
    cut[0, 1] = False
    first, second = seeds.rows(dataclasses.replace(run, curve=dataclasses.replace(run.curve, finished=cut)))[:2]
    assert first["eval_return"] == pytest.approx(run.curve.returns[0, 0, 2:].mean())
    assert (first["eval_unfinished"], second["eval_unfinished"]) == (2, 3)
    assert second["eval_return"] is second["eval_standard_error"] is second["eval_length"] is None


def test_evaluations_still_to_come_cannot_be_read_as_data():
    with jax.debug_nans(True):
        run = next(seeds.train(SHORT, 2, seed=3))
    played, coming = jax.tree.map(lambda x: x[:1], run.curve), jax.tree.map(lambda x: x[1:], run.curve)
    assert np.isfinite(played.returns).all()
    assert np.isnan(coming.returns).all()
    assert np.isnan(coming.losses.error).all()
    assert (coming.steps == -1).all()
    assert (coming.lengths == -1).all()
    assert not coming.finished.any()
    assert len(seeds.rows(run)) == 2


def test_evaluated_episodes_that_were_cut_off_are_counted_in_a_warning():
    config = dataclasses.replace(SHORT, cut=True)
    with pytest.warns(UserWarning, match=r"^train: 2 of 6 episodes of evaluation 1 of 4 were cut off"):
        next(seeds.train(config, 2, seed=3))


def test_the_policy_of_a_folder_is_that_of_its_last_evaluation(whole):
    folder, run = whole
    trained = jaxenv.training.load(folder)
    means = np.asarray(run.curve.returns)[-1].mean(axis=-1)
    assert (trained.algorithm, trained.num_seeds, trained.config) == ("drift", 2, SHORT)
    assert (trained.seed, trained.steps) == (means.argmax(), 400)
    assert trained.eval_return == pytest.approx(means.max())
    expected = jax.tree.map(lambda x: x[trained.seed], run.learner.params)
    assert bits(trained.params) == bits(expected)


# --- resuming --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def remembering(tmp_path_factory):
    """The folder of a run of PPO, the stopped folder from which it was resumed, and the last `Run` of each.

    The memory is a tree, and the run stops in the middle of episodes.
    """
    config = dataclasses.replace(PPO, recurrent=4, cell="gtrxl", num_heads=2, window=5)
    whole, stopped = (tmp_path_factory.mktemp("remembering") / name for name in ("whole", "stopped"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seeds, "draw_curve", lambda path, *_: path.touch())
        runs = seeds.train(config, 2, seed=3, folder=whole)
        learner = next(runs).learner
        assert (learner.timestep.step_type == 1).any()
        assert learner.memory.known.any()
        shutil.copytree(whole, stopped)
        (last,) = runs
        (resumed,) = seeds.train(config, 2, seed=3, folder=stopped, resume=True)
    return whole, stopped, last, resumed


def test_a_run_of_ppo_with_a_memory_resumes_in_the_middle_of_episodes_bit_for_bit(remembering):
    whole, stopped, last, resumed = remembering
    assert bits(resumed) == bits(last)
    assert (whole / "curve.csv").read_bytes() == (stopped / "curve.csv").read_bytes()


def test_a_policy_whose_memory_is_a_tree_is_loaded_and_acts_in_any_number_of_lanes(remembering):
    trained = jaxenv.training.load(remembering[0])
    assert (trained.config.cell, trained.config.window) == ("gtrxl", 5)
    env, memory = trained.make_env(3), trained.make_memory(3)
    assert jaxenv.evaluate(env, trained.policy, jax.random.key(0), initial_memory=memory).finished.all()


class Killed(BaseException):
    """The end of a process, which nothing catches."""


def test_a_run_that_is_killed_before_any_of_its_files_is_moved_resumes_bit_for_bit(undrawn, tmp_path, monkeypatch):
    config, replace = dataclasses.replace(SHORT, num_evaluations=2), os.replace
    *_, expected = seeds.train(config, 2, seed=3, folder=tmp_path / "whole")
    for last in itertools.count(1):
        folder, moves = tmp_path / str(last), itertools.count(1)

        def killed(source, target, folder=folder, moves=moves, last=last):
            if target.parent == folder and next(moves) == last:
                raise Killed
            replace(source, target)

        monkeypatch.setattr(os, "replace", killed)
        try:
            for _ in seeds.train(config, 2, seed=3, folder=folder):
                pass
            break
        except Killed:
            monkeypatch.setattr(os, "replace", replace)
        *_, run = seeds.train(config, 2, seed=3, folder=folder, resume=True)
        assert bits(run) == bits(expected)
        assert (folder / "curve.csv").read_bytes() == (tmp_path / "whole" / "curve.csv").read_bytes()
    assert last == 6  # the config, and curve and checkpoint of two evaluations were not moved


@pytest.mark.thorough
def test_a_process_that_is_killed_at_any_moment_leaves_a_folder_that_resumes_bit_for_bit(whole, undrawn, tmp_path):
    config = dataclasses.replace(SHORT, total_steps=4000, num_evaluations=40)
    *_, expected = seeds.train(config, 2, seed=3)
    code = f"""
import jax
jax.config.update("jax_disable_most_optimizations", {jax.config.read("jax_disable_most_optimizations")})
from jaxenv.training import seeds
from tests.training import drift
seeds.draw_curve = lambda path, *_: path.touch()
config = drift.Config(total_steps=4000, num_evaluations=40)
with drift.registered():
    for run in seeds.train(config, 2, seed=3, folder={str(tmp_path)!r}, resume=True):
        pass
"""
    for delay in (0.0, 0.02, 0.05, 0.11, 0.17):
        before = iterations(tmp_path)
        child = subprocess.Popen([sys.executable, "-c", code])
        while child.poll() is None and iterations(tmp_path) == before:
            time.sleep(0.001)
        time.sleep(delay)
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert iterations(tmp_path) > before or child.returncode == 0
    *_, run = seeds.train(config, 2, seed=3, folder=tmp_path, resume=True)
    assert bits(run) == bits(expected)


def iterations(folder):
    path = folder / "checkpoint.npz"
    return int(data.restore(path, {"iterations": np.int32(0)}, partial=True)["iterations"]) if path.exists() else 0


def test_a_complete_run_is_yielded_once_without_training(whole):
    folder, run = whole
    (again,) = seeds.train(SHORT, 2, seed=3, folder=folder, resume=True)
    assert_equal(jax.device_get(again.curve), jax.device_get(run.curve))


def test_checkpoints_are_as_rare_as_asked_and_the_last_one_is_written(undrawn, tmp_path):
    runs = seeds.train(SHORT, 2, folder=tmp_path, checkpoint_every=3)
    held = [iterations(tmp_path) for _ in runs]
    assert held == [0, 0, 3, 4]


def test_sequential_seeds_are_those_of_a_batch_without_vmap(whole):
    """Without ``vmap`` a branch is taken by the seeds that need it, and by no other."""
    *_, run = seeds.train(SHORT, 2, seed=3, sequential=True)
    np.testing.assert_allclose(run.curve.returns, whole[1].curve.returns, rtol=1e-6)

    def branch(x):
        jax.debug.callback(lambda x: taken.append(float(x)), x)
        return x

    taken = []
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("seeds", "lanes"))
    step = seeds._over_seeds(lambda x: jax.lax.cond(x == 1, branch, jnp.cos, x), 3, mesh, sequential=True)
    step(jnp.arange(3.0))
    jax.effects_barrier()
    assert taken == [1]


# --- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("nan_in", "named"), [("loss", "loss error"), ("weight", "loss error, weights now")])
def test_a_seed_that_is_not_finite_ends_the_run_and_leaves_the_evaluations_before_it(undrawn, tmp_path, nan_in, named):
    config = dataclasses.replace(SHORT, nan_at=3, nan_in=nan_in)
    runs = seeds.train(config, 4, seed=11, folder=tmp_path)
    for _ in range(2):
        unlucky = drift.unlucky(next(runs).learner.params).tolist()
    assert unlucky == [False, True, True, False]
    with pytest.raises(FloatingPointError, match=rf"^train: seed 1 of 4 .*evaluation 3 of 4: {named}$"):
        next(runs)
    assert iterations(tmp_path) == 2
    assert len((tmp_path / "curve.csv").read_text().splitlines()) == 1 + 2 * 4


@pytest.mark.parametrize("name", ["curve.csv", "checkpoint.npz"])
def test_a_full_disk_leaves_the_last_checkpoint(whole, undrawn, tmp_path, monkeypatch, name):
    runs, replace = seeds.train(SHORT, 2, seed=3, folder=tmp_path), os.replace

    def full(source, target):
        if target == tmp_path / name:
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    next(runs)
    monkeypatch.setattr(os, "replace", full)
    rule = "evaluation 2 of 4 cannot be saved, the last checkpoint in .* is unchanged: .*No space left on device"
    with pytest.raises(OSError, match=rule) as error:
        next(runs)
    assert error.value.errno == errno.ENOSPC
    assert iterations(tmp_path) == 1
    assert not list(tmp_path.glob(".*"))
    monkeypatch.setattr(os, "replace", replace)
    *_, run = seeds.train(SHORT, 2, seed=3, folder=tmp_path, resume=True)
    assert bits(run) == bits(whole[1])


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("folder", "film_every", "message"),
    [(None, 1, "film_every needs a folder"), ("new", 0, "film_every must be ")],
)
def test_films_need_a_folder_and_a_number(tmp_path, folder, film_every, message):
    with pytest.raises(ValueError, match=f"train: {message}"):
        seeds.train(SHORT, 2, folder=folder and tmp_path / folder, film_every=film_every)


def test_a_folder_with_a_run_is_not_overwritten(whole):
    with pytest.raises(ValueError, match=r"holds a run \(checkpoint.npz\): resume"):
        seeds.train(SHORT, 2, seed=3, folder=whole[0])


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_has_one_run_at_a_time(whole, undrawn, tmp_path, resume):
    first, second = (seeds.train(SHORT, 2, seed=3, folder=tmp_path, resume=resume) for _ in range(2))
    next(first)
    rule = r"^train: .* is in use by this process itself, \d+ on .*: close its other user first$"
    with pytest.raises(ValueError, match=rule):
        next(second)  # both were accepted, since neither had started
    with pytest.raises(ValueError, match=rule):
        seeds.train(SHORT, 2, seed=3, folder=tmp_path, resume=resume)
    *_, run = first
    assert bits(run) == bits(whole[1])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in whole[0].iterdir())


def test_a_run_that_starts_after_another_has_ended_checks_the_folder_again(whole, undrawn, tmp_path):
    first, second = (seeds.train(SHORT, 2, seed=3, folder=tmp_path) for _ in range(2))
    for _ in first:
        pass
    with pytest.raises(ValueError, match=r"holds a run \(checkpoint\.npz\): resume"):
        next(second)
    assert bits(list(seeds.train(SHORT, 2, seed=3, folder=tmp_path, resume=True))[-1]) == bits(whole[1])


def test_a_run_that_is_refused_leaves_the_config_of_the_other(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with locked_by_another_process(tmp_path):
        seeds.forget(tmp_path)
        assert (tmp_path / "config.json").exists()
    seeds.forget(tmp_path)
    assert not tmp_path.exists()


@contextlib.contextmanager
def locked_by_another_process(folder):
    """Yields the process."""
    code = f"""
import pathlib, sys
from jaxenv._util import files
lock = files.FolderLock("train", pathlib.Path({str(folder)!r}))
print("locked", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout.readline() == "locked\n"
            yield child
        finally:
            child.kill()


@pytest.mark.parametrize("text", ["[]", "no JSON"])
def test_a_folder_that_is_not_a_run_is_left_alone(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=r"holds a run \(config.json\)"):
        seeds.train(SHORT, 2, folder=tmp_path)
    with pytest.raises(ValueError, match=r"config\.json is not the.*|without the setting 'algorithm'"):
        seeds.train(SHORT, 2, folder=tmp_path, resume=True)
    assert (tmp_path / "config.json").read_text() == text


def test_a_run_that_is_refused_writes_nothing(tmp_path):
    with pytest.raises(ValueError, match="no environment 'Nope'"):
        seeds.train(ppo.Config(env_id="Nope"), 2, folder=tmp_path / "new")
    seeds.train(SHORT, 2, folder=tmp_path / "new")  # not until the first iteration
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("stored", "difference"),
    [
        ({"algorithm": None}, "without the setting 'algorithm'"),
        ({"temperature": 1.0}, "with the setting 'temperature'"),
    ],
)
def test_a_folder_of_another_version_is_not_resumed(whole, tmp_path, stored, difference):
    settings = {**json.loads((whole[0] / "config.json").read_text()), **stored}
    kept = {name: value for name, value in settings.items() if value is not None or name not in stored}
    (tmp_path / "config.json").write_text(json.dumps(kept))
    with pytest.raises(ValueError, match=rf"run of another version.*, {difference}"):
        seeds.train(SHORT, 2, seed=3, folder=tmp_path, resume=True)


@pytest.mark.parametrize(("num_seeds", "seed", "name"), [(3, 3, "num_seeds = 2, not 3"), (2, 4, "seed = 3, not 4")])
def test_a_folder_of_another_run_is_not_resumed(whole, num_seeds, seed, name):
    with pytest.raises(ValueError, match=f"holds a run with {name}"):
        seeds.train(SHORT, num_seeds, seed=seed, folder=whole[0], resume=True)


def test_a_folder_of_another_learner_is_not_resumed(whole):
    with pytest.raises(ValueError, match=r"holds a run.* = 'drift', not 'ppo'"):
        seeds.train(PPO, 2, seed=3, folder=whole[0], resume=True)


def test_a_checkpoint_copied_from_another_run_is_not_resumed(whole, tmp_path):
    settings = json.loads((whole[0] / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**settings, "learning_rate": 0.5}))
    (tmp_path / "checkpoint.npz").write_bytes((whole[0] / "checkpoint.npz").read_bytes())
    other = dataclasses.replace(SHORT, learning_rate=0.5)
    with pytest.raises(ValueError, match=r"holds a run.* learning_rate = 0\.001, not 0\.5"):
        seeds.train(other, 2, seed=3, folder=tmp_path, resume=True)


@pytest.mark.parametrize(("num_seeds", "seed", "name"), [(0, 0, "num_seeds"), (True, 0, "num_seeds"), (1, -1, "seed")])
def test_numbers_out_of_range_are_refused(num_seeds, seed, name):
    with pytest.raises(ValueError, match=f"train: {name} must be "):
        seeds.train(SHORT, num_seeds, seed=seed)


def test_a_config_of_no_learner_is_refused():
    with pytest.raises(ValueError, match=r"train: config .*got 'ppo'"):
        seeds.train("ppo", 2)


# --- several devices -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("devices", "message"),
    [(0, r"devices .*got 0"), (64, r"devices .*got 64")],
)
def test_devices_that_do_not_exist_are_refused(devices, message):
    with pytest.raises(ValueError, match=f"train: {message}"):
        seeds.train(SHORT, 64, devices=devices)


def test_two_devices_share_the_seeds_and_resume_what_they_have_saved(tmp_path):
    code = f"""
import dataclasses
import jax
import jax.numpy as jnp
jax.config.update("jax_num_cpu_devices", 2)
from jaxenv.training import ppo, seeds
seeds.draw_curve = lambda path, *_: path.touch()
config = ppo.{PPO!r}
*_, one = seeds.train(config, 2)
returns = jax.device_get(one.curve.returns)
*_, two = seeds.train(config, 4, devices=2, sequential=True)
assert len(two.curve.returns.sharding.device_set) == 2, two.curve.returns.sharding
assert len(set(jax.device_get(two.learner.params["params"]["critic"]["Dense_0"]["kernel"][:, 0, 0]).tolist())) == 4
next(seeds.train(config, 2, folder={str(tmp_path)!r}, devices=2))
*_, run = seeds.train(config, 2, folder={str(tmp_path)!r}, devices=2, resume=True)
assert len(run.curve.returns.sharding.device_set) == 2, run.curve.returns.sharding
assert len(jax.tree.leaves(run.learner.params)[0].sharding.device_set) == 2
assert abs(returns[0] - jax.device_get(run.curve.returns)[0]).max() < 1e-3  # before the first rounding matters
for options in {{"sequential": True}}, {{}}:
    try:
        seeds.train(dataclasses.replace(config, num_envs=3), 3, devices=2, **options)
    except ValueError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines() == [
        "train: sequential seeds need a number of devices that divides num_seeds, got 2 devices for 3 seeds",
        "ppo.Config: 2 devices must divide num_envs, got 3",
    ], done.stderr
