"""Properties of all transformers, and policies that see transformed rows."""

import copy
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
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
)
from jaxenv.rollout import PolicyStep
from tests.data.transformers.sensors import row, sensors, unrolled

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
def test_a_transformer_is_hashable_immutable_and_equal_to_its_copy(transformer):
    assert isinstance(transformer, Transformer)
    another = copy.deepcopy(transformer)
    assert another == transformer
    assert hash(another) == hash(transformer)
    with pytest.raises(AttributeError):
        transformer.num = 3


# --- policies ---------------------------------------------------------------------------------------------------------


def test_a_random_transformer_requires_a_key_or_a_state():
    def still(timestep, stream):
        return timestep.step_type

    timestep = row(observation={"achieved_goal": jnp.zeros(3), "desired_goal": jnp.zeros(3)})
    whole = Sequential(Hindsight(), RewardScaling(2))
    with pytest.raises(ValueError, match="Sequential: it draws random"):
        whole.wrap_policy(still, timestep)
    started = jax.vmap(lambda key: whole.wrap_policy(still, timestep, key=key)[1][0])(
        jax.random.split(jax.random.key(3), 2)
    )
    a, b = (jax.tree.map(lambda x, i=i: x[i], started) for i in range(2))
    assert (int(a[0].value.k0), int(a[0].value.k1)) != (int(b[0].value.k0), int(b[0].value.k1))
    assert whole.wrap_policy(still, timestep, state=b)[1][0][0].value.k0 == b[0].value.k0


STACK = FrameStacker(2, None, ("count",))


@functools.cache
def played(num_steps=12):
    """What a policy with memory saw and remembered through a stacker and a normaliser."""
    env, transformer = sensors(), Sequential(STACK, ObservationNormalizer(fields=("place",)))

    def policy(timestep, stream, memory):
        action = (timestep.observation["count"][:, -1] * 7 + 1) % 10
        return PolicyStep(action, memory + 1, info=(timestep.observation["count"], memory))

    @jax.jit
    def play():
        state, timestep = env.reset(jax.random.key(0))
        wrapped, memory = transformer.wrap_policy(policy, timestep, jnp.zeros(3, jnp.int32))
        return jaxenv.unroll(env, wrapped, state, timestep, num_steps, initial_memory=memory)

    return transformer, jax.device_get(play())


def test_lane_state_and_memory_restart_with_an_episode_and_statistics_continue():
    transformer, ((_, _, (state, _)), experience) = played()
    seen, remembered = experience.policy_info
    raw = experience.timestep.observation["count"]
    np.testing.assert_array_equal(raw, unrolled()[0].timestep.observation["count"][:12])  # stored rows are raw
    # The middle lane has episodes of 2 and 3 steps.
    assert seen[:9, 1].tolist() == [[0, 0], [0, 1], [1, 2], [20, 20], [20, 21], [21, 22], [22, 23], [40, 40], [40, 41]]
    assert remembered[:9, 1].tolist() == [0, 1, 2, 0, 1, 2, 3, 0, 1]
    assert seen[:5, 2].tolist() == [[0, 0], [0, 1], [1, 2], [2, 3], [3, 4]]
    assert int(transformer.transformers[1].statistics(state[1])["place"].count) == 36


def test_a_policy_without_memory_remains_without_memory():
    env = sensors()
    policy, memory = Sequential(RewardClipping(0, 1)).wrap_policy(
        lambda timestep, stream: timestep.reward, *env.reset(jax.random.key(0))[1:]
    )
    assert memory == ()
    assert policy(row(), None).tolist() == [0, 1, 1]


def test_evaluation_starts_from_given_statistics_with_another_number_of_lanes():
    transformer, ((_, _, (state, _)), _) = played()
    env = jaxenv.wrappers.AutoReset(sensors().env.take(jnp.array([0, 1, 2, 1, 0])))
    seen = []

    def policy(timestep, stream):
        jax.debug.callback(lambda x: seen.append(np.asarray(x)), timestep.observation["place"], ordered=True)
        return jnp.zeros(5, jnp.int32)

    shapes = jax.eval_shape(env.reset, jax.random.key(0))[1]
    frozen = transformer.frozen()
    wrapped, memory = frozen.wrap_policy(policy, shapes, state=state)
    evaluation = jax.jit(lambda: jaxenv.evaluate(env, wrapped, jax.random.key(0), initial_memory=memory))()
    jax.effects_barrier()
    assert evaluation.lengths.tolist() == [5, 2, 9, 2, 5]
    moments = transformer.transformers[1].statistics(state[1])["place"]
    expected = -moments.mean / np.sqrt(moments.variance + np.float32(1e-8))
    np.testing.assert_allclose(seen[0], np.broadcast_to(expected, (5, 2)), rtol=1e-5)
    assert all(x.shape == (5, 2) for x in seen)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (Sequential(STACK), r"Sequential: state must be a tuple of 2, got a tuple of 1"),
        (ObservationNormalizer(fields=("place",)), r"Sequential: state must be a tuple.*, got a Shared"),
        (
            Sequential(STACK, ObservationNormalizer(fields=("grid",))),
            r"state\.1\.value\.grid must be .*got an Estimate",
        ),
    ],
)
def test_the_state_of_another_transformer_raises_with_the_first_difference(other, message):
    timestep = sensors().reset(jax.random.key(0))[1]
    with pytest.raises(ValueError, match=message):
        played()[0].wrap_policy(None, timestep, state=other.init(timestep))


def test_a_state_of_another_window_raises_with_its_shape():
    timestep = sensors().reset(jax.random.key(0))[1]
    small, large = (ObservationNormalizer(mode="window", window=n, fields=("place",)) for n in (3, 4))
    with pytest.raises(ValueError, match=r"state\.value\.place\.memory\.0\..* must be uint32\[4\], got uint32\[3\]"):
        large.wrap_policy(None, timestep, state=small.init(timestep))


def test_a_scan_transforms_the_rows_of_an_unroll_for_an_on_policy_learner():
    (_, _, _), experience = played()[1]
    timestep = jax.tree.map(lambda x: x[0], experience.timestep)
    _, shown = jax.jit(lambda rows: jax.lax.scan(STACK.transform_timestep, STACK.init(timestep), rows))(
        experience.timestep
    )
    np.testing.assert_array_equal(shown.observation["count"], experience.policy_info[0])


def test_a_policy_can_be_wrapped_under_shard_map():
    mesh = jax.make_mesh((1,), ("lanes",), axis_types=(jax.sharding.AxisType.Auto,))
    # Statistics of all shards, and of each shard; the latter follow a transformer whose rows have no values at init.
    shared, own = (ObservationNormalizer(fields=("place",), axis_name=axis) for axis in ("lanes", None))
    env, transformer = sensors(), Sequential(STACK, shared, own)

    def play(env_id):
        state, timestep = env.reset(jax.random.key(0), env_id=env_id)
        policy = lambda timestep, stream: timestep.observation["count"][:, 0] % 10  # noqa: E731
        wrapped, memory = transformer.wrap_policy(policy, timestep)
        return jaxenv.unroll(env, wrapped, state, timestep, 3, initial_memory=memory)[1].action

    lanes = jax.sharding.PartitionSpec("lanes")
    sharded = jax.shard_map(play, mesh=mesh, in_specs=lanes, out_specs=jax.sharding.PartitionSpec(None, "lanes"))
    assert jax.jit(sharded)(jnp.arange(3, dtype=jnp.int32)).tolist() == [[0, 0, 0], [0, 0, 0], [1, 1, 1]]
