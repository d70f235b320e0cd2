"""Lead a chicken across eight lanes of traffic.

Reference: ``minatar`` 1.0.15, game ``freeway`` (tests/envs/minatar/test_freeway.py).
Paper: Young and Tian (2019), arXiv:1903.03176.

Observation   bool[10, 10, 7]   channels chicken, car, and the cell behind each car, in one channel per speed: speed_1
                                (a cell every second step) to speed_5 (a cell every sixth step)
Action        int32             0 does nothing, 1 up, 2 down; with minimal_actions=False 0 to 5: nothing, left, up,
                                right, down, fire; after a move the chicken rests for two steps
Reward        1 for reaching the top; the chicken then returns to the bottom and all cars change their speeds
Starts        with the chicken at the bottom and a car at the left end of each lane of traffic, every direction and
              speed with the same probability
Terminates    with step 2501, when the original's clock falls below zero
Time limit    none: the clock is part of the task
Ramping       none: difficulty_ramping has no effect
"""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv.canvas import BLUE, GOLD, GREEN, NIGHT, ORANGE, RED, TEAL, WHITE, Canvas, mix
from jaxenv.core import toward
from jaxenv.envs.minatar import _sprites
from jaxenv.envs.minatar._bitboard import bit, unpack_rows
from jaxenv.envs.minatar.minatar import DOWN, SIZE, UP, MinAtar
from jaxenv.tree import Tree

_BOTTOM = np.int32(SIZE - 1)
_CHICKEN_COLUMN = np.int32(4)
_REST = np.int32(3)  # steps between two moves of the chicken
_CLOCK = np.int32(2500)
_CAR_ROWS = np.arange(1, 9, dtype=np.int32)


@tree.struct
class State:
    """The chicken and the clock, int32 ``[B]``, and the cars, int32 ``[B, 8]``, from the top row down."""

    row: jax.Array  # of the chicken
    rest: jax.Array  # steps until the chicken may move
    clock: jax.Array  # steps left; the episode ends at -1
    column: jax.Array  # of each car
    age: jax.Array  # steps since the car last moved
    speed: jax.Array  # the age at which the car moves, 1 to 5; negative for cars that drive left


@tree.struct
class Draws:
    """Random choices for one change of all speeds."""

    speed: jax.Array  # int32[B, 8], -5 to -1 or 1 to 5


class Freeway(MinAtar):
    """Freeway; see the module docstring."""

    channels = ("chicken", "car", "speed_1", "speed_2", "speed_3", "speed_4", "speed_5")
    minimal = "nud"
    step_words = 2
    # All episodes have the same length, so on most steps no lane ends, and then all lanes end together.
    reset_strategy = {"cpu": "cond", "default": "select"}

    def start(self, stream: random.Stream) -> State:
        speed = self.draws(random.separate_bits(stream, self.step_words)).speed
        return State(
            row=jnp.full(stream.shape, _BOTTOM),
            rest=jnp.full(stream.shape, _REST),
            clock=jnp.full(stream.shape, _CLOCK),
            column=jnp.zeros_like(speed),
            age=jnp.zeros_like(speed),
            speed=speed,
        )

    def draws(self, words: Sequence[jax.Array]) -> Draws:
        # Each word, as a fraction of 2**32, gives four decimal digits, and each digit one of ten speeds. The
        # probabilities are 1/10 to within 1e-5.
        shifted = jnp.stack(words, axis=-1)[:, :, None] * np.array([1, 10, 100, 1000], np.uint32)[None, None]
        digit = random.high_product(shifted, jnp.full_like(shifted, 10)).astype(jnp.int32).reshape(-1, 8)
        return Draws(jnp.where(digit < 5, digit - 5, digit - 4))

    def advance(self, game: State, action: jax.Array, draws: Draws) -> tuple[Tree, jax.Array, jax.Array]:
        standing = game.column
        game, arrives = _move_chicken(game, action)
        game = _drive(game, arrives, draws)
        # A car hits the chicken in the cell that it leaves and in the cell that it enters.
        in_column = (standing == _CHICKEN_COLUMN) | (game.column == _CHICKEN_COLUMN)
        hit = jnp.any(in_column & (game.row[:, None] == _CAR_ROWS[None]), axis=-1)
        game = tree.rebuild(game, row=jnp.where(hit, _BOTTOM, game.row), clock=game.clock - 1)
        return game, arrives, game.clock < 0

    def board(self, game: State) -> jax.Array:
        # All channels of a row are packed into one word; each element of the board tests its bits in that word.
        trail, waits = _neighbour(game.column, -jnp.sign(game.speed)), jnp.abs(game.speed)
        cars = bit(game.column) | bit(_TRAIL + trail) | bit(_SPEED + waits)
        chicken = jnp.where(game.row[:, None] == np.arange(SIZE, dtype=np.int32)[None], _CHICKEN, np.uint32(0))
        word = jnp.pad(cars, ((0, 0), (1, 1))) | chicken
        return unpack_rows(word, _REQUIRED)

    # --- the picture -------------------------------------------------------------------------------------------------

    def scene(self, game: State) -> tuple[jax.Array, Sequence[_sprites.Sprite]]:
        board = self.board(game)
        # The speeds 1, -1, 2, -2 and so on.
        speeds = (np.arange(1, 6, dtype=np.int32)[:, None] * np.array([1, -1], np.int32)).reshape(-1)
        kind = jnp.pad(game.speed, ((0, 0), (1, 1)))[:, :, None, None] == speeds[None, None, None]
        cars, trails = board[..., 1:2] & kind, jnp.any(board[..., 2:], axis=-1, keepdims=True) & kind
        sprites = [partial(sprite, colour=colour) for sprite, colour in zip(_VEHICLES, _COLOURS, strict=True)]
        streaks = [partial(_sprites.streaks, colour=colour) for colour in _COLOURS]
        cells = jnp.concatenate([board[..., :1], cars, trails], axis=-1)
        return cells, (_sprites.chicken, *_sprites.both_ways(*sprites, *streaks))

    def backdrop(self, game: State, canvas: Canvas) -> Canvas:
        canvas = canvas.tiles(_sprites.INNER_ROWS, [_sprites.meadow, _sprites.road]).view_cells(SIZE, SIZE)
        # The time left, above the finish.
        length = 9.4 * jnp.maximum(game.clock, 0).astype(jnp.float32) / np.float32(_CLOCK)
        canvas = canvas.box(5, 9.5, 9.6, 0.4, mix(NIGHT, GREEN, 0.25), corner=0.2)
        return canvas.box(0.3 + length / 2, 9.5, length, 0.2, WHITE)


