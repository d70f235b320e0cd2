"""Sequences of transformers, their order, and policies that see transformed rows."""

import copy
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs
from jaxenv.data import Replay
from jaxenv.data.transformers import (
    FrameStacker,
    Hindsight,
    Identity,
    ImageScale,
    ObservationNormalizer,
    RewardClipping,
    RewardFunction,
    RewardNormalizer,
    RewardScaling,
    RewardShifting,
    Sequential,
    Transformer,
    Untransformed,
    create,
)
from jaxenv.rollout import PolicyStep
from tests.data.transformers.sensing import batch_of, row, sensors, unrolled, windows

# --- order -----------------------------------------------------------------------------------------------------------


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
def test_an_order_in_which_raw_data_is_read_before_it_is_changed_is_taken(order):
    Sequential(*order)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (
            [ObservationNormalizer(), FrameStacker()],
            "Sequential: FrameStacker must stand before ObservationNormalizer: it reads the raw observations before a "
            "window from the buffer, so nothing may have changed those of the window",
        ),
        (
            [ObservationNormalizer(), Hindsight()],
            "Sequential: Hindsight must stand before ObservationNormalizer: it takes goals from the buffer and "
            "computes rewards from them, so nothing may have changed goals or rewards",
        ),
        (
            [FrameStacker(), Untransformed()],
            "Sequential: Untransformed must stand before FrameStacker: it keeps the row as it was stored, so nothing "
            "may have changed it",
        ),
        ([ImageScale(), RewardClipping(), Untransformed()], "Sequential: Untransformed must stand before ImageScale: "),
        ([Sequential(RewardScaling(2)), Hindsight()], "Sequential: Hindsight must stand before RewardScaling: "),
    ],
)
def test_another_order_is_refused_with_what_must_stand_before_what_and_why(order, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Sequential(*order)
    with pytest.raises(ValueError, match=re.escape(message)):
        create(order)


def test_one_a_list_or_nothing_make_a_transformer():
    clip = RewardClipping()
    assert create(None) == Identity()
    assert create(clip) is clip
    assert create([clip]) == Sequential(clip)
    assert create((FrameStacker(), clip)) == Sequential(FrameStacker(), clip)


@pytest.mark.parametrize("wrong", [5, RewardClipping, None])
def test_what_is_no_transformer_is_refused(wrong):
    with pytest.raises(ValueError, match="Sequential: transformers must be data transformers, got "):
        Sequential(Identity(), wrong)


def test_text_makes_no_transformer():
    with pytest.raises(ValueError, match=r"create: transformers must be a data transformer, a list .*, got 'Frame"):
        create("FrameStacker")


EACH = [
    Identity(),
    Untransformed(["reward"]),
    FrameStacker(2, fields=["camera"]),
    Hindsight(),
    ObservationNormalizer("window"),
    RewardClipping(-1, 1),
    RewardScaling(np.array([1, 2])),
    RewardShifting(1.0),
    RewardFunction(abs),
    RewardNormalizer(),
    ImageScale(),
    Sequential(FrameStacker(2), ImageScale()),
]


@pytest.mark.parametrize("transformer", EACH, ids=lambda t: type(t).__name__)
def test_a_transformer_is_hashable_equal_to_one_like_it_and_unchangeable(transformer):
    assert isinstance(transformer, Transformer)
    another = copy.deepcopy(transformer)
    assert another == transformer
    assert hash(another) == hash(transformer)
    with pytest.raises(AttributeError):
        transformer.num = 3


# --- one after the other ---------------------------------------------------------------------------------------------


def test_a_sequence_is_its_transformers_one_after_the_other():
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
    assert jax.tree.structure(one) == jax.tree.structure(other)
    jax.tree.map(np.testing.assert_array_equal, one, other)
    rows = one[1][1].experience.timestep
    assert rows.observation["place"].shape == (3, 3, 6)
    np.testing.assert_array_equal(rows.untransformed.reward, batch.experience.timestep.reward)
    np.testing.assert_array_equal(
        rows.untransformed.observation["count"], batch.experience.timestep.observation["count"]
    )


def test_specs_are_those_of_the_rows_shown():
    env = sensors()
    whole = Sequential(
        Untransformed(), FrameStacker(2), ImageScale(), ObservationNormalizer(clip=3.0), RewardScaling(2)
    )
    spec = whole.transform_spec(env.time_step_spec())
    timestep = env.reset(jax.random.key(0))[1]
    shown = jax.eval_shape(lambda timestep: whole.transform_timestep(whole.init(timestep), timestep)[1], timestep)
    specs.require_equal(specs.unbatched(shown), specs.unbatched(spec, 0))
    specs.require_equal(spec.observation["camera"], specs.Bounded((4, 1, 3), np.float32, -3, 3))


def test_untransformed_keeps_the_row_or_some_fields_of_it():
    timestep = row(observation={"x": jnp.arange(3)})
    _, shown = Sequential(Untransformed(), RewardClipping(-1, 1)).transform_timestep(((), ()), timestep)
    assert shown.reward.tolist() == [0, 1, 1]
    assert shown.untransformed.reward.tolist() == [0, 1, 5]
    _, again = Untransformed().transform_timestep((), shown)
    assert again.untransformed.reward.tolist() == [0, 1, 1]
    assert again.untransformed.untransformed == ()
    _, batch = Untransformed(("reward",)).transform_batch((), batch_of(timestep))
    assert batch.experience.timestep.untransformed.reward.tolist() == [[0], [1], [5]]
    assert batch.experience.timestep.untransformed.observation == ()
    with pytest.raises(ValueError, match="Untransformed: field 'rewards': no 'rewards' here, the fields are"):
        Untransformed(("rewards",)).transform_timestep((), timestep)
    with pytest.raises(ValueError, match="Untransformed: fields must be None or a tuple of dotted paths, got 'reward'"):
        Untransformed("reward")


def test_a_stack_of_goals_beside_hindsight_is_refused_when_windows_come():
    goals = {"achieved_goal": jnp.zeros((3, 2)), "desired_goal": jnp.zeros((3, 2)), "x": jnp.zeros((3, 2))}
    batch = batch_of(row(observation=goals))
    for whole in (Sequential(Hindsight(), FrameStacker(2)), Sequential(FrameStacker(2), Hindsight())):
        with pytest.raises(ValueError, match="FrameStacker must not stack 'desired_goal', which Hindsight replaces"):
            whole.transform_batch(((), ()), batch)


def test_each_of_a_sequence_draws_from_a_key_of_its_own():
    timestep = row(observation={"achieved_goal": jnp.zeros(3), "desired_goal": jnp.zeros(3)})
    a, b = Sequential(Hindsight(), Hindsight()).init(timestep, jax.random.key(3))
    assert (int(a.value.k0), int(a.value.k1)) != (int(b.value.k0), int(b.value.k1))


def test_what_draws_is_given_a_key_or_a_state_and_draws_differently_for_every_key():
    timestep = row(observation={"achieved_goal": jnp.zeros(3), "desired_goal": jnp.zeros(3)})
    whole = Sequential(Hindsight(), RewardScaling(2))
    with pytest.raises(ValueError, match="Sequential: it draws random numbers, pass key"):
        whole.wrap_policy(None, timestep)
    started = jax.vmap(lambda key: whole.wrap_policy(None, timestep, key=key)[1][0])(
        jax.random.split(jax.random.key(3), 2)
    )
    a, b = (jax.tree.map(lambda x, i=i: x[i], started) for i in range(2))
    assert (int(a[0].value.k0), int(a[0].value.k1)) != (int(b[0].value.k0), int(b[0].value.k1))
    assert whole.wrap_policy(None, timestep, state=b)[1][0][0].value.k0 == b[0].value.k0


# --- around a policy -------------------------------------------------------------------------------------------------

STACK = FrameStacker(2, None, ("count",))


@functools.cache
def played(num_steps=12):
    """What a policy with a memory saw and remembered, behind a stacker and statistics."""
    env, transformer = sensors(), Sequential(STACK, ObservationNormalizer(fields=("place",)))

    def policy(timestep, stream, memory):
        action = (timestep.observation["count"][:, -1] * 7 + 1) % 10
        return PolicyStep(action, memory + 1, info=(timestep.observation["count"], memory))

    @jax.jit
    def play():
        state, timestep = env.reset(jax.random.key(0))
        around, memory = transformer.wrap_policy(policy, timestep, jnp.zeros(3, jnp.int32))
        return jaxenv.unroll(env, around, state, timestep, num_steps, initial_memory=memory)

    return transformer, jax.device_get(play())


def test_lane_state_and_memory_begin_anew_with_an_episode_and_statistics_go_on():
    transformer, ((_, _, (state, _)), experience) = played()
    seen, remembered = experience.policy_info
    raw = experience.timestep.observation["count"]
    np.testing.assert_array_equal(raw, unrolled()[0].timestep.observation["count"][:12])  # stored raw
    # The middle lane: episodes of 2 and 3 steps.
    assert seen[:9, 1].tolist() == [[0, 0], [0, 1], [1, 2], [20, 20], [20, 21], [21, 22], [22, 23], [40, 40], [40, 41]]
    assert remembered[:9, 1].tolist() == [0, 1, 2, 0, 1, 2, 3, 0, 1]
    assert seen[:5, 2].tolist() == [[0, 0], [0, 1], [1, 2], [2, 3], [3, 4]]
    assert int(transformer.transformers[1].statistics(state[1])["place"].count) == 36


def test_a_policy_without_anything_to_remember_stays_one():
    env = sensors()
    policy, memory = Sequential(RewardClipping(0, 1)).wrap_policy(
        lambda timestep, stream: timestep.reward, *env.reset(jax.random.key(0))[1:]
    )
    assert memory == ()
    assert policy(row(), None).tolist() == [0, 1, 1]


def test_evaluation_starts_from_learned_statistics_with_other_lanes():
    transformer, ((_, _, (state, _)), _) = played()
    env = jaxenv.wrappers.AutoReset(sensors().env.take(jnp.array([0, 1, 2, 1, 0])))
    seen = []

    def policy(timestep, stream):
        jax.debug.callback(lambda x: seen.append(np.asarray(x)), timestep.observation["place"], ordered=True)
        return jnp.zeros(5, jnp.int32)

    shapes = jax.eval_shape(env.reset, jax.random.key(0))[1]
    frozen = transformer.frozen()
    around, memory = frozen.wrap_policy(policy, shapes, state=state)
    found = jax.jit(lambda: jaxenv.evaluate(env, around, jax.random.key(0), initial_memory=memory))()
    jax.effects_barrier()
    assert found.lengths.tolist() == [5, 2, 9, 2, 5]
    moments = transformer.transformers[1].statistics(state[1])["place"]
    expected = -moments.mean / np.sqrt(moments.variance + np.float32(1e-8))
    np.testing.assert_allclose(seen[0], np.broadcast_to(expected, (5, 2)), rtol=1e-5)
    assert all(x.shape == (5, 2) for x in seen)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            Sequential(STACK),
            r"Sequential: state has nothing where this transformer has uint32\[\] at 1\.value\.place\.moments",
        ),
        (ObservationNormalizer(fields=("place",)), "state has nothing where this transformer has an array per lane at"),
        (
            Sequential(STACK, ObservationNormalizer(fields=("grid",))),
            r"state has nothing .* uint32\[\] at 1\.value\.place\.",
        ),
    ],
)
def test_the_state_of_another_transformer_is_refused_by_the_first_difference(other, message):
    timestep = sensors().reset(jax.random.key(0))[1]
    with pytest.raises(ValueError, match=message):
        played()[0].wrap_policy(None, timestep, state=other.init(timestep))


