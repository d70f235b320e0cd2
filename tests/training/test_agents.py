"""Learners of one agent in games of several."""

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.training import ppo
from tests.games import Duel, Nim


def test_ppo_shares_its_parameters_among_agents():
    spec = jaxenv.EnvSpec("Duel-test", Duel, max_episode_steps=7)
    config = ppo.Config(num_envs=8, num_steps=16, total_steps=8 * 16 * 4, num_evaluations=2, num_eval_episodes=8)
    stacks = [
        jaxenv.make(spec, 8, wrappers=[("AgentsAsLanes", {"agent_id": True})], mode=mode) for mode in ("train", "eval")
    ]
    _, curve = jax.jit(ppo.make_train(config, *stacks))(jax.random.key(0))
    assert np.isfinite(curve.returns).all()


def test_a_learner_of_one_agent_refuses_a_game_of_two():
    spec = jaxenv.EnvSpec("Nim-test", Nim)
    config = ppo.Config(num_envs=4, num_steps=16, total_steps=64, num_evaluations=1, num_eval_episodes=4)
    stacks = [jaxenv.make(spec, 4, mode=mode) for mode in ("train", "eval")]
    with pytest.raises(ValueError, match=r"ppo: .*2 agents.*Opponent"):
        ppo.make_train(config, *stacks)
