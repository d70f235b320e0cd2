"""Environments on batched arrays, one per file. Made by id: ``jaxenv.make("CartPole-v1", num_envs=8)``."""

from jaxenv.core import register
from jaxenv.envs import board as board
from jaxenv.envs import box2d as box2d
from jaxenv.envs import bsuite as bsuite
from jaxenv.envs import classic_control as classic_control
from jaxenv.envs import grid as grid
from jaxenv.envs import minatar as minatar
from jaxenv.envs import misc as misc
from jaxenv.envs import particle as particle
from jaxenv.envs import popgym as popgym
from jaxenv.envs import probes as probes
from jaxenv.envs import toy_text as toy_text

register("CardGame-v0", f"{__name__}.card_game:CardGame")
register("TicTacToe-v0", f"{__name__}.tic_tac_toe:TicTacToe")
register("CoinGame-v0", f"{__name__}.coin_game:CoinGame", max_episode_steps=10)
for _game, _payoff in {
    "PrisonersDilemma": ((-1.0, -3.0), (0.0, -2.0)),
    "StagHunt": ((4.0, 1.0), (3.0, 2.0)),
    "Chicken": ((0.0, -1.0), (1.0, -10.0)),
}.items():
    _kwargs = {"payoff": (_payoff, _payoff)}
    register(f"{_game}-matrix", f"{__name__}.matrix_game:MatrixGame", max_episode_steps=100, kwargs=_kwargs)
