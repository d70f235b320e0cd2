"""Draws ``mosaic.png``, fifty kinds of environments at 128 pixels, and ``eight.png``, eight of them at 400.

``python docs/pictures/mosaic.py`` takes the first from the pictures of the catalogue, which ``catalogue.py`` draws. For
the second it plays random actions up to the moment of each picture.
"""

import pathlib
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image

import jaxenv
from jaxenv import random

FOLDER = pathlib.Path(__file__).parent
GAP = 6
# One id of each kind, several agents included.
FIFTY = """
CartPole-v1 Breakout-MinAtar LunarLander-v3 MiniGrid-DoorKey-8x8-v0 ConnectFour-v0
Taxi-v4 Pendulum-v1 Go-9x9-v0 SimpleTag-mpe CarRacing-v3
Seaquest-MinAtar 2048-v0 MountainCar-v0 AMaze-13x13-v0 Blackjack-v1
Overcooked-CrampedRoom-v1 Reacher-misc FrozenLake-v1 BipedalWalkerHardcore-v3 Hex-11x11-v0
MiniGrid-Dynamic-Obstacles-16x16-v0 Acrobot-v1 SpaceInvaders-MinAtar UmbrellaChain-bsuite Othello-v0
Foraging-10x10-3p-3f-v3 Swimmer-misc CliffWalking-v1 MiniGrid-MultiRoom-N6-v0 CoinGame-v0
Freeway-MinAtar CardGame-v0 MiniGrid-LavaCrossingS9N1-v0 PointRobot-misc TicTacToe-v0
CartPoleSwingup-bsuite ConcentrationMedium-popgym DeepSea-bsuite Asterix-MinAtar SimpleSpread-mpe
PrisonersDilemma-matrix BattleshipEasy-popgym Catch-bsuite Pong-misc RiskyBranch-v0
MiniGrid-ObstructedMaze-2Dlh-v0 MNISTBandit-bsuite GaussianBandit-misc MiniGrid-GoToDoor-8x8-v0 MineSweeperMedium-popgym
"""
EIGHT = [
    "CartPole-v1",
    "Seaquest-MinAtar",
    "MiniGrid-DoorKey-8x8-v0",
    "Taxi-v4",
    "MountainCar-v0",
    "Breakout-MinAtar",
    "FrozenLake-v1",
    "Blackjack-v1",
]


def dive(timestep, stream):
    """Moves a submarine left, right or down, or fires; random moves would surface at once, which ends the episode."""
    return jnp.array([1, 3, 4, 5])[random.integers(stream, (), 0, 4)]


def small(id: str, size: int) -> np.ndarray:
    """The catalogue's picture, uint8 ``[size, size, 3]``."""
    picture = Image.open(FOLDER / "catalogue" / f"{id}.png").convert("RGB")
    return np.asarray(picture.resize((size, size), Image.Resampling.BOX))


def drawn(id: str, size: int) -> np.ndarray:
    """The picture of one lane, uint8 ``[size, size, 3]``."""
    env = jaxenv.make(id, 2)
    policy, steps = (dive, 32) if id == "Seaquest-MinAtar" else (jaxenv.rollout.random_policy(env), 8)
    (state, _, _), _ = jaxenv.unroll(env, policy, *env.reset(jax.random.key(4)), steps)
    return np.asarray(env.render(state, size))[1]


def mosaic(picture: Callable[[str, int], np.ndarray], ids: list[str], size: int, columns: int, name: str) -> None:
    """Writes the pictures of the ids, row by row."""
    rows = -(-len(ids) // columns)
    image = np.full((rows * (size + GAP) - GAP, columns * (size + GAP) - GAP, 3), 255, np.uint8)
    for number, id in enumerate(ids):
        top, left = (n * (size + GAP) for n in divmod(number, columns))
        image[top : top + size, left : left + size] = picture(id, size)
    Image.fromarray(image).quantize(256, dither=Image.Dither.NONE).save(FOLDER / name, optimize=True)


mosaic(small, FIFTY.split(), 128, 10, "mosaic.png")
mosaic(drawn, EIGHT, 400, 4, "eight.png")
