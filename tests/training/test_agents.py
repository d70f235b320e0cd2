"""Learners of one agent in games of several, and critics that see the whole game."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import random, specs, training
from jaxenv.core import Task, Transition
from jaxenv.training import ppo, seeds
from tests.games import Duel, Nim

JOINT = ("AgentsAsLanes", {"global_state": True})
SMALL = {"num_envs": 6, "num_steps": 8, "total_steps": 96, "num_evaluations": 2, "num_eval_episodes": 6, "hidden": (8,)}


class Gifts(Task):
    """Each of three agents sees a coin, and is paid in three steps what the next agent sees."""

    agent_names = ("a", "b", "c")

    def initial(self, stream):
        coin = random.integers(stream, (3,), 0, 2)
        return {"step": jnp.zeros(stream.shape, jnp.int32), "coin": 2 * coin - 1}

    def transition(self, state, action, stream):
        now = state["step"] + 1
        reward = jnp.roll(state["coin"], -1, axis=1).astype(jnp.float32)
        return Transition(state | {"step": now}, reward, now >= 3)

    def observe(self, state):
        return jnp.stack([state["coin"], jnp.broadcast_to(state["step"][:, None], state["coin"].shape)], axis=2)

    def observation_spec(self):
        return specs.Bounded((3, 2), np.int32, -1, 3)

    def action_spec(self):
        return specs.Bounded((3,), np.int32, 0, 1)


def trained(task, wrappers, **settings):
    spec = jaxenv.EnvSpec("Game-test", task, max_episode_steps=7)
    config = ppo.Config(**settings)
    stacks = [jaxenv.make(spec, config.num_envs, wrappers=wrappers, mode=mode) for mode in ("train", "eval")]
    return jax.jit(ppo.make_train(config, *stacks))(jax.random.key(0))


def test_ppo_shares_its_parameters_among_agents():
    _, curve = trained(
        Duel,
        [("AgentsAsLanes", {"agent_id": True})],
        num_envs=8,
        num_steps=16,
        total_steps=8 * 16 * 4,
        num_evaluations=2,
        num_eval_episodes=8,
    )
    assert np.isfinite(curve.returns).all()


def test_a_learner_of_one_agent_refuses_a_game_of_two():
    spec = jaxenv.EnvSpec("Nim-test", Nim)
    config = ppo.Config(num_envs=4, num_steps=16, total_steps=64, num_evaluations=1, num_eval_episodes=4)
    stacks = [jaxenv.make(spec, 4, mode=mode) for mode in ("train", "eval")]
    with pytest.raises(ValueError, match=r"ppo: .*2 agents.*Opponent"):
        ppo.make_train(config, *stacks)


def test_evaluations_of_half_a_game_are_refused_by_the_name_of_the_setting():
    config = ppo.Config(env_id="SimpleReference-mpe", wrappers=("AgentsAsLanes",), num_eval_episodes=9)
    with pytest.raises(ValueError, match=r"AgentsAsLanes.*got 9 lanes.*ppo: .*num_eval_episodes = 9"):
        ppo.make_train(config)


@pytest.mark.parametrize(("critic_only", "low", "high"), [("global_state", 0.0, 0.1), ("", 0.4, 9.0)])
def test_a_centralised_critic_knows_what_its_agent_cannot_see(critic_only, low, high):
    settings = {"num_envs": 48, "num_steps": 16, "total_steps": 48 * 16 * 60, "num_eval_episodes": 48, "hidden": (16,)}
    wrappers = [JOINT] if critic_only else ["AgentsAsLanes"]
    learning = {"learning_rate": 1e-2, "num_evaluations": 3, "value_cost": 1.0, "max_gradient_norm": 5.0}
    _, curve = trained(Gifts, wrappers, critic_only=critic_only, **settings, **learning)
    assert low <= curve.losses.value_loss[-1] < high


def test_the_policy_does_not_read_what_is_for_the_critic_only():
    env = jaxenv.make("SimpleSpread-mpe", 6, wrappers=[JOINT])
    config = ppo.Config(critic_only="global_state", **SMALL)
    _, network, read, _ = ppo.model(config, env)
    observation = env.reset(jax.random.key(0))[1].observation
    params = network.init(jax.random.key(1), read(observation))

    def outputs(**changed):
        return network.apply(params, read(observation | changed))[:2]

    inputs, values = outputs()
    other = outputs(global_state=observation["global_state"] + 1)
    assert other[0].tolist() == inputs.tolist()
    assert (np.asarray(other[1]) != values).all()
    other = outputs(observation=observation["observation"] + 1)
    assert (np.asarray(other[0]) != inputs).any()
    assert (np.asarray(other[1]) != values).all()


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_centralised_critic_combines_with_memory_and_normalised_observations(cell):
    options = {"recurrent": 4, "cell": cell, "normalize_observation": True, "num_minibatches": 2}
    config = ppo.Config(env_id="SimpleSpread-mpe", wrappers=(JOINT,), critic_only="global_state", **SMALL, **options)
    learner, curve = jax.jit(ppo.make_train(config))(jax.random.key(0))
    assert learner.memory.shape == (6, 8 if cell == "lstm" else 4)
    assert np.isfinite(curve.returns).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"env_id": "CartPole-v1"}, r"critic_only .*got 'global_state' and the entries \[\]"),
        (
            {"env_id": "SimpleSpread-mpe", "wrappers": (("AgentsAsLanes", {"agent_id": True}),)},
            r"critic_only .*got 'global_state' and the entries \['agent_id', 'observation'\]: AgentsAsLanes",
        ),
        ({"env_id": "CartPole-v1", "wrappers": (JOINT,)}, "AgentsAsLanes: env .*CartPole-v1.* has one"),
    ],
)
def test_a_critic_of_what_is_not_observed_is_refused(settings, message):
    config = ppo.Config(critic_only="global_state", num_minibatches=2, **SMALL, **settings)
    with pytest.raises(ValueError, match=message):
        ppo.make_train(config)


def test_a_run_of_a_game_is_loaded_and_played(tmp_path):
    config = ppo.Config(env_id="SimpleSpread-mpe", wrappers=("AgentsAsLanes",), recurrent=4, num_minibatches=2, **SMALL)
    list(seeds.train(config, 1, folder=tmp_path))
    policy = training.load(tmp_path)
    env = policy.make_env()
    assert env.num_envs == 3  # one game
    memory = policy.make_memory(6)
    assert (6, 4) in [x.shape for x in jax.tree.leaves(memory)]
    played = jaxenv.evaluate(policy.make_env(6), policy.policy, jax.random.key(0), initial_memory=memory)
    assert played.finished.all()
