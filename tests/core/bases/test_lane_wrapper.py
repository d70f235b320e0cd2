"""LaneWrapper: state per lane, random streams, and what a subclass must declare."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import random
from jaxenv.wrappers import AutoReset, LaneWrapper, TimeLimit
from tests.core.bases.toys import Echoes, PlusOne, Return, Sum, counting
from tests.rows import assert_equal, random_actions, unrolled, without_first

FIRST, LAST = 0, 2


class Noise(LaneWrapper):
    """Adds noise to the reward, 0 at FIRST."""

    owns = frozenset({"reward"})

    def init(self, timestep, stream):
        return ()

    def after(self, own, timestep, stream):
        noise = random.normal(stream)
        reward = jnp.where(timestep.is_first(), 0, timestep.reward + noise)
        return own, dataclasses.replace(timestep, reward=reward)


def test_a_random_lane_wrapper_outside_same_step_gives_the_rewards_of_next_step():
    actions = jnp.full((40, 3), 2, jnp.int32)
    inside, outside = (
        unrolled(env, actions)
        for env in (AutoReset(Noise(counting()), "same_step"), Noise(AutoReset(counting(), "same_step")))
    )
    np.testing.assert_array_equal(inside.reward, outside.reward)
    for lane, expected in enumerate(without_first(unrolled(AutoReset(Noise(counting())), actions))):
        length = len(expected.reward)
        np.testing.assert_array_equal(inside.reward[:length, lane], expected.reward)


@pytest.mark.parametrize("wrapper", [Sum, Echoes, Return, Noise])
def test_a_lane_wrapper_gives_the_same_trajectory_inside_and_outside_auto_reset(wrapper):
    actions = random_actions(counting(), 30)
    inside, outside = (
        unrolled(env, actions) for env in (AutoReset(wrapper(counting())), wrapper(AutoReset(counting())))
    )
    last = inside.step_type == LAST
    assert (last.any(1) & ~last.all(1)).sum() >= 3
    assert_equal(inside, outside)


def test_a_lane_wrapper_is_initialised_at_every_episode():
    rows = unrolled(AutoReset(Return(counting())), jnp.full((9, 3), 2, jnp.int32))
    expected, total = [], np.zeros(3)
    for step_type, reward in zip(rows.step_type, rows.reward, strict=True):
        total = np.where(step_type == FIRST, 0, total + reward)
        expected.append(total)
    np.testing.assert_array_equal(rows.env_info["return"], expected)


def test_a_lane_wrapper_outside_same_step_restarts_after_the_last_row():
    actions, task = jnp.full((20, 3), 2, jnp.int32), TimeLimit(counting(), 3)  # which cuts the episodes of 4 and 5
    same = unrolled(Return(AutoReset(task, "same_step")), actions)
    longer = unrolled(Return(AutoReset(task)), jnp.full((40, 3), 2, jnp.int32))
    for lane, expected in enumerate(without_first(longer)):
        np.testing.assert_array_equal(same.env_info["return"][:, lane], expected.env_info["return"][:21])


def test_a_lane_wrapper_draws_independently_per_episode_and_lane():
    rows = unrolled(AutoReset(Sum(counting())), jnp.zeros((30, 3), jnp.int32))
    first = rows.step_type == FIRST
    episode = np.cumsum(first, axis=0) - 1
    draws = rows.observation[first] - 100 * episode[first]
    assert len(np.unique(draws)) > 0.9 * len(draws)


def test_two_wrappers_of_one_class_draw_different_numbers():
    env = Sum(Sum(counting()))
    state, _ = env.reset(jax.random.key(0))
    inner, outer = state.inner.own, state.own - state.inner.own
    assert (inner != outer).all()


def test_a_wrappers_draws_do_not_depend_on_its_depth():
    shallow, _ = Sum(counting()).reset(jax.random.key(0))
    deep, _ = Sum(PlusOne(TimeLimit(counting(), 9))).reset(jax.random.key(0))
    assert shallow.own.tolist() == deep.own.tolist()


def test_rewriting_observations_outside_same_step_is_refused_with_advice():
    with pytest.raises(ValueError, match=r"Sum: it rewrites observation.* put it inside AutoReset"):
        Sum(AutoReset(counting(), "same_step"))
    Return(AutoReset(counting(), "same_step"))


def test_changing_a_field_that_is_not_owned_is_refused_by_name():
    class Sly(Return):
        owns = frozenset()

    with pytest.raises(ValueError, match=r"Sly.after: it changes env_info and owns nothing.* 'env_info' to owns"):
        Sly(counting()).reset(jax.random.key(0))


def test_rewriting_actions_outside_same_step_is_refused_even_if_prev_action_is_not_owned():
    class Undeclared(Echoes):
        owns = frozenset()

    with pytest.raises(ValueError, match="Undeclared: it rewrites prev_action"):
        Undeclared(AutoReset(counting(), "same_step"))


def test_a_wrapper_that_overrides_before_rewrites_the_action_and_so_do_its_subclasses():
    class Louder(Echoes):
        pass

    assert Louder(counting()).rewrites == {"prev_action"}
