"""Pgx's games: equal to Pgx's own loop, in turns or seen by one agent, under the episodes of this library."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.testing import check_env
from jaxenv.training import self_play
from tests.suites.comparison import compare

pgx = pytest.importorskip("pgx")

LANES = 6


def load(id, num_envs=LANES, **kwargs):
    return jaxenv.make(f"pgx:{id}", num_envs, **kwargs)


def play(env, num_steps):
    state, first = jax.jit(env.reset)(jax.random.key(0))
    policy = jaxenv.rollout.random_policy(env)
    _, rows = jax.jit(lambda state, first: jaxenv.unroll(env, policy, state, first, num_steps))(state, first)
    return jax.device_get(rows)


def lowest(observation, mask, key):
    return jnp.argmax(mask)


@pytest.mark.parametrize("id", ["tic_tac_toe", "sparrow_mahjong"])
def test_games_of_turns_equal_those_of_pgx(id):
    env = pgx.make(id)

    def step(state, action):
        game = env.step(state.state, action)
        rewards = jnp.stack([game.rewards[(state.first + agent) % env.num_players] for agent in range(env.num_players)])
        return dataclasses.replace(state, state=game), game.observation, rewards, game.terminated, game.terminated

    game = load(id, autoreset=None)
    rows, terminations, truncations = compare(game, 10 if id == "tic_tac_toe" else 40, step)
    assert (terminations, truncations) == (LANES, 0)
    assert (game.turns, game.num_agents, rows.reward.shape[2:]) == (True, env.num_players, (env.num_players,))
    assert (np.abs(rows.reward).max(axis=-1) > 0).any()


def test_the_agent_who_moves_first_is_agent_0_whoever_of_pgxs_players_it_is():
    env = load("tic_tac_toe", 32, autoreset=None)
    state, first = jax.jit(env.reset)(jax.random.key(0))
    begins = state.task.env_state.first
    assert set(begins.tolist()) == {0, 1}
    assert not first.env_info["player"].any()
    # First takes the left column, second the middle one: first wins with the fifth move.
    for number, cell in enumerate([0, 1, 3, 4, 6]):
        np.testing.assert_array_equal(state.task.env_state.state.current_player, (begins + number) % 2)
        state, row = jax.jit(env.step)(state, np.full(32, cell, np.int32))
        assert (row.env_info["player"] == (number + 1) % 2).all()
    assert row.terminated.all()
    np.testing.assert_array_equal(row.reward, np.tile([1.0, -1.0], (32, 1)))
    assert row.env_info["action_mask"].all()


def test_an_illegal_move_loses_for_the_agent_who_makes_it():
    env = load("tic_tac_toe", 4, autoreset=None)
    state, _ = jax.jit(env.reset)(jax.random.key(0))
    for _ in range(2):
        state, row = jax.jit(env.step)(state, np.zeros(4, np.int32))
    assert row.terminated.all()
    np.testing.assert_array_equal(row.reward, np.tile([1.0, -1.0], (4, 1)))


def test_a_policy_plays_the_other_side_of_a_game_of_turns():
    def first_free(timestep, stream):
        return jnp.argmax(timestep.env_info["action_mask"], axis=-1).astype(jnp.int32)

    env = load("tic_tac_toe", 16, wrappers=[lambda env: jaxenv.wrappers.Opponent(env, first_free, "drawn")])
    rows = play(env, 40).timestep
    assert rows.reward.shape == rows.step_type.shape
    mine, theirs = rows.observation[..., 0].sum(axis=(-2, -1)), rows.observation[..., 1].sum(axis=(-2, -1))
    assert set((theirs - mine)[~rows.is_last()].tolist()) == {0, 1}  # it is the agent's turn, on either side
    assert {-1, 1} <= set(rows.reward[rows.is_last()].tolist()) <= {-1, 0, 1}
    opened = rows.is_first() & (theirs == 1)
    assert rows.observation[opened][:, 0, 0, 1].all()


def test_self_play_trains_on_games_of_pgx():
    tiny = {"num_envs": 8, "num_steps": 8, "num_minibatches": 2, "num_epochs": 1, "hidden": (8,)}
    evaluations = {"num_evaluations": 2, "num_eval_episodes": 8, "max_eval_steps": 20}
    config = self_play.Config(env_id="pgx:tic_tac_toe", **tiny, **evaluations, total_steps=8 * 8 * 2, league=2)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):  # as distributions need
        learner, curve = jax.jit(self_play.make_train(config))(jax.random.key(0))
        scores = self_play.cross_play(config, learner.league, jax.random.key(1), num_games=8)
    assert np.isfinite(curve.returns).all()
    assert np.abs(scores).max() <= 1


@pytest.mark.parametrize("id", ["backgammon", "leduc_holdem"])
def test_a_game_in_which_a_player_moves_several_times_in_a_row_takes_no_wrapper_as_opponent(id):
    env = load(id, 32)
    assert not env.alternates
    rows = play(env, 60).timestep
    player, inside = rows.env_info["player"], ~rows.is_first()[1:] & ~rows.is_last()[1:]
    assert (player[1:] == player[:-1])[inside].any()
    with pytest.raises(ValueError, match=f"Opponent: .*pgx:{id} may move several times"):
        load(id, wrappers=["Opponent"])


@pytest.mark.parametrize("opponent", ["random", lowest])
def test_an_opponent_moves_inside_of_the_agents_step(opponent):
    rows = play(load("tic_tac_toe", opponent=opponent), 40).timestep
    own, other = rows.observation[..., 0].sum(axis=(-2, -1)), rows.observation[..., 1].sum(axis=(-2, -1))
    open_ = ~rows.is_last()
    assert set((other - own)[open_].tolist()) == {0, 1}  # it is the agent's turn; either player may begin
    np.testing.assert_array_equal(rows.reward, rows.env_info["player_rewards"][..., 0])
    assert set(rows.reward[rows.is_last()].tolist()) <= {-1, 0, 1}
    assert (rows.reward == -1).any()
    free = rows.observation.sum(axis=-1).reshape(*open_.shape, 9) == 0
    np.testing.assert_array_equal(rows.env_info["action_mask"][open_], free[open_])
    if opponent is lowest:
        begun = rows.is_first() & (other == 1)
        assert begun.any()
        assert rows.observation[begun][:, 0, 0, 1].all()


def test_what_the_others_first_moves_pay_comes_on_the_agents_first_step():
    # Of the first rounds of this game some end before the agent's turn.
    env = load("sparrow_mahjong", 512, opponent="random", autoreset=None)
    state, first = jax.jit(env.reset)(jax.random.key(0))
    over, due = state.task.env_state.terminated, state.task.env_state.rewards
    assert 0 < over.sum() < 20
    assert not first.reward.any()
    later, row = jax.jit(env.step)(state, env.action_spec().zeros((512,)))
    assert row.terminated[over].all()
    np.testing.assert_array_equal(row.env_info["player_rewards"][over], due[over])
    np.testing.assert_array_equal(row.reward[over], due[over, 0])
    assert row.reward[over].any()
    assert not later.task.env_state.rewards.any()  # paid once


@pytest.mark.parametrize(
    ("action", "got"), [(1.5, r"float32\[\]"), (np.zeros(1, np.int32), r"int32\[1\]"), (True, "bool")]
)
def test_an_opponent_that_returns_no_action_is_named(action, got):
    with pytest.raises(ValueError, match=rf"pgx:tic_tac_toe: opponent .*got {got}"):
        load("tic_tac_toe", opponent=lambda observation, mask, key: action)


def test_an_action_of_an_opponent_out_of_range_is_clipped():
    def last_cell(observation, mask, key):
        return 8

    def beyond(observation, mask, key):
        return 99

    rows, clipped = (play(load("tic_tac_toe", opponent=f), 10).timestep for f in (last_cell, beyond))
    chex.assert_trees_all_equal(clipped, rows)


def test_a_game_of_one_player_has_no_opponent():
    env = load("minatar-breakout", 2)
    assert env.env_info_spec().keys() == {"action_mask"}
    assert env.unwrapped._single.alone
    assert (env.num_agents, env.turns, env.reward_spec().shape) == (1, False, ())


@pytest.mark.parametrize("opponent", ["self", "random"])
def test_a_step_keeps_dtypes_structure_bounds_and_grammar(opponent):
    properties = ["same_tree", "rows_match_specs", "within_specs", "episode_grammar", "mask_leaves_an_action"]
    check_env(
        load("tic_tac_toe", 4, opponent=opponent),
        properties=properties + (["agents_agree"] if opponent == "self" else []),
        num_steps=24,
        raise_on_failure=True,
    )


@pytest.mark.parametrize(
    ("id", "kwargs", "message"),
    [
        ("tictactoe", {}, r"pgx: no environment 'tictactoe'.*'tic_tac_toe'"),
        ("tic_tac_toe", {"player": 1}, "pgx:tic_tac_toe: unknown keyword 'player'"),
        ("tic_tac_toe", {"opponent": 1}, r"opponent .*got 1"),
    ],
)
def test_wrong_ids_and_keywords_are_refused(id, kwargs, message):
    with pytest.raises(ValueError, match=message):
        load(id, **kwargs)
