"""Pgx's games: equal to Pgx's own loop, seen by one agent, under the episodes of this library."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.testing import check_env
from tests.suites.comparison import compare

pgx = pytest.importorskip("pgx")

LANES = 6


def load(id, num_envs=LANES, **kwargs):
    return jaxenv.load(f"pgx:{id}", num_envs, **kwargs)


def play(env, num_steps):
    state, first = jax.jit(env.reset)(jax.random.key(0))
    policy = jaxenv.rollout.random_policy(env)
    _, rows = jax.jit(lambda state, first: jaxenv.unroll(env, policy, state, first, num_steps))(state, first)
    return jax.device_get(rows)


def lowest(observation, mask, key):
    return jnp.argmax(mask)


def test_games_against_oneself_equal_those_of_pgx():
    env = pgx.make("tic_tac_toe")

    def step(state, action):
        player = state.current_player
        state = env.step(state, action)
        return state, state.observation, state.rewards[player], state.terminated, state.terminated

    _, terminations, truncations = compare(load("tic_tac_toe", opponent="self", autoreset=None), 10, step)
    assert (terminations, truncations) == (LANES, 0)


def test_against_oneself_the_row_says_who_moves_and_rewards_are_those_of_the_player_that_moved():
    rows = play(load("tic_tac_toe", opponent="self"), 40)
    row, end = rows.timestep, rows.timestep.is_last()
    moved = row.env_info["current_player"][:-1]
    inside = ~end[:-1]
    np.testing.assert_array_equal(row.env_info["current_player"][1:][inside], 1 - moved[inside])
    rewards = np.take_along_axis(row.env_info["player_rewards"][1:], moved[..., None], axis=-1)[..., 0]
    np.testing.assert_array_equal(row.reward[1:][inside], rewards[inside])
    assert (row.reward[end] >= 0).all()  # nobody loses by a legal move of their own
    assert (row.reward[end] == 1).any()


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
    env = load("sparrow_mahjong", 512, autoreset=None)
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


def test_a_step_keeps_dtypes_structure_bounds_and_grammar():
    check_env(
        load("tic_tac_toe", 4),
        properties=["same_tree", "rows_match_specs", "within_specs", "episode_grammar", "mask_leaves_an_action"],
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
