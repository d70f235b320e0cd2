"""`to_stable_baselines3`, next to stable-baselines3's own vector environments, and its PPO."""

import sys

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.interop import to_gymnasium, to_stable_baselines3
from jaxenv.testing import Counting

pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")

from stable_baselines3 import DQN, PPO
from stable_baselines3.common import vec_env
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.evaluation import evaluate_policy

from docs.examples import stable_baselines3_ppo

RIGHT = np.ones(3, np.int64)


def played(envs, num_steps, seed=5):
    """The results of the steps."""
    envs.seed(seed)
    envs.reset()
    return [envs.step(RIGHT) for _ in range(num_steps)]


def test_steps_are_those_of_a_dummy_vec_env_of_single_environments():
    ours = to_stable_baselines3("CartPole-v1", 3, max_episode_steps=10)
    theirs = vec_env.DummyVecEnv([lambda: to_gymnasium("CartPole-v1", max_episode_steps=10)] * 3)
    found = list(zip(played(ours, 25), played(theirs, 25), strict=True))
    ends = {"cut": 0, "fallen": 0}
    for (obs, reward, ended, infos), (their_obs, their_reward, their_ended, their_infos) in found:
        assert (obs.dtype, reward.dtype, ended.dtype) == (their_obs.dtype, their_reward.dtype, their_ended.dtype)
        np.testing.assert_allclose(obs, their_obs, atol=1e-5)
        np.testing.assert_array_equal(reward, their_reward)
        np.testing.assert_array_equal(ended, their_ended)
        for lane, (info, their_info) in enumerate(zip(infos, their_infos, strict=True)):
            assert info.keys() == their_info.keys()
            assert ("terminal_observation" in info) == ended[lane]
            assert info["TimeLimit.truncated"] == their_info["TimeLimit.truncated"]
            if ended[lane]:
                ends["cut" if info["TimeLimit.truncated"] else "fallen"] += 1
                np.testing.assert_allclose(info["terminal_observation"], their_info["terminal_observation"], atol=1e-5)
    assert all(ends.values()), ends


def test_rewards_infos_and_observations_belong_to_the_caller():
    envs = to_stable_baselines3("CartPole-v1", 3, max_episode_steps=2)
    steps = played(envs, 4)
    kept = [(obs.copy(), reward.copy()) for obs, reward, _, _ in steps]
    steps[0][1][0] += 7  # stable-baselines3 adds the value of a truncated state in place
    steps[0][3][0]["mark"] = True
    assert all("mark" not in info for info in steps[0][3][1:])
    envs.step(RIGHT)
    for (obs, reward, _, _), (old_obs, old_reward) in list(zip(steps, kept, strict=True))[1:]:
        np.testing.assert_array_equal(obs, old_obs)
        np.testing.assert_array_equal(reward, old_reward)


def test_seeds_repeat_episodes_once():
    envs = to_stable_baselines3("CartPole-v1", 3)
    assert list(envs.seed(2**32 - 2)) == [2**32 - 2, 2**32 - 1, 2**32]
    first, second = envs.reset(), envs.reset()
    envs.seed(2**32 - 2)
    np.testing.assert_array_equal(envs.reset(), first)
    assert len(np.unique(np.concatenate([first, second]), axis=0)) == 6


def test_observations_of_several_arrays_and_single_numbers_have_one_entry_per_lane():
    envs = to_stable_baselines3(["FrozenLake-v1"][0], 3, max_episode_steps=2)
    *_, infos = played(envs, 2)[-1]
    assert [type(info["terminal_observation"]) for info in infos] == [int] * 3
    envs = to_stable_baselines3("Blackjack-v1", 3)
    obs, _, _, infos = played(envs, 1)[0]
    assert [x.shape for x in obs] == [(3,)] * 3
    assert all(len(info.get("terminal_observation", (0, 0, 0))) == 3 for info in infos)


def test_attributes_and_methods_are_those_of_the_environment_of_a_lane():
    envs = to_stable_baselines3(jaxenv.make("CartPole-v1", 3, autoreset="same_step", force=np.arange(3.0)))
    assert envs.get_attr("name", [0, 2]) == ["CartPole-v1"] * 2
    assert [float(params.force[0]) for params in envs.get_attr("params")] == [0, 1, 2]
    assert envs.env_method("check_lanes", 1, indices=1) == [None]
    assert envs.get_attr("observation_space", 0) == [envs.observation_space]
    assert not envs.has_attr("velocity")
    assert envs.env_is_wrapped(object) == [False] * 3
    with pytest.raises(AttributeError, match="set_attr: environments do not change, make one that has force=3"):
        envs.set_attr("force", 3)
