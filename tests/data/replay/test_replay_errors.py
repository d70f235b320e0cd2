"""Arguments, rows, lanes and states that a replay buffer refuses, and what jitted code does instead."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import data
from jaxenv.data import PrioritizedSampling, Replay, UniformSampling
from tests.data.replay.blocks import add, block, filled, flagged, init, sample


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Replay(0, 3), r"Replay: capacity .*got 0"),
        (lambda: Replay(2.5, 3), r"Replay: capacity .*got 2.5"),
        (lambda: Replay(8, 0), r"Replay: num_envs .*got 0"),
        (lambda: Replay(2**30, 2), r"capacity \* num_envs .*got 1073741824 rows of 2 lanes"),
        (lambda: Replay(8, 3, ignore_earliest=8), r"Replay: ignore_earliest .*got 8"),
        (lambda: Replay(8, 3, aligned=1), r"Replay: aligned .*got 1"),
        (lambda: Replay(8, 3, index_episodes=None), r"Replay: index_episodes .*got None"),
        (lambda: Replay(8, 3, pack_bits=8), r"Replay: pack_bits .*got 8"),
        (lambda: Replay(8, 3, sampling=0.5), r"Replay: sampling .*got 0\.5"),
        (lambda: UniformSampling(1.5, 1), r"UniformSampling: recent_fraction .*got 1.5"),
        (lambda: UniformSampling("a", 1), r"UniformSampling: recent_fraction .*got 'a'"),
        (lambda: UniformSampling(0.5), r"recent_fraction and recent_rows .*got 0.5 and 0"),
        (lambda: UniformSampling(0.5, 1.5), r"UniformSampling: recent_rows .*got 1.5"),
        (lambda: PrioritizedSampling(-1.0), r"exponent .*got -1.0"),
        (lambda: PrioritizedSampling("a"), r"exponent .*got 'a'"),
        (lambda: PrioritizedSampling(0.5, 0), r"PrioritizedSampling: length .*got 0"),
        (
            lambda: Replay(2**28, 7, sampling=PrioritizedSampling(1.0)),
            r"the sum tree .*got 268435456 rows of 7 lanes",
        ),
        (
            lambda: Replay(8, 3, sampling=PrioritizedSampling(0.5, 9)),
            r"PrioritizedSampling: length .*got 9",
        ),
    ],
)
def test_an_argument_out_of_range_raises(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def without(rows, **changes):
    return dataclasses.replace(rows, timestep=dataclasses.replace(rows.timestep, **changes))


ROWS = block(0, 2)


BAD_ROWS = [
    (block(0, 9), r"Replay.add: rows .*got 9"),
    (block(0, 2, 4), r"rows.timestep.step_type .*int32\[2, 3\], got int32\[2, 4\]"),
    (without(ROWS, reward=np.zeros((2, 3, 1), np.float32)), r"rows.timestep.reward .*got float32\[2, 3, 1\]"),
    (
        without(ROWS, reward=np.zeros((2, 3), np.int32)),
        r"rows.timestep.reward .*float32\[2, 3\], got int32\[2, 3\], as rows of 3 lanes",
    ),
    (without(ROWS, reward=()), r"Replay.add: rows.timestep.reward .*got an empty tuple"),
    (without(ROWS, discount=np.zeros((2, 3), np.float32)), r"Replay.add: rows.timestep.discount .*got an array"),
    (without(ROWS, step_type=()), r"Replay.add: timestep.step_type is missing, keep.* unroll\(fields=...\)"),
    (ROWS.timestep, r"Replay.add: rows .*got TimeStep"),
]


@pytest.mark.parametrize(("rows", "message"), BAD_ROWS)
def test_rows_that_do_not_fit_raise_while_tracing(rows, message):
    replay = Replay(8, 3)
    state = jax.eval_shape(lambda: replay.init(ROWS))
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(replay.add, state, rows)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((2, 3, 5, 3, 2), bool), r"rows.timestep.env_info.image .*got bool\[2, 3, 5, 3, 2\]"),
        (np.zeros((2, 3, 3, 5, 2), np.uint8), r"env_info.image .*got uint8"),
    ],
)
def test_packed_rows_that_do_not_fit_raise_with_their_own_shape(image, message):
    replay, rows = Replay(16, 3, pack_bits=True), flagged(ROWS, np.random.default_rng(0))
    state = replay.init(rows)
    with pytest.raises(ValueError, match=message):
        replay.add(state, without(rows, env_info=rows.timestep.env_info | {"image": image}))


def test_init_raises_for_another_number_of_lanes_and_for_rows_of_two_episodes():
    with pytest.raises(ValueError, match=r"Replay.init: timestep.step_type .*got shape \(2, 3\)"):
        Replay(8, 4).init(ROWS)
    rows = without(ROWS, env_info={"final_observation": np.zeros((2, 3), np.float32)})
    with pytest.raises(ValueError, match=r"index_episodes is for trajectories.* FIRST rows"):
        Replay(8, 3, index_episodes=True).init(rows)


# --- lanes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ([0, 1, 3], r"env_id .*got \[0, 1, 3\]"),
        ([0, 1, -1], r"env_id .*got \[0, 1, -1\]"),
        ([0, 1, 1], r"env_id .*got \[0, 1, 1\]"),
        ([0.0, 1.0, 2.0], r"env_id .*got float"),
        ([0, 1], r"rows.timestep.step_type .*got int32\[2, 3\], as rows of 2 lanes"),
    ],
)
def test_unknown_and_repeated_lanes_raise(env_id, message):
    replay = Replay(8, 3, aligned=False)
    with pytest.raises(ValueError, match=message):
        replay.add(init(replay, ROWS), ROWS, np.array(env_id))


def test_an_aligned_buffer_raises_for_env_id():
    with pytest.raises(ValueError, match=r"rows are added.* env_id"):
        Replay(8, 3).add(Replay(8, 3).init(ROWS), ROWS, np.arange(3))


def test_jitted_code_drops_rows_of_unknown_lanes():
    replay = Replay(8, 3, aligned=False, index_episodes=True, sampling=PrioritizedSampling(1.0))
    state = add(replay, init(replay, ROWS), block(0, 2, [7, 1, 9]), np.array([7, 1, -1]))
    assert replay.size(state).tolist() == [0, 2, 0]
    assert set(np.asarray(sample(replay, state, jax.random.key(0), 5).env_id)) == {1}


def test_jitted_code_stores_the_last_rows_of_a_repeated_lane_once():
    replay = Replay(8, 3, aligned=False, index_episodes=True, sampling=PrioritizedSampling(1.0))
    rows = block([5, 0, 0], 2, [0, 1, 0])
    state = add(replay, init(replay, ROWS), rows, np.array([0, 1, 0]))
    assert state.position.tolist() == [2, 2, 0]
    count = replay.get(state, "timestep.observation.count", np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))
    assert count.tolist() == [0, 1, 1000, 1001]


# --- states of other buffers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"capacity": 16}, r"Replay.sample: the state was.* capacity=8, this Replay has 16"),
        ({"num_envs": 4}, "with num_envs=3, this Replay has 4"),
        ({"aligned": False}, "with aligned=True, this Replay has False"),
        ({"index_episodes": True}, "with index_episodes=False, this Replay has True"),
        ({"sampling": UniformSampling()}, "with PrioritizedSampling, this Replay has UniformSampling"),
        ({"sampling": PrioritizedSampling(0.6)}, "with exponent=0.5, this Replay has 0.6"),
        ({"sampling": PrioritizedSampling(0.5, 3)}, "with length=2, this Replay has 3"),
        ({"ignore_earliest": 1}, "with ignore_earliest=0, this Replay has 1"),
    ],
)
def test_the_state_of_another_buffer_raises_while_tracing(arguments, message):
    replay = Replay(8, 3, sampling=PrioritizedSampling(0.5))
    state, key = jax.eval_shape(lambda: (replay.init(ROWS), jax.random.key(0)))
    other = dataclasses.replace(replay, **arguments)
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(lambda state, stream: other.sample(state, stream, 4), state, key)
    with pytest.raises(ValueError, match=r"Replay.add: the state was made with"):
        jax.eval_shape(other.add, state, ROWS)


def test_arguments_that_do_not_affect_the_state_may_change():
    state = filled(Replay(8, 3), 4)
    assert Replay(8, 3, ignore_earliest=2, sampling=UniformSampling(0.5, 1)).can_sample(state)


def test_a_uniform_buffer_raises_where_sampling_is_prioritized():
    state = filled(Replay(8, 3), 4)
    with pytest.raises(ValueError, match="with UniformSampling, this Replay has PrioritizedSampling"):
        Replay(8, 3, sampling=PrioritizedSampling(0.5)).can_sample(state)


def test_a_restored_buffer_raises_in_one_with_other_windows(tmp_path):
    saved, other = (Replay(8, 3, sampling=PrioritizedSampling(0.5, length)) for length in (2, 4))
    data.save(tmp_path / "buffer", init(saved, ROWS))
    state = data.restore(tmp_path / "buffer", init(other, ROWS))
    with pytest.raises(ValueError, match=r"sample: the state.* length=2, this Replay has 4"):
        other.sample(state, jax.random.key(0), 4, 4)


# --- calls ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r, s, k: r.sample(s, k, 0), r"Replay.sample: batch_size .*got 0"),
        (lambda r, s, k: r.sample(s, jax.random.split(k), 4), r"one key or.* \(\), got shape \(2,\)"),
        (lambda r, s, k: r.sample(s, k, 4, 8), r"length .*got 8"),
        (lambda r, s, k: r.sample(s, k, 4, 0), r"length .*got 0"),
        (lambda r, s, k: r.sample(s, k, 4, 4), r"no lane has.* 4 rows yet: the.* 4 rows per lane"),
        (lambda r, s, k: r.sample(s, np.array([0, 1], np.uint32), 4), r": key .*got uint32\[2\]"),
        (
            lambda r, s, k: r.sample_transitions(s, k, 4, 0),
            r"Replay.sample_transitions: n .*got 0",
        ),
        (
            lambda r, s, k: r.sample_transitions(s, k, 4, 2.5),
            r"Replay.sample_transitions: n .*got 2.5",
        ),
        (lambda r, s, k: r.sample(s, k, 4, 2, 7), r"Replay.sample: importance_exponent .*got 7"),
        (lambda r, s, k: r.sample(s, k, 4, 2, np.nan), r"importance_exponent .*got nan"),
        (lambda r, s, k: r.sample(s, k, 4, 2, "x"), r"importance_exponent .*got 'x'"),
        (lambda r, s, k: r.sample(s, k, 4, 2, True), r"importance_exponent .*got True"),
        (lambda r, s, k: r.sample(s, k, 4, 2, np.ones(3)), r"importance_exponent .*got "),
        (lambda r, s, k: r.sample_transitions(s, k, 4, 1, 2.0), r"gamma .*got 2.0"),
        (lambda r, s, k: r.sample_transitions(s, k, 4, 2), r"gamma is required.* 2 steps"),
        (lambda r, s, k: r.add(r, ROWS), r"Replay.add: state .*got Replay"),
        (lambda r, s, k: r.clear(s, 9), r"Replay.clear: keep .*got 9"),
        (lambda r, s, k: r.get(s, 3, 0, 0), r"Replay.get: path .*got 3"),
        (lambda r, s, k: r.get(s, "timestep.observation.sonar", 0, 0), r"no 'sonar' here, the fields.* \['count'"),
        (lambda r, s, k: r.get(s, "timestep.discount", 0, 0), r"'timestep.discount' is not stored"),
        (
            lambda r, s, k: r.get(s, "action", [0, 1], [2]),
            r"env_id and position .*got \(2,\) and \(1,\)",
        ),
        (lambda r, s, k: r.get(s, "action", 0, 4), r"position 4 of lane 0 is not stored"),
        (lambda r, s, k: r.get(s, "action", [0, 3], [1, 1]), r"position 1 of lane 3 is not stored"),
        (lambda r, s, k: r.get(s, "action", 0, 0.5), r"position .*got float32"),
        (lambda r, s, k: r.episode_end(s, 0, 0), r"episodes are not.* Replay with index_episodes=True"),
        (
            lambda r, s, k: r.update_priorities(s, sample(r, s, k, 4), jnp.ones(4)),
            r"sampling is uniform.* Replay with sampling=PrioritizedSampling\(...\)",
        ),
        (lambda r, s, k: jax.jit(r.gather_all)(s), "the number of rows"),
        (
            lambda r, s, k: r.gather_all(r.clear(s)),
            r"all lanes .*got \[0\]",
        ),
    ],
)
def test_a_call_that_cannot_be_answered_raises(call, message):
    replay = Replay(8, 3, ignore_earliest=1)
    with pytest.raises(ValueError, match=message):
        call(replay, filled(replay, 4), jax.random.key(0))


@pytest.mark.parametrize("gamma", [np.ones(3), np.ones(4)])
def test_windows_of_any_lane_share_one_gamma(gamma):
    replay = Replay(16, 3)
    state = replay.add(replay.init(block(0, 4)), block(0, 8))
    with pytest.raises(ValueError, match=r"gamma .*got shape \("):
        replay.sample_transitions(state, jax.random.key(0), 3, n=2, gamma=gamma)


@pytest.mark.parametrize("length", [2.0, "2", 0])
def test_windows_are_split_by_an_integer(length):
    replay = Replay(16, 3)
    batch = replay.gather_all(replay.add(replay.init(block(0, 4)), block(0, 8)))
    with pytest.raises(ValueError, match=rf"Batch\.windows: length .*got {length!r}"):
        batch.windows(length)
