"""NoopReset: no-ops at the start of episodes."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs
from jaxenv.testing import Chain, Counting, random_environment
from jaxenv.wrappers import AutoReset, LaneWrapper, NoopReset, TimeLimit
from tests.rows import assert_equal, unrolled
from tests.wrappers.paying import paying


def lanes(values):
    return np.asarray(values).T.tolist()


def rows(env, steps, action=5):
    return unrolled(env, np.full((steps, env.num_envs), action, np.int32))


class Shown(Counting):
    """`Counting` with its step in ``env_info`` on every row."""

    def state_info(self, state):
        return {"step": state.step}


class Sum(LaneWrapper):
    """Shows the sum of the episode's observations."""

    owns = frozenset({"observation"})

    def init(self, timestep, stream):
        return jnp.zeros_like(timestep.observation)

    def after(self, own, timestep, stream):
        own = own + timestep.observation
        return own, dataclasses.replace(timestep, observation=jnp.copy(own))


@pytest.mark.parametrize("strategy", ["compact", "select"])
@pytest.mark.parametrize(
    ("mode", "kinds", "observations"),
    [
        ("next_step", [0, 2, 0, 2, 0], [1, 2, 11, 12, 21]),
        ("same_step", [0, 2, 2, 2, 2], [1, 11, 21, 31, 41]),
    ],
)
def test_an_episode_is_shown_from_after_its_no_op(mode, kinds, observations, strategy):
    env = AutoReset(NoopReset(Counting(np.array([[2], [9], [9]]), stride=10, num_envs=3), 1), mode, strategy)
    r = rows(env, 4)
    assert lanes(r.step_type) == [kinds, [0, 1, 1, 1, 1], [0, 1, 1, 1, 1]]
    assert lanes(r.observation) == [observations, [1, 2, 3, 4, 5], [1, 2, 3, 4, 5]]
    paid = [0 if kind == 0 else 5 for kind in kinds]
    assert lanes(r.reward) == [paid, [0, 5, 5, 5, 5], [0, 5, 5, 5, 5]]
    assert lanes(r.prev_action) == lanes(r.reward)
    assert lanes(r.discount)[0] == [0 if kind == 2 else 1 for kind in kinds]


def test_the_number_of_no_ops_is_drawn_per_lane_and_episode_from_1_to_the_maximum():
    env = TimeLimit(NoopReset(Counting(np.array([100]), num_envs=200), 4), 1)
    r = rows(AutoReset(env), 2)
    first, second = r.observation[0], r.observation[2]
    for drawn in (first, second):
        assert (np.abs(np.bincount(drawn) - [0, 50, 50, 50, 50]) < [1, 25, 25, 25, 25]).all()
    assert 0.12 < np.mean(first == second) < 0.38


@pytest.mark.parametrize("limit", [99, 3])
def test_a_lane_that_ends_during_no_ops_plays_the_rest_from_its_start(limit):
    # It ends at 3: the third of 1 to 5 no-ops returns the lane to its start, and at most two remain.
    core = TimeLimit(Counting(np.array([3 if limit > 3 else 99]), stride=10, num_envs=300), limit)
    r = rows(AutoReset(TimeLimit(NoopReset(core, 5), 1)), 2)
    assert set(r.step_type[0]) == {0}
    assert (np.abs(np.bincount(r.observation[0]) - [60, 120, 120]) < 30).all()
    assert set(r.observation[2]) == {10, 11, 12}  # one episode later, no more


def test_transition_entries_are_zero_and_state_entries_follow_the_no_ops():
    start = rows(NoopReset(paying(), 1, noop=9), 0)
    assert {name: x.tolist() for name, x in start.env_info.items()} == {
        "reward_dist": [[0]],
        "reward_ctrl": [[0]],
        "cost": [[0]],
        "life_lost": [[False]],
    }
    shown = rows(AutoReset(NoopReset(Shown(np.array([3])), 1)), 4)
    assert lanes(shown.env_info["step"]) == [[1, 2, 3, 1, 2]]


def test_the_no_op_may_be_any_action():
    assert rows(NoopReset(Chain(5), 1, noop=1), 0).observation.tolist() == [[1]]
    assert rows(NoopReset(Chain(5), 1), 0).observation.tolist() == [[0]]


def test_a_wrapper_inside_sees_the_no_ops():
    r = rows(AutoReset(NoopReset(Sum(Counting(np.array([3]))), 1)), 3)
    assert lanes(r.observation) == [[1, 3, 6, 1]]


def test_a_limit_outside_counts_agent_steps_and_a_limit_inside_counts_no_ops_as_well():
    core = Counting(np.array([100]))
    assert lanes(rows(AutoReset(TimeLimit(NoopReset(core, 1), 2)), 3).step_type) == [[0, 1, 2, 0]]
    assert lanes(rows(AutoReset(NoopReset(TimeLimit(core, 2), 1)), 2).step_type) == [[0, 2, 0]]


def test_make_puts_the_limit_outside_and_compacts_restarts():
    env = jaxenv.make("CartPole-v1", num_envs=2, wrappers=[("NoopReset", {"maximum": 3})])
    assert repr(env) == "<AutoReset<TimeLimit<NoopReset<CartPole-v1>>>>"
    assert env.reset_strategy == "compact"


def test_gradients_propagate_through_no_ops():
    env = NoopReset(jaxenv.spec("Pendulum-v1").make(), 3)

    def shown(gravity):
        return env.with_params(gravity=gravity).reset(jax.random.key(0))[1].observation.sum()

    slope = jax.jit(jax.grad(shown))(10.0)
    assert np.isfinite(slope)
    assert slope != 0


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: NoopReset(Chain(5), 0), r"NoopReset: maximum .*got 0"),
        (lambda: NoopReset(Chain(5), 2.5), r"NoopReset: maximum .*got 2.5"),
        (lambda: NoopReset(Chain(5), 2, 7), r"NoopReset: noop .*got 7"),
        (lambda: NoopReset(Chain(5), 2, 0.5), r"NoopReset: noop .*got 0\.5: validate:"),
        (lambda: NoopReset(Chain(5), 2, (0, 0)), r"NoopReset: noop .*got \(0, 0\):"),
        (lambda: NoopReset(AutoReset(Chain(5)), 2), "put NoopReset inside AutoReset"),
        (
            lambda: NoopReset(random_environment(specs.discrete(2), {"gear": specs.discrete(3, start=1)}), 2),
            r"NoopReset: noop .*got None: validate:",
        ),
    ],
)
def test_an_invalid_argument_is_refused_by_name_and_value(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_starts_do_not_depend_on_the_restart_strategy():
    core = NoopReset(Counting(np.array([[1], [4], [3]]), stride=10, num_envs=3), 3)
    compact, select = (rows(AutoReset(core, "next_step", strategy), 12) for strategy in ("compact", "select"))
    assert_equal(compact, select)
