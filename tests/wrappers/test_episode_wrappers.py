"""Wrappers that change ends and discounts. Episodes of lane 1 have two steps, those of other lanes nine.

Covers Discount, NonEpisodic, NonTerminating, RandomFirstEpisodeLength, TerminalOnInfo and TerminateOn.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.testing import Chain, Counting
from jaxenv.wrappers import (
    AutoReset,
    Discount,
    NonEpisodic,
    NonTerminating,
    NoopReset,
    RandomFirstEpisodeLength,
    TerminalOnInfo,
    TerminateOn,
    TimeLimit,
)
from tests.rows import assert_equal, unrolled
from tests.wrappers.paying import paying

FIRST, MID, LAST = 0, 1, 2


def counting(lengths=((9,), (2,), (9,))):
    return Counting(np.array(lengths), stride=10, num_envs=3)


def rows(env, steps=5, action=1):
    return unrolled(env, np.full((steps, env.num_envs), action, np.int32))


def lanes(values):
    """One list per lane."""
    return np.asarray(values).T.tolist()


# --- discounts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stack",
    [
        lambda e, limit: AutoReset(TimeLimit(Discount(e, 0.5), limit)),
        lambda e, limit: AutoReset(Discount(TimeLimit(e, limit), 0.5)),
        lambda e, limit: Discount(AutoReset(TimeLimit(e, limit)), 0.5),
    ],
)
def test_a_discount_is_1_at_first_0_at_termination_and_kept_by_a_time_limit(stack):
    r = rows(stack(counting(), np.array([9, 9, 3])), 4)
    assert lanes(r.step_type) == [[0, 1, 1, 1, 1], [0, 1, 2, 0, 1], [0, 1, 1, 2, 0]]
    assert lanes(r.discount) == [[1, 0.5, 0.5, 0.5, 0.5], [1, 0.5, 0, 1, 0.5], [1, 0.5, 0.5, 0.5, 1]]


def test_discounts_may_be_per_lane_in_same_step_mode():
    r = rows(
        Discount(AutoReset(TimeLimit(counting(), np.array([9, 9, 3])), "same_step"), np.array([0.5, 0.5, 0.25])), 4
    )
    assert lanes(r.discount) == [[1, 0.5, 0.5, 0.5, 0.5], [1, 0.5, 0, 0.5, 0], [1, 0.25, 0.25, 0.25, 0.25]]


@pytest.mark.parametrize("stack", [lambda e: AutoReset(NonTerminating(e)), lambda e: NonTerminating(AutoReset(e))])
def test_non_terminating_episodes_restart_and_never_terminate(stack):
    plain, r = rows(AutoReset(counting())), rows(stack(counting()))
    assert plain.terminated.any()
    assert lanes(r.step_type) == [[0, 1, 1, 1, 1, 1], [0, 1, 2, 0, 1, 2], [0, 1, 1, 1, 1, 1]]
    assert (r.discount == 1).all()
    assert_equal(plain.observation, r.observation)


def test_the_discount_of_last_rows_is_an_argument():
    limited = TimeLimit(counting(), np.array([1, 9, 9]))  # truncates lane 0
    r = rows(AutoReset(NonTerminating(limited, 0.5)), 2)
    assert lanes(r.discount) == [[1, 0.5, 1], [1, 1, 0.5], [1, 1, 1]]


@pytest.mark.parametrize(
    ("stack", "mode", "discount"),
    [
        (lambda e, m: AutoReset(TerminalOnInfo(e, "life_lost"), m), "next_step", [1, 0, 0, 1, 0, 0]),
        (lambda e, m: TerminalOnInfo(AutoReset(e, m), "life_lost"), "next_step", [1, 0, 0, 1, 0, 0]),
        (lambda e, m: TerminalOnInfo(AutoReset(e, m), "life_lost"), "same_step", [1, 0, 0, 0, 0, 0]),
    ],
)
def test_a_flag_sets_the_discount_to_0_and_the_episode_continues(stack, mode, discount):
    env = stack(paying(3), mode)
    played = np.array([[1, 9, 1], [9, 9, 1], [1, 9, 1], [9, 9, 1], [1, 9, 1]], np.int32)
    r = unrolled(env, played)
    assert lanes(r.step_type)[0] == [0, 1, 1, 1, 1, 1]
    assert lanes(r.discount) == [[1, 1, 0, 1, 0, 1], discount, [1] * 6]
    assert lanes(r.bootstrap_mask)[0] == [False, True, False, True, False, True]


# --- ends ------------------------------------------------------------------------------------------------------------


def test_non_episodic_environments_are_stepped_past_their_ends():
    env = NonEpisodic(Chain(3, num_envs=1))
    r = unrolled(env, np.array([[1], [1], [1], [0], [1]], np.int32))
    assert lanes(r.step_type) == [[0, 1, 1, 1, 1, 1]]
    assert lanes(r.discount) == [[1] * 6]
    assert lanes(r.observation) == [[0, 1, 2, 2, 1, 2]]
    assert lanes(r.reward) == [[0, 0, 1, 1, 0, 1]]
    assert_equal(rows(AutoReset(NonEpisodic(counting()))).observation, rows(NonEpisodic(counting())).observation)
    assert lanes(rows(NonEpisodic(TimeLimit(counting(), 1)), 3).step_type) == [[0, 1, 1, 1]] * 3


def test_a_time_limit_outside_ends_non_episodic_environments():
    r = rows(AutoReset(TimeLimit(NonEpisodic(counting()), 4)), 6)
    assert lanes(r.step_type) == [[0, 1, 1, 1, 2, 0, 1]] * 3
    assert lanes(r.observation) == [[0, 1, 2, 3, 4, 10, 11]] * 3
    assert (r.discount == 1).all()


def test_make_puts_the_time_limit_outside():
    env = jaxenv.make("CartPole-v1", wrappers=[("NonEpisodic", {}), ("Discount", {"value": 0.9})])
    assert repr(env) == "<AutoReset<Discount<TimeLimit<NonEpisodic<CartPole-v1>>>>>"


@pytest.mark.parametrize(
    ("mode", "kinds", "discounts"),
    [
        ("next_step", [[0, 1, 2, 0, 1, 2], [0, 1, 2, 0, 1, 2], [0, 1, 1, 2, 0, 1]], [[1, 1, 0, 1, 1, 0]] * 2),
        ("same_step", [[0, 1, 2, 1, 2, 1], [0, 1, 2, 1, 2, 1], [0, 1, 1, 2, 1, 1]], [[1, 1, 0, 1, 0, 1]] * 2),
    ],
)
def test_terminate_on_ends_episodes_and_wins_against_a_limit_on_the_same_step(mode, kinds, discounts):
    # The function ends lane 0 at step 2, its task ends lane 1 at step 2 as well, and only the limit ends lane 2.
    limited = TimeLimit(counting(), np.array([2, 9, 3]))
    r = rows(AutoReset(TerminateOn(limited, lambda t: (t.observation % 10 == 2) & (t.env_id < 2)), mode))
    assert lanes(r.step_type) == kinds
    assert lanes(r.discount) == [*discounts, [1] * 6]


# --- random first lengths --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "kinds", "discounts"),
    [
        ("next_step", [0, 2, 0, 1, 2, 0], [1, 1, 1, 1, 0, 1]),
        ("same_step", [0, 2, 1, 2, 1, 2], [1, 1, 1, 0, 1, 0]),
    ],
)
def test_the_first_episode_is_cut_as_truncated_and_later_ones_are_not(mode, kinds, discounts):
    env = RandomFirstEpisodeLength(counting(((2,), (9,), (9,))), 1, np.array([1, 0, 0]))
    r = rows(AutoReset(env, mode))
    assert lanes(r.step_type) == [kinds, [0, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1]]
    assert lanes(r.discount)[0] == discounts


def test_a_task_that_terminates_on_the_step_of_the_cut_stays_terminated():
    r = rows(RandomFirstEpisodeLength(counting(((1,), (2,), (9,))), 1), 1)
    assert lanes(r.step_type) == [[0, 2]] * 3
    assert lanes(r.discount) == [[1, 0], [1, 1], [1, 1]]


def first_lengths(env, steps):
    """Lengths of the first three episodes of every lane, in agent steps: ``[3, B]``."""
    r = rows(AutoReset(env), steps)
    ends = [np.flatnonzero(kinds == LAST)[:3] for kinds in r.step_type.T]
    # Episodes are separated by a FIRST row.
    return np.array([[e[0], e[1] - e[0] - 1, e[2] - e[1] - 1] for e in ends]).T


def test_first_lengths_are_uniform_and_drawn_per_lane_and_episode():
    maximum = np.repeat(np.array([4, 2], np.int32), 200)
    env = Counting(np.array([6]), num_envs=400)
    first, second, third = first_lengths(RandomFirstEpisodeLength(env, maximum, 2), 20)
    for lengths in (first, second):
        counts = np.bincount(lengths[:200], minlength=5)
        assert counts[0] == 0
        assert len(counts) == 5
        assert (np.abs(counts[1:] - 50) < 25).all()
        assert set(lengths[200:]) == {1, 2}
    assert 0.12 < np.mean(first[:200] == second[:200]) < 0.38
    assert set(third) == {6}


def test_the_first_length_counts_agent_steps():
    env = NoopReset(Counting(np.array([100]), num_envs=60), 5)
    lengths = np.argmax(rows(RandomFirstEpisodeLength(env, 3), 4).step_type == LAST, axis=0)
    assert set(lengths) == {1, 2, 3}


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda e: Discount(e, 0), r"Discount: value .*got 0"),
        (lambda e: Discount(e, np.array([0.5, 1, 1.5])), r"Discount: value .*got 1.5 in lane 2"),
        (lambda e: NonTerminating(e, 2), r"NonTerminating: discount .*got 2"),
        (lambda e: NonEpisodic(AutoReset(e)), "put NonEpisodic inside AutoReset"),
        (lambda e: TerminateOn(AutoReset(e), jnp.isnan), "put TerminateOn inside AutoReset"),
        (lambda e: TerminateOn(e, True), r"TerminateOn: fn .*got True"),
        (
            lambda e: rows(TerminateOn(e, lambda t: t.reward), 1),
            r"TerminateOn: fn .*got float32\[3\]",
        ),
        (lambda e: TerminalOnInfo(e, "lost"), r": flag .*got 'lost'"),
        (
            lambda e: jaxenv.make("CartPole-v1", wrappers=[("TerminalOnInfo", {"flag": "time_limit_reached"})]),
            r"got 'time_limit_reached'; to terminate at.* TerminateOn, or TimeLimit with terminal=True",
        ),
        (
            lambda e: TerminalOnInfo(paying(), "cost"),
            r"TerminalOnInfo: flag .*got 'cost'",
        ),
        (
            lambda e: RandomFirstEpisodeLength(e, 0),
            r"RandomFirstEpisodeLength: maximum .*got 0",
        ),
        (lambda e: RandomFirstEpisodeLength(e, 2.5), r"maximum .*got 2.5"),
        (lambda e: RandomFirstEpisodeLength(e, 3, -1), r"num_episodes .*got -1"),
        (lambda e: RandomFirstEpisodeLength(AutoReset(e), 3), "put RandomFirstEpisodeLength inside AutoReset"),
    ],
)
def test_an_invalid_argument_is_refused_by_name_and_value(build, message):
    with pytest.raises(ValueError, match=message):
        build(counting())


def test_a_new_key_cuts_the_first_episode_again():
    env = AutoReset(RandomFirstEpisodeLength(counting(), 1))

    @jax.jit
    def restarted():
        state, timestep = env.reset(jax.random.key(0))
        for _ in range(2):
            state, timestep = env.step(state, jnp.zeros(3, jnp.int32))
        mask = np.array([True, False, False])
        state, timestep = jaxenv.reset_where(env, state, timestep, mask, jax.random.key(1))
        return env.step(state, jnp.zeros(3, jnp.int32))[1]

    timestep = restarted()
    assert timestep.step_type.tolist() == [LAST, MID, MID]
    assert timestep.discount.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "options",
    [
        {"wrappers": [lambda env: TerminateOn(env, lambda row: row.env_info["time_limit_reached"])]},
        {"max_episode_steps": 0, "wrappers": [("TimeLimit", {"duration": 2, "terminal": True})]},
    ],
)
def test_make_builds_both_kinds_of_time_limit_that_terminate(options):
    env = jaxenv.make("CartPole-v1", **{"max_episode_steps": 2, "autoreset": None, **options})
    state, timestep = env.reset(jax.random.key(0))
    kinds = []
    for _ in range(2):
        state, timestep = env.step(state, np.zeros(1, np.int32))
        kinds.append((timestep.step_type.item(), timestep.discount.item()))
    assert kinds == [(1, 1), (2, 0)]
