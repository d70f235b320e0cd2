"""ActionRepeat and MaxAndSkip: sums, ends between repeats, frame counts, and the maximum of two frames."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import specs, tree
from jaxenv.core.wrapper import Wrapper
from jaxenv.testing import Counting
from jaxenv.wrappers import (
    ActionRepeat,
    AutoReset,
    BatchWrapper,
    MaxAndSkip,
    ObservationWrapper,
    RewardWrapper,
    TimeLimit,
)
from tests.rows import assert_equal, unrolled

FIRST, MID, LAST = 0, 1, 2


def counting(lengths=((2,), (9,), (9,)), lanes=3, **kwargs):
    return Counting(np.array(lengths), stride=10, num_envs=lanes, **kwargs)


def frames(rows):
    return rows.env_info["num_env_frames"].tolist()


class Priced(Counting):
    """Pays ``prices[step]``."""

    prices: Any = tree.leaf(rank=1, kw_only=True)

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        return dataclasses.replace(out, reward=self.prices[out.state.step])


class Halved(Wrapper):
    """Multiplies discounts by 0.5."""

    owns = frozenset({"discount"})

    def proceed(self, state, action):
        state, timestep = self.env.proceed(state, action)
        return state, dataclasses.replace(timestep, discount=timestep.discount * np.float32(0.5))


class Negative(ObservationWrapper):
    """Shows the negated count, so that the earlier of two frames is the larger."""

    def observation(self, observation):
        return -observation


def test_three_repeats_pay_rewards_2_3_5_7_as_10_and_7():
    env = ActionRepeat(Priced(np.array([4]), prices=np.array([0, 2, 3, 5, 7])), 3)
    rows = unrolled(AutoReset(env), jnp.zeros((3, 1), jnp.int32))
    assert rows.step_type[:, 0].tolist() == [FIRST, MID, LAST, FIRST]
    assert rows.reward[:, 0].tolist() == [0, 10, 7, 0]
    assert rows.discount[:, 0].tolist() == [1, 1, 0, 1]
    assert rows.observation[:, 0].tolist() == [0, 3, 4, 0]
    assert frames(rows) == [[0], [3], [1], [0]]


GIVEN = np.array([[1, 1, 1], [2, 2, 2], [3, 3, 3], [4, 4, 4]], np.int32)


def test_a_lane_stops_repeating_at_its_end_while_other_lanes_continue():
    rows = unrolled(AutoReset(ActionRepeat(counting(), 3)), GIVEN)
    assert rows.step_type.tolist() == [
        [FIRST, FIRST, FIRST],
        [LAST, MID, MID],
        [FIRST, MID, MID],
        [LAST, LAST, LAST],
        [FIRST, FIRST, FIRST],
    ]
    assert rows.observation.tolist() == [[0, 0, 0], [2, 3, 3], [10, 6, 6], [12, 9, 9], [20, 10, 10]]
    assert rows.reward.tolist() == [[0, 0, 0], [2, 3, 3], [0, 6, 6], [6, 9, 9], [0, 0, 0]]
    assert frames(rows) == [[0, 0, 0], [2, 3, 3], [0, 3, 3], [2, 3, 3], [0, 0, 0]]
    assert rows.prev_action.tolist() == [[0, 0, 0], [1, 1, 1], [0, 2, 2], [3, 3, 3], [0, 0, 0]]


def test_a_same_step_last_row_sums_its_own_episode_and_shows_the_next_start():
    rows = unrolled(AutoReset(ActionRepeat(counting(), 3), "same_step"), GIVEN)
    assert rows.step_type[:, 0].tolist() == [FIRST, LAST, LAST, LAST, LAST]
    assert rows.observation[:, 0].tolist() == [0, 10, 20, 30, 40]
    assert rows.env_info["final_observation"][:, 0].tolist() == [0, 2, 12, 22, 32]
    assert rows.reward[:, 0].tolist() == [0, 2, 4, 6, 8]
    assert rows.observation[:, 1].tolist() == [0, 3, 6, 10, 13]
    assert frames(rows) == [[0, 0, 0], [2, 3, 3], [2, 3, 3], [2, 3, 3], [2, 3, 3]]


def test_nested_repeats_multiply():
    env = ActionRepeat(ActionRepeat(counting([[8], [99], [99]]), 3), 2)
    rows = unrolled(AutoReset(env), GIVEN)
    assert frames(rows) == [[0, 0, 0], [6, 6, 6], [2, 6, 6], [0, 6, 6], [6, 6, 6]]
    assert rows.observation.tolist() == [[0, 0, 0], [6, 6, 6], [8, 12, 12], [10, 18, 18], [16, 24, 24]]
    assert rows.reward[:, 0].tolist() == [0, 6, 4, 0, 24]


def test_a_limit_outside_counts_agent_steps_and_a_limit_inside_counts_environment_steps():
    base = counting(np.array([99]), 1)
    outside = unrolled(AutoReset(TimeLimit(ActionRepeat(base, 4), 3)), np.ones((4, 1), np.int32))
    assert outside.step_type[:, 0].tolist() == [FIRST, MID, MID, LAST, FIRST]
    assert outside.observation[:, 0].tolist() == [0, 4, 8, 12, 10]
    assert sum(map(sum, frames(outside))) == 3 * 4
    inside = unrolled(AutoReset(ActionRepeat(TimeLimit(base, 5), 4)), np.ones((4, 1), np.int32))
    assert inside.step_type[:, 0].tolist() == [FIRST, MID, LAST, FIRST, MID]
    assert inside.discount[:, 0].tolist() == [1, 1, 1, 1, 1]
    assert inside.env_info["time_limit_reached"][:, 0].tolist() == [False, False, True, False, False]
    assert frames(inside) == [[0], [4], [1], [0], [4]]


def test_discounts_are_multiplied_over_the_steps_taken():
    rows = unrolled(AutoReset(ActionRepeat(TimeLimit(Halved(counting()), 5), 3)), GIVEN[:2])
    assert rows.discount.tolist() == [[1, 1, 1], [0, 0.125, 0.125], [1, 0.25, 0.25]]


@pytest.mark.parametrize("num", [2, 4, 5, 7])
def test_repeats_equal_the_same_number_of_single_steps(num):
    rows = unrolled(ActionRepeat(counting(np.array([[0], [4], [1]])), num), np.full((1, 3), 3, np.int32))
    assert frames(rows)[1] == [num, min(num, 4), 1]
    assert rows.reward[1].tolist() == [3 * num, 3 * min(num, 4), 3]
    assert rows.observation[1].tolist() == [num, min(num, 4), 1]


class Between(RewardWrapper):
    """Clips rewards to bounds and declares them."""

    low: float = -1.0
    high: float = 1.0

    def reward(self, reward):
        return jnp.clip(reward, self.low, self.high)

    def reward_spec(self):
        return specs.Bounded((), np.float32, float(self.low), float(self.high), "reward")


@pytest.mark.parametrize(
    ("inner", "outer"),
    [((-1, 2), (-3, 6)), ((1, 2), (1, 6)), ((-2, -1), (-6, -1)), ((0, 0.1), (0, np.float32(0.3)))],
)
def test_reward_bounds_cover_sums_of_one_to_num_rewards(inner, outer):
    env = ActionRepeat(Between(counting(), *inner), 3)
    assert env.reward_spec() == specs.Bounded((), np.float32, *outer)
    assert ActionRepeat(counting(), 3).reward_spec() == counting().reward_spec()


# --- the maximum of two frames ---------------------------------------------------------------------------------------


def test_the_maximum_is_taken_over_the_last_two_frames_or_the_only_one():
    env = MaxAndSkip(Negative(counting(np.array([[9], [2], [4]]))), 3)
    rows = unrolled(AutoReset(env), GIVEN)
    assert rows.step_type[:, 1].tolist() == [FIRST, LAST, FIRST, LAST, FIRST]
    assert rows.observation[:, 0].tolist() == [0, -2, -5, -8, -10]
    assert rows.observation[:, 1].tolist() == [0, -1, -10, -11, -20]
    # The third lane ends on the first of three repeats: it shows one frame, not that of the previous row.
    assert rows.step_type[:, 2].tolist() == [FIRST, MID, LAST, FIRST, MID]
    assert rows.observation[:, 2].tolist() == [0, -2, -4, -10, -12]
    assert rows.reward[:, 2].tolist() == [0, 3, 2, 0, 12]
    assert frames(rows) == [[0, 0, 0], [3, 2, 3], [3, 0, 1], [3, 2, 0], [0, 0, 3]]


def test_the_final_observation_is_a_maximum_as_well():
    rows = unrolled(AutoReset(MaxAndSkip(Negative(counting()), 3), "same_step"), GIVEN)
    assert rows.env_info["final_observation"][:, 0].tolist() == [0, -1, -11, -21, -31]
    assert rows.observation[:, 0].tolist() == [0, -10, -20, -30, -40]
    assert rows.observation[:, 1].tolist() == [0, -2, -5, -10, -12]


def test_max_and_skip_equals_action_repeat_except_for_the_observation():
    one, other = (unrolled(AutoReset(W(Negative(counting()), 5)), GIVEN) for W in (ActionRepeat, MaxAndSkip))
    assert_equal(dataclasses.replace(one, observation=()), dataclasses.replace(other, observation=()))
    assert MaxAndSkip(counting(), 2).observation_spec() == counting().observation_spec()


# --- errors --------------------------------------------------------------------------------------------------------


class Seen(BatchWrapper):
    """Counts all rows."""

    def init(self, timestep):
        return jnp.zeros((), jnp.int32)

    def after(self, shared, lanes, timestep, learn):
        return shared + 1, lanes, timestep


@pytest.mark.parametrize("wrapper", [ActionRepeat, MaxAndSkip])
@pytest.mark.parametrize(
    ("env", "num", "message"),
    [
        (counting, 0, "num must be at least 1, got 0"),
        (counting, 2.0, "num must be an integer, got 2.0"),
        (lambda: AutoReset(counting()), 2, "AutoReset inside would start .* put {} inside AutoReset"),
        (lambda: AutoReset(counting(), "same_step"), 2, "put {} inside AutoReset"),
        (lambda: Seen(counting()), 2, "Seen carries state of the whole batch, put it outside {}"),
    ],
)
def test_invalid_numbers_and_placements_are_refused_with_advice(wrapper, env, num, message):
    with pytest.raises(ValueError, match=f"{wrapper.__name__}.*{message.format(wrapper.__name__)}"):
        wrapper(env(), num)


def test_carried_values_come_from_the_step_at_which_repeats_stopped():
    env = ActionRepeat(counting(), 3)
    state, timestep = env.reset(jax.random.key(0))
    after, row = jax.jit(env.step)(state, GIVEN[0])
    assert env.clock(after).step.tolist() == [2, 3, 3]
    assert row.observation.tolist() == [2, 3, 3]
    assert jax.tree.structure((state, timestep)) == jax.tree.structure((after, row))
