"""TorchRL's `GymWrapper` and `GymEnv` on environments for Gymnasium, and its PPO."""

import warnings

import numpy as np
import pytest

pytest.importorskip("torch")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # TorchRL deprecates parts of its own
    pytest.importorskip("torchrl")

    import torch
    from torchrl.envs import GymEnv, GymWrapper
    from torchrl.envs.utils import check_env_specs

    from docs.examples import torchrl_ppo

import jaxenv.interop.gymnasium  # noqa: F401, registers the ids
from jaxenv.interop import to_gymnasium, to_gymnasium_vector
from jaxenv.testing import Counting
from jaxenv.wrappers import TimeLimit

pytestmark = pytest.mark.filterwarnings("ignore:::torchrl", "ignore:::tensordict", "ignore::FutureWarning")


def wrapped(envs):
    return GymWrapper(envs, categorical_action_encoding=True)


@pytest.mark.parametrize("autoreset", [None, "same_step"])
@pytest.mark.parametrize("id", ["CartPole-v1", "Pendulum-v1"])
def test_batches_pass_check_env_specs(id, autoreset):
    check_env_specs(wrapped(to_gymnasium_vector(id, 3, autoreset=autoreset)))


def test_single_environments_pass_check_env_specs():
    check_env_specs(wrapped(to_gymnasium("CartPole-v1")))
    check_env_specs(GymEnv("jaxenv/CartPole-v1"))


def test_a_rollout_has_the_last_observation_and_the_first_of_the_next_episode():
    task = Counting(np.array([[2], [9]]), num_envs=2, stride=10)
    env = wrapped(to_gymnasium_vector(TimeLimit(task, 3)))
    rollout = env.rollout(6, break_when_any_done=False)
    assert rollout["observation"].tolist() == [[0, 1, 10, 11, 20, 21], [0, 1, 2, 10, 11, 12]]
    assert rollout["next", "observation"].tolist() == [[1, 2, 11, 12, 21, 22], [1, 2, 3, 11, 12, 13]]
    assert rollout["next", "terminated"].squeeze(-1).int().tolist() == [[0, 1, 0, 1, 0, 1], [0] * 6]
    assert rollout["next", "truncated"].squeeze(-1).int().tolist() == [[0] * 6, [0, 0, 1, 0, 0, 1]]
    torch.testing.assert_close(rollout["next", "reward"].squeeze(-1), rollout["action"].float())


def test_a_seed_repeats_the_rollout():
    def first(seed):
        env = wrapped(to_gymnasium_vector("CartPole-v1", 3, autoreset=None))
        env.set_seed(seed)
        return env.reset()["observation"]

    torch.testing.assert_close(first(1), first(1))
    assert not torch.equal(first(1), first(2))


def test_the_mode_that_torchrl_cannot_express_is_refused_by_it():
    with pytest.raises(RuntimeError, match="must be one of SAME_STEP or DISABLED"):
        wrapped(to_gymnasium_vector("CartPole-v1", 3))


def test_ppo_learns():
    curve = torchrl_ppo.train(num_steps=40_000)
    assert curve[0][1] < 40
    assert curve[-1][1] > 80
