"""Transitions over one and several steps, and which of them are valid."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import data
from jaxenv.core.timestep import TimeStep
from jaxenv.rollout import Experience
from tests.data.rollouts import lane, unrolled

FIRST, MID, LAST = 0, 1, 2


MODES = ["next_step", "same_step"]


@functools.cache
def several(mode, n, gamma=0.5):
    fn = jax.jit(data.to_n_step_transitions, static_argnums=(2, 4))
    return jax.device_get(fn(*unrolled(mode), n, np.float32(gamma), mode))


# --- targets ----------------------------------------------------------------------------------------------------------


def test_a_target_bootstraps_by_the_discount_and_ignores_the_value_where_it_is_zero():
    transitions = data.Transitions(reward=jnp.array([1.0, 2, 4]), discount=jnp.array([1.0, 0.5, 0]))
    values = jnp.array([8.0, 16, np.nan])
    assert transitions.target(values, 0.5).tolist() == [5, 6, 4]
    slope = jax.grad(lambda gamma, values: transitions.target(values, gamma).sum(), argnums=(0, 1))
    assert jax.tree.map(lambda x: x.tolist(), slope(0.5, values)) == (16, [0.5, 0.25, 0])
    several = data.Transitions(reward=jnp.ones((3, 2)), discount=transitions.discount)
    assert several.target(values[:, None] * jnp.array([[1.0, 2]]), 0.5).tolist() == [[5, 9], [5, 9], [1, 1]]


# --- one step ---------------------------------------------------------------------------------------------------------


def test_each_row_is_paired_with_the_next_and_boundaries_are_invalid():
    experience, last = unrolled("next_step")
    transitions = data.to_transitions(experience, last)
    # Lane 0: episodes of 2 and 3 steps; lane 1: time limits; lane 2: episodes of 3 and 1 steps.
    assert lane(transitions.observation, 0) == [0, 1, 2, 10, 11, 12, 13, 20, 21, 22]
    assert lane(transitions.next_observation, 0) == [1, 2, 10, 11, 12, 13, 20, 21, 22, 30]
    assert lane(transitions.reward, 0) == [1, 8, 0, 1, 8, 5, 0, 1, 8, 0]
    assert lane(transitions.discount, 0) == [1, 0, 1, 1, 1, 0, 1, 1, 0, 1]
    assert lane(transitions.step_type, 0) == [0, 1, 2, 0, 1, 1, 2, 0, 1, 2]
    assert lane(transitions.next_step_type, 0) == [1, 2, 0, 1, 1, 2, 0, 1, 2, 0]
    assert lane(transitions.valid, 0) == [True, True, False, True, True, True, False, True, True, False]
    assert lane(transitions.discount, 1) == [1] * 10
    assert lane(transitions.next_step_type, 1) == [1, 1, 2, 0, 1, 1, 2, 0, 1, 1]
    assert lane(transitions.valid, 1) == [True, True, True, False, True, True, True, False, True, True]
    assert lane(transitions.valid, 2) == [True, True, True, False, True, False, True, True, True, False]


def test_every_row_of_a_same_step_stream_is_a_transition_and_leads_to_the_final_observation():
    transitions = data.to_transitions(*unrolled("same_step"), mode="same_step")
    assert lane(transitions.observation, 0) == [0, 1, 10, 11, 12, 20, 21, 30, 31, 32]
    assert lane(transitions.next_observation, 0) == [1, 2, 11, 12, 13, 21, 22, 31, 32, 33]
    assert lane(transitions.discount, 0) == [1, 0, 1, 1, 0, 1, 0, 1, 1, 0]
    assert lane(transitions.next_observation, 1) == [1, 2, 3, 11, 12, 13, 21, 22, 23, 31]
    assert lane(transitions.discount, 1) == [1] * 10
    assert transitions.valid.all()


@pytest.mark.parametrize("n", [1, 2, 5])
def test_both_kinds_of_stream_yield_the_same_transitions(n):
    fields = ("observation", "action", "reward", "discount", "next_observation", "next_step_type")
    for i in range(3):
        rows = {}
        for mode in MODES:
            transitions = several(mode, n)
            # Only complete episodes: in the last one, the rows of the two streams end at different steps.
            end = np.flatnonzero(transitions.step_type[:, i] == LAST)[-1]
            keep = np.flatnonzero(transitions.valid[:end, i])
            rows[mode] = [getattr(transitions, f)[keep, i] for f in fields]
        count = len(rows["next_step"][0])
        assert count >= 6
        for x, y in zip(*rows.values(), strict=True):
            np.testing.assert_array_equal(x, y[:count])


def rows_of(step_type, abnormal=None, reward=1.0):
    """One lane of rows with given step types; the observation is the number of the row."""
    count = len(step_type)
    flags = {} if abnormal is None else {"abnormal": np.array(abnormal)[:, None]}
    rows = TimeStep(
        np.array(step_type, np.int32)[:, None],
        np.where(np.array(step_type) == FIRST, 0, reward).astype(np.float32)[:, None],
        np.ones((count, 1), np.float32),
        np.arange(count, dtype=np.int32)[:, None],
        env_info=flags,
    )
    action = np.arange(count - 1, dtype=np.int32)[:, None]
    return Experience(jax.tree.map(lambda x: x[:-1], rows), action), jax.tree.map(lambda x: x[-1], rows)


def test_rows_before_an_abnormal_row_or_an_interrupted_episode_are_invalid():
    abnormal = [False, False, True, False, False, False, False]
    experience, last = rows_of([FIRST, MID, LAST, FIRST, MID, FIRST, MID], abnormal)
    transitions = data.to_transitions(experience, last)
    assert lane(transitions.valid, 0) == [True, False, False, True, False, True]


def test_an_abnormal_row_of_a_lane_leaves_other_lanes_valid():
    lanes = [
        rows_of([FIRST, MID, LAST, FIRST], flags) for flags in ([False] * 4, [False] * 4, [False, False, True, False])
    ]
    rows, last = (
        jax.tree.map(lambda *x, axis=axis: np.concatenate(x, axis), *part)
        for axis, part in zip((1, 0), zip(*lanes, strict=True), strict=True)
    )
    valid = data.transition_mask(rows.timestep, last)
    assert valid.T.tolist() == [[True, True, False], [True, True, False], [True, False, False]]


def test_the_row_after_an_abnormal_one_is_valid_in_a_same_step_stream():
    experience, last = rows_of([FIRST, MID, LAST, MID], [False, False, True, False])
    assert lane(data.transition_mask(experience.timestep, last, "same_step"), 0) == [True, False, True]


@pytest.mark.parametrize(("whose", "lacks"), [("rows", "the rows must"), ("last", "last must")])
def test_marks_of_abnormal_rows_in_only_some_of_them_are_refused(whose, lacks):
    experience, last = rows_of([FIRST, MID, MID], abnormal=[False, True, False])
    if whose == "rows":
        timestep = dataclasses.replace(experience.timestep, env_info=())
        experience = dataclasses.replace(experience, timestep=timestep)
    else:
        last = dataclasses.replace(last, env_info={})
    with pytest.raises(ValueError, match=rf"env_info\['abnormal'\] .*{lacks}"):
        data.to_transitions(experience, last)


def test_an_abnormal_row_after_the_rows_invalidates_the_final_transition():
    experience, last = rows_of([FIRST, MID, LAST], [False, False, True])
    assert lane(data.to_transitions(experience, last).valid, 0) == [True, False]


# --- several steps ----------------------------------------------------------------------------------------------------


def by_definition(mode, n, gamma):
    """Reward, discount, next observation and next step type of n-step transitions, by definition."""
    one = data.to_transitions(*unrolled(mode), mode=mode)
    one = jax.device_get(one)
    rows, lanes = one.valid.shape
    transitions = []
    for t in range(rows):
        for i in range(lanes):
            reward, weight, s = 0.0, 1.0, t
            while True:
                reward += weight * one.reward[s, i]
                discount = weight * one.discount[s, i]
                weight = gamma * discount
                more = s + 1 < rows and one.valid[s, i] and one.valid[s + 1, i]
                if s + 1 - t == n or not more or one.next_step_type[s, i] == LAST:
                    break
                s += 1
            transitions.append((reward, discount, one.next_observation[s, i], one.next_step_type[s, i]))
    return np.array(transitions).reshape(rows, lanes, 4)


@pytest.mark.parametrize("n", [1, 2, 5, 50])
@pytest.mark.parametrize("mode", MODES)
def test_n_step_transitions_equal_their_definition(mode, n):
    transitions = several(mode, n)
    fields = np.stack(
        [transitions.reward, transitions.discount, transitions.next_observation, transitions.next_step_type], -1
    )
    np.testing.assert_allclose(fields, by_definition(mode, n, 0.5), rtol=1e-6)
    assert transitions.next_observation.dtype == transitions.next_step_type.dtype == np.int32


def test_two_step_transitions_in_numbers():
    transitions = several("next_step", 2)
    # From 0: rewards 1 and 8, then the task ends. From 1: reward 8 only. From 10: 1 + 8 / 2, and V(12) counts half.
    assert lane(transitions.reward, 0)[:4] == [5, 8, 0, 5]
    assert lane(transitions.discount, 0)[:4] == [0, 0, 1, 0.5]
    assert lane(transitions.next_observation, 0)[:4] == [2, 2, 10, 12]
    # A window that the time limit cuts short bootstraps from its last observation.
    assert lane(transitions.discount, 1)[:3] == [0.5, 0.5, 1]
    assert lane(transitions.next_observation, 1)[:3] == [2, 3, 3]


def test_n_step_transitions_stop_before_an_abnormal_row():
    experience, last = rows_of([FIRST, MID, MID, LAST, FIRST], [False, False, False, True, False])
    transitions = data.to_n_step_transitions(experience, last, 5, 0.5)
    assert lane(transitions.valid, 0) == [True, True, False, False]
    assert lane(transitions.next_observation, 0)[:2] == [2, 2]
    assert lane(transitions.reward, 0)[:2] == [1.5, 1]


def test_n_step_transitions_support_vector_rewards_images_and_a_gamma_per_lane():
    experience, last = unrolled("next_step")

    def widen(timestep):
        image = timestep.observation[..., None, None] + np.arange(6, dtype=np.int32).reshape((1,) * 1 + (2, 3))
        pair = np.stack([timestep.reward, 2 * timestep.reward], -1)
        return dataclasses.replace(timestep, observation={"image": image}, reward=pair)

    gamma = np.array([0.5, 0.0, 1.0], np.float32)
    fn = jax.jit(data.to_n_step_transitions, static_argnums=2)
    transitions = fn(dataclasses.replace(experience, timestep=widen(experience.timestep)), widen(last), 3, gamma)
    for i, rate in enumerate(gamma):
        scalar = several("next_step", 3, rate)
        np.testing.assert_allclose(transitions.reward[:, i, 0], scalar.reward[:, i], rtol=1e-6)
        np.testing.assert_allclose(transitions.reward[:, i, 1], 2 * scalar.reward[:, i], rtol=1e-6)
        np.testing.assert_allclose(transitions.discount[:, i], scalar.discount[:, i], rtol=1e-6)
        np.testing.assert_array_equal(
            transitions.next_observation["image"][:, i, 1, 2], scalar.next_observation[:, i] + 5
        )


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fn", [data.to_transitions, functools.partial(data.to_n_step_transitions, n=2, gamma=0.9)])
def test_the_mode_of_another_stream_raises(fn):
    with pytest.raises(ValueError, match=r"transitions: the rows.*final_observation.*, pass mode='same_step'"):
        fn(*unrolled("same_step"))
    with pytest.raises(ValueError, match=r"transitions: the rows .*got a FIRST row"):
        fn(*unrolled("next_step"), mode="same_step")
    with pytest.raises(ValueError, match=r"transitions: mode 'same_step' needs env_info\['final_observation'\]"):
        jax.eval_shape(functools.partial(fn, mode="same_step"), *unrolled("next_step"))
    with pytest.raises(ValueError, match=r"transitions: mode .*got None"):
        fn(*unrolled("next_step"), mode=None)


def test_rows_of_a_same_step_stream_raise_without_the_mode():
    experience, last = unrolled("same_step")
    message = r": the rows hold env_info\['final_observation'\], pass mode='same_step'"
    with pytest.raises(ValueError, match="to_trajectory" + message):
        data.to_trajectory(experience, last)
    with pytest.raises(ValueError, match="transition_mask" + message):
        data.transition_mask(experience.timestep, last)


def test_rows_without_the_final_observation_raise_by_the_row_after_them():
    experience, last = unrolled("same_step")
    rows = dataclasses.replace(experience.timestep, env_info=())
    experience = dataclasses.replace(experience, timestep=rows)
    message = r": last holds env_info\['final_observation'\], pass "
    for make in (data.to_transitions, data.to_trajectory):
        with pytest.raises(ValueError, match=make.__name__ + message + "mode='same_step'"):
            make(experience, last)
    with pytest.raises(ValueError, match="transition_mask" + message):
        data.transition_mask(rows, last)
    values = jnp.zeros((rows.step_type.shape[0] + 1, *rows.step_type.shape[1:]))
    with pytest.raises(ValueError, match="gae" + message + "final_values="):
        data.gae(rows, last, values, gamma=0.9, lambda_=0.9)


def test_an_observation_that_last_lacks_is_an_error_of_the_function_that_was_called():
    experience, last = rows_of([FIRST, MID, MID])
    with pytest.raises(ValueError, match=r"^to_transitions: the leaf"):
        data.to_transitions(experience, dataclasses.replace(last, observation=()))


def test_experience_and_timestep_cannot_be_confused():
    experience, last = unrolled("next_step")
    with pytest.raises(ValueError, match=r"to_transitions: experience .*got TimeStep"):
        data.to_transitions(experience.timestep, last)
    with pytest.raises(ValueError, match=r"transition_mask: timestep .*got Experience"):
        data.transition_mask(experience, last)


def test_an_argument_out_of_range_raises():
    for n in (0, 2.0, True):
        with pytest.raises(ValueError, match=rf"to_n_step_transitions: n .*got {n}"):
            data.to_n_step_transitions(*unrolled("next_step"), n, 0.9)
    with pytest.raises(ValueError, match=r"to_n_step_transitions: gamma .*got 1.5"):
        data.to_n_step_transitions(*unrolled("next_step"), 2, 1.5)
    with pytest.raises(ValueError, match=r"trajectory: last.step_type .*got \(10, 3\)"):
        data.to_trajectory(unrolled("next_step")[0], unrolled("next_step")[0].timestep)


def test_fields_that_were_not_unrolled_remain_unset():
    experience, last = unrolled("next_step")
    rows = dataclasses.replace(experience.timestep, observation=(), env_info=(), prev_action=(), env_id=())
    transitions = data.to_transitions(dataclasses.replace(experience, timestep=rows), last)
    assert transitions.observation == transitions.next_observation == ()
    np.testing.assert_array_equal(transitions.valid, data.to_transitions(experience, last).valid)
