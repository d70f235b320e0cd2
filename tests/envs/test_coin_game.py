"""CoinGame compared with recorded steps of JaxMARL 0.2.0, made by ``make_coin_game.py``."""

import pathlib

import jax
import numpy as np
import pytest

from jaxenv import random
from jaxenv.canvas import BLUE, ORANGE
from jaxenv.envs.coin_game import CoinGame, State
from tests.parity import certify
from tests.pictures import picture, shows

ID = "CoinGame-v0"
step = jax.jit(lambda env, state, action, key: env.transition(state, action, random.stream(key)))


@pytest.fixture(scope="module")
def rows():
    with np.load(pathlib.Path(__file__).with_name("coin_game.npz")) as arrays:
        found = {name: arrays[name].astype(np.int32) for name in arrays.files}
    for name in ("cells", "after"):
        found[name] = 3 * found[name][..., 0] + found[name][..., 1]
    return found


def state_of(cells):
    return State(cells[:, :2], cells[:, 2:])


def test_one_step_from_random_states_equals_jaxmarl(rows):
    env, state = CoinGame(), state_of(rows["cells"])
    out = step(env, state, rows["action"], jax.random.split(jax.random.key(0), len(rows["action"])))
    np.testing.assert_array_equal(env.observe(state), rows["observation"])
    np.testing.assert_array_equal(out.reward, rows["reward"])
    np.testing.assert_array_equal(out.state.players, rows["after"][:, :2])
    taken = (rows["after"][:, :2, None] == rows["cells"][:, None, 2:]).any(axis=1)
    np.testing.assert_array_equal(np.asarray(out.state.coins)[~taken], rows["after"][:, 2:][~taken])
    assert 0.1 < taken.mean() < 0.4
    stolen = taken & (rows["after"][:, :2] != rows["cells"][:, 2:])
    assert (np.asarray(out.state.coins) != rows["cells"][:, 2:])[stolen].mean() > 0.7
    certify(ID, "jaxmarl 0.2.0", states=len(taken))


def test_taken_coins_reappear_and_everything_starts_in_uniform_cells():
    keys = jax.random.split(jax.random.key(1), 9000)
    state = State(np.full((9000, 2), 3, np.int32), np.tile(np.int32([4, 8]), (9000, 1)))
    out = step(CoinGame(), state, np.zeros((9000, 2), np.int32), keys)  # both step onto the coin of the first player
    assert (np.asarray(out.reward) == [-1, 1]).all()
    assert (np.asarray(out.state.coins[:, 1]) == 8).all()
    start = CoinGame(num_envs=9000).reset(jax.random.key(0))[0].task
    for column in (out.state.coins[:, 0], *start.players.T, *start.coins.T):
        assert np.abs(np.bincount(np.asarray(column), minlength=9) - 1000).max() < 150


def test_rewards_are_params_of_each_lane(rows):
    env = CoinGame(num_envs=2).with_params(stolen=[0.0, -5.0], own_coin=2.0, other_coin=0.5)
    state = State(np.int32([[0, 3]] * 2), np.int32([[4, 8]] * 2))
    out = step(env, state, np.int32([[4, 0]] * 2), jax.random.split(jax.random.key(0), 2))
    np.testing.assert_array_equal(out.reward, [[0, 0.5], [-5, 0.5]])


def test_the_picture_shows_players_and_coins_in_their_cells():
    image = picture(CoinGame(), State(np.int32([[0, 2]]), np.int32([[6, 8]])), 1)[0]
    for colour, column in ((BLUE, image[:, :32]), (ORANGE, image[:, 64:])):
        for part, size in ((column[:32], 20), (column[64:], 80)):  # a coin above, a player below
            assert shows(part, colour).sum() > size
    assert not shows(image[:, 32:64], BLUE).any()
