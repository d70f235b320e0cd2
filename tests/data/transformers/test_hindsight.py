"""Hindsight: which windows get which goals, and the rewards of their rows."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv.core.timestep import TimeStep
from jaxenv.data import Batch, Replay
from jaxenv.data.transformers import FrameStacker, Hindsight, Sequential, within_reach
from jaxenv.rollout import Experience
from tests.data.transformers.sensors import windows

FIRST, MID, LAST = 0, 1, 2
# Rows at which the episodes of each lane end.
ENDS = {0: (), 1: (4, 10), 2: (8,)}
ROWS = 14


def distance_reward(achieved, desired):
    return -jnp.abs(achieved["x"][:, 0] - desired["x"][:, 0]) - jnp.abs(achieved["x"][:, 1] - desired["x"][:, 1])


def labelled_rows():
    """Rows whose achieved goal is (position, lane) and whose desired goal is (1000, number of the episode)."""
    step_type = np.full((ROWS, 3), MID, np.int32)
    episode = np.zeros((ROWS, 3), np.float32)
    step_type[0] = FIRST
    for lane, ends in ENDS.items():
        for end in ends:
            step_type[end, lane] = LAST
            step_type[end + 1, lane] = FIRST
            episode[end + 1 :, lane] += 1
    position, lane = (x.astype(np.float32) for x in np.meshgrid(np.arange(ROWS), np.arange(3), indexing="ij"))
    goals = {
        "achieved": {"x": np.stack([position, lane], axis=-1)},
        "desired": {"x": np.stack([np.full_like(position, 1000), episode], axis=-1)},
    }
    reward = np.where(step_type == FIRST, np.float32(0), np.float32(0.123))
    ones = np.ones((ROWS, 3), np.float32)
    timestep = TimeStep(step_type, reward, ones, {"goals": goals, "sensor": position + 0.5}, env_info={})
    return Experience(timestep, action=np.ones((ROWS, 3), np.int32))


HER = functools.partial(Hindsight, reward=distance_reward, achieved_goal="goals.achieved", desired_goal="goals.desired")
REPLAY = Replay(12, 3, index_episodes=True)  # holds rows 2 .. 13


@functools.cache
def relabelled(length, proportion=1.0, number=600):
    """Sampled windows, two transformations of them, one after the other, the state before them, and the buffer."""
    experience, hindsight = labelled_rows(), HER(proportion=proportion)

    @jax.jit
    def run(experience, key):
        stored = REPLAY.init(experience)
        for rows in (slice(0, 8), slice(8, ROWS)):
            stored = REPLAY.add(stored, jax.tree.map(lambda x, rows=rows: x[rows], experience))
        batch = REPLAY.sample(stored, key, number, length)
        state = hindsight.init(jax.tree.map(lambda x: x[0], batch.experience.timestep), jax.random.key(5))
        later, first = hindsight.transform_batch(state, batch, REPLAY, stored)
        return batch, first, hindsight.transform_batch(later, batch, REPLAY, stored)[1], state, stored

    return jax.device_get(run(experience, jax.random.key(0)))


def end_of(lane, position):
    return min([end for end in ENDS[lane] if end >= position] + [ROWS - 1])


def goals_of(batch):
    return batch.experience.timestep.observation["goals"]["desired"]["x"]


@pytest.mark.parametrize(("length", "proportion"), [(2, 0.8), (4, 1.0)])
def test_every_row_of_the_first_rows_episode_gets_the_same_later_goal_and_its_reward(length, proportion):
    batch, relabelled_batch, *_ = relabelled(length, proportion)
    raw, goal, reward = goals_of(batch), goals_of(relabelled_batch), relabelled_batch.experience.timestep.reward
    seen = set()
    for i, (lane, position) in enumerate(zip(batch.env_id, batch.position, strict=True)):
        end = end_of(lane, position)
        step_type = batch.experience.timestep.step_type[i]
        if step_type[0] == LAST:
            assert goal[i].tolist() == raw[i].tolist()
            continue
        if proportion < 1 and goal[i].tolist() == raw[i].tolist():
            continue
        future, of_lane = goal[i, 0].tolist()
        assert of_lane == lane
        assert position < future <= end
        seen.add((int(lane), int(position), int(future)))
        for j in range(length):
            if position + j > end:  # in the next episode
                assert goal[i, j].tolist() == raw[i, j].tolist()
                assert reward[i, j] == batch.experience.timestep.reward[i, j]
            else:
                assert goal[i, j].tolist() == [future, lane]
                assert reward[i, j] == (0 if step_type[j] == FIRST else -abs(future - (position + j)))
    assert {lane for lane, _, _ in seen} == {0, 1, 2}
    # The last rows of episodes, and the newest row of an unfinished one.
    assert {(1, 3, 4), (1, 9, 10), (2, 7, 8), (0, 2, 13)} <= seen


def test_windows_that_start_with_the_last_row_of_an_episode_do_not_change():
    batch, relabelled_batch, *_ = relabelled(4)
    last = batch.experience.timestep.step_type[:, 0] == LAST
    assert last.sum() >= 20
    chex.assert_trees_all_equal(*(jax.tree.map(lambda x: x[last], part) for part in (batch, relabelled_batch)))


def test_the_proportion_of_windows_is_relabelled_and_the_others_do_not_change():
    batch, relabelled_batch, *_ = relabelled(2, 0.8)
    changed = (goals_of(batch) != goals_of(relabelled_batch)).any(axis=(1, 2))
    can_change = batch.experience.timestep.step_type[:, 0] != LAST
    assert abs(changed[can_change].mean() - 0.8) < 4 * np.sqrt(0.8 * 0.2 / can_change.sum())
    chex.assert_trees_all_equal(*(jax.tree.map(lambda x: x[~changed], part) for part in (batch, relabelled_batch)))


def test_only_goal_and_reward_change():
    batch, relabelled_batch, *_ = relabelled(4)
    paths = jax.tree_util.tree_leaves_with_path(batch)
    for (path, a), b in zip(paths, jax.tree.leaves(relabelled_batch), strict=True):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        same = np.array_equal(a, b)
        assert same != (name.endswith(("desired.x", "reward"))), name


def test_later_rows_are_equally_likely():
    # A window that starts at row 3 of the lane that never ends can get the goals of rows 4 .. 13.
    number = 4000
    rows = labelled_rows()
    batch = windows(rows, [0] * number, [3] * number, 2)

    @jax.jit
    def run(rows, batch):
        replay = Replay(ROWS, 3, index_episodes=True)
        hindsight = HER(proportion=1)
        state = hindsight.init(jax.tree.map(lambda x: x[0], rows.timestep))
        return hindsight.transform_batch(state, batch, replay, replay.add(replay.init(rows), rows))[1]

    future = goals_of(jax.device_get(run(rows, batch)))[:, 0, 0]
    counts = np.bincount(future.astype(int), minlength=ROWS)
    assert counts[:4].sum() == 0
    assert np.all(np.abs(counts[4:] - number / 10) < 4.5 * np.sqrt(number * 0.1 * 0.9))


def test_draws_differ_between_batches_and_between_keys():
    _, first, second, *_ = relabelled(4)
    drawn, again = goals_of(first)[:, 0, 0], goals_of(second)[:, 0, 0]
    assert 0.05 < np.mean(drawn != again) < 0.95
    state = HER().init(TimeStep(observation=labelled_rows().timestep.observation, env_info={}), jax.random.key(1))
    other = HER().init(TimeStep(observation=labelled_rows().timestep.observation, env_info={}), jax.random.key(2))
    assert int(state.value.k1) != int(other.value.k1)
    assert int(state.value.c0) == 0


def test_the_order_of_hindsight_and_a_stacker_of_other_fields_does_not_matter():
    stacker, hindsight = FrameStacker(2, fields=("sensor",)), HER()
    replay = Replay(ROWS, 3, index_episodes=True, ignore_earliest=1)

    @jax.jit
    def run(rows, batch):
        stored = replay.add(replay.init(rows), rows)
        batches = []
        for order in ((stacker, hindsight), (hindsight, stacker)):
            whole = Sequential(*order)
            state = whole.init(jax.tree.map(lambda x: x[0], rows.timestep))
            batches.append(whole.transform_batch(state, batch, replay, stored)[1])
        return batches

    batch = windows(labelled_rows(), [0, 1, 2] * 4, [3, 4, 6] * 4, 3)
    one, other = jax.device_get(run(labelled_rows(), batch))
    chex.assert_trees_all_equal(one, other)
    assert (goals_of(one) != goals_of(batch)).any()
    assert one.experience.timestep.observation["sensor"][0].tolist() == [[2.5, 3.5], [3.5, 4.5], [4.5, 5.5]]


def test_rollouts_and_specs_do_not_change():
    timestep = jax.tree.map(lambda x: jnp.asarray(x[0]), labelled_rows().timestep)
    state = HER().init(timestep)
    assert HER().transform_timestep(state, timestep) == (state, timestep)
    assert HER().transform_spec(timestep) is timestep


def test_the_default_reward_is_0_within_a_distance_of_5_hundredths_over_all_parts_of_a_goal():
    achieved = {"a": np.zeros((4, 2), np.float32), "b": np.zeros(4, np.float32)}
    desired = {
        "a": np.array([[0, 0], [0.04, 0], [0.03, 0.03], [0, 0.06]], np.float32),
        "b": np.array([0.049, 0.04, 0.02, 0], np.float32),
    }
    assert jax.jit(within_reach)(achieved, desired).tolist() == [0, -1, 0, -1]


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"proportion": 1.5}, r"Hindsight: proportion .*got 1\.5"),
        ({"proportion": "most"}, r"Hindsight: proportion .*got 'most'"),
        ({"reward": -1}, r"Hindsight: reward .*got -1"),
        ({"desired_goal": ("goal",)}, r"Hindsight: desired_goal .*got \('goal',\)"),
    ],
)
def test_an_invalid_argument_raises(arguments, message):
    with pytest.raises(ValueError, match=message):
        Hindsight(**arguments)


def shapes(hindsight, replay, length=2, change=lambda batch, replay, stored: batch):
    def run(rows, batch):
        stored = replay.init(rows)
        state = Hindsight.init(HER(), jax.tree.map(lambda x: x[0], rows.timestep))
        return hindsight.transform_batch(state, change(batch, replay, stored), replay, stored)

    return jax.eval_shape(run, labelled_rows(), windows(labelled_rows(), [0, 1], [4, 5], length))


def stacked(batch, replay, stored):
    return FrameStacker(2, fields=("goals.achieved",)).transform_batch((), batch, replay, stored)[1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: HER().transform_batch((), Batch(None, None, None, None)),
            "Hindsight: pass replay",
        ),
        (lambda: shapes(HER(), Replay(12, 3)), r"episodes are not.* Replay with index_episodes=True"),
        (lambda: shapes(HER(), REPLAY, length=1), r"Hindsight: windows .*got 1"),
        (
            lambda: shapes(HER(achieved_goal="goals.reached"), REPLAY),
            r"Hindsight: field 'goals.reached': no 'reached' here, the fields",
        ),
        (
            lambda: shapes(HER(desired_goal="sensor"), REPLAY),
            r"Hindsight: desired_goal must be a dict.*, got an array, as the achieved",
        ),
        (
            lambda: shapes(HER(), Replay(12, 3, index_episodes=True, ignore_earliest=1), 2, stacked),
            r"Hindsight: achieved_goal\.x must be float32\[2\], got float32\[4\]",
        ),
        (
            lambda: shapes(
                Hindsight(lambda a, d: a["x"], achieved_goal="goals.achieved", desired_goal="goals.desired"), REPLAY
            ),
            r"Hindsight: reward .*got shape \(4, 2\)",
        ),
        (
            lambda: HER().init(TimeStep(observation={}, env_info={"final_observation": {}})),
            "Hindsight: the rows hold env_info.* Use AutoReset in mode 'next_step'",
        ),
    ],
)
def test_windows_that_cannot_be_relabelled_raise(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def transform_outside_jitted_code(reward, abnormal=False):
    """Windows of two rows, whose rewards after FIRST are 0.123, or 9 on rows that are marked abnormal."""
    batch, *_, state, stored = relabelled(2, 0.8)
    timestep = batch.experience.timestep
    marks = np.zeros_like(timestep.is_first())
    marks[::7, 1] = abnormal
    timestep = dataclasses.replace(
        timestep, reward=np.where(marks, np.float32(9), timestep.reward), env_info={"abnormal": marks}
    )
    batch = dataclasses.replace(batch, experience=dataclasses.replace(batch.experience, timestep=timestep))
    return batch, HER(proportion=0.8, reward=reward).transform_batch(state, batch, REPLAY, stored)[1]


def test_rewards_that_the_function_does_not_compute_are_kept_with_a_warning():
    with pytest.warns(UserWarning, match=r"on \d+ of \d+ rows .*, such as 0\.5 for the stored 0\.123"):
        batch, changed = transform_outside_jitted_code(lambda a, d: np.full(len(a["x"]), 0.5, np.float32))
    kept = np.asarray((goals_of(batch) == goals_of(changed)).all(axis=-1))
    rewards = [np.asarray(b.experience.timestep.reward)[kept] for b in (batch, changed)]
    np.testing.assert_array_equal(*rewards)


def test_rewards_that_the_function_computes_and_abnormal_rows_cause_no_warning():
    # A warning is an error.
    transform_outside_jitted_code(lambda a, d: np.full(len(a["x"]), 0.123, np.float32), abnormal=True)


def test_rows_that_were_stored_without_infos_are_relabelled_outside_of_traces():
    experience = labelled_rows()
    timestep = dataclasses.replace(experience.timestep, env_info=())
    experience, hindsight = dataclasses.replace(experience, timestep=timestep), HER(proportion=0.0)
    stored = REPLAY.add(REPLAY.init(experience), jax.tree.map(lambda x: x[:12], experience))
    batch = REPLAY.sample(stored, jax.random.key(0), 4, 2)
    state = hindsight.init(jax.tree.map(lambda x: x[0], timestep), jax.random.key(1))
    with pytest.warns(UserWarning, match="Hindsight: reward must"):
        hindsight.transform_batch(state, batch, REPLAY, stored)
