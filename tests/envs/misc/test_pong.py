"""Pong compared with recorded games of Kirsch's original, and with gymnax's where it agrees with the original.

``pong_original.npz`` contains 120 games of the original's ``PongGame`` (src/vanilla_pong.py of its commit 79ec848),
half of them with its default constants and a paddle speed of two cells per step: random starts, the directions of both
paddles, and its state after every step, up to the end or 60 steps. In the original paddles may leave the image, in
gymnax they may not; in these games no paddle does.
"""

import pathlib

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.canvas import ORANGE, SKY, WHITE
from jaxenv.envs.misc.pong import Pong, State
from tests.envs.classic_control.reference import assert_uniform
from tests.envs.misc import gymnax_rollouts
from tests.packages import lazy
from tests.parity import certify
from tests.pictures import centre, lanes, picture

pong = lazy("gymnax.environments.misc.pong")

ID = "Pong-misc"
OPTIONS = {
    "defaults": {"paddle_y_speed": 2.0},
    "other": {
        "width": 24,
        "height": 21,
        "paddle_half_height": 4,
        "paddle_y_speed": 1.0,
        "ball_x_speed": 2.0,
        "ball_max_y_speed": 1.5,
    },
}
COLUMNS = ("player", "opponent", "row", "column", "row_speed", "column_speed")


@jax.jit
def play(env, state, player, opponent):
    """States after each step with the paddles moving in given directions ``[T, B]``."""

    def one(state, directions):
        state = env.advance(state, *directions)
        return state, state

    return jax.lax.scan(one, state, (player, opponent))[1]


transition = jax.jit(lambda env, state, action: env.transition(state, action, None))


@pytest.fixture(scope="module")
def games():
    with np.load(pathlib.Path(__file__).with_name("pong_original.npz")) as arrays:
        return dict(arrays)


def numbers(state):
    """The numbers of a state that the original has too, ``[..., 6]``."""
    return np.stack([getattr(state, name) for name in COLUMNS], axis=-1)


def task_of(rows):
    return State(*np.ascontiguousarray(rows.T), *np.zeros((2, len(rows)), np.float32))


def paddles(directions):
    return tuple(np.ascontiguousarray(directions[..., i], np.float32) for i in range(2))


@pytest.mark.parametrize("name", OPTIONS)
def test_one_step_from_every_state_of_a_game_equals_the_original(name, games):
    directions, rows, length = (games[f"{name}_{k}"] for k in ("directions", "rows", "length"))
    played = np.arange(len(directions))[:, None] < length
    before, after, directions = rows[:-1][played], rows[1:][played], directions[played][None]
    env = gymnax_rollouts.bare(ID, **OPTIONS[name])
    ours = jax.device_get(play(env, task_of(before), *paddles(directions)))
    error = np.abs(numbers(ours)[0] - after).max()
    assert error <= 1e-6  # the original computes in float64; numbers are below 30
    np.testing.assert_array_equal(ours.last_row[0], before[:, 2])
    np.testing.assert_array_equal(ours.last_column[0], before[:, 3])
    hit, turned = (np.sign(before[:, i]) != np.sign(after[:, i]) for i in (5, 4))
    assert hit.sum() >= 50
    assert (turned & ~hit).sum() >= 50
    certify(ID, "batch_pong_poc 79ec848", states=len(before), tolerance=1e-6, error=error)


def test_whole_games_equal_the_original_to_the_end(games):
    directions, rows, length, ended = (games[f"defaults_{k}"] for k in ("directions", "rows", "length", "ended"))
    env = gymnax_rollouts.bare(ID, **OPTIONS["defaults"])
    ours = jax.device_get(play(env, task_of(rows[0]), *paddles(directions)))
    played = np.arange(len(directions))[:, None] < length
    error = np.abs(numbers(ours) - rows[1:])[played].max()
    assert error == 0  # all numbers are exact in float32
    over = (ours.column < 0) | (ours.column >= env.width)
    at_the_end = np.arange(len(directions))[:, None] == length - 1
    np.testing.assert_array_equal(over[played], (at_the_end & ended)[played])
    assert ended.sum() >= 20
    certify(ID, "batch_pong_poc 79ec848", episodes=ended.sum(), steps=length[ended].sum())


