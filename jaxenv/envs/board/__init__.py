"""Board games: two players move in turn, or one player moves alone."""

from jaxenv.core import register

register("ConnectFour-v0", f"{__name__}.connect_four:ConnectFour")
register("Go-9x9-v0", f"{__name__}.go:Go")
register("Hex-11x11-v0", f"{__name__}.hex:Hex")
register("Othello-v0", f"{__name__}.othello:Othello")
register("2048-v0", f"{__name__}.game_2048:Game2048")
