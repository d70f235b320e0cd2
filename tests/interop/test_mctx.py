"""Search with mctx: values in the view of the player to move, the ends of episodes, chance and legal actions."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import interop, random, specs, tree
from jaxenv.core import Task, Transition
from jaxenv.wrappers import AutoReset, Opponent, StateInInfo, TimeLimit, TransformObservation
from tests.games import Duel, Nim, best_move

mctx = pytest.importorskip("mctx")


def known(params, key, state, timestep):
    """The given logits, and value 0.25 everywhere."""
    lanes, (logits,) = timestep.env_id.shape, params
    return jnp.broadcast_to(jnp.asarray(logits, jnp.float32)[None], (*lanes, len(logits))), jnp.full(lanes, 0.25)


class Coin(Task):
    """Pays 1 for guessing the coin that the step throws; an episode has three throws."""

    def initial(self, stream):
        return {"throws": jnp.zeros(stream.shape, jnp.int32)}

    def transition(self, state, action, stream):
        throws = state["throws"] + 1
        coin = random.integers(stream, (), 0, 2)
        return Transition({"throws": throws}, (action == coin).astype(jnp.float32), throws >= 3)

    def observe(self, state):
        return state["throws"]

    def observation_spec(self):
        return specs.Bounded((), np.int32, 0, 3)

    def action_spec(self):
        return specs.discrete(2)


class Again(Nim):
    """Nim in which a player who takes one stick moves again."""

    def transition(self, state, action, stream):
        after = super().transition(state, action, stream)
        player = jnp.where(action == 0, state["player"], 1 - state["player"])
        return dataclasses.replace(after, state={**after.state, "player": player})


def test_actions_of_a_search_start_at_the_least_action_of_the_spec():
    class FromTwo(Coin):
        def action_spec(self):
            return specs.discrete(2, start=2)

    assert interop.to_mctx(FromTwo(), known).action(jnp.array([0, 1])).tolist() == [2, 3]


def sticks(env, left, player=0):
    """Returns states and rows of Nim with these numbers of sticks."""
    state, timestep = env.reset(jax.random.key(0), jnp.arange(len(left)))
    task = {"left": jnp.asarray(left, jnp.int32), "player": jnp.full(len(left), player, jnp.int32)}
    state = tree.rebuild(state, task=task)
    shown = dataclasses.replace(timestep, observation=env.observation_of(state), env_info=env.env_info_of(state))
    return state, shown


@pytest.mark.parametrize("player", [0, 1])
def test_a_search_wins_the_game_for_either_player(player):
    env = Nim(num_envs=6)
    model = interop.to_mctx(env, interop.playouts(env))
    left = [1, 2, 3, 5, 6, 7]
    state, timestep = sticks(env, left, player)

    @jax.jit
    def search(key, state, timestep):
        root = model.root(None, key, timestep, state)
        invalid = model.invalid_actions(timestep)
        plain = {"dirichlet_fraction": 0.0, "temperature": 0.0}
        return mctx.muzero_policy(None, key, root, model.recurrent_fn, 300, invalid, **plain)

    found = search(jax.random.key(1), state, timestep)
    assert found.action.tolist() == best_move(timestep, None).tolist()
    assert (found.search_tree.summary().qvalues[np.arange(6), found.action] > 0.5).all()


def test_the_sign_changes_with_the_player_and_an_end_is_worth_its_reward():
    env = Again(num_envs=4)
    model = interop.to_mctx(env, known, gamma=0.5)
    state, timestep = sticks(env, [5, 5, 1, 2], player=1)
    root = model.root(([0, 1, 2],), jax.random.key(0), timestep, state)
    # Two sticks: the other player moves; one: the same player; the last one wins; too many lose.
    node, (_, player) = model.recurrent_fn(([0, 1, 2],), jax.random.key(0), np.array([1, 0, 0, 2]), root.embedding)
    assert node.reward.tolist() == [0, 0, 1, -1]
    assert node.discount.tolist() == [-0.5, 0.5, 0, 0]
    assert player.tolist()[:2] == [0, 1]


def test_a_time_limit_is_worth_the_prediction_and_cuts_the_tree():
    env = TimeLimit(Coin(num_envs=2), np.array([2, 3], np.int32))
    model = interop.to_mctx(env, known, gamma=0.5)
    state, timestep = env.reset(jax.random.key(0))
    node, embedding = None, model.root(([0, 1],), jax.random.key(0), timestep, state).embedding
    for step in range(3):
        node, embedding = model.recurrent_fn(([0, 1],), jax.random.key(step), np.zeros(2, np.int32), embedding)
        cut = np.array([step == 1, False])  # by the limit; the task ends by itself after three steps
        if step < 2:
            assert node.discount.tolist() == np.where(cut, 0, 0.5).tolist()
            assert (np.asarray(node.reward) - np.where(cut, 0.125, 0)).tolist()[0] in (0, 1)
    assert node.discount[1] == 0
    assert node.reward[1] in (0, 1)


class Fragile(Coin):
    """A coin whose observation at the end and whose reward after it are NaN."""

    def transition(self, state, action, stream):
        after = super().transition(state, action, stream)
        nan = jnp.float32(np.nan)
        return dataclasses.replace(after, reward=jnp.where(after.state["throws"] > 3, nan, after.reward))

    def observe(self, state):
        return jnp.where(state["throws"] >= 3, jnp.float32(np.nan), state["throws"].astype(jnp.float32))

    def observation_spec(self):
        return specs.Array((), np.float32)


def test_a_prediction_at_the_end_of_a_task_and_a_reward_after_it_may_be_nan():
    def predict(params, key, state, timestep):
        return jnp.stack([timestep.observation, jnp.zeros_like(timestep.observation)], axis=1), timestep.observation

    env = TimeLimit(Fragile(num_envs=2), np.array([9, 2], np.int32))
    model = interop.to_mctx(env, predict, gamma=0.5)
    state, timestep = env.reset(jax.random.key(0))
    nodes, embedding = [], model.root(None, jax.random.key(0), timestep, state).embedding
    for step in range(3):
        node, embedding = model.recurrent_fn(None, jax.random.key(step), np.zeros(2, np.int32), embedding)
        nodes.append(node)
    assert [node.value[0].item() for node in nodes] == [1, 2, 0]
    assert np.isfinite([node.reward[0] for node in nodes]).all()
    assert nodes[-1].prior_logits[0].tolist() == [0, 0]
    assert nodes[1].reward[1] in (1, 2)  # the time limit is worth half of the prediction 2
    _, value = interop.playouts(env)(None, jax.random.key(1), state, timestep)
    assert np.isin(value, [0, 1, 2, 3]).all()


def test_illegal_actions_have_no_prior_at_the_root_and_below():
    env = Nim(num_envs=2)
    model = interop.to_mctx(env, known)
    state, timestep = sticks(env, [2, 4])
    assert model.invalid_actions(timestep).tolist() == [[False, False, True], [False, False, False]]
    root = model.root(([0, 1, 2],), jax.random.key(0), timestep, state)
    assert (np.asarray(root.prior_logits) < -1e30).tolist() == [[False, False, True], [False, False, False]]
    node, _ = model.recurrent_fn(([0, 1, 2],), jax.random.key(0), np.array([0, 2]), root.embedding)
    assert (np.asarray(node.prior_logits) < -1e30).tolist() == [[False, True, True], [False, True, True]]


def test_a_search_does_not_foresee_chance():
    lanes = 400
    env = jaxenv.wrappers.StateInInfo(Coin(num_envs=lanes))
    policy = interop.mcts_policy(env, num_simulations=20)
    _, timestep = env.reset(jax.random.key(0))
    _, ahead = env.env.step(timestep.env_info["state"], jnp.zeros(lanes, jnp.int32))
    assert 0 < ahead.reward.mean() < 1  # the state itself tells the coin
    returns = jax.jit(lambda key: jaxenv.evaluate(AutoReset(env), policy, key, lanes).returns)(jax.random.key(1))
    assert abs(float(returns.mean()) - 1.5) < 0.3  # 6 standard deviations; a search that foresees wins 3


def test_a_playout_is_the_result_for_the_player_to_move():
    lanes = 2000
    env = Nim(num_envs=lanes)
    left = np.tile([1, 2, 4, 0], lanes // 4)
    for player in (0, 1):
        state, timestep = sticks(env, left, player)
        ended = dataclasses.replace(timestep, step_type=jnp.where(left == 0, np.int32(2), timestep.step_type))
        logits, value = jax.jit(interop.playouts(env, gamma=0.5))(None, jax.random.key(3), state, ended)
        assert (np.asarray(logits) == 0).all()
        of = [np.asarray(value)[left == number] for number in (1, 2, 4, 0)]
        assert (of[0] == 1).all()
        assert set(of[1].tolist()) == {1.0, -0.5}  # takes both, or leaves one, which the other takes a move later
        assert abs(of[1].mean() - 0.25) < 0.2
        assert (np.abs(of[2]) < 1).all()  # the first move of four never ends the game
        assert (of[3] == 0).all()


def test_a_playout_stops_after_the_given_steps():
    env = Coin(num_envs=500)
    state, timestep = env.reset(jax.random.key(0))
    for steps, most in ((1, 1), (2, 2), (None, 3)):
        _, value = interop.playouts(env, max_steps=steps)(None, jax.random.key(1), state, timestep)
        assert value.max() == most
        assert abs(float(value.mean()) - most / 2) < 0.3


@pytest.mark.parametrize("searches", ["agent", "opponent"])
def test_a_policy_that_searches_plays_a_stack_and_its_opponent(searches):
    lanes = 16
    game = StateInInfo(Nim(num_envs=lanes, sticks=5))  # won for who moves first
    policy = interop.mcts_policy(game, num_simulations=300)
    if searches == "agent":
        env, agent, result = Opponent(game, best_move, "first"), policy, 1.0
    else:
        env, agent, result = Opponent(game, policy, "second"), best_move, -1.0
    played = jaxenv.evaluate(AutoReset(env), agent, jax.random.key(0), lanes)
    assert (played.returns * result).mean() > 0.5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AutoReset(Nim(num_envs=2)), r"to_mctx: env .*AutoReset.*got .*Nim"),
        (lambda: Duel(num_envs=2), r"to_mctx: env .*turns.*has row, column"),
        (lambda: jaxenv.make("Pendulum-v1", autoreset=None), r"to_mctx: the action .*got .*float32"),
        (
            lambda: TransformObservation(StateInInfo(Nim(num_envs=2)), lambda x: x + 1, specs.discrete(11)),
            r"to_mctx: StateInInfo .*TransformObservation",
        ),
    ],
)
def test_environments_that_a_search_cannot_step_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        interop.to_mctx(make(), known)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda game: interop.to_mctx(game, known, gamma=2.0), r"to_mctx: gamma must be in \[0, 1\], got 2.0"),
        (lambda game: interop.to_mctx(game, known, gamma="1"), r"to_mctx: gamma .*got '1'"),
        (lambda game: interop.to_mctx(game, 3), r"to_mctx: predict must be a function .*got 3"),
        (lambda game: interop.playouts(game, gamma=-0.5), r"playouts: gamma .*got -0.5"),
        (lambda game: interop.playouts(game, max_steps=0), r"playouts: max_steps .*got 0"),
        (lambda game: interop.mcts_policy(game, gamma=1.5), r"playouts: gamma .*got 1.5"),
        (lambda game: interop.mcts_policy(game, num_simulations=0), r"mcts_policy: num_simulations .*got 0"),
    ],
)
def test_numbers_without_a_meaning_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(StateInInfo(Nim(num_envs=2)))


@pytest.mark.parametrize("make", [Nim, lambda num_envs: AutoReset(Opponent(Nim(num_envs=num_envs)))])
def test_a_policy_needs_the_state(make):
    with pytest.raises(ValueError, match=r"mcts_policy: env .*StateInInfo.*got .*Nim"):
        interop.mcts_policy(make(num_envs=2))


def test_a_policy_made_for_another_stack_is_refused():
    limited = StateInInfo(TimeLimit(Nim(num_envs=2), 9))
    env = Opponent(StateInInfo(Nim(num_envs=2)), interop.mcts_policy(limited, 2))
    state, _ = env.reset(jax.random.key(0))
    with pytest.raises(ValueError, match=r"search: the row .*TimeLimit.*'time_limit_reached'.*Opponent"):
        env.step(state, jnp.zeros(2, jnp.int32))
