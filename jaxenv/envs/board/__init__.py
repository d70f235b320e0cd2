"""Board games: two players move in turn, or one player moves alone."""

from jaxenv.core import register

register("Go-9x9-v0", f"{__name__}.go:Go")
register("Hex-11x11-v0", f"{__name__}.hex:Hex")
