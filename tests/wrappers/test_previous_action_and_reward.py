"""PreviousActionAndReward: the action that led to a row and its reward, none of them from another step or episode."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import specs
from jaxenv.testing import Counting, random_environment
from jaxenv.wrappers import ActionWrapper, AutoReset, PreviousActionAndReward, TransformReward
from tests.rows import assert_equal, unrolled


def counting():
    """Three lanes; only the first one ends, after two steps. Pays 100 minus the action."""
    return TransformReward(Counting(np.array([[2], [9], [9]]), stride=10, num_envs=3), hundred_less)


def hundred_less(reward):
    return 100 - reward


ACTIONS = jnp.broadcast_to(jnp.array([5, 6, 7, 8, 9])[:, None], (5, 3))


def test_a_row_shows_the_action_that_led_to_it_and_zeros_at_first():
    inside, outside = (
        unrolled(env, ACTIONS)
        for env in (AutoReset(PreviousActionAndReward(counting())), PreviousActionAndReward(AutoReset(counting())))
    )
    assert_equal(inside, outside)
    shown = inside.observation
    for lane, observation, action, reward in [
        (0, [0, 1, 2, 10, 11, 12], [0, 5, 6, 0, 8, 9], [0, 95, 94, 0, 92, 91]),
        (1, [0, 1, 2, 3, 4, 5], [0, 5, 6, 7, 8, 9], [0, 95, 94, 93, 92, 91]),
        (2, [0, 1, 2, 3, 4, 5], [0, 5, 6, 7, 8, 9], [0, 95, 94, 93, 92, 91]),
    ]:
        assert shown["observation"][:, lane].tolist() == observation
        assert shown["prev_action"][:, lane].tolist() == action
        assert shown["prev_reward"][:, lane].tolist() == reward


def test_a_same_step_last_row_shows_zeros_and_its_final_observation_the_last_action_and_reward():
    r = unrolled(AutoReset(PreviousActionAndReward(counting()), "same_step"), ACTIONS)
    shown, final = r.observation, r.env_info["final_observation"]
    assert shown["prev_action"][:, 0].tolist() == [0, 5, 0, 7, 0, 9]
    assert shown["prev_reward"][:, 0].tolist() == [0, 95, 0, 93, 0, 91]
    assert final["prev_action"][:, 0].tolist() == [0, 5, 6, 7, 8, 9]
    assert final["prev_reward"][:, 0].tolist() == [0, 95, 94, 93, 92, 91]
    assert shown["prev_action"][:, 1].tolist() == [0, 5, 6, 7, 8, 9]
    with pytest.raises(ValueError, match=r"PreviousActionAndReward: it rewrites observation.* put it inside AutoReset"):
        PreviousActionAndReward(AutoReset(counting(), "same_step"))


@pytest.mark.parametrize(
    ("arguments", "names"),
    [({"reward": False}, {"observation", "prev_action"}), ({"action": False}, {"observation", "prev_reward"})],
)
def test_either_may_be_left_out(arguments, names):
    env = PreviousActionAndReward(counting(), **arguments)
    assert env.observation_spec().keys() == names
    assert unrolled(env, ACTIONS[:1]).observation.keys() == names


def test_specs_include_zeros_at_first_and_actions_out_of_range():
    actions = {"gear": specs.discrete(3, start=2), "force": specs.Bounded((2,), np.float32, 1, 2)}
    base = random_environment(specs.discrete(3), actions, specs.Bounded((2,), np.float32, 0, 1), num_envs=2)
    env = PreviousActionAndReward(base)
    assert env.observation_spec() == {
        "observation": specs.discrete(3),
        "prev_action": {"gear": specs.Bounded((), np.int32, 0, 4), "force": specs.Array((2,), np.float32)},
        "prev_reward": specs.Array((2,), np.float32),
    }
    given = {"gear": jnp.full((1, 2), 77, jnp.int32), "force": jnp.full((1, 2, 2), 9.0)}
    shown = unrolled(env, given)
    specs.validate(env.observation_spec(), shown.observation, (2, 2))
    assert shown.observation["prev_action"]["gear"].tolist() == [[0, 0], [4, 4]]
    assert (shown.observation["prev_action"]["force"][1] == 9).all()
    np.testing.assert_array_equal(shown.observation["prev_reward"], shown.reward)


class Doubled(ActionWrapper):
    def action(self, action):
        return 2 * action

    def action_spec(self):
        return specs.discrete(5)


def test_outside_an_action_wrapper_it_shows_the_agents_own_action():
    actions = jnp.full((1, 3), 4, jnp.int32)
    assert unrolled(PreviousActionAndReward(Doubled(counting())), actions).observation["prev_action"][1, 0] == 4
    assert unrolled(Doubled(PreviousActionAndReward(counting())), actions).observation["prev_action"][1, 0] == 8


def test_showing_nothing_is_refused():
    with pytest.raises(ValueError, match="PreviousActionAndReward: action or reward must be True, got neither"):
        PreviousActionAndReward(counting(), action=False, reward=False)
