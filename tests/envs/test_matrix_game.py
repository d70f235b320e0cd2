"""Matrix games compared with pax's ``IteratedMatrixGame`` of its commit 6ae3d07.

The table was printed by its class, with the payoffs of its prisoner's dilemma.
"""

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.canvas import GOLD
from jaxenv.envs.matrix_game import MatrixGame, Params, State
from tests.parity import certify
from tests.pictures import picture, shows

# Actions, numbers of the one-hot observations, rewards. 4 is the observation at the start.
PAX = [((0, 0), (0, 0), (-1, -1)), ((0, 1), (1, 2), (-3, 0)), ((1, 0), (2, 1), (0, -3)), ((1, 1), (3, 3), (-2, -2))]


def play(env, *actions):
    """Numbers of the observations and rewards of a row per action, one lane."""
    state, timestep = env.reset(jax.random.key(0))
    rows = [timestep]
    for action in actions:
        state, timestep = env.step(state, np.int32([action]))
        rows.append(timestep)
    assert all((np.asarray(row.observation).sum(axis=-1) == 1).all() for row in rows)
    return [(tuple(np.argmax(row.observation[0], axis=-1)), tuple(np.asarray(row.reward[0]))) for row in rows]


def test_every_joint_action_equals_pax():
    env = jaxenv.make("PrisonersDilemma-matrix")
    start, *rows = play(env, *(action for action, _, _ in PAX))
    assert start == ((4, 4), (0, 0))
    assert rows == [(seen, paid) for _, seen, paid in PAX]
    certify("PrisonersDilemma-matrix", "pax 6ae3d07", states=4)


@pytest.mark.parametrize(
    ("id", "rewards"),
    [
        ("StagHunt-matrix", [(4, 4), (1, 3), (3, 1), (2, 2)]),
        ("Chicken-matrix", [(0, 0), (-1, 1), (1, -1), (-10, -10)]),
    ],
)
def test_games_with_names_pay_their_matrix(id, rewards):
    assert [paid for _, paid in play(jaxenv.make(id), *(action for action, _, _ in PAX))][1:] == rewards


def test_games_of_three_actions_have_payoffs_of_each_player_and_lane():
    payoff = np.random.default_rng(0).normal(size=(2, 2, 3, 3)).astype(np.float32)
    env = MatrixGame(Params(payoff=payoff), actions=3, num_envs=2)
    assert env.observation_spec().shape == (2, 10)
    state, _ = env.reset(jax.random.key(0))
    for first in range(3):
        for second in range(3):
            state, timestep = env.step(state, np.int32([[first, second]] * 2))
            expected = np.stack([payoff[:, 0, first, second], payoff[:, 1, second, first]], axis=1)
            np.testing.assert_array_equal(timestep.reward, expected)
            codes = np.argmax(timestep.observation, axis=-1)
            np.testing.assert_array_equal(codes, [[3 * first + second, 3 * second + first]] * 2)


def test_a_matrix_of_another_size_raises():
    with pytest.raises(ValueError, match=r"MatrixGame: payoff .*got \[2, 2, 2\]"):
        MatrixGame(actions=3)


def test_the_picture_frames_the_last_actions():
    last = np.int32([[0, 1], [0, 1]])
    with_actions, start = picture(MatrixGame(), State(last, np.array([True, False])), 2)
    assert not shows(start, GOLD).any()
    rows, columns = np.nonzero(shows(with_actions, GOLD))
    assert rows.max() < 50
    assert columns.min() > 46
