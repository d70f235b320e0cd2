"""Drivers: which rows a function is folded over, when they stop, and that nothing else is kept."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv.rollout import Metrics, PolicyStep, fold, fold_episodes, fold_steps, random_policy, to_host, unroll
from jaxenv.testing import Counting, mock_012
from jaxenv.wrappers import AutoReset

LENGTHS = np.array([[2, 3], [3, 1], [4, 2]])
MODES = ["next_step", "same_step"]
SEEN = np.full(12, -1, np.int32)


def counting(mode="next_step"):
    return AutoReset(Counting(LENGTHS, stride=100, num_envs=3), mode)


def one(timestep, key):
    return jnp.ones_like(timestep.observation)


def listing(value, row, timestep):
    """Writes down lane 0's observations, those the policy saw and those that followed."""
    seen, followed, place = value
    seen = seen.at[place].set(row.timestep.observation[0])
    return seen, followed.at[place].set(timestep.observation[0]), place + 1


def listed(driver, env, number):
    value = SEEN, SEEN, np.int32(0)
    return jax.device_get(
        jax.jit(lambda key: driver(env, one, listing, value, *env.reset(key), number))(jax.random.key(0))
    )


# --- by hand ---------------------------------------------------------------------------------------------------------


def test_five_steps_of_a_mock_that_ends_after_two_are_eight_observations_and_two_episodes():
    found = listed(fold_steps, AutoReset(mock_012()), 5)
    seen, followed, rows = found.value
    # Rows 0 1 2 | 0 1 2 | 0, and the row that the next fold begins with.
    assert [*seen[:rows], *found.timestep.observation] == [0, 1, 2, 0, 1, 2, 0, 1]
    assert followed[:rows].tolist() == [1, 2, 0, 1, 2, 0, 1]
    assert (int(found.steps), int(found.episodes), int(found.rows)) == (5, 2, 7)


def test_two_episodes_of_the_mock_end_with_the_second_last_row():
    found = listed(fold_episodes, AutoReset(mock_012()), 2)
    seen, _, rows = found.value
    assert [*seen[:rows], *found.timestep.observation] == [0, 1, 2, 0, 1, 2]
    assert (int(found.steps), int(found.episodes)) == (4, 2)


def test_a_fold_of_rows_counts_every_row():
    found = listed(fold, AutoReset(mock_012()), 7)
    seen, _, rows = found.value
    assert seen[:rows].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert (int(found.rows), int(found.steps), int(found.episodes)) == (7, 5, 2)


# --- the same rows as an unroll --------------------------------------------------------------------------------------


def remembering(timestep, key, memory):
    return PolicyStep((memory + timestep.observation) % 10, memory + 1, info=memory)


MEMORY = np.array([3, 5, 7], np.int32)


def digest(value, row, timestep):
    """Anything of what is there, so that no row may differ."""
    new = row.action * 3 + row.policy_info * 5 + row.timestep.step_type * 7 + timestep.observation
    return value * 31 + new


@functools.cache
def both(mode, keyed):
    env = counting(mode)

    @jax.jit
    def run(key):
        key = jax.random.key(7) if keyed else None
        start = env.reset(jax.random.key(0))
        end, rows = unroll(env, remembering, *start, 10, key=key, initial_memory=MEMORY)
        later = jnp.concatenate([rows.timestep.observation[1:], end[1].observation[None]])
        value = jnp.zeros(3, jnp.int32)
        for t in range(10):
            row = jax.tree.map(lambda x, t=t: x[t], rows)
            value = digest(value, row, end[1].__class__(observation=later[t]))
        half = fold(env, remembering, digest, jnp.zeros(3, jnp.int32), *start, 4, key=key, initial_memory=MEMORY)
        rest = fold(
            env, remembering, digest, half.value, half.state, half.timestep, 6, key=key, initial_memory=MEMORY,
            memory=half.memory,
        )  # fmt: skip
        return (end, value), ((rest.state, rest.timestep, rest.memory), rest.value)

    return jax.device_get(run(jax.random.key(0)))


@pytest.mark.parametrize("mode", MODES)
def test_two_folds_go_over_the_rows_of_one_unroll_and_end_where_it_ends(mode):
    expected, found = both(mode, mode == "same_step")
    jax.tree.map(np.testing.assert_array_equal, expected, found)


# --- when they stop --------------------------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnames=("driver", "mode"))
def counted(driver, mode, number):
    """The number is traced: one compilation serves all."""
    env, metrics = counting(mode), Metrics()
    start = env.reset(jax.random.key(0))
    update = (lambda sums, row, timestep: metrics.update(sums, timestep)), (lambda rows, row, timestep: rows + 1)

    def several(values, row, timestep):
        return tuple(fn(value, row, timestep) for fn, value in zip(update, values, strict=True))

    found = driver(env, one, several, (metrics.init(start[1]), 0), *start, number)
    return found, metrics.compute(metrics.totals(found.value[0]))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", [0, 1, 7, 20])
