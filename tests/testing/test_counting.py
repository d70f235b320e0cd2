"""`Counting` and `count_to_two`: scripted episode lengths."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.testing import Counting, count_to_two
from jaxenv.wrappers import AutoReset
from tests.rows import unrolled

FIRST, MID, LAST = 0, 1, 2


def repeat_action(env, num_steps, action):
    """Rows of a rollout that repeats one action in every lane."""
    return unrolled(env, jnp.full((num_steps, env.num_envs), action, jnp.int32))


def test_every_lane_and_episode_has_its_scripted_length():
    rows = repeat_action(AutoReset(Counting(np.array([[2, 1], [3, 3]]), stride=10, num_envs=2)), 7, 4)
    assert rows.observation[:, 0].tolist() == [0, 1, 2, 10, 11, 20, 21, 22]
    assert rows.step_type[:, 0].tolist() == [FIRST, MID, LAST, FIRST, LAST, FIRST, MID, LAST]
    assert rows.observation[:, 1].tolist() == [0, 1, 2, 3, 10, 11, 12, 13]
    assert rows.step_type[:, 1].tolist() == [FIRST, MID, MID, LAST, FIRST, MID, MID, LAST]
    assert rows.terminated.tolist() == rows.is_last().tolist()


def test_all_lanes_may_share_their_lengths():
    rows = repeat_action(AutoReset(Counting(np.array([1, 2]), num_envs=2)), 4, 0)
    assert rows.step_type.T.tolist() == [[FIRST, LAST, FIRST, MID, LAST]] * 2


def test_an_episode_of_length_0_never_ends():
    rows = repeat_action(Counting(np.array([0]), num_envs=1), 5, 0)
    assert rows.step_type[:, 0].tolist() == [FIRST, MID, MID, MID, MID, MID]


@pytest.mark.parametrize(("pays", "rewards"), [("action", [0, 4, 4, 4]), ("end", [0, 0, 0, 1])])
def test_the_reward_is_the_action_or_marks_the_end(pays, rewards):
    rows = repeat_action(Counting(np.array([3]), pays=pays), 3, 4)
    assert rows.reward[:, 0].tolist() == rewards
    assert rows.reward.dtype == np.float32


@pytest.mark.parametrize(("shows", "pair"), [("tuple", (0, 1)), ("dict", ("episode", "step"))])
def test_episode_and_step_may_be_shown_separately(shows, pair):
    env = AutoReset(Counting(np.array([2, 1]), stride=10, shows=shows))
    rows = repeat_action(env, 4, 0)
    assert [rows.observation[part][:, 0].tolist() for part in pair] == [[0, 0, 0, 1, 1], [0, 1, 2, 0, 1]]
    jaxenv.specs.validate(env.observation_spec(), rows.observation, (5, 1))


def test_each_lane_is_paid_its_own_action():
    rows = unrolled(Counting(np.array([0]), num_envs=3), jnp.array([[1, 2, 3], [9, 0, 5]]))
    assert rows.reward.tolist() == [[0, 0, 0], [1, 2, 3], [9, 0, 5]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Counting(np.array([2]), pays="never"), r"Counting: pays .*got 'never'"),
        (lambda: Counting(np.array([2.5])), "lengths must be int32"),
        (lambda: Counting([]), r"lengths .*got none"),
        (lambda: Counting(3), r"lengths .*got shape \(\)"),
    ],
)
def test_invalid_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_count_to_two_observes_0_1_2_and_pays_at_the_end():
    rows = repeat_action(AutoReset(count_to_two(num_envs=2)), 8, 7)
    for lane in range(2):
        assert rows.step_type[:, lane].tolist() == [FIRST, MID, LAST] * 3
        assert rows.observation[:, lane].tolist() == [0, 1, 2] * 3
        assert rows.reward[:, lane].tolist() == [0, 0, 1] * 3
        assert rows.discount[:, lane].tolist() == [1, 1, 0] * 3


def test_the_package_exports_it():
    assert jaxenv.testing.Counting is Counting
