"""``--devices``: rollouts play the same episodes, and a run of training resumes on another number of devices."""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import jax
from jaxenv import cli
jax.config.update("jax_disable_most_optimizations", True)
sys.exit(cli.main())
"""


def run(*argv):
    """A command in a process of its own: JAX makes its devices once."""
    line = [sys.executable, "-c", PROGRAM, *argv, "--json"]
    return subprocess.run(line, capture_output=True, text=True, timeout=600)


def printed_json(*argv):
    done = run(*argv)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_rollout_on_two_devices_plays_the_episodes_of_one():
    rollout = ("rollout", "CartPole-v1", "--num-envs", "8", "--num-steps", "40", "--seed", "3")
    one, two = (printed_json(*rollout, "--devices", devices) for devices in ("1", "2"))
    assert (one.pop("devices"), two.pop("devices")) == (1, 2)
    found, expected = ({n: x for n, x in metrics.items() if "second" not in n} for metrics in (two, one))
    assert found.keys() == expected.keys()
    assert found["episodes"] > 8
    for name, x in expected.items():
        assert found[name] == (pytest.approx(x, rel=1e-5) if isinstance(x, float) else x), name


def test_training_shares_the_lanes_over_devices_and_another_number_reads_its_checkpoint(tmp_path):
    pytest.importorskip("orbax.checkpoint", "0.12.4")
    small = "num_envs=4 num_steps=12 num_epochs=1 num_minibatches=1 hidden=4 num_evaluations=2 num_eval_episodes=2"
    train = ("train", "CartPole-v1", "--algo", "ppo", "--no-preset", "--total-steps", "96", "--out", str(tmp_path))
    settings = ("--set", *small.split())
    refused = run(*train, "--devices", "2", *settings, "num_envs=3")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "2 devices must divide num_envs, got 3" in refused.stderr
    trained = printed_json(*train, "--devices", "2", "--checkpoint-format", "orbax", *settings)
    assert [row["steps"] for row in trained["curve"]] == [48, 96]
    assert (tmp_path / "checkpoints" / "2").is_dir()
    assert printed_json(*train, "--resume", *settings)["curve"] == trained["curve"]
