"""Dive through a square sea: only the right action in every row leads to the treasure in the far corner.

Reference: bsuite 0.3.6 ``deep_sea`` and ``deep_sea_stochastic`` (tests/envs/bsuite/test_deep_sea.py).
Papers: Osband et al. (2020), arXiv:1908.03568; the sea: Osband, Van Roy, Russo and Wen (2019), arXiv:1703.07608.

Observation   float32[size, size]   1 where the diver is, 0 elsewhere; all 0 after the last row
Action        int32                 0 or 1; which of them goes right is drawn for every cell from ``mapping_seed``, the
                                    other goes left; with randomize_actions=False 1 goes right everywhere
Reward        -move_cost / size for going right, 1 for going right from the last column; with deterministic=False
              also standard normal noise for any action in the first and last column of the last row
Starts        in the upper left cell
Terminates    after size steps, one row deeper each
Time limit    none
env_info      total_bad_episodes: int32, episodes that left the diagonal by choice; denoised_return: float32, treasures
              found; both over all episodes of the lane

With deterministic=False going right fails with probability 1 / size: the cost is paid, the diver sinks straight down.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.envs._bitmap import lookup
from jaxenv.task import Task, Transition


@tree.struct
class Params:
    """A number, or ``[B]`` for one per lane."""

    unscaled_move_cost: float = 0.01  # of going right in every row


@tree.struct
class State:
    """Each int32 ``[B]`` but for ``bad_episode``. The last two are kept across episodes."""

    row: jax.Array
    column: jax.Array
    bad_episode: jax.Array  # bool[B], whether the diver went left from the diagonal
    bad_episodes: jax.Array
    treasures: jax.Array


@tree.struct
class Draws:
    """``noise``: float32 ``[B]``, of the reward. ``fails``: bool ``[B]``, whether going right would."""

    noise: jax.Array
    fails: jax.Array


class DeepSea(Task):
    """Deep sea; see the module.

    Attributes:
        size: rows and columns.
        deterministic: whether going right always works and rewards have no noise.
        randomize_actions: whether the meaning of the actions is drawn for every cell, or 1 is right everywhere.
        mapping_seed: of that draw, the same as the original's; one sea for all lanes and episodes.
    """

    params: Params = Params()
    size: int = tree.static(default=8)
    deterministic: bool = tree.static(default=True)
    randomize_actions: bool = tree.static(default=True)
    mapping_seed: int = tree.static(default=42)
    finite_observation = True

    def check(self):
        if self.size < 1:
            raise ValueError(f"{self}: size must be at least 1, got {self.size}")
        if not 0 <= self.mapping_seed < 2**32:
            raise ValueError(f"{self}: mapping_seed must lie in [0, 2**32), got {self.mapping_seed}")

    @property
    def action_mapping(self) -> np.ndarray:
        """The action that goes right: int32 ``[size, size]``, read-only."""
        return _action_mapping(self.size, self.mapping_seed if self.randomize_actions else None)

    @property
    def optimal_return(self):
        """The mean return of going right in every row."""
        reached = 1.0 if self.deterministic else (1 - 1 / self.size) ** (self.size - 1)
        return reached - self.params.unscaled_move_cost

    def initial(self, stream):
        lanes = jnp.zeros(stream.shape, jnp.int32)
        return State(lanes, lanes, jnp.zeros(stream.shape, bool), lanes, lanes)

    def carry(self, old, new):
        return tree.rebuild(new, bad_episodes=old.bad_episodes, treasures=old.treasures)

    def transition(self, state, action, stream):
        draws = None
        if not self.deterministic:
            noise = random.normal(stream)
            fails = random.bernoulli(random.fold_in(stream, "fails"), (), 1 / self.size)
            draws = Draws(noise, fails)
        return self.advance(state, action, draws)

    def advance(self, state: State, action: jax.Array, draws: Draws | None) -> Transition:
        """One step, given what was drawn: ``None`` in a deterministic sea."""
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

        # Going left from the diagonal is what makes an episode bad; being left behind by a failure is not.
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

    def observe(self, state):
        # Beyond the last row no cell has this number.
        place = state.row * self.size + state.column
        cells = np.arange(self.size * self.size, dtype=np.int32)[None]
        return (cells == place[:, None]).reshape(-1, self.size, self.size).astype(jnp.float32)

    def state_info(self, state):
        return {
            "total_bad_episodes": state.bad_episodes,
            "denoised_return": state.treasures.astype(jnp.float32),
        }

    def observation_spec(self):
        return specs.Bounded((self.size, self.size), np.float32, 0, 1, "observation")

    def action_spec(self):
        return specs.discrete(2, name="action")


@functools.cache
def _action_mapping(size: int, seed: int | None) -> np.ndarray:
    mapping = np.ones((size, size), np.int32)
    if seed is not None:
        mapping = np.random.RandomState(seed).binomial(1, 0.5, [size, size]).astype(np.int32)
    mapping.flags.writeable = False
    return mapping
