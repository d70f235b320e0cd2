"""Arguments of functions of data, of replay, of transformers and of checkpoints are refused by name."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import data
from jaxenv.data import transformers
from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset
from tests.errors import like

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
    "no values": (lambda: gae(None), "gae: values ...got None"),
    "text for gamma": (lambda: gae(np.zeros((4, 2)), gamma="x"), "gae: gamma ...got 'x'"),
    "list for rows": (
        lambda: data.gae([rows], last, np.zeros((4, 2)), gamma=1, lambda_=1),
        "gae: timestep ...got a list",
    ),
    "experience for the last row": (
        lambda: data.transition_mask(rows.timestep, rows),
        "transition_mask: last ...got Experience",
    ),
    "row for an experience": (
        lambda: data.to_transitions(rows.timestep, last),
        "to_transitions: experience ...got TimeStep",
    ),
    "another dtype": (
        lambda: data.with_last(rows.timestep, dataclasses.replace(last, reward=last.reward.astype(int))),
        "with_last: last.reward ...got int32",
    ),
    "text in the last row": (
        lambda: data.with_last({"angle": jnp.zeros((3, 2))}, {"angle": "x"}),
        "with_last: last.angle ...got 'x'",
    ),
    "no rows": (
        lambda: data.with_last(None, last),
        "with_last: timestep ...got None",
    ),
    "text to shuffle": (
        lambda: data.minibatches(jax.random.key(0), {"angle": "x"}, 2),
        "minibatches: batch.angle ...got 'x'",
    ),
    "key of minibatches": (
        lambda: data.minibatches(3, rows, 3),
        "minibatches: key ...got 3",
    ),
    # --- recorded episodes ---
    "reward that is no number": (
        lambda: data.from_episode(observation, action, with_nan(action)),
        "from_episode: reward ...got nan at (1, 1)",
    ),
    "observation that is no number": (
        lambda: data.from_episode({"arm": with_nan(observation[..., 0])}, action, action),
        "from_episode: observation.arm ...got nan at (1, 1)",
    ),
    "no action": (lambda: data.from_episode(observation, None, action), "from_episode: action ...got None"),
    "reward of text": (lambda: data.from_episode(observation, action, "x"), "from_episode: reward ...got 'x'"),
    "end of text": (
        lambda: data.from_episode(observation, action, action, terminated="yes"),
        "from_episode: terminated ...got 'yes'",
    ),
    # --- replay ---
    "dict for a buffer": (lambda: replay.bytes_per_row({}), "Replay.bytes_per_row: state ...got a"),
    "rows for a buffer": (
        lambda: replay.sample(rows, jax.random.key(0), 2),
        "Replay.sample: state ...got Experience",
    ),
    "key of a sample": (lambda: replay.sample(stored, 3, 2), "Replay.sample: key ...got 3"),
    "lane of text": (lambda: replay.get(stored, "action", "x", [0]), "Replay.get: env_id ...got 'x'"),
    "rows for a batch": (
        lambda: prioritized.update_priorities(prioritized.init(rows), rows, np.ones(2)),
        "Replay.update_priorities: batch ...got Experience",
    ),
    "no priority": (
        lambda: prioritized.update_priorities(prioritized.init(rows), batch, None),
        "Replay.update_priorities: priority ...got None",
    ),
    # --- transformers ---
    "experience to transform": (
        lambda: normalizer.init(rows),
        "RewardNormalizer: timestep ...got Experience",
    ),
    "spec to transform": (
        lambda: normalizer.transform_spec(env.reward_spec()),
        "RewardNormalizer: spec ...got Array",
    ),
    "state of a transformer": (
        lambda: normalizer.transform_timestep({}, timestep),
        "RewardNormalizer: state ...got an empty dict",
    ),
    "rows for a batch of windows": (
        lambda: normalizer.transform_batch(normalizer.init(timestep), rows),
        "RewardNormalizer: batch ...got Experience",
    ),
    "policy": (
        lambda: normalizer.wrap_policy("policy", timestep),
        "RewardNormalizer: policy ...got 'policy'",
    ),
    "axis of a mesh": (
        lambda: transformers.RewardNormalizer(axis_name=3),
        "RewardNormalizer: axis_name ...got 3",
    ),
    # --- checkpoints ---
    "no path": (lambda: data.save(None, {"x": jnp.zeros(2)}), "save: path ...got None"),
    "text to save": (lambda: data.save("run.npz", "x"), "save: state ...got 'x'"),
    "objects to save": (
        lambda: data.save("run.npz", {"x": np.array([object()])}),
        "save: state.x ...got object[1]",
    ),
    "nothing to save": (lambda: data.save("run.npz", None), "save: state ...got None"),
    "number for a path": (lambda: data.restore(3, {"x": jnp.zeros(2)}), "restore: path ...got 3"),
    "text to restore": (lambda: data.restore("run.npz", "x"), "restore: like ...got 'x'"),
    "part of text": (lambda: data.restore("run.npz", {}, partial="yes"), "restore: partial ...got 'yes'"),
    "path of a list": (lambda: data.checkpoint_info(["run"]), "checkpoint_info: path ...got ['run']"),
    "folder of a number": (lambda: data.Checkpointer(3), "Checkpointer: folder ...got 3"),
    "folder that is a file": (
        lambda: data.Checkpointer(__file__),
        rf"Checkpointer: folder ...got {__file__!r}: {__file__} is a file",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_argument_of_another_type_is_refused_by_name(name):
    call, start = CALLS[name]
    with pytest.raises(ValueError, match=f"^{like(start)}"):
        call()


def test_a_checkpoint_that_is_missing_is_named(tmp_path):
    for name, call in {"restore": lambda path: data.restore(path, {}), "checkpoint_info": data.checkpoint_info}.items():
        with pytest.raises(FileNotFoundError, match=rf"{name}: path .*nothing\.npz' cannot be read: No such file"):
            call(tmp_path / "nothing.npz")


def test_traced_episodes_are_allowed():
    made = jax.jit(lambda reward: data.from_episode(observation, action, reward))(with_nan(action))
    assert np.isnan(np.asarray(made.timestep.reward)).sum() == 1
