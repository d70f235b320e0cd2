"""Board games: two players move in turn, or one player moves alone."""

from jaxenv.core import register

register("ConnectFour-v0", f"{__name__}.connect_four:ConnectFour")
register("Othello-v0", f"{__name__}.othello:Othello")
register("2048-v0", f"{__name__}.game_2048:Game2048")