def test_rows_of_an_unroll_are_transformed_for_an_on_policy_learner_by_a_scan():
    (_, _, _), experience = played()[1]
    timestep = jax.tree.map(lambda x: x[0], experience.timestep)
    _, shown = jax.jit(lambda rows: jax.lax.scan(STACK.transform_timestep, STACK.init(timestep), rows))(
        experience.timestep
    )
    np.testing.assert_array_equal(shown.observation["count"], experience.policy_info[0])


def test_a_policy_under_shard_map_may_be_transformed():
    mesh = jax.make_mesh((1,), ("lanes",), axis_types=(jax.sharding.AxisType.Auto,))
    # Statistics of all shards, and of each its own behind a transformer whose rows are not known when they begin.
    shared, own = (ObservationNormalizer(fields=("place",), axis_name=axis) for axis in ("lanes", None))
    env, transformer = sensors(), Sequential(STACK, shared, own)

    def play(env_id):
        state, timestep = env.reset(jax.random.key(0), env_id=env_id)
        policy = lambda timestep, stream: timestep.observation["count"][:, 0] % 10  # noqa: E731
        around, memory = transformer.wrap_policy(policy, timestep)
        return jaxenv.unroll(env, around, state, timestep, 3, initial_memory=memory)[1].action

    lanes = jax.sharding.PartitionSpec("lanes")
    sharded = jax.shard_map(play, mesh=mesh, in_specs=lanes, out_specs=jax.sharding.PartitionSpec(None, "lanes"))
    assert jax.jit(sharded)(jnp.arange(3, dtype=jnp.int32)).tolist() == [[0, 0, 0], [0, 0, 0], [1, 1, 1]]
