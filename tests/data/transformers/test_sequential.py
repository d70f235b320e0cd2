"""Sequences of transformers: their order, states and specs."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import specs
from jaxenv.data import Replay
from jaxenv.data.transformers import (
    FrameStacker,
    Hindsight,
    Identity,
    ImageScale,
    ObservationNormalizer,
    RewardClipping,
    RewardNormalizer,
    RewardScaling,
    RewardShifting,
    Sequential,
    Untransformed,
    create,
)
from tests.data.transformers.sensors import batch_of, row, sensors, unrolled, windows
from tests.errors import like


def test_all_of_a_frozen_sequence_are_frozen():
    frozen = Sequential(ObservationNormalizer(), RewardNormalizer()).frozen()
    assert frozen == Sequential(ObservationNormalizer(update="never"), RewardNormalizer(update="never"))


@pytest.mark.parametrize(
    "order",
    [
        [Untransformed(), FrameStacker(), ObservationNormalizer(), RewardClipping()],
        [FrameStacker(), Hindsight()],
        [Hindsight(), FrameStacker()],
        [RewardClipping(), ObservationNormalizer(), ImageScale()],
        [Identity(), Untransformed(), Identity(), FrameStacker()],
        [Sequential(Untransformed(), FrameStacker()), ImageScale()],
        [],
    ],
)
def test_transformers_that_read_raw_data_may_precede_others(order):
    Sequential(*order)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (
            [ObservationNormalizer(), FrameStacker()],
            "Sequential: FrameStacker must",
        ),
        (
            [ObservationNormalizer(), Hindsight()],
            "Sequential: Hindsight must",
        ),
        (
            [FrameStacker(), Untransformed()],
            "Sequential: Untransformed must",
        ),
        ([ImageScale(), RewardClipping(), Untransformed()], "Sequential: Untransformed must"),
        ([Sequential(RewardScaling(2)), Hindsight()], "Sequential: Hindsight must"),
    ],
)
def test_another_order_raises_with_which_must_precede_which_and_why(order, message):
    with pytest.raises(ValueError, match=like(message)):
        Sequential(*order)
    with pytest.raises(ValueError, match=like(message)):
        create(order)


def test_create_accepts_a_transformer_a_list_and_none():
    clip = RewardClipping()
    assert create(None) == Identity()
    assert create(clip) is clip
    assert create([clip]) == Sequential(clip)
    assert create((FrameStacker(), clip)) == Sequential(FrameStacker(), clip)


@pytest.mark.parametrize("wrong", [5, RewardClipping, None])
def test_an_argument_that_is_not_a_transformer_raises(wrong):
    with pytest.raises(ValueError, match=r"Sequential: transformers .*got "):
        Sequential(Identity(), wrong)


def test_create_raises_for_a_string():
    with pytest.raises(ValueError, match=r"create: transformers .*got 'Frame"):
        create("FrameStacker")


def test_sequential_applies_its_transformers_in_order():
    parts = (
        Untransformed(("observation.count", "reward")),
        FrameStacker(3, fields=("place",)),
        ObservationNormalizer(update="replay"),
        RewardShifting(3),
    )
    whole = Sequential(*parts)
    experience = unrolled()[0]
    replay = Replay(24, 3, ignore_earliest=2)
    batch = windows(experience, [0, 1, 2], [4, 6, 9], 3)

    @jax.jit
    def both(experience, batch):
        stored = replay.add(replay.init(experience), experience)
        timestep = jax.tree.map(lambda x: x[0], experience.timestep)
        start = whole.init(timestep)
        one = whole.transform_timestep(start, timestep), whole.transform_batch(start, batch, replay, stored)
        states, replayed = [], []
        for part, state in zip(parts, start, strict=True):
            own, timestep = part.transform_timestep(state, timestep)
            states.append(own)
            own, batch = part.transform_batch(state, batch, replay, stored)
            replayed.append(own)
        return one, ((tuple(states), timestep), (tuple(replayed), batch))

    one, other = jax.device_get(both(experience, batch))
    chex.assert_trees_all_equal(one, other)
    rows = one[1][1].experience.timestep
    assert rows.observation["place"].shape == (3, 3, 6)
    np.testing.assert_array_equal(rows.untransformed.reward, batch.experience.timestep.reward)
    np.testing.assert_array_equal(
        rows.untransformed.observation["count"], batch.experience.timestep.observation["count"]
    )


def test_transformed_specs_are_those_of_transformed_rows():
    env = sensors()
    whole = Sequential(
        Untransformed(), FrameStacker(2), ImageScale(), ObservationNormalizer(clip=3.0), RewardScaling(2)
    )
    spec = whole.transform_spec(env.time_step_spec())
    timestep = env.reset(jax.random.key(0))[1]
    shown = jax.eval_shape(lambda timestep: whole.transform_timestep(whole.init(timestep), timestep)[1], timestep)
    specs.require_equal(specs.unbatched(shown), specs.unbatched(spec, 0))
    specs.require_equal(spec.observation["camera"], specs.Bounded((4, 1, 3), np.float32, -3, 3))


def test_a_stack_of_goals_together_with_hindsight_raises_on_replay():
    goals = {"achieved_goal": jnp.zeros((3, 2)), "desired_goal": jnp.zeros((3, 2)), "x": jnp.zeros((3, 2))}
    batch = batch_of(row(observation=goals))
    for whole in (Sequential(Hindsight(), FrameStacker(2)), Sequential(FrameStacker(2), Hindsight())):
        with pytest.raises(ValueError, match=r"FrameStacker .*'desired_goal'"):
            whole.transform_batch(((), ()), batch)


def test_each_transformer_of_a_sequence_has_its_own_key():
    timestep = row(observation={"achieved_goal": jnp.zeros(3), "desired_goal": jnp.zeros(3)})
    a, b = Sequential(Hindsight(), Hindsight()).init(timestep, jax.random.key(3))
    assert (int(a.value.k0), int(a.value.k1)) != (int(b.value.k0), int(b.value.k1))