def _move_chicken(game: State, action: jax.Array) -> tuple[State, jax.Array]:
    """Moves the chicken unless it rests; also returns whether it reached the top, from where it goes to the bottom."""
    step = toward(action, DOWN, UP)
    moves = (step != 0) & (game.rest == 0)
    row = jnp.clip(game.row + jnp.where(moves, step, np.int32(0)), 0, _BOTTOM)
    arrives = row == 0
    rest = jnp.maximum(jnp.where(moves, _REST, game.rest) - 1, 0)
    return tree.rebuild(game, row=jnp.where(arrives, _BOTTOM, row), rest=rest), arrives


def _drive(game: State, arrives: jax.Array, draws: Draws) -> State:
    """Moves every car that has reached the age of its speed; if the chicken arrived, changes all speeds instead.

    Cars that change their speed stand still for this step, with an age as if they had moved in the step before.
    """
    changes = arrives[:, None]
    drives = (game.age == jnp.abs(game.speed)) & ~changes
    return tree.rebuild(
        game,
        column=jnp.where(drives, _neighbour(game.column, jnp.sign(game.speed)), game.column),
        age=jnp.where(drives, 0, jnp.where(changes, 0, game.age) + 1),
        speed=jnp.where(changes, draws.speed, game.speed),
    )


# Bits of a row's word: 0 to 9 the car's column, 10 to 19 the trail's column, 20 to 24 the speed (1 to 5, hence the
# offset of 19), 30 the chicken. Bit 31 is never set.
_TRAIL, _SPEED, _CHICKEN, _NEVER = np.int32(10), np.int32(19), np.uint32(1 << 30), np.uint32(1 << 31)
# The bits that a row's word must have for each element of the row to be set, uint32 [1, 70].
_CAR = np.uint32(1) << np.arange(SIZE, dtype=np.uint32)
_TRAILS = [_CAR << np.uint32(_TRAIL) | np.uint32(1 << (int(_SPEED) + speed)) for speed in range(1, 6)]
_CHICKENS = np.where(np.arange(SIZE) == _CHICKEN_COLUMN, _CHICKEN, _NEVER)
_REQUIRED = np.stack([_CHICKENS, _CAR, *_TRAILS], axis=-1).reshape(1, -1)


def _neighbour(column: jax.Array, step: jax.Array) -> jax.Array:
    """Returns the column one ``step`` (-1 or 1) away; the board wraps around."""
    column = column + step
    return jnp.where(column < 0, _BOTTOM, jnp.where(column > _BOTTOM, np.int32(0), column))


# --- the picture -----------------------------------------------------------------------------------------------------

# The vehicles that drive at the speeds 1 to 5.
_VEHICLES = (_sprites.car, _sprites.car, _sprites.car, _sprites.truck, _sprites.truck)
_COLOURS = (RED, ORANGE, GOLD, TEAL, BLUE)
