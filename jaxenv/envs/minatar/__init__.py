"""The five games of MinAtar, small and quick relatives of Atari games, on boards of 10 by 10 cells."""
