"""Gumbel AlphaZero: what the network learns from, in the view of each player."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import tree
from jaxenv.core.wrapper import layers
from jaxenv.rollout import random_policy
from jaxenv.testing import Counting
from jaxenv.training import alphazero
from jaxenv.wrappers import AutoReset, Opponent, StateInInfo, TransformReward
from tests.games import Nim
from tests.rows import assert_equal

TINY = {
    "num_envs": 8,
    "num_steps": 6,
    "num_gradient_steps": 2,
    "batch_size": 32,
    "num_eval_episodes": 8,
    "torso": "mlp",
    "hidden": (16,),
}


def stacks(num_envs, **options):
    game = StateInInfo(Nim(num_envs=num_envs, **options))
    return AutoReset(game), AutoReset(Opponent(game, side="drawn"))


@pytest.fixture(scope="module")
def run():
    """A run on Nim with seven sticks, whose values are 1 and -1."""
    sizes = {
        **TINY,
        "num_envs": 32,
        "num_eval_episodes": 32,
        "num_simulations": 12,
        "learning_rate": 1e-2,
        "num_gradient_steps": 12,
    }
    config = alphazero.Config(**sizes, total_steps=32 * 6 * 60, num_evaluations=2, lambda_=0.5)
    train = alphazero.make_train(config, *stacks(32, sticks=7))
    learner, curve = jax.jit(train)(jax.random.key(0))
    return config, train, learner, curve


def test_values_are_those_of_the_player_to_move(run):
    config, _, learner, _ = run
    env = stacks(7, sticks=7)[0]
    network, read, _ = alphazero.model(config, env)
    _, values = network.apply(learner.params, read(jnp.arange(1, 8, dtype=jnp.int32)))
    assert (values[:3] > 0.5).all()
    assert values[3] == values.min() < -0.3  # four sticks are lost for who is to move
    assert values[6] > 0.3


def test_a_trained_player_beats_random_moves_from_the_side_that_wins(run):
    config, _, learner, curve = run
    assert np.isfinite(curve.returns).all()
    env = AutoReset(Opponent(StateInInfo(Nim(num_envs=16, sticks=7)), side="first"))
    policy, memory = alphazero.make_policy(config, env, learner.params)
    played = jaxenv.evaluate(env, policy, jax.random.key(1), 16, initial_memory=memory)
    assert played.returns.mean() > 0.7


def test_an_iteration_is_a_function_of_the_learner(run):
    _, train, _, _ = run
    learner = jax.jit(train.init)(jax.random.key(3))
    iteration = jax.jit(train.iteration)
    assert_equal(*(jax.tree.map(np.asarray, iteration(learner)[1].losses) for _ in range(2)))


class Ending(Nim):
    """Nim whose last rows show a number of their own."""

    shown: jax.Array = tree.leaf(default=0)

    def observe(self, state):
        return jnp.where(state["left"] == 0, self.shown, state["left"])


@pytest.fixture(scope="module")
def ending():
    """A function of the number and of hyperparameters: the weights before and after two updates and a third one."""
    config = alphazero.Config(**TINY, total_steps=96, num_evaluations=2, num_simulations=2, lambda_=0.8, gamma=0.9)

    @jax.jit
    def run(shown, hyperparameters):
        game = StateInInfo(Ending(3, shown, num_envs=8))
        train = alphazero.make_train(config, AutoReset(game), AutoReset(Opponent(game, side="drawn")))
        learners = [train.init(jax.random.key(0), hyperparameters)]
        for _ in range(3):
            learners.append(train.iteration(learners[-1])[0])
        return learners[-1].rows, [learners[i].params for i in (0, 2, 3)]

    return lambda shown=0, **given: run(shown, config.arrays(given))


def test_nothing_is_learned_from_the_last_rows_of_episodes(ending):
    (one, weights), (other, expected) = ending(0), ending(2)
    shown = [jax.tree.leaves(rows.observation)[0] for rows in (one, other)]
    assert (shown[0] != shown[1]).any()
    assert_equal(weights, expected)


def test_every_hyperparameter_has_an_effect_and_the_learning_rate_ends_at_0(ending):
    start, end, later = (jax.flatten_util.ravel_pytree(x)[0] for x in ending()[1])
    assert (start != end).any()
    assert (end == later).all()
    for name in alphazero.Config().hyperparameters:
        changed = jax.flatten_util.ravel_pytree(ending(**{name: 1e-3})[1][1])[0]
        assert (changed != end).any(), name


def test_the_policy_is_compared_among_legal_actions():
    config = alphazero.Config(**TINY, total_steps=48, num_evaluations=1, num_simulations=1)
    _, curve = jax.jit(alphazero.make_train(config, *stacks(8, sticks=1)))(jax.random.key(0))
    assert curve.losses.policy_loss.item() == pytest.approx(0, abs=1e-6)  # one action is legal


class Rising(Counting):
    """Pays the number of the step."""

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        return dataclasses.replace(out, reward=out.state.step.astype(jnp.float32))


@pytest.fixture(scope="module")
def rising():
    """An initial learner whose every value is about 0, and an iteration of one update, for a discount rate of 0."""
    sizes = {**TINY, "batch_size": 1024, "buffer_size": 96, "num_simulations": 1}
    config = alphazero.Config(**sizes, total_steps=8 * 6 * 3, num_evaluations=3, gamma=0.0, learning_rate=1e-9)
    env = AutoReset(StateInInfo(Rising(np.array([20]), num_envs=8)))
    train = alphazero.make_train(config, env, env)
    return jax.jit(train.init)(jax.random.key(0)), jax.jit(train.iteration)


def test_an_update_draws_from_its_newest_rows_and_from_all_others_in_the_buffer(rising):
    learner, iteration = rising
    found = []
    for _ in range(3):
        learner, curve = iteration(learner)
        found.append(curve.losses.value_loss)
    # Every return is a reward, and the buffer holds the rows of two updates.
    rewards = [np.arange(1, 7), np.arange(1, 13), np.arange(7, 19)]
    np.testing.assert_allclose(found, [np.mean(x**2) / 2 for x in rewards], rtol=0.1)


def test_the_search_discounts_values(rising):
    learner, iteration = rising
    params = jax.tree.map(jnp.copy, learner.params)
    params["params"]["value"]["Dense_1"]["bias"] += 100
    # Half of what is found is the root's value of 100, the other half the reward alone.
    improvement = iteration(dataclasses.replace(learner, params=params))[1].losses.improvement
    assert improvement.item() == pytest.approx(-50, abs=5)


def test_a_task_of_one_agent_is_planned_with_its_own_rewards():
    config = alphazero.Config(
        env_id="FrozenLake-v1",
        env_options={"is_slippery": False},
        **TINY,
        total_steps=96,
        num_evaluations=2,
        num_simulations=4,
        gamma=0.9,
        max_eval_steps=20,
    )
    _, curve = jax.jit(alphazero.make_train(config))(jax.random.key(0))
    assert np.isfinite(curve.losses.value_loss).all()
    assert curve.returns.shape == (2, 8)


def test_large_rewards_are_learned_like_small_ones_in_their_scale():
    def losses(scale):
        config = alphazero.Config(
            env_id="Catch-bsuite",
            value_scale=scale,
            **TINY,
            total_steps=480,
            num_evaluations=1,
            num_simulations=4,
            gamma=0.9,
        )
        game = jaxenv.make("Catch-bsuite", 8, autoreset=None)
        env = AutoReset(StateInInfo(TransformReward(game, lambda reward: scale * reward)))
        return jax.jit(alphazero.make_train(config, env, env))(jax.random.key(0))[1].losses

    small, large = losses(1.0), losses(1024.0)
    np.testing.assert_allclose(large.policy_loss, small.policy_loss, rtol=1e-3)
    np.testing.assert_allclose(large.value_loss, small.value_loss, rtol=1e-3)
    np.testing.assert_allclose(large.improvement, small.improvement * 1024, rtol=1e-2)


def test_evaluations_play_against_random_moves_and_training_against_itself():
    config = alphazero.Config()
    train, evaluation = config.make_env(4), config.make_env(4, "eval")
    assert (train.turns, evaluation.turns) == (True, False)
    opponent = next(layer for layer in layers(evaluation) if isinstance(layer, Opponent))
    assert (opponent.policy, opponent.side) == (None, "drawn")
    assert isinstance(opponent.env, StateInInfo)


def test_seeds_train_under_vmap():
    config = alphazero.Config(**TINY, total_steps=48, num_evaluations=1, num_simulations=2)
    train = alphazero.make_train(config, *stacks(8, sticks=3))
    learners, curve = jax.jit(jax.vmap(train))(jax.random.split(jax.random.key(0), 2))
    assert curve.returns.shape == (2, 1, 8)
    first, second = (np.asarray(jax.tree.leaves(learners.params)[0])[i] for i in (0, 1))
    assert not (first == second).all()


def test_settings_and_stacks_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"alphazero\.Config: buffer_size .*48, got 47"):
        alphazero.Config(**TINY, buffer_size=47)
    with pytest.raises(ValueError, match=r"alphazero\.Config: normalize_observation .*got True"):
        alphazero.Config(**TINY, normalize_observation=True)
    config = alphazero.Config(**TINY, total_steps=48, num_evaluations=1)
    plain = Nim(num_envs=8)
    with pytest.raises(ValueError, match=r"alphazero: env .*StateInInfo.*got .*Nim"):
        alphazero.make_train(config, AutoReset(plain), AutoReset(Opponent(plain, random_policy(plain))))
