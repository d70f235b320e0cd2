"""TimeLimit: exact, per lane, and without effect on the discount."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset, LaneWrapper, TimeLimit
from tests.rows import assert_equal, unrolled

FIRST, MID, LAST = 0, 1, 2


def limited(length, limit, lanes=1, **kwargs):
    return AutoReset(TimeLimit(Counting(np.array([length]), num_envs=lanes), limit, **kwargs))


def rows(env, steps):
    return unrolled(env, jnp.zeros((steps, env.num_envs), jnp.int32))


def test_a_limit_of_two_gives_first_mid_last_twice():
    r = rows(limited(9, 2), 5)
    assert r.step_type[:, 0].tolist() == [FIRST, MID, LAST, FIRST, MID, LAST]
    assert r.discount[:, 0].tolist() == [1] * 6
    assert r.env_info["time_limit_reached"][:, 0].tolist() == [False, False, True, False, False, True]


def test_a_shorter_episode_keeps_discount_0_and_restarts_the_count():
    r = rows(limited(2, 3), 5)
    assert r.step_type[:, 0].tolist() == [FIRST, MID, LAST, FIRST, MID, LAST]
    assert r.discount[:, 0].tolist() == [1, 1, 0, 1, 1, 0]
    assert not r.env_info["time_limit_reached"].any()


@pytest.mark.parametrize(("limit", "discount", "reached"), [(4, 1, True), (5, 0, True), (6, 0, False)])
def test_a_limit_truncates_before_the_native_end_and_termination_wins_a_tie(limit, discount, reached):
    r = rows(limited(5, limit), min(limit, 5))
    assert r.step_type[-1, 0] == LAST
    assert (r.step_type[1:-1] == MID).all()
    assert r.discount[-1, 0] == discount
    assert bool(r.env_info["time_limit_reached"][-1, 0]) is reached
    assert bool(r.terminated[-1, 0]) is (discount == 0)
    assert bool(r.truncated[-1, 0]) is (discount == 1)


def test_the_limit_may_be_per_lane():
    r = rows(limited(100, np.array([1, 2, 5]), lanes=3), 11)
    ends = [np.flatnonzero(r.step_type[:, lane] == LAST).tolist() for lane in range(3)]
    assert ends == [[1, 3, 5, 7, 9, 11], [2, 5, 8, 11], [5, 11]]


def test_a_limit_changes_only_the_step_type_and_its_own_entry():
    bare, limit = Counting(np.array([9]), num_envs=2), TimeLimit(Counting(np.array([9]), num_envs=2), 2)
    a, b = rows(bare, 2), rows(limit, 2)
    assert b.step_type[-1].tolist() == [LAST, LAST]
    for name in ("reward", "discount", "observation", "prev_action", "env_id"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


def test_a_terminal_limit_gives_discount_0():
    r = rows(limited(9, 2, terminal=True), 2)
    assert r.discount[:, 0].tolist() == [1, 1, 0]


class TwoSteps(LaneWrapper):
    """Steps twice, for the count of a limit outside."""

    owns = frozenset()
    place = "several_steps"

    def init(self, timestep, stream):
        return jnp.zeros_like(timestep.env_id)

    def proceed(self, state, action):
        state, _ = super().proceed(state, action)
        return super().proceed(state, action)


def test_a_limit_counts_the_steps_of_what_it_wraps():
    outside = AutoReset(TimeLimit(TwoSteps(Counting(np.array([100]), num_envs=1)), 3))
    inside = AutoReset(TimeLimit(Counting(np.array([100]), num_envs=1), 6))
    r = rows(outside, 7)
    assert r.step_type[:, 0].tolist() == [FIRST, MID, MID, LAST, FIRST, MID, MID, LAST]
    assert r.observation[:, 0].tolist() == [0, 2, 4, 6, 0, 2, 4, 6]
    assert rows(inside, 7).step_type[6, 0] == LAST


def test_no_counter_is_carried_if_the_clock_counts():
    env = TimeLimit(Counting(np.array([100]), num_envs=1), 3)
    with_limit, without = (jax.eval_shape(e.reset, jax.random.key(0))[0] for e in (env, env.env))
    assert jax.tree.structure(with_limit) == jax.tree.structure(without)


def test_a_limit_passed_as_an_argument_does_not_recompile():
    @jax.jit
    @chex.assert_max_traces(n=1)
    def end(env):
        state, _ = env.reset(jax.random.key(0))
        return env.step(state, jnp.zeros(1, jnp.int32))[1].is_last()

    env = Counting(np.array([100]), num_envs=1)
    assert [bool(end(TimeLimit(env, n))[0]) for n in (1, 2, 3)] == [True, False, False]


@pytest.mark.parametrize(
    ("duration", "message"),
    [
        (0, r"duration .*got 0"),
        (np.array([3, -1]), r"duration .*got -1 in lane 1"),
        (2.5, r"duration .*got 2.5"),
        ("ten", r"duration .*got 'ten'"),
        (np.ones((1, 2), int), r"duration .*got shape \(1, 2\)"),
    ],
)
def test_an_invalid_duration_is_refused_by_name_and_value(duration, message):
    with pytest.raises(ValueError, match=message):
        TimeLimit(Counting(np.array([9]), num_envs=2), duration)


def test_a_limit_for_another_number_of_lanes_is_refused_at_reset():
    env = TimeLimit(Counting(np.array([9]), num_envs=2), np.array([1, 2, 3]))
    with pytest.raises(ValueError, match="duration holds 3 lanes, the batch has 2"):
        env.reset(jax.random.key(0))


def test_a_limit_outside_auto_reset_is_refused():
    with pytest.raises(ValueError, match="put TimeLimit inside AutoReset"):
        TimeLimit(limited(9, 2), 3)


def test_mountain_car_reaches_its_limit_of_200_as_truncated():
    env = jaxenv.make("MountainCar-v0", num_envs=2)
    r = unrolled(env, jnp.ones((201, 2), jnp.int32))
    assert (r.step_type[1:200] == MID).all()
    assert r.step_type[200].tolist() == [LAST, LAST]
    assert r.discount[200].tolist() == [1, 1]
    assert r.reward[1:201].sum(0).tolist() == [-200, -200]
    assert r.step_type[201].tolist() == [FIRST, FIRST]
    assert r.reward[201].tolist() == [0, 0]


def test_nested_limits_do_not_count_twice():
    base = Counting(np.array([100]), num_envs=1)
    once, twice = TimeLimit(base, 4), TimeLimit(TimeLimit(base, 9), 4)
    assert_equal(rows(AutoReset(twice), 10).step_type, rows(AutoReset(once), 10).step_type)
    inner = rows(AutoReset(TimeLimit(TimeLimit(base, 3), 9)), 3)
    assert inner.env_info["time_limit_reached"][:, 0].tolist() == [False, False, False, True]
