"""Board games: both sides play whole games of the same length."""

import pytest

from benchmarks import __main__ as program
from tests.benchmarks.sizes import LANES, STEPS


def test_both_sides_play_games_of_the_same_length(run, capsys):
    pytest.importorskip("pgx")
    (row,) = run("boards", "--ids", "ConnectFour-v0")["rows"]
    sides = row["contestants"]
    assert sides.keys() == {"jaxenv", "pgx"}
    assert sides["pgx"]["steps"][0] == LANES * STEPS  # a lane restarts in the step that ends its game
    assert abs(LANES * STEPS - sides["jaxenv"]["steps"][0] - sides["jaxenv"]["episodes"][0]) <= LANES
    for side in sides.values():
        assert 10 <= side["steps"][0] / side["episodes"][0] <= 35
    assert "ConnectFour-v0" in capsys.readouterr().out


def test_both_sides_search_before_each_move(run, capsys):
    pytest.importorskip("pgx")
    (row,) = run("boards", "--ids", "ConnectFour-v0", "--simulations", "2")["rows"]
    assert row["simulations"] == 2
    for side in row["contestants"].values():
        assert 7 <= side["steps"][0] / max(side["episodes"][0], 1) <= 42
    assert "2 simulations" in capsys.readouterr().out


def test_without_pgx_the_games_of_jaxenv_are_measured_and_a_note_says_so(run, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pgx", None)
    rows = run("boards", "--ids", "ConnectFour-v0", "2048-v0")["rows"]
    assert [(row["id"], [*row["contestants"]], row["ratios"]) for row in rows] == [
        ("ConnectFour-v0", ["jaxenv"], {}),
        ("2048-v0", ["jaxenv"], {}),
    ]
    out = capsys.readouterr().out
    assert out.count(" - ") >= 4
    assert "note: pgx cannot be imported" in out


def test_without_mctx_a_message_says_so(capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "mctx", None)
    assert program.run_part("boards", ["--simulations", "2", "--num-envs", str(LANES), "--num-steps", str(STEPS)]) == 1
    assert "mctx cannot be imported" in capsys.readouterr().err


def test_a_negative_number_of_simulations_is_refused(capsys):
    with pytest.raises(SystemExit):
        program.parse("boards", ["--simulations", "-2"])
    assert "got '-2'" in capsys.readouterr().err


def test_other_ids_are_refused(capsys):
    with pytest.raises(SystemExit):
        program.parse("boards", ["--ids", "TicTacToe-v0"])
    assert "got 'TicTacToe-v0'" in capsys.readouterr().err
