"""Arguments of functions of data, of replay, of transformers and of checkpoints are refused by name."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import data
from jaxenv.data import transformers
from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset

env = AutoReset(Counting([4, 7], num_envs=2))
policy = jaxenv.rollout.random_policy(env)
replay = data.Replay(capacity=8, num_envs=2)
prioritized = data.Replay(capacity=8, num_envs=2, sampling=data.PrioritizedSampling(0.6))


@jax.jit  # one program
def _made():
    state, timestep = env.reset(jax.random.key(0))
    (_, last, _), rows = jaxenv.unroll(env, policy, state, timestep, 3)
    batch = prioritized.sample(prioritized.add(prioritized.init(rows), rows), jax.random.key(0), 2)
    return timestep, last, rows, replay.add(replay.init(rows), rows), batch


timestep, last, rows, stored, batch = _made()
normalizer = transformers.RewardNormalizer()
observation, action = np.arange(24.0).reshape(4, 2, 3), np.arange(6).reshape(3, 2)


def gae(values, **options):
    return data.gae(rows.timestep, last, values, **({"gamma": 0.9, "lambda_": 0.5} | options))


def with_nan(x):
    x = np.array(x, np.float32)
    x[1, 1] = np.nan
    return x


CALLS = {
    # --- returns, rows and minibatches ---
    "no values": (lambda: gae(None), "gae: values must be a number or an array of numbers, got None"),
    "text for gamma": (lambda: gae(np.zeros((4, 2)), gamma="x"), "gae: gamma must be a number, got 'x'"),
    "list for rows": (
        lambda: data.gae([rows], last, np.zeros((4, 2)), gamma=1, lambda_=1),
        "gae: timestep must be a TimeStep, got a list",
    ),
    "experience for the last row": (
        lambda: data.transition_mask(rows.timestep, rows),
        "transition_mask: last must be a TimeStep, got Experience: pass experience.timestep",
    ),
    "row for an experience": (
        lambda: data.to_transitions(rows.timestep, last),
        "to_transitions: experience must be an Experience as unroll returns it, got TimeStep",
    ),
    "another dtype": (
        lambda: data.with_last(rows.timestep, dataclasses.replace(last, reward=last.reward.astype(int))),
        "with_last: last.reward must be float32, as in the rows, got int32",
    ),
    "text in the last row": (
        lambda: data.with_last({"angle": jnp.zeros((3, 2))}, {"angle": "x"}),
        "with_last: last.angle must be an array of numbers, got 'x'",
    ),
    "no rows": (
        lambda: data.with_last(None, last),
        "with_last: timestep must be a TimeStep or a tree of arrays, got None",
    ),
    "text to shuffle": (
        lambda: data.minibatches(jax.random.key(0), {"angle": "x"}, 2),
        "minibatches: batch.angle must be an array of numbers, got 'x'",
    ),
    "key of minibatches": (
        lambda: data.minibatches(3, rows, 3),
        "minibatches: key must be a typed key from jax.random",
    ),
    # --- recorded episodes ---
    "reward that is no number": (
        lambda: data.from_episode(observation, action, with_nan(action)),
        "from_episode: reward must not be NaN, got nan at (1, 1)",
    ),
    "observation that is no number": (
        lambda: data.from_episode({"arm": with_nan(observation[..., 0])}, action, action),
        "from_episode: observation.arm must not be NaN, got nan at (1, 1)",
    ),
    "no action": (lambda: data.from_episode(observation, None, action), "from_episode: action must hold at least one"),
    "reward of text": (lambda: data.from_episode(observation, action, "x"), "from_episode: reward must be a number or"),
    "end of text": (
        lambda: data.from_episode(observation, action, action, terminated="yes"),
        "from_episode: terminated must be a number or an array of numbers, got 'yes'",
    ),
    # --- replay ---
    "dict for a buffer": (lambda: replay.bytes_per_row({}), "Replay.bytes_per_row: state must be a ReplayState, got a"),
    "rows for a buffer": (
        lambda: replay.sample(rows, jax.random.key(0), 2),
        "Replay.sample: state must be a ReplayState, got Experience",
    ),
    "key of a sample": (lambda: replay.sample(stored, 3, 2), "Replay.sample: key must be a typed key from jax.random"),
    "lane of text": (lambda: replay.get(stored, "action", "x", [0]), "Replay.get: env_id must be a number or an array"),
    "rows for a batch": (
        lambda: prioritized.update_priorities(prioritized.init(rows), rows, np.ones(2)),
        "Replay.update_priorities: batch must be a Batch, got Experience",
    ),
    "no priority": (
        lambda: prioritized.update_priorities(prioritized.init(rows), batch, None),
        "Replay.update_priorities: priority must be a number or an array of numbers, got None",
    ),
    # --- transformers ---
    "experience to transform": (
        lambda: normalizer.init(rows),
        "RewardNormalizer: timestep must be a TimeStep, got Experience: pass experience.timestep",
    ),
    "spec to transform": (
        lambda: normalizer.transform_spec(env.reward_spec()),
        "RewardNormalizer: spec must be a TimeStep, got Array",
    ),
    "state of a transformer": (
        lambda: normalizer.transform_timestep({}, timestep),
        "RewardNormalizer: state must be a Shared, got an empty dict: pass the state of this transformer",
    ),
    "rows for a batch of windows": (
        lambda: normalizer.transform_batch(normalizer.init(timestep), rows),
        "RewardNormalizer: batch must be a Batch, got Experience",
    ),
    "policy": (
        lambda: normalizer.wrap_policy("policy", timestep),
        "RewardNormalizer: policy must be a function of (timestep, stream)",
    ),
    "axis of a mesh": (
        lambda: transformers.RewardNormalizer(axis_name=3),
        "RewardNormalizer: axis_name must be text, got 3",
    ),
    # --- checkpoints ---
    "no path": (lambda: data.save(None, {"x": jnp.zeros(2)}), "save: path must be a path, got None"),
    "text to save": (lambda: data.save("run.npz", "x"), "save: state must be an array of numbers, got 'x'"),
    "objects to save": (
        lambda: data.save("run.npz", {"x": np.array([object()])}),
        "save: state.x must be an array of numbers, got object[1]",
    ),
    "nothing to save": (lambda: data.save("run.npz", None), "save: state must be a tree of arrays, got None"),
    "number for a path": (lambda: data.restore(3, {"x": jnp.zeros(2)}), "restore: path must be a path, got 3"),
    "text to restore": (lambda: data.restore("run.npz", "x"), "restore: like must be an array of numbers, got 'x'"),
    "part of text": (lambda: data.restore("run.npz", {}, partial="yes"), "restore: partial must be True or False, got"),
    "path of a list": (lambda: data.checkpoint_info(["run"]), "checkpoint_info: path must be a path, got ['run']"),
    "folder of a number": (lambda: data.Checkpointer(3), "Checkpointer: folder must be a path, got 3"),
    "folder that is a file": (
        lambda: data.Checkpointer(__file__),
        f"Checkpointer: folder must be a folder, got {__file__!r}: {__file__} is a file",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_argument_of_another_type_is_refused_by_name(name):
    call, start = CALLS[name]
    with pytest.raises(ValueError, match=f"^{re.escape(start)}"):
        call()


def test_a_checkpoint_that_is_missing_is_named(tmp_path):
    for name, call in {"restore": lambda path: data.restore(path, {}), "checkpoint_info": data.checkpoint_info}.items():
        with pytest.raises(FileNotFoundError, match=rf"{name}: path .*nothing\.npz' cannot be read: No such file"):
            call(tmp_path / "nothing.npz")


def test_traced_episodes_are_allowed():
    made = jax.jit(lambda reward: data.from_episode(observation, action, reward))(with_nan(action))
    assert np.isnan(np.asarray(made.timestep.reward)).sum() == 1
