"""Runs with checkpoints of Orbax: resumed like those of one file, by the format that the folder holds."""

import dataclasses
import errno
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv import data
from jaxenv.training import _checkpoints, seeds
from tests.packages import imported
from tests.rows import assert_equal
from tests.training import drift
from tests.training.test_seeds import PPO, bits, undrawn  # noqa: F401

pytestmark = pytest.mark.usefixtures("drifting", "undrawn")

SHORT = drift.Config()


@pytest.fixture(autouse=True)
def _orbax():
    imported("orbax.checkpoint", "0.12.4")


def train(folder, config=SHORT, **options):
    return seeds.train(config, 2, seed=3, folder=folder, **options)


@pytest.fixture
def whole(tmp_path):
    """The folder and the last `Run` of two seeds that ran without interruption."""
    *_, run = train(tmp_path / "whole", checkpoint_format="orbax")
    return tmp_path / "whole", run


def iterations(folder):
    return int(data.restore(folder / "checkpoints", {"iterations": np.int32(0)}, partial=True)["iterations"])


def test_a_run_that_was_stopped_resumes_bit_for_bit_in_the_format_of_its_folder(whole, tmp_path):
    runs = train(tmp_path / "stopped", checkpoint_format="orbax")
    next(runs)
    next(runs)
    runs.close()
    assert iterations(tmp_path / "stopped") == 2
    *_, run = train(tmp_path / "stopped", resume=True)
    assert bits(run) == bits(whole[1])
    names = ["checkpoints", "config.json", "curve.csv", "curve.png"]
    assert sorted(path.name for path in (tmp_path / "stopped").iterdir()) == names
    assert [path.name for path in (tmp_path / "stopped" / "checkpoints").iterdir()] == ["4"]
    assert _checkpoints.version(tmp_path / "stopped") == 4
    curves = [(folder / "curve.csv").read_bytes() for folder in (whole[0], tmp_path / "stopped")]
    assert curves[0] == curves[1]


def test_a_checkpoint_that_was_cut_short_is_followed_from_the_one_before(whole, tmp_path):
    runs = train(tmp_path / "stopped", checkpoint_format="orbax")
    next(runs)
    runs.close()
    checkpoints = tmp_path / "stopped" / "checkpoints"
    shutil.copytree(whole[0] / "checkpoints" / "4", checkpoints / "2")
    (checkpoints / "2" / "commit_success.txt").unlink()
    resumed = [run.iterations.item() for run in train(tmp_path / "stopped", resume=True)]
    assert resumed == [2, 3, 4]
    (checkpoints / "4" / "commit_success.txt").unlink()  # the only one: the run starts again
    resumed = [run.iterations.item() for run in train(tmp_path / "stopped", resume=True)]
    assert resumed == [1, 2, 3, 4]


def test_the_policy_is_loaded_and_the_complete_run_yielded(whole):
    folder, run = whole
    trained = jaxenv.training.load(folder, seed=1)
    assert bits(trained.params) == bits(jax.tree.map(lambda x: x[1], run.learner.params))
    (again,) = train(folder, resume=True)
    assert_equal(jax.device_get(again.curve), jax.device_get(run.curve))


def test_another_config_or_format_is_refused(whole, tmp_path):
    folder, _ = whole
    with pytest.raises(ValueError, match=r"holds a run \(checkpoints\): resume"):
        train(folder)
    with pytest.raises(ValueError, match=r"holds a run.* learning_rate = 0\.001, not 0\.5"):
        train(folder, dataclasses.replace(SHORT, learning_rate=0.5), resume=True)
    with pytest.raises(ValueError, match=r"holds checkpoints of.* 'orbax', not 'npz'"):
        train(folder, resume=True, checkpoint_format="npz")
    next(train(tmp_path / "npz"))
    with pytest.raises(ValueError, match=r"holds checkpoints of.* 'npz', not 'orbax'"):
        train(tmp_path / "npz", resume=True, checkpoint_format="orbax")
    with pytest.raises(ValueError, match=r"checkpoint_format .*got 'zip'"):
        train(tmp_path / "new", checkpoint_format="zip")


def test_checkpoints_are_as_rare_as_asked_and_the_last_one_is_complete(tmp_path):
    runs = train(tmp_path, checkpoint_format="orbax", checkpoint_every=3)
    numbers = []
    for run in runs:
        if int(run.iterations) == 4:
            numbers.append(iterations(tmp_path))  # before the generator ends
    assert numbers == [4]


def test_a_checkpoint_that_cannot_be_written_ends_the_run_and_leaves_the_one_before(tmp_path, monkeypatch):
    runs, wait = train(tmp_path, checkpoint_format="orbax"), data.Checkpointer.wait

    def full(self):
        wait(self)
        monkeypatch.undo()
        raise OSError(errno.ENOSPC, "No space left on device")

    next(runs)
    monkeypatch.setattr(data.Checkpointer, "wait", full)
    rule = "evaluation 2 of 4 cannot be saved, the last checkpoint in .* is unchanged: .*No space left on device"
    with pytest.raises(OSError, match=rule) as error:
        next(runs)
    assert error.value.errno == errno.ENOSPC
    assert iterations(tmp_path) == 1


def test_a_run_on_four_devices_is_restored_onto_two(tmp_path):
    code = f"""
import dataclasses
import jax
jax.config.update("jax_num_cpu_devices", 4)
jax.config.update("jax_disable_most_optimizations", True)
from jaxenv.training import ppo, seeds
from tests.training.test_seeds import bits
seeds.draw_curve = lambda path, *_: path.touch()
config = dataclasses.replace(ppo.{PPO!r}, num_eval_episodes=4)
run = dict(config=config, num_seeds=1, folder={str(tmp_path)!r})
*_, trained = seeds.train(**run, devices=4, checkpoint_format="orbax")
(restored,) = seeds.train(**run, devices=2, resume=True)
assert bits(restored) == bits(trained)
print(len(restored.learner.timestep.env_id.sharding.device_set))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout == "2\n", done.stderr