def test_steps_are_summed_over_lanes_and_overshoot_by_less_than_one_row(mode, number):
    found, figures = jax.device_get(counted(fold_steps, mode, np.int32(number)))
    assert number <= int(found.steps) < number + 3
    assert to_host(figures)["steps"] == int(found.steps)
    assert to_host(figures)["episodes"] == int(found.episodes)
    assert found.value[1] == found.rows


@pytest.mark.parametrize("mode", MODES)
def test_episodes_are_counted_where_they_end(mode):
    # Episodes of lanes 0, 1, 2 are 2, 3 / 3, 1 / 4, 2 steps long. The third LAST row is the 4th step of lane 2 or the
    # 4th of lane 1: in next_step both stand in row 4 or 5, as a FIRST row lies before the latter.
    found, figures = jax.device_get(counted(fold_episodes, mode, np.int32(3)))
    assert int(found.rows) == 4
    assert int(found.episodes) == to_host(figures)["episodes"] == (4 if mode == "same_step" else 3)


def test_an_episode_driver_favours_short_episodes():
    env = AutoReset(Counting(np.array([[1], [9]]), num_envs=2), "same_step")
    found = jax.jit(lambda key: fold_episodes(env, one, lambda v, *_: v, 0, *env.reset(key), 10))(jax.random.key(0))
    assert int(found.steps) / int(found.episodes) < 2  # five of each would be 5 on average


@pytest.mark.parametrize("driver", [fold_steps, fold_episodes])
def test_a_traced_number_below_0_ends_at_once(driver):
    mode = "next_step" if driver is fold_episodes else "same_step"
    found, _ = jax.device_get(counted(driver, mode, np.int32(-1)))
    assert int(found.rows) == 0


def test_constants_may_begin_a_fold_and_an_unroll_inside_shard_map():
    env, lanes = counting(), jax.sharding.PartitionSpec("lanes")
    mesh = jax.make_mesh((1,), ("lanes",), axis_types=(jax.sharding.AxisType.Auto,))
    total = lambda value, row, timestep: value + jnp.sum(row.timestep.observation)  # noqa: E731
    memory = jnp.zeros(3, jnp.int32)

    def shard(env_id):
        start = env.reset(jax.random.key(0), env_id=env_id)
        found = fold(env, remembering, total, 0, *start, 2, initial_memory=memory)
        end, _ = unroll(env, remembering, found.state, found.timestep, 2, initial_memory=memory, memory=memory)
        return found.value[None], end[2]

    value, memory = jax.jit(jax.shard_map(shard, mesh=mesh, in_specs=lanes, out_specs=lanes))(
        np.arange(3, dtype=np.int32)
    )
    assert value.tolist() == [3]  # 0 and 1 in each lane
    assert memory.tolist() == [1, 2, 2]  # lane 0 went on to its next episode


def test_a_fold_can_be_differentiated():
    env = AutoReset(mock_012())

    @jax.jit
    @jax.grad
    def slope(weight):
        def paid(value, row, timestep):
            return value + weight * timestep.reward[0]

        return fold(env, one, paid, jnp.zeros(()), *env.reset(jax.random.key(0)), 8).value

    assert slope(2.0) == 3  # the mock pays 1 on each of three ends


def test_no_row_is_kept():
    env = counting()
    run = jax.jit(lambda key, n: fold_steps(env, random_policy(env), lambda v, *_: v, 0, *env.reset(key), n))
    shapes = {x.shape for x in jax.tree.leaves(jax.eval_shape(run, jax.random.key(0), np.int32(10**6)))}
    assert shapes == {(), (3,)}


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("driver", "changes", "message"),
    [
        (fold, {"number": -1}, "fold: num_steps must be at least 0, got -1"),
        (fold_steps, {"number": -1}, "fold_steps: num_steps must be from 0 to 2147483647, got -1"),
        (fold_steps, {"number": jnp.int32(-3)}, "fold_steps: num_steps must be from 0 to 2147483647, got -3"),
        (fold_steps, {"number": 2**31}, "fold_steps: num_steps must be from 0 to"),
        (fold, {"number": 3.0}, "fold: num_steps must be a whole number, got 3.0"),
        (fold_episodes, {"number": 1.5}, "fold_episodes: num_episodes must be one whole number, got 1.5"),
        (fold_episodes, {"number": np.array([1, 2])}, "must be one whole number"),
        (fold, {"fn": lambda v, *_: (v, v)}, "fold: fn must keep the value's structure .*, got"),
        (fold_steps, {"fn": lambda v, row, t: t.reward[0]}, r"keep the value's type int32\[\], got float32\[\]"),
        (fold, {"fn": lambda v, row, t: {"a": v["a"], "b": t.reward}, "value": {"a": 0, "b": np.float32(0)}},
         r"type float32\[\] of b, got float32\[3\]"),
        (fold, {"memory": MEMORY}, "fold: memory is given without initial_memory"),
    ],
)  # fmt: skip
def test_faulty_arguments_are_refused_at_trace_time(driver, changes, message):
    env = counting()
    value, number, fn = changes.pop("value", 0), changes.pop("number", 3), changes.pop("fn", lambda v, *_: v)
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(lambda key: driver(env, one, fn, value, *env.reset(key), number, **changes), jax.random.key(0))
