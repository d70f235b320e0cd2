"""The wrapper bases: one function each, state per lane, state of the batch."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import Wrapper, random, specs
from jaxenv.testing import Counting
from jaxenv.wrappers import (
    ActionWrapper,
    AutoReset,
    BatchWrapper,
    LaneWrapper,
    ObservationWrapper,
    RewardWrapper,
    TimeLimit,
)
from tests.rows import assert_equal, random_actions, unrolled, without_first

FIRST, MID, LAST = 0, 1, 2
LENGTHS = np.array([[2, 4, 1], [3, 3, 2], [1, 5, 2]])


def counting():
    return Counting(LENGTHS, num_envs=3, stride=100)


class Doubled(ActionWrapper):
    def action(self, action):
        return action * 2

    def action_spec(self):
        return specs.discrete(5)


class Halves(ObservationWrapper):
    def observation(self, observation):
        return {"half": observation.astype(jnp.float32) / 2}


class PlusOne(RewardWrapper):
    def reward(self, reward):
        return reward + 1


class Sum(LaneWrapper):
    """Shows the sum of the episode's observations, its first one included, plus a number drawn at its start."""

    owns = frozenset({"observation"})

    def init(self, timestep, stream):
        return random.integers(stream, (), 0, 1000)

    def after(self, own, timestep, stream):
        own = own + timestep.observation
        return own, dataclasses.replace(timestep, observation=own)


class Echoes(LaneWrapper):
    """Plays the action before the one given; 0 at the start of an episode."""

    owns = frozenset({"prev_action"})
    rewrites_action = True

    def init(self, timestep, stream):
        return jnp.zeros_like(timestep.env_id)

    def before(self, own, action, stream):
        return action, own


class Return(LaneWrapper):
    """The return so far, in env_info."""

    owns = frozenset({"env_info"})

    def init(self, timestep, stream):
        return jnp.zeros(timestep.reward.shape, jnp.float32)

    def after(self, own, timestep, stream):
        own = own + timestep.reward
        return own, dataclasses.replace(timestep, env_info={**timestep.env_info, "return": own})


class RewardMean(BatchWrapper):
    """Takes the mean over all rows seen so far off the reward, and counts each lane's rows since its start."""

    owns = frozenset({"reward"})

    def init(self, timestep):
        return {"sum": jnp.zeros(()), "count": jnp.zeros((), jnp.int32)}

    def init_lanes(self, timestep):
        return jnp.zeros_like(timestep.env_id)

    def after(self, shared, lanes, timestep, learn):
        if learn:
            shared = {"sum": shared["sum"] + timestep.reward.sum(), "count": shared["count"] + timestep.reward.size}
        mean = shared["sum"] / jnp.maximum(shared["count"], 1).astype(jnp.float32)
        return shared, lanes + 1, dataclasses.replace(timestep, reward=timestep.reward - mean)


# --- one function ----------------------------------------------------------------------------------------------------


def test_an_action_wrapper_maps_the_action_and_reports_the_given_one():
    rows = unrolled(AutoReset(Doubled(counting())), jnp.full((4, 3), 3, jnp.int32))
    moved = rows.step_type != FIRST
    assert set(rows.reward[moved].tolist()) == {6}
    assert set(rows.prev_action[moved].tolist()) == {3}
    assert set(rows.prev_action[~moved].tolist()) == {0}


def test_every_level_clips_the_discrete_actions_that_it_interprets():
    rows = unrolled(Doubled(counting()), jnp.full((1, 3), 99, jnp.int32))
    assert rows.reward[1].tolist() == [8, 8, 8]


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_an_observation_wrapper_maps_the_final_observation_inside_and_outside_auto_reset(mode):
    actions = random_actions(counting(), 12)
    inside, outside = (
        unrolled(env, actions) for env in (AutoReset(Halves(counting()), mode), Halves(AutoReset(counting(), mode)))
    )
    assert_equal(inside, outside)
    if mode == "same_step":
        last = inside.step_type == LAST
        assert (inside.env_info["final_observation"]["half"][last] != inside.observation["half"][last]).all()


def test_the_spec_of_a_mapped_observation_follows_the_function():
    env = Halves(counting())
    assert env.observation_spec() == {"half": specs.Array((), np.float32)}
    assert env.time_step_spec().observation == env.observation_spec()


@pytest.mark.parametrize("stack", [lambda e: AutoReset(PlusOne(e)), lambda e: PlusOne(AutoReset(e))])
def test_a_reward_wrapper_pays_nothing_at_first(stack):
    rows = unrolled(stack(counting()), jnp.zeros((9, 3), jnp.int32))
    first = rows.step_type == FIRST
    assert first[1:].any()
    assert (rows.reward[first] == 0).all()
    assert (rows.reward[~first] == 1).all()


@pytest.mark.parametrize("wrapper", [Doubled, Halves, PlusOne, Sum, Return])
def test_fields_that_a_wrapper_does_not_own_are_bit_identical(wrapper):
    actions = jnp.ones((12, 3), jnp.int32)
    wrapped, plain = unrolled(AutoReset(wrapper(counting())), actions), unrolled(AutoReset(counting()), actions)
    if wrapper is Doubled:
        plain = unrolled(AutoReset(counting()), actions * 2)
    for name in {f.name for f in dataclasses.fields(plain)} - wrapper.owns - {"env_info"}:
        assert_equal(getattr(wrapped, name), getattr(plain, name))


