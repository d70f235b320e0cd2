"""Random policies: actions within bounds, over the whole range, and legal."""

import functools

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv import specs
from jaxenv.rollout import policy_stream, random_policy, unroll
from jaxenv.testing import random_environment
from tests.games import Duel

LANES = 1024
OBSERVATION = specs.Array((), np.float32)


def actions(action_spec):
    env = random_environment(OBSERVATION, action_spec, num_envs=LANES)

    @jax.jit
    def act(key):
        state, timestep = env.reset(key)
        return random_policy(env)(timestep, policy_stream(env, state))

    action = jax.device_get(act(jax.random.key(0)))
    specs.validate(action_spec, action, LANES)
    return action


def test_a_discrete_action_takes_every_value():
    assert np.unique(actions(specs.discrete(5, start=-2))).tolist() == [-2, -1, 0, 1, 2]


def test_each_element_of_a_multi_discrete_action_has_its_own_range():
    action = actions(specs.Bounded((3,), np.int32, [0, -1, 2], [1, 4, 2]))
    assert [np.unique(column).tolist() for column in action.T] == [[0, 1], [-1, 0, 1, 2, 3, 4], [2]]


def test_a_continuous_action_fills_its_bounds():
    action = actions(specs.Bounded((2,), np.float32, [-1, 0], [1, 5]))
    np.testing.assert_allclose(action.min(0), [-1, 0], atol=0.05)
    np.testing.assert_allclose(action.max(0), [1, 5], atol=0.05)


def test_the_leaves_of_a_dict_action_are_drawn_independently():
    spec = {"a": specs.discrete(100), "b": specs.discrete(100), "c": {"d": specs.Bounded((2,), np.float32, 0, 1)}}
    action = actions(spec)
    assert abs(np.corrcoef(action["a"], action["b"])[0, 1]) < 0.1
    assert action["c"]["d"].shape == (LANES, 2)


# --- action masks ----------------------------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnames=("mode", "masked"))
def tic_tac_toe(mode, masked):
    env = jaxenv.make("TicTacToe-v0", num_envs=32, autoreset=mode)
    policy = random_policy(env)

    def blind(timestep, stream):
        return specs.sample(env.action_spec(), stream)

    state, timestep = env.reset(jax.random.key(0))
    return unroll(env, policy if masked else blind, state, timestep, 100)[1]


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_a_random_policy_never_takes_an_action_that_the_mask_forbids(mode):
    play = jax.device_get(tic_tac_toe(mode, True))
    assert np.sum(play.timestep.step_type == 2) > 100
    assert not np.any(play.timestep.env_info["invalid_move"])
    chosen = np.take_along_axis(play.timestep.env_info["action_mask"], play.action[..., None], axis=-1)
    assert np.all(chosen)


def test_each_agent_takes_the_actions_that_its_own_mask_allows():
    env = Duel(num_envs=64)
    state, timestep = env.reset(jax.random.key(0))
    drawn = np.asarray(random_policy(env)(timestep, policy_stream(env, state)))
    assert [np.unique(drawn[:, agent]).tolist() for agent in (0, 1)] == [[0, 2], [1, 2]]


def test_a_policy_that_ignores_the_mask_takes_forbidden_actions():
    play = jax.device_get(tic_tac_toe("next_step", False))
    assert np.any(play.timestep.env_info["invalid_move"])


def test_a_masked_policy_chooses_among_all_legal_actions():
    play = jax.device_get(tic_tac_toe("next_step", True))
    opening = play.action[play.timestep.step_type == 0]
    assert np.unique(opening).tolist() == list(range(9))
