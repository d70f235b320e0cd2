"""FrameStacker: policy and learner see the same stacks of rows that hold one frame each."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs, tree
from jaxenv.data import Replay
from jaxenv.data.transformers import FrameStacker
from jaxenv.rollout import Experience, PolicyStep
from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset, FrameStack
from tests.data.replay.blocks import block, filled
from tests.data.transformers.sensors import row, sensors, unrolled, windows
from tests.wrappers.test_frame_stack import SHAPES, STACKED_BY_ALF, Ticking, of_all_ranks


@jax.jit
def ticking():
    """The raw rows of two lanes of periods 17 and 22."""
    env = AutoReset(Ticking(np.array([17, 22]), num_envs=2))
    start = env.reset(jax.random.key(0))
    return jaxenv.unroll(env, lambda timestep, stream: jnp.zeros(2, jnp.int32), *start, 26)[1]


@pytest.mark.parametrize("aligned", [True, False])
def test_lanes_of_periods_17_and_22_are_stacked_on_replay_as_by_alf(aligned):
    experience = jax.device_get(ticking())
    replay = Replay(64, 2, aligned=aligned, ignore_earliest=2)
    t, lane, stacks = zip(*STACKED_BY_ALF, strict=True)

    @jax.jit
    def learn(experience, batch):
        stored = replay.add(replay.init(experience), experience)
        return FrameStacker(3).transform_batch((), batch, replay, stored)

    _, stacked = learn(experience, windows(experience, lane, t, 2))
    assert stacked.experience.timestep.observation[:, 0].tolist() == list(stacks)
    # The second row of a window is stacked within its own episode.
    second = stacked.experience.timestep.observation[6:9, 1].tolist()
    assert second == [[17, 17, 18], [16, 17, 18], [17, 18, 19]]


def test_the_oldest_row_of_each_lane_is_repeated():
    replay = Replay(5, 2, aligned=False, ignore_earliest=1)
    stored = replay.add(filled(replay, 5), block(5, 3, [0]), np.array([0]))
    _, stacked = FrameStacker(2, None, "count").transform_batch((), replay.gather_all(stored), replay, stored)
    assert stacked.experience.timestep.observation["count"][:, 0].tolist() == [[3, 3], [1000, 1000]]


def rows_with(*names):
    """Rows with step types and the named parts of the observation only."""
    paths = ["timestep.step_type", *(f"timestep.observation.{name}" for name in names)]
    return tree.select_fields(unrolled()[0], paths)


# --- policy and learner ----------------------------------------------------------------------------------------------

STACKERS = [FrameStacker(3, -1), FrameStacker(3, 0), FrameStacker(3, None, ("count", "camera"))]


@functools.cache
def played():
    """Rows of two unrolls whose policy_info is what the policy saw through the first stacker."""
    env, stacker = sensors(), STACKERS[0]

    @jax.jit
    def play():
        state, timestep = env.reset(jax.random.key(0))

        def policy(timestep, stream):
            return PolicyStep((timestep.observation["count"][:, -1] * 7 + 1) % 10, info=timestep.observation)

        policy, start = stacker.wrap_policy(policy, timestep)
        rows, memory = [], start
        for _ in range(2):
            (state, timestep, memory), experience = jaxenv.unroll(
                env, policy, state, timestep, 12, initial_memory=start, memory=memory
            )
            rows.append(experience)
        return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), *rows)

    return jax.device_get(play())


@functools.cache
def replayed():
    """Windows from an overwritten ring, and what a rollout and a learner see through each stacker."""
    replay = Replay(10, 3, aligned=False, ignore_earliest=2)

    @jax.jit
    def run(key, experience):
        stored = replay.init(experience)
        for rows in (slice(0, 9), slice(9, 16)):  # past the end of the ring, and over old rows
            stored = replay.add(stored, jax.tree.map(lambda x, rows=rows: x[rows], experience))
        ahead = jnp.array([0, 2])
        stored = replay.add(stored, jax.tree.map(lambda x: x[16:24][:, ahead], experience), ahead)
        batch = replay.sample(stored, key, 40, 4)
        row = batch.position[:, None] + np.arange(4, dtype=np.int32)[None]
        seen = []
        for stacker in STACKERS:
            start = stacker.init(jax.tree.map(lambda x: x[0], experience.timestep))
            shown = jax.lax.scan(stacker.transform_timestep, start, experience.timestep)[1].observation
            _, stacked = stacker.transform_batch((), batch, replay, stored)
            shown = jax.tree.map(lambda x: x[row, batch.env_id[:, None]], shown)
            seen.append((shown, stacked.experience.timestep.observation))
        return batch, seen

    return jax.device_get(run(jax.random.key(0), played()))


def test_a_learner_on_replayed_windows_sees_bit_for_bit_what_the_policy_saw():
    assert (played().timestep.step_type == 2).sum(axis=0).min() >= 2
    batch, seen = replayed()
    assert [batch.position[batch.env_id == lane].min() for lane in range(3)] == [16, 8, 16]
    chex.assert_trees_all_equal(seen[0][1], batch.experience.policy_info)


@pytest.mark.parametrize("number", range(3))
def test_rollout_and_replay_stack_equally_along_every_axis(number):
    shown, stacked = replayed()[1][number]
    chex.assert_trees_all_equal(stacked, shown, strict=True)


def test_the_oldest_stored_row_is_stacked_like_the_start_of_an_episode():
    experience = rows_with("count")
    replay = Replay(10, 3, ignore_earliest=2)

    @jax.jit
    def store(experience):
        stored = replay.init(experience)
        for rows in (slice(0, 10), slice(10, 13)):
            stored = replay.add(stored, jax.tree.map(lambda x, rows=rows: x[rows], experience))
        return stored

    stored = store(experience)
    _, batch = FrameStacker(3).transform_batch((), replay.gather_all(stored), replay, stored)
    stacked = np.asarray(batch.experience.timestep.observation["count"])
    count, first = experience.timestep.observation["count"], experience.timestep.step_type == 0
    for lane in range(3):
        begin = 3
        for t in range(3, 13):
            begin = t if first[t, lane] else begin
            expected = [count[max(t - k, begin), lane] for k in (2, 1, 0)]
            assert stacked[lane, t - 3].tolist() == expected, (lane, t)


def test_a_stack_that_starts_within_an_episode_repeats_its_first_observation():
    stacker = FrameStacker(2)
    first, second = (row(step_type=(1, 1, 1), observation=jnp.array(x, jnp.int32)) for x in ([4, 5, 6], [7, 8, 9]))
    state, shown = stacker.transform_timestep(stacker.init(first), first)
    assert shown.observation.tolist() == [[4, 4], [5, 5], [6, 6]]
    second = dataclasses.replace(second, step_type=jnp.array([1, 0, 1], jnp.int32))
    _, shown = stacker.transform_timestep(state, second)
    assert shown.observation.tolist() == [[4, 7], [8, 8], [6, 9]]


# --- shapes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axis", "shapes"),
    [
        (0, {"scalar": (3,), "vector": (21,), "matrix": (15, 6), "image": (6, 3, 4)}),
        (-1, {"scalar": (3,), "vector": (21,), "matrix": (5, 18), "image": (2, 3, 12)}),
        (None, {name: (3, *shape) for name, shape in SHAPES.items()}),
    ],
)
def test_rollout_replay_and_specs_have_the_same_shapes(axis, shapes):
    env, stacker = of_all_ranks(), FrameStacker(3, axis)
    spec = stacker.transform_spec(env.time_step_spec())
    assert {name: s.shape for name, s in spec.observation.items()} == shapes
    specs.require_equal(spec.observation, FrameStack(env, 3, axis).observation_spec())
    timestep = jax.eval_shape(env.reset, jax.random.key(0))[1]
    state, shown = jax.eval_shape(stacker.transform_timestep, stacker.init(timestep), timestep)
    specs.validate(spec.observation, specs.zeros(spec.observation))
    assert {name: x.shape[1:] for name, x in shown.observation.items()} == shapes
    assert {name: x.shape[1:] for name, x in state.frames.items()} == shapes
    rows = Experience(jax.tree.map(lambda x: jax.ShapeDtypeStruct((4, *x.shape), x.dtype), timestep))
    replay = Replay(8, 2, ignore_earliest=2)
    stacked = jax.eval_shape(
        lambda stored, key: stacker.transform_batch((), replay.sample(stored, key, 5, 3), replay, stored)[1],
        jax.eval_shape(replay.init, rows),
        jax.random.key(0),
    )
    assert {n: x.shape[2:] for n, x in stacked.experience.timestep.observation.items()} == shapes
    assert {n: x.dtype for n, x in stacked.experience.timestep.observation.items()} == {
        n: s.dtype for n, s in spec.observation.items()
    }


def test_a_stack_of_one_frame_is_the_frame():
    experience, replay = rows_with("place"), Replay(24, 3)
    batch = windows(experience, [0, 1], [4, 6], 3)
    _, stacked = jax.jit(FrameStacker(1).transform_batch, static_argnums=2)((), batch, replay, replay.init(experience))
    shown, raw = stacked.experience.timestep.observation, batch.experience.timestep.observation
    np.testing.assert_array_equal(shown["place"], raw["place"])


def test_windows_raise_if_the_rows_before_them_were_overwritten_unless_they_start_at_the_oldest_row():
    experience, replay, stacker = rows_with("count"), Replay(10, 3, ignore_earliest=2), FrameStacker(3)

    @jax.jit
    def store(experience):
        parts = [jax.tree.map(lambda x, rows=rows: x[rows], experience) for rows in (slice(0, 8), slice(8, 14))]
        stored = replay.add(replay.init(experience), parts[0])
        return stored, replay.add(stored, parts[1])

    before, after = store(experience)  # rows 0 .. 7, rows 4 .. 13
    stale, oldest = (windows(experience, [0, 1, 2], [position] * 3, 2) for position in (5, 4))
    stacker.transform_batch((), stale, replay, before)
    stacker.transform_batch((), oldest, replay, after)
    with pytest.raises(
        ValueError,
        match=r"^FrameStacker: the window at.* 5 of lane 0 needs the 2 rows before it.* is 4",
    ):
        stacker.transform_batch((), stale, replay, after)


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num": 0}, r"FrameStacker: num .*got 0"),
        ({"num": 2.5}, r"FrameStacker: num .*got 2\.5"),
        ({"axis": "last"}, r"FrameStacker: axis .*got 'last'"),
        ({"fields": 3}, r"FrameStacker: fields .*got 3"),
        ({"fields": ()}, r"FrameStacker: fields .*got \(\)"),
    ],
)
def test_an_invalid_argument_raises(arguments, message):
    with pytest.raises(ValueError, match=message):
        FrameStacker(**arguments)


@pytest.mark.parametrize(
    ("stacker", "message"),
    [
        (FrameStacker(fields=("lidar",)), r"FrameStacker: .*no 'lidar' here, the fields"),
        (FrameStacker(axis=2, fields=("grid",)), r"FrameStacker: axis .*got 2"),
    ],
)
def test_an_unknown_field_or_axis_raises_in_rollouts_and_in_specs(stacker, message):
    with pytest.raises(ValueError, match=message):
        stacker.init(sensors().reset(jax.random.key(0))[1])
    with pytest.raises(ValueError, match=message):
        stacker.transform_spec(sensors().time_step_spec())


def test_rows_of_a_same_step_stream_raise_with_the_alternative():
    env = AutoReset(Counting(np.array([3]), num_envs=2), "same_step")
    with pytest.raises(ValueError, match=r"FrameStacker: .* Use wrappers\.FrameStack inside AutoReset"):
        FrameStacker(2).init(env.reset(jax.random.key(0))[1])
    with pytest.raises(ValueError, match=r"FrameStacker: .* Use wrappers\.FrameStack inside AutoReset"):
        FrameStacker(2).transform_spec(env.time_step_spec())


def test_windows_that_cannot_be_stacked_raise():
    experience = rows_with("place")
    batch = windows(experience, [0, 1], [4, 6], 2)
    stacker = FrameStacker(3)
    with pytest.raises(ValueError, match="FrameStacker: pass replay"):
        stacker.transform_batch((), batch)
    replay = Replay(24, 3, ignore_earliest=1)
    stored = replay.init(experience)
    with pytest.raises(ValueError, match=r"ignore_earliest .*got 1"):
        stacker.transform_batch((), batch, replay, stored)
    replay = Replay(24, 3, ignore_earliest=2)
    _, twice = jax.eval_shape(lambda batch, stored: stacker.transform_batch((), batch, replay, stored), batch, stored)
    message = r"FrameStacker: place is float32\[6\] in the windows and float32\[2\] in the buffer"
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(lambda batch, stored: stacker.transform_batch((), batch, replay, stored), twice, stored)
