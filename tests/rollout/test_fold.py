"""Folds: the rows that a function sees, when a fold stops, and that it keeps no trajectory."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.rollout import Count, Metrics, PolicyStep, fold, random_policy, to_host, unroll
from jaxenv.testing import Counting, count_to_two
from jaxenv.wrappers import AutoReset, TimeLimit

LENGTHS = np.array([[2, 3], [3, 1], [4, 2]])
MODES = ["next_step", "same_step"]
SEEN = np.full(12, -1, np.int32)


def counting(mode="next_step"):
    return AutoReset(Counting(LENGTHS, stride=100, num_envs=3), mode)


def always_one(timestep, stream):
    return jnp.ones_like(timestep.observation)


def record(value, row, timestep):
    """Stores the observations of lane 0: those that the policy saw and those that followed."""
    seen, followed, index = value
    seen = seen.at[index].set(row.timestep.observation[0])
    return seen, followed.at[index].set(timestep.observation[0]), index + 1


def recorded(env, num_steps, until=None):
    value = SEEN, SEEN, np.int32(0)
    return jax.device_get(
        jax.jit(lambda key: fold(env, always_one, record, value, *env.reset(key), num_steps, until=until))(
            jax.random.key(0)
        )
    )


# --- by hand ---------------------------------------------------------------------------------------------------------


def test_five_steps_of_a_mock_with_two_step_episodes_show_eight_observations_and_two_episodes():
    found = recorded(AutoReset(count_to_two()), 99, lambda fold: fold.steps >= 5)
    seen, followed, rows = found.value
    # Observations 0 1 2 | 0 1 2 | 0, and the one that the next fold starts with.
    assert [*seen[:rows], *found.timestep.observation] == [0, 1, 2, 0, 1, 2, 0, 1]
    assert followed[:rows].tolist() == [1, 2, 0, 1, 2, 0, 1]
    assert (int(found.steps), int(found.episodes), int(found.rows)) == (5, 2, 7)


@pytest.mark.parametrize("task", [count_to_two(), TimeLimit(Counting(np.array([9])), 2)], ids=["ends", "is cut"])
def test_a_fold_over_two_episodes_stops_at_the_second_last_row(task):
    found = recorded(AutoReset(task), 99, lambda fold: fold.episodes >= 2)
    seen, _, rows = found.value
    assert [*seen[:rows], *found.timestep.observation] == [0, 1, 2, 0, 1, 2]
    assert (int(found.steps), int(found.episodes)) == (4, 2)


def test_fold_counts_restarts_as_rows_but_not_as_steps():
    found = recorded(AutoReset(count_to_two()), 7)
    seen, _, rows = found.value
    assert seen[:rows].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert (int(found.rows), int(found.steps), int(found.episodes)) == (7, 5, 2)


# --- compared with an unroll -----------------------------------------------------------------------------------------


def remembering(timestep, stream, memory):
    return PolicyStep((memory + timestep.observation) % 10, memory + 1, info=memory)


MEMORY = np.array([3, 5, 7], np.int32)


def digest(value, row, timestep):
    """A hash of everything that a row contains."""
    new = row.action * 3 + row.policy_info * 5 + row.timestep.step_type * 7 + timestep.observation
    return value * 31 + new


@functools.cache
def unrolled_and_folded(mode, keyed):
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
def test_two_folds_see_the_rows_of_one_unroll_and_end_in_the_same_state(mode):
    expected, found = unrolled_and_folded(mode, mode == "same_step")
    chex.assert_trees_all_equal(expected, found)


# --- when they stop --------------------------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnames=("count", "mode", "steps_per_iteration"))
def counted(count, mode, number, steps_per_iteration=None):
    """Folds until a count reaches a number; it is traced, so all cases share one compilation."""
    env, metrics = counting(mode), Metrics()
    start = env.reset(jax.random.key(0))
    update = (lambda sums, row, timestep: metrics.update(sums, timestep)), (lambda rows, row, timestep: rows + 1)

    def several(values, row, timestep):
        return tuple(fn(value, row, timestep) for fn, value in zip(update, values, strict=True))

    until = lambda fold: getattr(fold, count) >= number  # noqa: E731
    value, options = (metrics.init(start[1]), 0), {"steps_per_iteration": steps_per_iteration}
    found = fold(env, always_one, several, value, *start, 99, until=until, **options)
    return found, metrics.compute(metrics.totals(found.value[0]))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", [0, 1, 7, 20])
def test_steps_are_summed_over_lanes_and_exceed_the_number_by_less_than_the_lanes(mode, number):
    found, metrics = jax.device_get(counted("steps", mode, np.int32(number)))
    assert number <= int(found.steps) < number + 3
    assert to_host(metrics)["steps"] == int(found.steps)
    assert to_host(metrics)["episodes"] == int(found.episodes)
    assert found.value[1] == found.rows


@pytest.mark.parametrize("mode", MODES)
def test_episodes_are_counted_at_their_last_rows(mode):
    # Episodes of lanes 0, 1, 2 are 2, 3 / 3, 1 / 4, 2 steps long. The third LAST row is the 4th step of lane 2 or the
    # 4th of lane 1: they are row 4 and, because a FIRST row precedes the latter in next_step mode, row 5.
    found, metrics = jax.device_get(counted("episodes", mode, np.int32(3)))
    assert int(found.rows) == 4
    assert int(found.episodes) == to_host(metrics)["episodes"] == (4 if mode == "same_step" else 3)


@pytest.mark.parametrize("number", [0, 7, 8, 14])  # 0, 3, 3 and 5 rows
def test_several_steps_in_an_iteration_stop_at_the_same_row(number):
    expected = counted("steps", "same_step", np.int32(number))
    chex.assert_trees_all_equal(expected, counted("steps", "same_step", np.int32(number), steps_per_iteration=4))


@pytest.mark.parametrize("steps_per_iteration", [1, 4])
def test_a_fold_ends_after_its_steps_if_nothing_stops_it(steps_per_iteration):
    env = AutoReset(Counting(np.array([0]), num_envs=2))
    until, options = lambda fold: fold.episodes >= 1, {"steps_per_iteration": steps_per_iteration}
    found = fold(env, always_one, lambda v, *_: v + 1, 0, *env.reset(jax.random.key(0)), 5, until=until, **options)
    assert (int(found.rows), int(found.value), int(found.steps), int(found.episodes)) == (5, 5, 10, 0)


def test_a_fold_can_stop_by_its_value():
    found = recorded(AutoReset(count_to_two()), 99, lambda fold: fold.value[2] == 3)
    assert found.value[0][:4].tolist() == [0, 1, 2, -1]


def test_a_number_of_episodes_favours_short_ones():
    env = AutoReset(Counting(np.array([[1], [9]]), num_envs=2), "same_step")
    until = lambda fold: fold.episodes >= 10  # noqa: E731
    found = jax.jit(lambda key: fold(env, always_one, lambda v, *_: v, 0, *env.reset(key), 99, until=until))(
        jax.random.key(0)
    )
    assert int(found.steps) / int(found.episodes) < 2  # five of each length would average 5


@pytest.mark.parametrize("count", ["steps", "episodes"])
def test_a_negative_traced_number_stops_at_once(count):
    found, _ = jax.device_get(counted(count, "same_step", np.int32(-1)))
    assert int(found.rows) == 0


def test_the_initial_value_and_memory_may_be_constants_inside_shard_map():
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
    assert value.tolist() == [3]  # observations 0 and 1 in each lane
    assert memory.tolist() == [1, 2, 2]  # lane 0 is in its next episode


def test_a_fold_can_be_differentiated():
    env = AutoReset(count_to_two())

    @jax.jit
    @jax.grad
    def slope(weight):
        def weighted_return(value, row, timestep):
            return value + weight * timestep.reward[0]

        return fold(env, always_one, weighted_return, jnp.zeros(()), *env.reset(jax.random.key(0)), 8).value

    assert slope(2.0) == 3  # the mock pays 1 at each of three ends


def test_a_fold_keeps_no_trajectory():
    env = counting()
    run = jax.jit(lambda key: fold(env, random_policy(env), lambda v, *_: v, 0, *env.reset(key), 10**6))
    shapes = {x.shape for x in jax.tree.leaves(jax.eval_shape(run, jax.random.key(0)))}
    assert shapes == {(), (3,)}


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"number": -1}, r"fold: num_steps .*got -1"),
        ({"number": 3.0}, r"fold: num_steps .*got 3.0"),
        ({"steps_per_iteration": 0}, r"fold: steps_per_iteration .*got 0"),
        ({"fn": lambda v, *_: (v, v)}, r"must keep the.*got a tuple"),
        ({"fn": lambda v, row, t: t.reward[0]}, r"keep the value's type int32\[\], got float32\[\]"),
        ({"fn": lambda v, row, t: {"a": v["a"], "b": t.reward}, "value": {"a": 0, "b": np.float32(0)}},
         r"type float32\[\] of b, got float32\[3\]"),
        ({"memory": MEMORY}, "fold: memory needs initial_memory"),
        ({"until": 100}, "fold: until must be .*got 100"),
        ({"until": lambda fold: fold.rows}, r"fold: until must return one bool, got .*int32\[\]"),
        ({"until": lambda fold: fold.timestep.is_last()}, r"fold: until must return one bool, got .*bool\[3\]"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_at_trace_time(changes, message):
    env = counting()
    value, number, fn = changes.pop("value", 0), changes.pop("number", 3), changes.pop("fn", lambda v, *_: v)
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(
            lambda key: fold(env, always_one, fn, value, *env.reset(key), number, **changes), jax.random.key(0)
        )


def test_a_count_is_compared_with_integers_only():
    with pytest.raises(TypeError, match=r"Count: .*got 2\.5"):
        _ = Count.zeros() >= 2.5


@pytest.mark.parametrize("name", ["fold_steps", "fold_episodes"])
def test_a_former_fold_is_answered_with_its_successor(name):
    with pytest.raises(AttributeError, match=r"'ChunkedRollout': use a loop over a jitted jaxenv.unroll"):
        _ = jaxenv.rollout.ChunkedRollout
    with pytest.raises(AttributeError, match=rf"'{name}': use jaxenv.rollout.fold\(.*until=.*{name[5:]} >= n"):
        getattr(jaxenv.rollout, name)