# --- state per lane --------------------------------------------------------------------------------------------------


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
    actions = jnp.full((20, 3), 2, jnp.int32)
    same = unrolled(Return(AutoReset(counting(), "same_step")), actions)
    longer = unrolled(Return(AutoReset(counting())), jnp.full((40, 3), 2, jnp.int32))
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

    with pytest.raises(ValueError, match=r"Sly.after: it changes env_info and owns nothing: add 'env_info' to owns"):
        Sly(counting()).reset(jax.random.key(0))

    with pytest.raises(TypeError, match="Silent: a wrapper that overrides step must declare the fields that it owns"):

        class Silent(Wrapper):
            def step(self, state, action):
                return self.env.step(state, action)


def test_rewriting_actions_outside_same_step_is_refused_even_if_prev_action_is_not_owned():
    class Undeclared(Echoes):
        owns = frozenset()

    with pytest.raises(ValueError, match="Undeclared: it rewrites prev_action"):
        Undeclared(AutoReset(counting(), "same_step"))


def test_overriding_before_without_declaring_that_it_rewrites_the_action_is_refused():
    with pytest.raises(TypeError, match="Silent: a wrapper that overrides before must declare rewrites_action = True"):

        class Silent(LaneWrapper):
            def before(self, own, action, stream):
                return own, action


def test_a_subclass_inherits_the_declaration_that_it_rewrites_the_action():
    class Louder(Echoes):
        def before(self, own, action, stream):
            return action, own + 1

    assert Louder(counting()).rewrites == {"prev_action"}


def test_a_wrapper_that_keeps_specs_has_those_of_its_environment():
    class Kept(LaneWrapper):
        owns = frozenset({"reward", "observation"})
        keeps_specs = frozenset({"observation"})

        def init(self, timestep, stream):
            return ()

    env = jaxenv.spec("CartPole-v1").make(num_envs=3)
    assert Kept(env).observation_spec() == env.observation_spec()
    assert Kept(env).reward_spec() == specs.Array((), np.float32)


def test_specs_follow_what_a_wrapper_owns():
    class Twice(LaneWrapper):
        owns = frozenset({"reward", "observation"})

        def init(self, timestep, stream):
            return ()

        def after(self, own, timestep, stream):
            reward = jnp.stack([timestep.reward] * 2, axis=-1)
            return own, dataclasses.replace(timestep, reward=reward, observation=timestep.observation * 2.0)

    env = Twice(jaxenv.spec("CartPole-v1").make(num_envs=3))
    assert env.reward_spec() == specs.Array((2,), np.float32)
    assert env.observation_spec() == specs.Array((4,), np.float32)


# --- state of the batch ----------------------------------------------------------------------------------------------


def test_batch_state_survives_episodes_and_counts_every_row_once():
    env = RewardMean(AutoReset(counting()))
    rows = unrolled(env, jnp.full((12, 3), 2, jnp.int32))
    plain = unrolled(AutoReset(counting()), jnp.full((12, 3), 2, jnp.int32))
    means = np.cumsum(plain.reward.sum(1)) / (3 * np.arange(1, 14))
    np.testing.assert_allclose(rows.reward, plain.reward - means[:, None], rtol=1e-6, atol=1e-6)


def test_frozen_batch_state_does_not_change():
    env = RewardMean(AutoReset(counting()), frozen=True)
    state, _ = env.reset(jax.random.key(0))
    state, timestep = env.step(state, jnp.full(3, 2, jnp.int32))
    assert state.shared.value["sum"] == 0
    assert state.shared.value["count"] == 0
    assert timestep.reward.tolist() == [2, 2, 2]


def test_rows_of_reset_where_do_not_update_statistics():
    env = RewardMean(AutoReset(counting()))
    state, timestep = env.reset(jax.random.key(0))
    state, timestep = env.step(state, jnp.full(3, 2, jnp.int32))
    restarted, row = jaxenv.reset_where(env, state, timestep, jnp.array([True, False, False]))
    assert_equal(jax.device_get(restarted.shared.value), jax.device_get(state.shared.value))
    assert row.step_type.tolist() == [FIRST, MID, LAST]
    mean, shown = 6 / 6, timestep.reward.tolist()
    np.testing.assert_allclose(row.reward, [-mean, *shown[1:]], rtol=1e-6)
    assert restarted.lanes.tolist() == [1, 2, 2]


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_lane_state_of_a_batch_wrapper_is_initialised_at_every_episode(mode):
    env = RewardMean(AutoReset(counting(), mode))
    state, timestep = env.reset(jax.random.key(0))
    step = jax.jit(env.step)
    since = np.ones(3, int)
    for _ in range(12):
        state, timestep = step(state, jnp.zeros(3, jnp.int32))
        since = np.where(timestep.step_type == FIRST, 1, since + 1)
        if mode == "same_step":
            since = np.where(timestep.step_type == LAST, 0, since)
        assert state.lanes.tolist() == since.tolist()


def test_with_params_and_close_reach_through_wrappers():
    class Closing(Counting):
        closed = []

        def close(self):
            self.closed.append(True)

    with RewardMean(AutoReset(Return(Closing(np.array([2]), num_envs=1)))) as env:
        assert env.unwrapped.closed == []
    assert env.unwrapped.closed == [True]
    assert jaxenv.make("CartPole-v1").with_params(gravity=1.0).unwrapped.params.gravity == 1
