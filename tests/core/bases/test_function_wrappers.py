"""The bases that map one field by a function: ActionWrapper, ObservationWrapper and RewardWrapper."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import specs
from jaxenv.wrappers import AutoReset, LeafObservationWrapper, ObservationWrapper, RewardWrapper, TransformObservation
from tests.core.bases.toys import Doubled, Halves, PlusOne, Return, Sum, counting
from tests.rows import assert_equal, random_actions, unrolled

FIRST, LAST = 0, 2


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


# --- results that are refused ----------------------------------------------------------------------------------------


def with_method(base, name, fn):
    """A wrapper of three lanes, a subclass ``Mine`` of ``base`` whose method ``name`` is ``fn``."""
    return type("Mine", (base,), {name: lambda self, x, *spec: fn(x)})(counting())


def spec_and_reset(env, field):
    return [getattr(env, f"{field}_spec"), lambda: jax.eval_shape(env.reset, jax.random.key(0))]


@pytest.mark.parametrize(
    ("fn", "fault"),
    [
        (lambda x: x[0], r"must return arrays.* 3 lanes, got shape \(\) for the observation"),
        (lambda x: {"a": x, "b": x[1:]}, r"must return arrays.* 3 lanes, got shape \(2,\) for b"),
        (lambda x: x.astype(jnp.float32).mean(), r"must return arrays.* 3 lanes, got shape \(\)"),
        (lambda x: None, r"must return an.* None"),
        (lambda x: {}, r"must return an.* \{\}"),
        (lambda x: "far", r"must return arrays.* 'far' for the observation"),
    ],
)
def test_an_observation_wrapper_that_returns_no_batch_is_refused_by_the_name_of_its_method(fn, fault):
    for call in spec_and_reset(with_method(ObservationWrapper, "observation", fn), "observation"):
        with pytest.raises(ValueError, match=rf"^Mine\.observation {fault}"):
            call()
    with pytest.raises(ValueError, match=rf"^TransformObservation: fn {fault}"):
        TransformObservation(counting(), fn)


def test_a_leaf_wrapper_that_drops_the_lanes_is_refused_by_the_name_of_its_method():
    with pytest.raises(ValueError, match=r"^Mine\.map_leaf .*got shape \(\)"):
        with_method(LeafObservationWrapper, "map_leaf", jnp.sum).observation_spec()


@pytest.mark.parametrize(
    ("fn", "fault"),
    [
        (lambda r: r[:, None], r"\(3,\), or \(3, R\) with R of at least 2 for a vector.* \(3, 1\)"),
        (lambda r: r[1:], r"\(3,\), or \(3, R\) with R of at least 2 for a vector.* \(2,\)"),
        (jnp.mean, r"\(3,\), or \(3, R\) with R of at least 2 for a vector.* \(\)"),
    ],
)
def test_a_reward_wrapper_that_returns_another_shape_is_refused(fn, fault):
    for call in spec_and_reset(with_method(RewardWrapper, "reward", fn), "reward"):
        with pytest.raises(ValueError, match=rf"^Mine\b.*: the reward .*{fault}"):
            call()
