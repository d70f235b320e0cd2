"""Recorded episodes as rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import data
from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset
from tests.rows import assert_equal

FIELDS = ["step_type", "reward", "discount", "observation", "action"]


def test_an_episode_of_an_environment_becomes_the_rows_of_its_unroll():
    env = AutoReset(Counting(np.array([3]), stride=10, num_envs=2))
    state, timestep = env.reset(jax.random.key(0))
    _, rows = jaxenv.unroll(env, lambda t, _: t.observation + 1, state, timestep, 4, fields=FIELDS)
    made = data.from_episode(rows.timestep.observation, rows.action[:3], rows.timestep.reward[1:])
    assert_equal(made.timestep, rows.timestep)
    assert_equal(made.action[:3], rows.action[:3])
    assert not made.action[3].any()
    replay = data.Replay(capacity=8, num_envs=2)
    stored = replay.add(replay.add(replay.init(rows), rows), made)
    assert replay.size(stored) == 8


def test_every_recorded_action_is_one_valid_transition():
    observation = {"place": np.arange(8.0).reshape(4, 2, 1)}
    rows = data.from_episode(observation, np.ones((3, 2), np.int32), np.ones((3, 2, 2)), terminated=[True, False])
    assert rows.timestep.terminated[-1].tolist() == [True, False]
    assert rows.timestep.truncated[-1].tolist() == [False, True]
    last = jax.tree.map(lambda x: x[-1], rows.timestep)
    transitions = data.to_transitions(rows, last)
    assert transitions.valid.tolist() == [[True, True]] * 3 + [[False, False]]
    assert transitions.next_observation["place"][2, :, 0].tolist() == [6, 7]
    assert transitions.discount[2].tolist() == [0, 1]
    assert transitions.reward.shape == (4, 2, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reward": np.zeros((0, 2))}, r"reward .*got \(0, 2\)"),
        ({"reward": np.zeros(3)}, r"reward must be \[T, B\] .*, got \(3,\)"),
        ({"observation": {"x": np.zeros((3, 2))}}, r"observation.x .*got shape \(3, 2\)"),
        ({"action": np.zeros((4, 2))}, r"action .*got shape \(4, 2\)"),
        ({"policy_info": np.zeros(3)}, r"policy_info .*got shape \(3,\)"),
        ({"terminated": 1}, r"terminated .*got int32\[\]"),
        ({"terminated": [True]}, r"terminated .*got bool\[1\]"),
    ],
)
def test_leaves_that_do_not_fit_are_refused(changes, message):
    given = {"observation": jnp.zeros((4, 2)), "action": jnp.zeros((3, 2)), "reward": jnp.zeros((3, 2))}
    with pytest.raises(ValueError, match=f"from_episode: {message}"):
        data.from_episode(**{**given, **changes})
