"""Dive through a square sea: only the right action in every row leads to the treasure in the far corner.

Reference: bsuite 0.3.6 ``deep_sea`` and ``deep_sea_stochastic`` (tests/envs/bsuite/test_deep_sea.py).
Papers: Osband et al. (2020), arXiv:1908.03568; for the task, Osband, Van Roy, Russo and Wen (2019), arXiv:1703.07608.

Observation   float32[size, size]   1 at the diver's cell, 0 elsewhere; all 0 after the last row
Action        int32                 0 or 1; mapping_seed determines for every cell which of them goes right, the other
                                    goes left; with randomize_actions=False 1 goes right everywhere
Reward        -unscaled_move_cost / size for going right, plus 1 for going right from the last column; with
              deterministic=False plus standard normal noise in the first and the last column of the last row
Starts        in the upper left cell
Terminates    after size steps; every step moves one row down
Time limit    none
env_info      total_bad_episodes: int32, episodes in which the diver chose to leave the diagonal; denoised_return:
              float32, treasures found; both accumulate over the episodes of a lane

With deterministic=False going right fails with probability 1 / size: the cost is paid, the diver stays in the column.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import BLUE, BROWN, GOLD, INK, NIGHT, ORANGE, SAND, SKY, WHITE, Canvas, mix
from jaxenv.core import Task, Transition, in_own_kernels
from jaxenv.envs._bitmap import lookup
from jaxenv.envs._drawing import place


@tree.struct
class Params:
    """A scalar, or ``[B]`` for one value per lane."""

    unscaled_move_cost: float = tree.leaf(default=0.01, doc="the cost of going right in every row")


@tree.struct
class State:
    """Position of the diver, and counters. Each int32 ``[B]`` unless stated otherwise."""

    row: jax.Array
    column: jax.Array
    bad_episode: jax.Array  # bool[B], whether the diver went left from the diagonal
    bad_episodes: jax.Array  # of all episodes
    treasures: jax.Array  # of all episodes


@tree.struct
class Draws:
    """The random numbers of a step in a stochastic sea."""

    noise: jax.Array  # float32[B], of the reward
    fails: jax.Array  # bool[B], whether going right fails


class DeepSea(Task):
    """Deep sea; the module docstring is the specification."""

    params: Params = Params()
    size: int = tree.static(default=8, low=1, doc="number of rows and of columns")
    deterministic: bool = tree.static(default=True, doc="whether going right always succeeds and rewards have no noise")
    randomize_actions: bool = tree.static(default=True, doc="whether a random action goes right in a cell, else 1")
    mapping_seed: int = tree.static(
        default=42, low=0, high=2**32 - 1, doc="seed of the actions that go right, as in bsuite; equal in all lanes"
    )
    finite_observation = True

    @property
    def action_mapping(self) -> np.ndarray:
        """The action that goes right in each cell: int32 ``[size, size]``, read-only."""
        return _action_mapping(self.size, self.mapping_seed if self.randomize_actions else None)

    @property
    def optimal_return(self) -> Any:
        """The expected return of going right in every row."""
        reached = 1.0 if self.deterministic else (1 - 1 / self.size) ** (self.size - 1)
        return reached - self.params.unscaled_move_cost

    def initial(self, stream: random.Stream) -> State:
        lanes = jnp.zeros(stream.shape, jnp.int32)
        return State(lanes, lanes, jnp.zeros(stream.shape, bool), lanes, lanes)

    def carry(self, old: State, new: State) -> State:
        return tree.rebuild(new, bad_episodes=old.bad_episodes, treasures=old.treasures)

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        draws = None
        if not self.deterministic:
            noise = random.normal(stream)
            fails = random.bernoulli(random.fold_in(stream, "fails"), (), 1 / self.size)
            draws = Draws(noise, fails)
        return self.advance(state, action, draws)

    def advance(self, state: State, action: jax.Array, draws: Draws | None) -> Transition:
        """Takes one step, given its random numbers; ``None`` in a deterministic sea."""
        last = np.int32(self.size - 1)
        cell = state.row * np.int32(self.size) + state.column
        right = action == lookup(self.action_mapping != 0, cell).astype(jnp.int32)
        treasure = right & (state.column == last)
        reward = treasure.astype(jnp.float32) - right.astype(jnp.float32) * self.params.unscaled_move_cost / self.size
        moves = right
        if draws is not None:
            noisy = (state.row == last) & ((state.column == 0) | (state.column == last))
            reward = reward + jnp.where(noisy, draws.noise, np.float32(0))
            moves = right & ~draws.fails

        # Choosing to go left from the diagonal makes an episode bad; leaving it by a failure does not.
        bad = state.bad_episode | (~right & (state.row == state.column))
        shift = moves.astype(jnp.int32) - (~right).astype(jnp.int32)
        terminated = state.row == last
        state = State(
            row=state.row + 1,
            column=jnp.clip(state.column + shift, 0, last),
            bad_episode=bad,
            bad_episodes=state.bad_episodes + (terminated & bad).astype(jnp.int32),
            treasures=state.treasures + treasure.astype(jnp.int32),
        )
        return Transition(state, reward, terminated)

    def observe(self, state: State) -> jax.Array:
        # After the last row the index is past the last cell, so the observation is all zeros.
        place = state.row * self.size + state.column
        cells = np.arange(self.size * self.size, dtype=np.int32)[None]
        board = in_own_kernels(lambda place: (cells == place).astype(jnp.float32), place[:, None])
        return board.reshape(-1, self.size, self.size)

    def state_info(self, state: State) -> dict[str, jax.Array]:
        return {"total_bad_episodes": state.bad_episodes, "denoised_return": state.treasures.astype(jnp.float32)}

    def observation_spec(self) -> specs.Bounded:
        return specs.Bounded((self.size, self.size), np.float32, 0, 1, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(2, name="action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints the sea, in each cell the action that goes right, and the diver, who ends on the ground below."""
        size = self.size
        grid = (size + 1, size + 1)
        depth = np.arange(size) * _TINTS // size
        kinds = np.full((1, *grid), 4 * _TINTS, np.int32)
        kinds[0, :size, :size] = 4 * depth[:, None] + 2 * np.eye(size, dtype=np.int32) + self.action_mapping
        kinds[0, :, size] += 1
        kinds[0, size - 1, size] += 1
        water = [
            functools.partial(_water, tint=tint / (_TINTS - 1), diagonal=diagonal, digit=digit)
            for tint in range(_TINTS)
            for diagonal in (False, True)
            for digit in "01"
        ]
        rock = [lambda c: c.fill(SAND), lambda c: c.fill(BROWN), _treasure]
        canvas = canvas.fill(NIGHT).tiles(jnp.asarray(kinds), [*water, *rock])
        return canvas.tiles(place(state.row * np.int32(size + 1) + state.column, grid), [None, _diver])