# gymnax's ball passes through the upper border, and its speed after a paddle is rounded to whole cells.
@pytest.mark.parametrize(
    ("options", "params"),
    [
        ({}, {}),
        ({}, {"ball_max_y_speed": 2, "paddle_y_speed": 2, "use_ai_policy": False}),
        ({"width": 9, "height": 8, "paddle_half_height": 1}, {"ball_x_speed": 2}),
    ],
    ids=["defaults", "opponent repeats the player", "small and fast"],
)
def test_one_step_from_random_states_equals_gymnax_where_it_agrees_with_the_original(options, params):
    task, actions = drawn(**options, **params)
    peer = gymnax_rollouts.peer(ID, **options)
    their_state, their_image, their_reward, their_end = gymnax_rollouts.follow_peer(
        peer, peer_state(task), actions, **params
    )
    env = gymnax_rollouts.bare(ID, **options, **params)
    state, image, reward, end = gymnax_rollouts.follow(env, task, actions)
    same = (task.row + task.row_speed >= 0) & (state.row_speed[0] == np.round(state.row_speed[0]))
    assert same.mean() > 0.85
    pairs = {
        "player": their_state.paddle_centers[..., 0],
        "opponent": their_state.paddle_centers[..., 1],
        "row": their_state.ball_position[..., 0],
        "column": their_state.ball_position[..., 1],
        "row_speed": their_state.ball_velocity[..., 0],
        "column_speed": their_state.ball_velocity[..., 1],
        "last_row": their_state.last_ball_position[..., 0],
        "last_column": their_state.last_ball_position[..., 1],
    }
    for name, theirs in pairs.items():
        np.testing.assert_array_equal(getattr(state, name)[0, same], theirs[0, same], err_msg=name)
    assert image.dtype == np.bool_
    np.testing.assert_array_equal(image[0, same], their_image[0, same])
    np.testing.assert_array_equal(reward[0, same], their_reward[0, same])
    np.testing.assert_array_equal(end[0, same], their_end[0, same])
    assert end[0, same].mean() > 0.02
    certify(ID, "gymnax", states=same.sum())


