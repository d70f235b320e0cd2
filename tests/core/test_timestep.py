"""``TimeStep``: views, constructors, and its behaviour as a value and a pytree."""

import collections.abc
import copy
import dataclasses
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import StepType, TimeStep, restart, termination, transition, truncation

# FIRST with discount 1, MID with 1, LAST with 0, LAST with 1.
TABLE = TimeStep(
    step_type=np.array([0, 1, 2, 2], np.int32),
    reward=np.zeros(4, np.float32),
    discount=np.array([1, 1, 0, 1], np.float32),
)
VIEWS = {
    "is_first": [True, False, False, False],
    "is_mid": [False, True, False, False],
    "is_last": [False, False, True, True],
    "terminated": [False, False, True, False],
    "truncated": [False, False, False, True],
    "bootstrap_mask": [False, True, False, True],
    "learn_mask": [True, True, False, False],
}


def view(timestep, name):
    value = getattr(timestep, name)
    return value() if callable(value) else value


def test_step_types_are_numbered_first_mid_last():
    assert [int(t) for t in (StepType.FIRST, StepType.MID, StepType.LAST)] == [0, 1, 2]


def test_fields_have_the_documented_order():
    assert [f.name for f in dataclasses.fields(TimeStep)] == [
        "step_type",
        "reward",
        "discount",
        "observation",
        "prev_action",
        "env_id",
        "untransformed",
        "env_info",
    ]


@pytest.mark.parametrize("name", VIEWS)
def test_views_follow_from_step_type_and_discount(name):
    assert view(TABLE, name).tolist() == VIEWS[name]


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_elementwise_on_trajectories(name):
    rollout = jax.tree.map(lambda x: np.stack([x, x[::-1], x]), TABLE)
    assert view(rollout, name).tolist() == [VIEWS[name], VIEWS[name][::-1], VIEWS[name]]


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_boolean_under_jit(name):
    value = jax.jit(lambda t: view(t, name))(TABLE)
    assert value.dtype == jnp.bool_
    assert value.tolist() == VIEWS[name]


def test_a_discount_between_0_and_1_at_the_end_counts_as_truncated():
    row = truncation(jnp.zeros(2), 0.0, 0.5)
    assert row.truncated.tolist() == [True, True]
    assert row.terminated.tolist() == [False, False]
    assert row.bootstrap_mask.tolist() == [True, True]


# --- constructors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "arguments", "step_type", "reward", "discount"),
    [
        (restart, (), 0, [0.0, 0.0], [1.0, 1.0]),
        (transition, (2.0,), 1, [2.0, 2.0], [1.0, 1.0]),
        (transition, (np.array([1.0, 2.0]), 0.5), 1, [1.0, 2.0], [0.5, 0.5]),
        (transition, (1, np.array([0.5, 0.25])), 1, [1.0, 1.0], [0.5, 0.25]),
        (termination, (np.array([1.0, 2.0]),), 2, [1.0, 2.0], [0.0, 0.0]),
        (truncation, (3.0,), 2, [3.0, 3.0], [1.0, 1.0]),
        (truncation, (3.0, np.array([0.5, 1.0])), 2, [3.0, 3.0], [0.5, 1.0]),
    ],
)
def test_constructors_return_the_legal_rows(make, arguments, step_type, reward, discount):
    row = make(jnp.zeros((2, 3)), *arguments)
    assert row.step_type.tolist() == [step_type] * 2
    assert row.reward.tolist() == reward
    assert row.discount.tolist() == discount
    assert (row.step_type.dtype, row.reward.dtype, row.discount.dtype) == (jnp.int32, jnp.float32, jnp.float32)


def test_constructors_are_public_names():
    assert (jaxenv.restart, jaxenv.transition) == (restart, transition)
    assert (jaxenv.termination, jaxenv.truncation) == (termination, truncation)


def test_termination_takes_no_discount():
    with pytest.raises(TypeError):
        termination(jnp.zeros(2), 0.0, discount=1.0)


def test_restart_returns_a_vector_reward_of_zeros():
    row = restart(jnp.zeros((2, 3)), reward_shape=(4,))
    assert row.reward.shape == (2, 4)
    assert not row.reward.any()


