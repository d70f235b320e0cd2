"""Settings of the tests of board games."""

collect_ignore = ["make_games.py"]  # imports Pgx
