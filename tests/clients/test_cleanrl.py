"""Tensors of torch over the arrays of a vector environment, and PPO in CleanRL's style on them."""

import jax
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("array_api_compat")  # which Gymnasium's JaxToTorch needs

import torch
from gymnasium.wrappers.vector import JaxToTorch

from docs.examples import cleanrl_ppo
from jaxenv.interop import to_gymnasium_vector
from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset, TimeLimit

# The observation of FrozenLake is a part of the state, whose memory is reused.
IDS = ["CartPole-v1", "Breakout-MinAtar", "FrozenLake-v1"]


def started(id="CartPole-v1", num_envs=8):
    envs = to_gymnasium_vector(id, num_envs, autoreset="same_step", arrays="jax")
    return envs, envs.reset(seed=0)[0]


@pytest.mark.parametrize("id", IDS)
def test_tensors_share_the_memory_of_the_arrays(id):
    envs, observation = started(id)
    for _ in range(2):
        observation, reward, terminated, truncated, infos = envs.step(np.zeros(8, np.int32))
        for array in (observation, reward, terminated, truncated, infos["final_obs"]):
            assert torch.from_dlpack(array).data_ptr() == array.unsafe_buffer_pointer()


def test_the_wrapper_of_gymnasium_copies_nothing(monkeypatch):
    envs, _ = started()
    rows = []
    monkeypatch.setattr(envs, "step", lambda action, step=envs.step: rows.append((action, step(action))) or rows[-1][1])
    action = torch.ones(8, dtype=torch.int32)
    found = JaxToTorch(envs).step(action)
    (passed, arrays) = rows[0]
    assert isinstance(passed, jax.Array)
    assert passed.unsafe_buffer_pointer() == action.data_ptr()
    pairs = [*zip(found[:4], arrays[:4], strict=True), (found[4]["final_obs"], arrays[4]["final_obs"])]
    assert [x.data_ptr() for x, _ in pairs] == [x.unsafe_buffer_pointer() for _, x in pairs]


@pytest.mark.parametrize("id", IDS)
def test_a_tensor_that_is_held_never_changes(id):
    envs, observation = started(id)
    held = [torch.from_dlpack(observation)]
    copies = [held[0].clone()]
    for t in range(30):
        observation, reward, *_, infos = envs.step(np.full(8, t % 2, np.int32))
        held += [torch.from_dlpack(x) for x in (observation, reward, infos["final_obs"])]
        del observation, reward, infos
        copies += [x.clone() for x in held[-3:]]
    assert all(torch.equal(x, copy) for x, copy in zip(held, copies, strict=True))


def test_a_tensor_of_actions_may_be_overwritten_after_the_step():
    task = TimeLimit(Counting(np.array([9]), num_envs=8), 5)
    envs = JaxToTorch(to_gymnasium_vector(AutoReset(task, "same_step"), arrays="jax"))
    envs.reset(seed=0)
    action, rewards = torch.zeros(8, dtype=torch.int32), []
    for t in range(9):
        action[:] = t
        rewards.append(envs.step(action)[1])
        action[:] = 9
    np.testing.assert_array_equal(torch.stack(rewards), np.tile(np.arange(9)[:, None], 8))


def test_ppo_learns():
    curve = cleanrl_ppo.train(num_steps=40_000)
    assert curve[0][1] < 40
    assert curve[-1][1] > 80
