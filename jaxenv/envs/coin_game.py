"""Two players on a 3 by 3 torus collect coins; who takes the other's coin harms the other.

Reference: JaxMARL's ``coin_game`` (tests/envs/test_coin_game.py contains recorded steps), there called red and blue.
Paper: Lerer and Peysakhovich (2017), arXiv:1707.01068; Foerster et al. (2018), arXiv:1709.04326 (LOLA).

Observation   bool[2, 3, 3, 4]   by player: cells of itself, of the other player, of its own coin, of the other's coin
Action        int32[2]           right, left, up, down, stay: up leads to the next row, and edges to the opposite side
Reward        float32[2]         own_coin and other_coin for taking a coin of either kind, plus ``stolen`` where the
                                 other player takes this player's coin
Starts        players and coins in independent uniform cells
Terminates    never
Time limit    10 (registry)

A coin that is taken, by one player or both, reappears in a uniform cell. In JaxMARL an episode contains ten such games
of ten steps, and the last step of each pays nothing.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import BLUE, GREY, ORANGE, PAPER, Canvas
from jaxenv.core import Task, Transition, take_rows

_MOVES = np.array([[0, 1], [0, -1], [1, 0], [-1, 0], [0, 0]], np.int32)  # row, column
# The cell that each action leads to from each cell.
_NEXT = np.array([[(r + i) % 3 * 3 + (c + j) % 3 for i, j in _MOVES] for r in range(3) for c in range(3)], np.int32)


@tree.struct
class Params:
    """Rewards: scalars, or ``[B]`` for one value per lane."""

    own_coin: float = tree.leaf(default=1.0, doc="of taking one's own coin")
    other_coin: float = tree.leaf(default=1.0, doc="of taking the other's coin")
    stolen: float = tree.leaf(default=-2.0, doc="of losing one's own coin to the other")


@tree.struct
class State:
    """Cells, row by row, int32 ``[B, 2]``."""

    players: jax.Array
    coins: jax.Array


class CoinGame(Task):
    """The coin game; the module docstring is the specification."""

    # Only the time limit ends an episode, so on most steps no lane ends, and then all lanes end together.
    reset_strategy = {"cpu": "cond", "default": "select"}
    params: Params = Params()
    agent_names = ("player_0", "player_1")
    action_names = ("right", "left", "up", "down", "stay")

    def initial(self, stream: random.Stream) -> State:
        cells = random.integers(stream, (4,), 0, 9)
        return State(cells[:, :2], cells[:, 2:])

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        p = self.params
        players = take_rows(_NEXT.reshape(-1), 5 * state.players + action)
        took_own, took_other = players == state.coins, players == state.coins[:, ::-1]
        lost = took_other[:, ::-1]
        reward = jnp.zeros(action.shape, jnp.float32)
        for flags, value in ((took_own, p.own_coin), (took_other, p.other_coin), (lost, p.stolen)):
            reward = reward + jnp.where(flags, jnp.reshape(value, (-1, 1)), 0.0)
        coins = jnp.where(took_own | lost, random.integers(stream, (2,), 0, 9), state.coins)
        return Transition(State(players, coins), reward, terminated=jnp.zeros(action.shape[0], bool))

    def observe(self, state: State) -> jax.Array:
        cells = np.arange(9, dtype=np.int32)[None, None, :, None]
        seen = [state.players, state.players[:, ::-1], state.coins, state.coins[:, ::-1]]
        return (cells == jnp.stack(seen, axis=-1)[:, :, None]).reshape(-1, 2, 3, 3, 4)

    def observation_spec(self) -> specs.Bounded:
        return specs.Bounded((2, 3, 3, 4), np.bool_, False, True, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.Bounded((2,), np.int32, 0, 4, "action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints players as discs and coins as rings in the same colours; two in one cell stand side by side."""
        canvas = canvas.fill(PAPER).view((0, 3), (0, 3))
        for at in (1, 2):
            canvas = canvas.line(at, 0.1, at, 2.9, 0.03, GREY).line(0.1, at, 2.9, at, 0.03, GREY)
        for i, colour in enumerate((BLUE, ORANGE)):
            x, y = _centre(state.coins[:, i])
            canvas = canvas.ring(x - 0.22 + 0.44 * i, y - 0.2, 0.13, 0.08, colour)
            x, y = _centre(state.players[:, i])
            canvas = canvas.disc(x - 0.2 + 0.4 * i, y + 0.2, 0.19, colour)
        return canvas


# --- the picture -----------------------------------------------------------------------------------------------------


def _centre(cell: jax.Array) -> tuple[jax.Array, jax.Array]:
    return (cell % 3).astype(jnp.float32) + 0.5, (cell // 3).astype(jnp.float32) + 0.5
