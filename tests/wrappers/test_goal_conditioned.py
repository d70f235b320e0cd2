"""GoalConditioned: goals per episode, rewards and specs."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import random, specs
from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset, GoalConditioned, TerminateOn
from tests.rows import unrolled

GOAL = specs.Bounded((1,), np.float32, 0, 100)


def by_episode(key):
    """2 in the first episode, 4 in the second and so on: the first counter word of a stream is the episode."""
    return 2 * (key.c0 + 1).astype(jnp.float32)[:, None]


def step_of(observation):
    return (observation % 10).astype(jnp.float32)[:, None]


def distance(achieved, goal):
    return -jnp.abs(achieved - goal)[:, 0]


def conditioned(env, sample_goal=by_episode, reward_fn=distance, achieved_fn=step_of, goal_spec=None):
    return GoalConditioned(env, sample_goal, reward_fn, achieved_fn, goal_spec)


def counting(num_envs=3):
    return Counting(np.array([[2], [9], [9]])[:num_envs], stride=10, num_envs=num_envs)


def lanes(values):
    return np.asarray(values).T.tolist()


def rows(env, steps=4):
    return unrolled(env, np.ones((steps, env.num_envs), np.int32))


@pytest.mark.parametrize(
    ("stack", "goals", "achieved", "rewards", "observations"),
    [
        (
            lambda e: AutoReset(conditioned(e)),
            [2, 2, 2, 4, 4],
            [0, 1, 2, 0, 1],
            [0, -1, 0, 0, -3],
            [0, 1, 2, 10, 11],
        ),
        (
            lambda e: conditioned(AutoReset(e)),
            [2, 2, 2, 4, 4],
            [0, 1, 2, 0, 1],
            [0, -1, 0, 0, -3],
            [0, 1, 2, 10, 11],
        ),
        (
            lambda e: AutoReset(conditioned(e), "same_step"),
            [2, 2, 4, 4, 6],
            [0, 1, 0, 1, 0],
            [0, -1, 0, -3, -2],
            [0, 1, 10, 11, 20],
        ),
    ],
)
def test_a_goal_is_held_for_an_episode_and_rewards_proximity(stack, goals, achieved, rewards, observations):
    r = rows(stack(counting()))
    shown = r.observation
    assert lanes(shown["desired_goal"][..., 0]) == [goals, [2] * 5, [2] * 5]
    assert lanes(shown["achieved_goal"][..., 0]) == [achieved, [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]
    assert lanes(shown["observation"]) == [observations, [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]
    assert lanes(r.reward) == [rewards, [0, -1, 0, -1, -2], [0, -1, 0, -1, -2]]


def test_the_final_observation_shows_the_goal_of_its_episode():
    r = rows(AutoReset(conditioned(counting()), "same_step"), 2)
    final = r.env_info["final_observation"]
    assert final["desired_goal"][2, 0].tolist() == [2]
    assert final["achieved_goal"][2, 0].tolist() == [2]
    assert r.observation["desired_goal"][2, 0].tolist() == [4]


def test_goals_are_drawn_per_lane():
    env = conditioned(Counting(np.array([9]), num_envs=50), lambda stream: random.uniform(stream, (1,), 0, 9))
    goals = rows(env, 1).observation["desired_goal"]
    assert (goals[0] == goals[1]).all()
    assert len(np.unique(goals)) == 50


def test_specs_keep_the_bounds_that_are_known():
    env = conditioned(counting(), goal_spec=GOAL)
    assert env.observation_spec() == {
        "observation": specs.Array((), np.int32),
        "achieved_goal": GOAL,
        "desired_goal": GOAL,
    }
    assert conditioned(counting()).observation_spec()["desired_goal"] == specs.Array((1,), np.float32)
    assert env.reward_spec() == specs.Array((), np.float32)


def test_terminate_on_ends_an_episode_at_its_goal():
    reached = TerminateOn(conditioned(counting(1)), lambda t: t.reward == 0)
    assert lanes(rows(AutoReset(reached), 3).step_type) == [[0, 1, 2, 0]]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: conditioned(counting(), reward_fn=2), "GoalConditioned: reward_fn must be a function, got 2"),
        (
            lambda: conditioned(counting(), achieved_fn=lambda o: o),
            r"GoalConditioned: achieved and desired goal differ at .* Array\(\(\), int32\) and Array\(\(1,\)",
        ),
        (
            lambda: conditioned(counting(), goal_spec=specs.Array((2,), np.float32)),
            "GoalConditioned: goal_spec and the goals differ",
        ),
        (
            lambda: rows(conditioned(counting(), reward_fn=lambda a, g: a - g)),
            r"GoalConditioned: reward_fn must return \(3,\) rewards, got \(3, 1\)",
        ),
        (lambda: conditioned(AutoReset(counting(), "same_step")), "GoalConditioned: it rewrites .*inside AutoReset"),
    ],
)
def test_an_invalid_argument_is_refused_by_name_and_value(build, message):
    with pytest.raises(ValueError, match=message):
        build()
