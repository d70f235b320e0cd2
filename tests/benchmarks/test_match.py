"""A match of a trained player with Monte Carlo tree search."""

import json

from benchmarks import __main__ as program
from benchmarks import match
from jaxenv.training import alphazero, seeds

TINY = {"num_envs": 4, "num_steps": 8, "num_gradient_steps": 1, "batch_size": 8, "num_simulations": 2}


def test_a_match_counts_the_games_of_both_sides(tmp_path, capsys):
    config = alphazero.Config(**TINY, total_steps=32, num_evaluations=1, num_eval_episodes=2, channels=2, blocks=0)
    assert list(seeds.train(config, 1, folder=tmp_path / "run"))
    file = tmp_path / "match.json"
    settings = ["--simulations", "8", "--own", "3", "--games", "3", "--json", str(file)]
    assert program.run_part("match", [str(tmp_path / "run"), *settings]) == 0
    rows = json.loads(file.read_text())["rows"]
    assert [row["side"] for row in rows] == ["first", "second"]
    for row in rows:
        assert row["wins"] + row["draws"] + row["losses"] == row["games"] == 3
    assert "Elo" in capsys.readouterr().out


def test_the_score_is_a_mean_over_both_sides():
    row = {"games": 4, "simulations": 9, "draws": 0, "seconds": 1.0}
    text = match.report(
        [{**row, "side": "first", "wins": 4, "losses": 0}, {**row, "side": "second", "wins": 2, "losses": 2}],
        None,
    )
    assert "mean score 0.50" in text
