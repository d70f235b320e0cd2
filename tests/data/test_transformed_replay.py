"""Reads from a replay buffer through transformers: what a learner reads is what the policy saw."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.data import Replay, TransformedReplay, transformers
from jaxenv.rollout import PolicyStep
from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset
from tests.rows import assert_equal

REPLAY = Replay(capacity=8, num_envs=2, ignore_earliest=2, index_episodes=True)


def collected(transformer, action=5):
    """A buffer of 8 rows of two lanes, what the policy saw on them, and the transformer's state after them."""
    env = AutoReset(Counting(np.array([3, 9]), stride=10, num_envs=2))

    def policy(timestep, stream):
        return PolicyStep(jnp.full(2, action, jnp.int32), info=(timestep.observation, timestep.reward))

    @jax.jit
    def run(key):
        state, timestep = env.reset(key)
        act, memory = transformer.wrap_policy(policy, timestep, key=key)
        (_, _, memory), rows = jaxenv.unroll(env, act, state, timestep, 8, initial_memory=memory)
        return REPLAY.add(REPLAY.init(rows), rows), rows.policy_info, memory[0] if memory else ()

    return run(jax.random.key(0))


def test_samples_and_fields_are_clipped_and_the_raw_reward_stays_in_the_buffer():
    clipping = transformers.RewardClipping(-1, 1)
    view = TransformedReplay(REPLAY, clipping)
    stored = collected(clipping)[0]
    _, batch = view.sample((), stored, jax.random.key(1), batch_size=6)
    _, whole = view.gather_all((), stored)
    assert batch.experience.timestep.reward.max() == whole.experience.timestep.reward.max() == 1
    assert view.get((), stored, "timestep.reward", 0, 1) == 1
    assert REPLAY.get(stored, "timestep.reward", 0, 1) == 5
    assert REPLAY.sample(stored, jax.random.key(1), 6).experience.timestep.reward.max() == 5


def test_rows_that_are_read_are_those_that_the_policy_saw():
    transformer = transformers.create([transformers.FrameStacker(3, axis=None), transformers.RewardScaling(0.5)])
    stored, (observation, reward), state = collected(transformer)
    position, lane = np.meshgrid(np.arange(8), np.arange(2), indexing="ij")
    view = TransformedReplay(REPLAY, transformer)
    assert_equal(view.get(state, stored, "timestep.observation", lane, position), observation)
    assert_equal(view.get(state, stored, "timestep.reward", lane, position), reward)
    _, batch = jax.jit(view.sample, static_argnums=(3, 4))(state, stored, jax.random.key(2), 5, 3)
    for n, (env_id, first) in enumerate(zip(batch.env_id, batch.position, strict=True)):
        assert_equal(batch.experience.timestep.observation[n], observation[first : first + 3, env_id])


def test_reading_a_field_uses_the_statistics_and_does_not_learn():
    transformer = transformers.RewardNormalizer(update="replay")
    stored, _, state = collected(transformer)
    view = TransformedReplay(REPLAY, transformer)
    learned, _ = view.sample(state, stored, jax.random.key(1), 6)
    before, after = (view.get(s, stored, "timestep.reward", 0, 1) for s in (state, learned))
    assert int(transformer.statistics(learned).count) > 0
    assert float(before) != float(after)
    raw = REPLAY.sample(stored, jax.random.key(3), 6)
    _, batch = transformer.frozen().transform_batch(learned, raw, REPLAY, stored)
    assert float(after) == float(batch.experience.timestep.reward.max())


class Reaching(Counting):
    """Counting with goals that are never reached."""

    def observe(self, state):
        place = state.step.astype(jnp.float32)[:, None]
        return {"achieved_goal": place, "desired_goal": jnp.full_like(place, 100)}

    def observation_spec(self):
        goal = jaxenv.specs.Array((1,), np.float32)
        return {"achieved_goal": goal, "desired_goal": goal}

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        return jaxenv.Transition(out.state, jnp.full_like(out.reward, -1), out.terminated)


def test_hindsight_relabels_samples_and_leaves_the_goals_of_fields():
    env, hindsight = AutoReset(Reaching(np.array([9]), num_envs=2)), transformers.Hindsight(proportion=1.0)
    state, timestep = env.reset(jax.random.key(0))
    _, rows = jaxenv.unroll(env, lambda timestep, stream: timestep.step_type, state, timestep, 8)
    stored, view = REPLAY.add(REPLAY.init(rows), rows), TransformedReplay(REPLAY, [hindsight])
    state = view.transformer.init(timestep)
    _, batch = view.sample(state, stored, jax.random.key(1), 6)
    assert (batch.experience.timestep.observation["desired_goal"] < 100).all()
    goal = view.get(state, stored, "timestep.observation.desired_goal", [0, 1], [3, 4])
    assert goal.tolist() == [[100.0], [100.0]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({}, None), "TransformedReplay: replay must be a Replay, got {}"),
        ((REPLAY, 3), "create: transformers must be a data transformer, a list of them or None, got 3"),
        ((REPLAY, [transformers.RewardClipping(-1, 1), transformers.FrameStacker(3)]), "FrameStacker must precede"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        TransformedReplay(*arguments)


def test_a_field_that_is_not_there_is_refused():
    stored = collected(transformers.Identity())[0]
    with pytest.raises(ValueError, match="no 'camera'"):
        TransformedReplay(REPLAY, None).get((), stored, "timestep.camera", 0, 1)