@functools.lru_cache(maxsize=64)
def _action_mapping(size: int, seed: int | None) -> np.ndarray:
    mapping = np.ones((size, size), np.int32)
    if seed is not None:
        mapping = np.random.RandomState(seed).binomial(1, 0.5, [size, size]).astype(np.int32)
    mapping.flags.writeable = False
    return mapping


# --- the picture -----------------------------------------------------------------------------------------------------

_TINTS = 8  # of the water
_MIN_SIDE = 16  # pixels of a cell with a legible digit


def _water(canvas: Canvas, tint: float, diagonal: bool, digit: str) -> Canvas:
    colour = mix(mix(SKY, BLUE, 0.55), mix(BLUE, NIGHT, 0.65), tint)
    canvas = canvas.fill(colour)
    if diagonal:
        canvas = canvas.box(0.5, 0.5, 0.9, 0.9, mix(colour, WHITE, 0.25), corner=0.1)
    if canvas.scale < _MIN_SIDE:
        return canvas
    light = mix(colour, WHITE, 0.55)
    canvas = canvas.text(digit, 0.52, 0.12, 0.3, light, align=1)
    canvas = canvas.line(0.64, 0.27, 0.88, 0.27, 0.06, light)
    return canvas.path([(0.78, 0.17), (0.88, 0.27), (0.78, 0.37)], 0.06, light)


def _treasure(canvas: Canvas) -> Canvas:
    canvas = canvas.fill(mix(BLUE, NIGHT, 0.65))
    canvas = canvas.box(0.5, 0.42, 0.84, 0.64, GOLD, corner=0.16).box(0.5, 0.5, 0.84, 0.1, INK)
    return canvas.box(0.5, 0.44, 0.16, 0.22, INK, corner=0.05)


def _diver(canvas: Canvas) -> Canvas:
    canvas = canvas.disc(0.5, 0.5, 0.42, INK).disc(0.5, 0.5, 0.36, ORANGE)
    return canvas.disc(0.5, 0.54, 0.23, INK).disc(0.5, 0.54, 0.17, SKY)