@pytest.mark.parametrize("make", [transition, termination, truncation])
def test_a_vector_reward_keeps_its_axis(make):
    row = make(jnp.zeros((2, 3)), jnp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    assert row.reward.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert row.discount.shape == (2,)


def test_the_batch_is_the_leading_axis_of_an_observation_tree():
    row = restart({"a": jnp.zeros((5, 2)), "b": (jnp.zeros(5),)})
    assert row.step_type.shape == (5,)


@pytest.mark.parametrize("batch_shape", [(), (3,), (4, 3)])
def test_batch_shape_overrides_the_observation(batch_shape):
    row = transition(jnp.zeros((*batch_shape, 7)), 1.0, batch_shape=batch_shape)
    assert row.step_type.shape == row.reward.shape == row.discount.shape == batch_shape


def test_an_unbatched_row_may_have_a_vector_reward():
    row = termination(jnp.zeros(7), jnp.array([1.0, 2.0]), batch_shape=())
    assert row.reward.tolist() == [1, 2]
    assert row.discount.shape == ()


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (
            transition,
            (np.zeros((3, 1)), np.zeros(2)),
            r"transition: reward .*got shape \(2,\)",
        ),
        (
            transition,
            (np.zeros((3, 1)), np.zeros(1)),
            r"transition: reward .*got shape \(1,\)",
        ),
        (
            termination,
            (np.zeros((3, 1)), np.zeros((2, 3))),
            r"termination: reward .*got shape \(2, 3\)",
        ),
        (
            transition,
            (np.zeros((3, 1)), 0.0, np.ones(2)),
            r"transition: discount .*got \(2,\)",
        ),
        (
            truncation,
            (np.zeros((3, 1)), 0.0, np.ones((3, 2))),
            r"truncation: discount .*got \(3, 2\)",
        ),
        (
            truncation,
            (np.float32(0), 0.0),
            r"truncation: observation .*batch_shape",
        ),
        (restart, ({},), r"restart: observation .*batch_shape"),
        (
            transition,
            ({"a": np.zeros((3, 2)), "b": np.zeros(4)}, 0.0),
            r"transition: observation.b .*got shape \(4,\)",
        ),
    ],
)
def test_constructors_refuse_shapes_that_are_not_the_batch(make, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(*arguments)


@pytest.mark.parametrize("make", [transition, truncation])
@pytest.mark.parametrize("discount", [0.0, 7.0, np.array([1, 0, 1], np.float32), jnp.array([1.0, -1.0, 1.0])])
def test_the_discount_of_what_is_no_termination_is_above_0_and_at_most_1(make, discount):
    with pytest.raises(ValueError, match=f"{make.__name__}: discount must"):
        make(np.zeros((3, 1)), 0.0, discount)
    assert make(np.zeros((3, 1)), 0.0, 0.5).discount.tolist() == [0.5] * 3


def test_a_batch_shape_that_is_no_tuple_is_refused():
    with pytest.raises(ValueError, match=r"restart: batch_shape .*got 3"):
        restart(np.zeros((3, 1)), batch_shape=3)


@pytest.mark.parametrize("make", [transition, termination, truncation])
def test_constructors_keep_the_other_fields(make):
    env_id, info = jnp.arange(2), {"x": jnp.ones(2)}
    row = make(jnp.zeros(2), 0.0, env_id=env_id, env_info=info, prev_action=env_id)
    assert row.env_id is env_id
    assert row.env_info is info
    assert row.prev_action is env_id


def test_unset_fields_are_empty_tuples():
    row = restart(jnp.zeros(2))
    assert (row.prev_action, row.env_id, row.untransformed, row.env_info) == ((), (), (), ())


# --- value and pytree ------------------------------------------------------------------------------------------------


def test_repr_has_one_line_per_set_field():
    text = repr(TimeStep(step_type=1, reward=0.5, env_info={"a": 3}))
    assert text == "TimeStep(\n{'step_type': 1,\n 'reward': 0.5,\n 'env_info': {'a': 3}})"


def test_repr_shows_a_nested_row():
    assert "'untransformed': TimeStep(\n{'reward': 2})" in repr(TimeStep(reward=1, untransformed=TimeStep(reward=2)))


def test_a_timestep_is_a_pytree_without_leaves_for_unset_fields():
    leaves, structure = jax.tree.flatten(TABLE)
    assert len(leaves) == 3
    again = structure.unflatten(leaves)
    assert isinstance(again, TimeStep)
    assert again.discount is TABLE.discount
    assert again.env_info == ()


def test_leaves_have_the_names_of_their_fields():
    row = TimeStep(observation={"camera": np.zeros(1)}, reward=np.zeros(1))
    names = [jaxenv.tree.path_name(path) for path, _ in jax.tree_util.tree_leaves_with_path(row)]
    assert names == ["reward", "observation.camera"]


def test_a_timestep_passes_through_jit():
    again = jax.jit(lambda t: t)(restart(jnp.ones((2, 1)), env_info={"a": jnp.zeros(2)}))
    assert isinstance(again, TimeStep)
    assert again.env_info["a"].shape == (2,)


def test_a_timestep_pickles():
    again = pickle.loads(pickle.dumps(restart(jnp.ones((2, 1)), env_id=jnp.arange(2))))
    assert again.observation.tolist() == [[1], [1]]
    assert again.env_id.tolist() == [0, 1]
    assert again.untransformed == ()


def test_a_timestep_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        TABLE.reward = 0


def test_timesteps_compare_by_identity():
    assert len({TABLE, TABLE, dataclasses.replace(TABLE)}) == 2


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("obs", "timestep.observation"),
        ("done", r"timestep.is_last\(\)"),
        ("info", "env_info"),
        ("last", r"is_last\(\)"),
        ("_replace", r"dataclasses.replace\(timestep, ...\)"),
    ],
)
def test_a_name_of_another_library_is_refused_with_the_word_of_this_one(name, word):
    with pytest.raises(AttributeError, match=f"TimeStep has no attribute '{name}': use .*{word}"):
        getattr(TABLE, name)
    assert not hasattr(TABLE, name)


def test_any_other_missing_name_is_an_ordinary_error():
    with pytest.raises(AttributeError, match=r"'TimeStep' object has no.* 'observatio'"):
        TABLE.observatio
    for copied in (copy.copy(TABLE), copy.deepcopy(TABLE), pickle.loads(pickle.dumps(TABLE))):
        np.testing.assert_array_equal(copied.step_type, TABLE.step_type)


def test_the_name_of_an_agent_is_answered_with_the_axis_of_agents():
    with pytest.raises(TypeError, match=r"use timestep\.observation\[:, 1\]: the agents are the second axis"):
        TABLE["agent_1"]


def test_a_timestep_taken_for_a_sequence_is_refused_with_the_fields_to_use():
    for use in (lambda: TABLE[0], lambda: TABLE["observation"], lambda: list(TABLE), lambda: 1 in TABLE):
        with pytest.raises(TypeError, match=r"^a TimeStep is not a.* timestep\.obs"):
            use()
    assert np.asarray(TABLE).shape == ()
    assert not isinstance(TABLE, collections.abc.Iterable | collections.abc.Sequence)
