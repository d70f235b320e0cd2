"""Two players choose actions at the same time, again and again, and a matrix pays both.

Reference: pax's ``IteratedMatrixGame`` (tests/envs/test_matrix_game.py has its rules), there with two actions. Games:
Axelrod and Hamilton (1981), doi:10.1126/science.7466396 (prisoner's dilemma); Skyrms (2004) (stag hunt); Rapoport and
Chammah (1966) (chicken).

Observation   bool[2, n^2 + 1]   by player, one-hot: own last action * n + the other's last action; n^2 at the start
Action        int32[2]           one of n actions; in the games with names 0 cooperates and 1 defects
Reward        float32[2]         payoff[i, own action, the other's action] for player i
Starts        with no action seen
Terminates    never
Time limit    100 (registry)
"""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import BLUE, GOLD, ORANGE, PAPER, WHITE, Canvas
from jaxenv.core import Task, Transition

_DILEMMA = ((-1.0, -3.0), (0.0, -2.0))


@tree.struct
class Params:
    """One matrix for all lanes, or ``[B, 2, n, n]`` for one per lane."""

    payoff: Any = tree.leaf(
        default=(_DILEMMA, _DILEMMA), rank=3, doc="[2, n, n]: reward of each player, by its own and the other's action"
    )


@tree.struct
class State:
    """The last actions of both players, int32 ``[B, 2]``, and whether there are any, bool ``[B]``."""

    last: jax.Array
    begun: jax.Array


class MatrixGame(Task):
    """A repeated game of two players; the module docstring is the specification."""

    # Only the time limit ends an episode, so on most steps no lane ends, and then all lanes end together.
    reset_strategy = {"cpu": "cond", "default": "select"}
    params: Params = Params()
    actions: int = tree.static(default=2, low=2, doc="n, the number of actions of a player")
    agent_names = ("player_0", "player_1")

    @property
    def action_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("cooperate", "defect") if self.actions == 2 else ()

    def check(self) -> None:
        shape = np.shape(self.params.payoff)[-3:]
        if shape != (2, self.actions, self.actions):
            rule = f"payoff must have shape [2, n, n] for {self.actions} actions"
            raise ValueError(f"{self}: {rule}, got {list(shape)}")

    def initial(self, stream: random.Stream) -> State:
        return State(jnp.zeros((*stream.shape, 2), jnp.int32), jnp.zeros(stream.shape, bool))

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        payoff = jnp.asarray(self.params.payoff)
        own, other = action, action[:, ::-1]
        reward = jnp.zeros(action.shape, jnp.float32)
        for i, j in itertools.product(range(self.actions), repeat=2):
            reward = jnp.where((own == i) & (other == j), payoff[..., i, j].reshape(-1, 2), reward)
        never = jnp.zeros(action.shape[0], bool)
        return Transition(State(action, ~never), reward, terminated=never)

    def observe(self, state: State) -> jax.Array:
        code = self.actions * state.last + state.last[:, ::-1]
        code = jnp.where(state.begun[:, None], code, self.actions**2)
        return code[..., None] == np.arange(self.actions**2 + 1, dtype=np.int32)[None, None]

    def observation_spec(self) -> specs.Bounded:
        return specs.Bounded((2, self.actions**2 + 1), np.bool_, False, True, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.Bounded((2,), np.int32, 0, self.actions - 1, "action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints actions of player 0 as rows, of player 1 as columns, payoffs as bars, and frames the last actions."""
        n, payoff = self.actions, jnp.asarray(self.params.payoff)
        canvas = canvas.fill(PAPER).view((0, n), (0, n), margin=0.1)
        low, high = (f(payoff, axis=(-3, -2, -1), keepdims=True) for f in (jnp.min, jnp.max))
        share = 0.06 + 0.64 * (payoff - low) / jnp.maximum(high - low, 1e-6)
        for i, j in itertools.product(range(n), repeat=2):
            x, y = j, n - 1 - i
            chosen = state.begun & (state.last[:, 0] == i) & (state.last[:, 1] == j)
            canvas = canvas.box(x + 0.5, y + 0.5, 0.96, 0.96, GOLD, corner=0.05, alpha=chosen)
            canvas = canvas.box(x + 0.5, y + 0.5, 0.84, 0.84, WHITE, corner=0.03)
            for player, (height, colour) in enumerate(((share[..., 0, i, j], BLUE), (share[..., 1, j, i], ORANGE))):
                canvas = canvas.box(x + 0.33 + 0.34 * player, y + 0.14 + height / 2, 0.2, height, colour)
        return canvas
