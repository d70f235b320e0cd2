"""More games than are recorded, compared with Pgx where it is installed."""

import pytest

pytest.importorskip("pgx")

from jaxenv._util.library import default_types
from tests.envs.board import make_games, reference


def games(id):
    with default_types():  # Pgx relies on JAX's defaults
        rows = make_games.play(id, lanes=400, steps=280, seed=1)
    assert (~rows["over"][:-1]).sum() > 100_000
    return rows


@pytest.mark.parametrize("id", ["ConnectFour-v0", "Go-9x9-v0", "Hex-11x11-v0", "Othello-v0"])
def test_a_hundred_thousand_moves_of_two_players_equal_those_of_pgx(id):
    reference.assert_played_as_pgx(id, games(id))


def test_a_hundred_thousand_moves_of_2048_equal_those_of_pgx():
    reference.assert_2048_played_as_pgx(games("2048-v0"))