def drawn(width=40, height=30, paddle_half_height=2, ball_max_y_speed=3, ball_x_speed=1, lanes=2000, **_):
    """Balls anywhere in the image, half of them near a paddle; all numbers are integers."""
    rng = np.random.default_rng(1)
    row, column = rng.integers(0, height, lanes), rng.integers(0, width, lanes)
    column[: lanes // 2] = rng.choice([0, 1, 2, width - 3, width - 2, width - 1], lanes // 2)
    paddles = rng.integers(paddle_half_height, height - paddle_half_height, (2, lanes))
    near = slice(0, lanes // 2)
    paddles[:, near] = np.clip(
        row[near] + rng.integers(-paddle_half_height - 2, paddle_half_height + 3, (2, lanes // 2)),
        paddle_half_height,
        height - paddle_half_height - 1,
    )
    speeds = rng.integers(-ball_max_y_speed, ball_max_y_speed + 1, lanes), rng.choice([-1, 1], lanes) * ball_x_speed
    last = rng.integers(0, height, lanes), rng.integers(-1, width + 1, lanes)
    columns = (*paddles, row, column, *speeds, *last)
    return State(*(x.astype(np.float32) for x in columns)), rng.integers(0, 3, (1, lanes)).astype(np.int32)


def peer_state(task):
    return pong.EnvState(
        paddle_centers=np.stack([task.player, task.opponent], axis=-1),
        ball_position=np.stack([task.row, task.column], axis=-1),
        last_ball_position=np.stack([task.last_row, task.last_column], axis=-1),
        ball_velocity=np.stack([task.row_speed, task.column_speed], axis=-1).astype(np.int32),
        time=np.zeros(len(task.row), np.int32),
        terminal=np.zeros(len(task.row), bool),
    )


def test_score_shows_who_missed_and_rally_only_that_the_ball_was_missed():
    # The ball leaves on the player's side, on the opponent's side, and not at all. The paddles are far away.
    columns = np.float32([0, 39, 20])
    zeros, speeds = np.zeros(3, np.float32), np.float32([-1, 1, 1])
    task = State(zeros + 2, zeros + 2, zeros + 20, columns, zeros, speeds, zeros, zeros)
    stay = np.zeros(3, np.int32)
    for kind, expected in (("rally", [0, 0, 1]), ("score", [-1, 1, 0])):
        outcome = transition(gymnax_rollouts.bare(ID, reward=kind), task, stay)
        assert outcome.reward.tolist() == expected
        assert outcome.terminated.tolist() == [True, True, False]


def test_serves_go_to_either_side_with_uniform_row_speeds():
    task = gymnax_rollouts.starts(gymnax_rollouts.bare(ID, ball_x_speed=2.0, serve_y_speed=0.5))
    assert_uniform(task.row_speed, -0.5, 0.5)
    right = task.column_speed == 2
    assert np.all(right | (task.column_speed == -2))
    assert abs(right.mean() - 0.5) < 4.5 * 0.5 / np.sqrt(len(right))
    assert abs(np.corrcoef(right, task.row_speed)[0, 1]) < 5 / np.sqrt(len(right))
    assert {*task.row, *task.last_row, *task.player, *task.opponent} == {15.0}
    assert {*task.column, *task.last_column} == {20.0}


def test_without_random_serve_all_games_start_like_the_original():
    task = gymnax_rollouts.starts(gymnax_rollouts.bare(ID, random_serve=False, height=29), lanes=3)
    expected = [14.5, 14.5, 14.5, 20.0, 0.0, 1.0, 14.5, 20.0]
    assert [np.unique(x).tolist() for x in jax.tree.leaves(task)] == [[x] for x in expected]


def test_time_limit_actions_and_image_equal_those_of_gymnax():
    env, ours = gymnax_rollouts.peer(ID), gymnax_rollouts.bare(ID, dtype="float32")
    params = env.default_params
    assert jaxenv.spec(ID).max_episode_steps == params.max_steps_in_episode
    assert ours.action_spec().num_values == env.num_actions
    assert ours.observation_spec() == jaxenv.specs.Bounded(env.observation_space(params).shape, np.float32, 0, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 3}, r"width .*got 3"),
        ({"height": 5}, r"height .*got 5"),
        ({"paddle_half_height": 0}, r"paddle_half_height .*got 0"),
        ({"ball_x_speed": 0.0}, r"ball_x_speed .*got 0.0"),
        ({"ball_x_speed": 21.0}, r"ball_x_speed .*got 21.0"),
        ({"ball_max_y_speed": -3.0}, r"ball_max_y_speed .*got -3.0"),
        ({"serve_y_speed": 30.0}, r"serve_y_speed .*got 30.0"),
        ({"paddle_y_speed": -1.0}, r"paddle_y_speed .*got -1.0"),
        ({"reward": "win"}, r"reward .*got 'win'"),
        ({"dtype": "uint8"}, r"dtype .*got 'uint8'"),
    ],
    ids=lambda x: next(iter(x)) if isinstance(x, dict) else "",
)
def test_invalid_options_raise(options, message):
    with pytest.raises(ValueError, match=f"Pong-misc: {message}"):
        gymnax_rollouts.bare(ID, **options)


def test_in_the_picture_the_player_is_on_the_left_and_rows_count_from_the_top():
    state = State(*lanes([4], [25], [4], [30], [0], [1], [4], [29]))
    image = picture(Pong(), state, 1)[0]
    player, opponent, ball = (centre(image, colour) for colour in (SKY, ORANGE, WHITE))
    assert player[0] < 0.1 < 0.9 < opponent[0]
    assert abs(player[1] - ball[1]) < 0.02
    assert opponent[1] - player[1] > 0.4
    assert abs(ball[0] - 0.5 - (30.5 - 20) / 42.4) < 0.02
