"""Walk along the edge of a cliff from one end to the other without falling off.

Reference: Gymnasium ``CliffWalking-v1`` and ``CliffWalkingSlippery-v1`` (tests/envs/toy_text/test_cliff_walking.py).
Source: Sutton and Barto (2018), "Reinforcement Learning: An Introduction", example 6.6.

Observation   int32        12 * row + column, on a grid of 4 rows and 12 columns
Action        int32        0 up, 1 right, 2 down, 3 left; moves off the grid have no effect
Reward        -100 for falling off the cliff, -1 for any other step
Starts        in the lower left corner
Terminates    in the lower right corner; falling off the cliff leads back to the start and does not terminate
Time limit    none
env_info      prob: float32, the probability of the outcome that led here, 1 at the start

The cliff occupies the bottom row between start and goal. On slippery ground the agent moves as intended or to either
side, each with probability 1/3.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import BROWN, GREY, NIGHT, ORANGE, RED, SAND, Canvas, mix
from jaxenv.core import toward
from jaxenv.envs import _drawing
from jaxenv.envs.toy_text.tabular import Outcome, State, Tabular, div_mod, slip

_ROWS, _COLUMNS = 4, 12


class CliffWalking(Tabular):
    """Cliff walking; the module docstring is the specification."""

    is_slippery: bool = tree.static(default=False, doc="whether the agent may move to the side")
    action_names = ("up", "right", "down", "left")

    def outcome(self, index: jax.Array, action: jax.Array, choice: jax.Array) -> Outcome:
        direction = slip(action, choice) if self.is_slippery else action
        row, column = div_mod(index, _COLUMNS)
        row = jnp.clip(row + toward(direction, 2, 0), 0, _ROWS - 1)
        column = jnp.clip(column + toward(direction, 1, 3), 0, _COLUMNS - 1)
        bottom = row == _ROWS - 1
        falls = bottom & (column > 0) & (column < _COLUMNS - 1)
        reward = jnp.where(falls, np.float32(-100), np.float32(-1))
        prob = jnp.full(row.shape, self.probabilities()[0], jnp.float32)
        # The start is in the cliff's row, so a fall changes the column only.
        index = row * _COLUMNS + jnp.where(falls, 0, column)
        return Outcome(index, reward, bottom & (column == _COLUMNS - 1), prob)

    def chances(self, of: Callable[[Any], Any] = lambda param: param) -> tuple[Any, ...]:
        return (1 / 3,) * 3 if self.is_slippery else (1.0,)

    def choose(self, stream: random.Stream) -> jax.Array:
        return random.integers(stream, (), 0, 3) if self.is_slippery else super().choose(stream)

    def first_states(self) -> np.ndarray:
        return np.array([(_ROWS - 1) * _COLUMNS], np.int32)

    def observation_spec(self) -> specs.Bounded:
        return specs.discrete(_ROWS * _COLUMNS, name="observation")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(4, name="action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        kinds = np.zeros((1, _ROWS, _COLUMNS), np.int32)
        canvas = canvas.fill(NIGHT).tiles(kinds, [lambda c: _drawing.floor(c, SAND)])
        kinds[0, -1] = [1, *(_COLUMNS - 2) * [2], 3]
        canvas = canvas.tiles(kinds, [None, lambda c: c.ring(0.5, 0.5, 0.3, 0.1, GREY), _cliff, _drawing.goal])
        walker = _drawing.place(state.index, (_ROWS, _COLUMNS))
        return canvas.tiles(walker, [None, lambda c: _drawing.person(c, ORANGE)])


# --- the picture -----------------------------------------------------------------------------------------------------


def _cliff(canvas: Canvas) -> Canvas:
    """Paints a drop, with its edge at the top."""
    canvas = canvas.box(0.5, 0.5, 1, 1, mix(RED, NIGHT, 0.5))
    edge = [(0, 1), (1, 1), (1, 0.7), (0.82, 0.48), (0.6, 0.72), (0.42, 0.36), (0.22, 0.62), (0, 0.7)]
    return canvas.polygon(edge, BROWN)
