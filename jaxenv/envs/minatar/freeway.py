"""Lead a chicken across eight lanes of traffic.

Reference: ``minatar`` 1.0.15, game ``freeway`` (tests/envs/minatar/test_freeway.py).
Paper: Young and Tian (2019), arXiv:1903.03176.

Observation   bool[10, 10, 7]   channels chicken, car, then where a car came from, one channel for each speed: speed_1
                                (a cell every second step) to speed_5 (a cell every sixth step)
Action        int32             0 nothing, 1 up, 2 down; with minimal_actions=False 0 to 5: n l u r d f
                                After a move up or down the chicken stands still for two steps
Reward        1 for reaching the top, from where the chicken goes back to the bottom and all cars change their speeds
Starts        with the chicken at the bottom and a car at the left end of each lane, every direction and speed equally
              likely
Terminates    with step 2501, the original's clock being stopped below zero
Time limit    none: the end is part of the task
Ramping       none: difficulty_ramping changes nothing
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv._actions import toward
from jaxenv.envs.minatar.game import DOWN, SIZE, UP, MinAtar

_BOTTOM = np.int32(SIZE - 1)
_CHICKEN_COLUMN = np.int32(4)
_REST = np.int32(3)  # steps from one move of the chicken to the next
_CLOCK = np.int32(2500)
_LANES = np.arange(1, 9, dtype=np.int32)  # the row of each car


@tree.struct
class State:
    """The chicken, each int32 ``[B]``, and the cars, each int32 ``[B, 8]``, from the topmost lane down."""

    row: jax.Array
    rest: jax.Array  # steps until the chicken may move
    clock: jax.Array  # steps left, the end is at -1
    column: jax.Array
    age: jax.Array  # steps since the car moved
    speed: jax.Array  # how old its last move becomes before the next one, 1 to 5; negative for cars that drive left


@tree.struct
class Draws:
    """``speed``: int32 ``[B, 8]``, -5 to -1 and 1 to 5, for the cars if they change."""

    speed: jax.Array


class Freeway(MinAtar):
    """Freeway; see the module."""

    channels = ("chicken", "car", "speed_1", "speed_2", "speed_3", "speed_4", "speed_5")
    minimal = "nud"
    step_words = 2
    reset_strategy = {"cpu": "cond", "default": "select"}

    def start(self, stream):
        speed = self.draws(random.separate_bits(stream, self.step_words)).speed
        return State(
            row=jnp.full(stream.shape, _BOTTOM),
            rest=jnp.full(stream.shape, _REST),
            clock=jnp.full(stream.shape, _CLOCK),
            column=jnp.zeros_like(speed),
            age=jnp.zeros_like(speed),
            speed=speed,
        )

    def draws(self, words):
        # Four decimal digits of a word each, as a fraction of 2**32: one of ten speeds a digit, to within 1e-5.
        shifted = jnp.stack(words, axis=-1)[:, :, None] * np.array([1, 10, 100, 1000], np.uint32)[None, None]
        digit = random.high_product(shifted, jnp.full_like(shifted, 10)).astype(jnp.int32).reshape(-1, 8)
        return Draws(jnp.where(digit < 5, digit - 5, digit - 4))

    def advance(self, game, action, draws):
        step = toward(action, DOWN, UP)
        moves = (step != 0) & (game.rest == 0)
        row = jnp.clip(game.row + jnp.where(moves, step, np.int32(0)), 0, _BOTTOM)
        arrives = row == 0
        row = jnp.where(arrives, _BOTTOM, row)

        # Cars that change their speed stand for this step, as if they had moved in the one before.
        changes = arrives[:, None]
        drives = (game.age == jnp.abs(game.speed)) & ~changes
        column = jnp.where(drives, _beside(game.column, jnp.sign(game.speed)), game.column)
        # A car hits where it stands and where it drives to.
        hits = ((game.column == _CHICKEN_COLUMN) | (column == _CHICKEN_COLUMN)) & (row[:, None] == _LANES[None])
        clock = game.clock - 1
        after = State(
            row=jnp.where(jnp.any(hits, axis=-1), _BOTTOM, row),
            rest=jnp.maximum(jnp.where(moves, _REST, game.rest) - 1, 0),
            clock=clock,
            column=column,
            age=jnp.where(drives, 0, jnp.where(changes, 0, game.age) + 1),
            speed=jnp.where(changes, draws.speed, game.speed),
        )
        return after, arrives, clock < 0

    def show(self, game):
        # All that a row shows is one word, and each element of the board asks for its bits in it.
        trail, waits = _beside(game.column, -jnp.sign(game.speed)), jnp.abs(game.speed)
        cars = _bit(game.column) | _bit(_TRAIL + trail) | _bit(_SPEED + waits)
        chicken = jnp.where(game.row[:, None] == np.arange(SIZE, dtype=np.int32)[None], _CHICKEN, np.uint32(0))
        word = jnp.pad(cars, ((0, 0), (1, 1))) | chicken
        return ((word[:, :, None] & _SHOWN) == _SHOWN).reshape(-1, SIZE, SIZE, len(self.channels))


# Bits of a row's word: ten for the car's column, ten for its trail's, five for its speed, and the chicken's.
_TRAIL, _SPEED, _CHICKEN, _NEVER = np.int32(10), np.int32(19), np.uint32(1 << 30), np.uint32(1 << 31)


def _shown() -> np.ndarray:
    """What the word of a row must have for each of the row's elements to be lit, uint32 ``[1, 1, 70]``."""
    column = np.arange(SIZE, dtype=np.uint32)
    chicken = np.where(column == _CHICKEN_COLUMN, _CHICKEN, _NEVER)
    car, trail = np.uint32(1) << column, np.uint32(1) << (np.uint32(_TRAIL) + column)
    trails = [trail | np.uint32(1 << (int(_SPEED) + speed)) for speed in range(1, 6)]
    return np.stack([chicken, car, *trails], axis=-1).reshape(1, 1, -1)


_SHOWN = _shown()


def _bit(place: jax.Array) -> jax.Array:
    return np.uint32(1) << place.astype(jnp.uint32)


def _beside(column: jax.Array, step: jax.Array) -> jax.Array:
    """The column one ``step`` (-1 or 1) away, round the edge."""
    column = column + step
    return jnp.where(column < 0, _BOTTOM, jnp.where(column > _BOTTOM, np.int32(0), column))
