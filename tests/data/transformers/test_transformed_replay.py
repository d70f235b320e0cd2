"""Reads from a replay buffer through transformers: what a learner reads is what the policy saw."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.data import Replay, TransformedReplay, transformers
from jaxenv.rollout import PolicyStep
from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset
from tests.data.transformers.test_hindsight import HER, labelled_rows
from tests.rows import assert_equal

REPLAY = Replay(capacity=8, num_envs=2, ignore_earliest=2)
STACKED = transformers.create([transformers.FrameStacker(3, axis=None), transformers.RewardClipping(-1, 1)])


@functools.cache
def collected():
    """A buffer of 8 raw rows of two lanes, what the policy saw on them, and the state of `STACKED` after them."""
    env = AutoReset(Counting(np.array([3, 9]), stride=10, num_envs=2))

    def policy(timestep, stream):
        return PolicyStep(jnp.full(2, 5, jnp.int32), info=(timestep.observation, timestep.reward))

    @jax.jit
    def run(key):
        state, timestep = env.reset(key)
        act, memory = STACKED.wrap_policy(policy, timestep)
        (_, last, memory), rows = jaxenv.unroll(env, act, state, timestep, 8, initial_memory=memory)
        return REPLAY.add(REPLAY.init(rows), rows), rows.policy_info, memory[0], last

    return jax.device_get(run(jax.random.key(0)))


def test_samples_and_fields_are_clipped_and_the_raw_reward_stays_in_the_buffer():
    view = TransformedReplay(REPLAY, transformers.RewardClipping(-1, 1))
    stored = collected()[0]

    @jax.jit
    def read(stored, key):
        sampled = view.sample((), stored, key, 6)[1], REPLAY.sample(stored, key, 6)
        fields = view.get((), stored, "timestep.reward", 0, 1), REPLAY.get(stored, "timestep.reward", 0, 1)
        return [batch.experience.timestep.reward.max() for batch in sampled], fields

    assert jax.tree.map(float, read(stored, jax.random.key(1))) == ([1, 5], (1, 5))
    assert view.gather_all((), stored)[1].experience.timestep.reward.max() == 1


def test_rows_that_are_read_are_those_that_the_policy_saw():
    view = TransformedReplay(REPLAY, STACKED)
    stored, (observation, reward), state, _ = collected()
    position, lane = np.meshgrid(np.arange(8), np.arange(2), indexing="ij")

    @jax.jit
    def read(state, stored, key):
        fields = (view.get(state, stored, f"timestep.{name}", lane, position) for name in ("observation", "reward"))
        return tuple(fields), view.sample(state, stored, key, 5, 3)[1]

    fields, batch = jax.device_get(read(state, stored, jax.random.key(2)))
    assert_equal(fields, (observation, reward))
    for n, (env_id, first) in enumerate(zip(batch.env_id, batch.position, strict=True)):
        assert_equal(batch.experience.timestep.observation[n], observation[first : first + 3, env_id])


def test_reading_a_field_uses_the_statistics_and_does_not_learn():
    transformer = transformers.RewardNormalizer(update="replay")
    stored, _, _, timestep = collected()
    view = TransformedReplay(REPLAY, transformer)

    @jax.jit
    def read(state, stored, key):
        learned, _ = view.sample(state, stored, key, 6)
        _, batch = transformer.frozen().transform_batch(learned, REPLAY.sample(stored, key, 6), REPLAY, stored)
        fields = [view.get(s, stored, "timestep.reward", 0, 1) for s in (state, learned)]
        return *fields, batch.experience.timestep.reward.max()

    before, after, expected = map(float, read(transformer.init(timestep), stored, jax.random.key(1)))
    assert before != after
    assert after == pytest.approx(expected, rel=1e-5)


def test_hindsight_relabels_samples_and_leaves_the_goals_of_fields():
    rows = labelled_rows()
    replay = Replay(14, 3, index_episodes=True)
    view = TransformedReplay(replay, [HER(proportion=1.0)])

    @jax.jit
    def read(rows, key):
        stored, state = replay.add(replay.init(rows), rows), view.transformer.init(rows.timestep, key)
        path = "timestep.observation.goals.desired.x"
        return view.sample(state, stored, key, 30)[1], view.get(state, stored, path, [0, 1], [3, 4])

    batch, goal = jax.device_get(read(rows, jax.random.key(0)))
    timestep = batch.experience.timestep
    sampled = timestep.observation["goals"]["desired"]["x"][:, 0, 0]
    assert (sampled[~timestep.is_last()[:, 0]] < 1000).all()
    assert goal.tolist() == [[1000, 0], [1000, 0]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({}, None), r"TransformedReplay: replay .*got {}"),
        ((REPLAY, 3), r"create: transformers .*got 3"),
        ((REPLAY, [transformers.RewardClipping(-1, 1), transformers.FrameStacker(3)]), "FrameStacker must precede"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        TransformedReplay(*arguments)


def test_a_field_that_is_not_there_is_refused():
    view = TransformedReplay(REPLAY, None)
    with pytest.raises(ValueError, match="no 'camera'"):
        jax.eval_shape(lambda stored: view.get((), stored, "timestep.camera", 0, 1), collected()[0])
