"""Board games: two players move in turn, or one player moves alone."""
