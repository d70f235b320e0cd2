"""The five games of MinAtar, small and fast relatives of Atari games on boards of 10 by 10 cells."""

from jaxenv.core import register

register("Asterix-MinAtar", f"{__name__}.asterix:Asterix")
register("Breakout-MinAtar", f"{__name__}.breakout:Breakout")
register("Freeway-MinAtar", f"{__name__}.freeway:Freeway")
register("Seaquest-MinAtar", f"{__name__}.seaquest:Seaquest")
register("SpaceInvaders-MinAtar", f"{__name__}.space_invaders:SpaceInvaders")
