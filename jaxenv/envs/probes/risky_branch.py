"""Choose between a safe path and a lottery, in a Markov decision process with five states.

Reference: ALF's ``StochasticWithRiskyBranch`` (tests/envs/probes/test_risky_branch.py).

Observation   float32[1]   the state: 0 start, 1 good luck, 2 safe path, 3 bad luck, 4 end
Action        int32        0 or 1
Reward        see the table; 0 for all other transitions
Starts        in state 0
Terminates    in state 4
Time limit    none: every episode ends after two steps

    state  action  next state                                  reward
    0      0       1 with good_probability (0.5), otherwise 3  0
    0      1       2                                           0
    1      0       4                                           good_reward (2)
    2      0       4                                           safe_reward (1.8)
    3      1       4                                           bad_reward (1)
    all others     4                                           0

The safe path has value 1.8, the lottery 1.5. A learner that conditions values on action sequences
estimates the lottery at 2, because the transitions with action 0 after it are mostly rewarded after good luck.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import BLUE, GREEN, GREY, INK, ORANGE, PAPER, RED, Canvas
from jaxenv.core import Task, Transition

START, GOOD, SAFE, BAD, END = (np.int32(i) for i in range(5))


@tree.struct
class Params:
    """Scalars, or ``[B]`` for one value per lane."""

    good_probability: float = tree.leaf(default=0.5, low=0, high=1)
    good_reward: float = 2.0
    safe_reward: float = 1.8
    bad_reward: float = 1.0


@tree.struct
class State:
    """The state of the decision process."""

    node: jax.Array  # int32[B], 0 to 4


class RiskyBranch(Task):
    """A lottery and a safe path; see the module docstring."""

    params: Params = Params()

    def initial(self, stream: random.Stream) -> State:
        return State(jnp.full(stream.shape, START, jnp.int32))

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        p, node, first = self.params, state.node, action == 0
        lucky = random.bernoulli(stream, (), p.good_probability)
        branch = jnp.where(first, jnp.where(lucky, GOOD, BAD), SAFE)
        reward = jnp.where((node == GOOD) & first, p.good_reward, np.float32(0))
        reward = jnp.where((node == SAFE) & first, p.safe_reward, reward)
        reward = jnp.where((node == BAD) & ~first, p.bad_reward, reward)
        after = jnp.where(node == START, branch, END)
        return Transition(State(after), reward, terminated=after == END)

    def observe(self, state: State) -> jax.Array:
        return state.node[:, None].astype(jnp.float32)

    def observation_spec(self) -> specs.Bounded:
        return specs.Bounded((1,), np.float32, 0, 4, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(2, name="action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints the decision process, with the state in orange and each reward after the action that it requires."""
        p, canvas = self.params, canvas.view((0, 1), (0, 1))
        for branch in (GOOD, BAD, SAFE):
            canvas = canvas.arrow(*_between(START, branch), 0.022, GREY).arrow(*_between(branch, END), 0.022, GREY)
        for node, (x, y) in enumerate(_PLACES):
            here = (state.node == node).astype(jnp.float32)
            canvas = canvas.disc(x, y, 0.09, _PAINTS[node]).disc(x, y, 0.065, PAPER)
            canvas = canvas.disc(x, y, 0.065, ORANGE, alpha=here)
        canvas = canvas.text("0:", 0.02, 0.76, 0.05, GREY).text("1:", 0.15, 0.2, 0.05, GREY)
        values, shape = (p.good_reward, p.safe_reward, p.bad_reward, p.good_probability), state.node.shape
        good, safe, bad, chance = (jnp.broadcast_to(jnp.asarray(x, jnp.float32), shape) for x in values)
        percent = jnp.round(100 * chance).astype(jnp.int32)
        canvas = canvas.number(percent, 0.207, 0.76, 0.05, INK, align=1).text("%", 0.22, 0.76, 0.05, INK)
        canvas = _write(canvas, "0:", good, 0.62, 0.85)
        canvas = _write(canvas, "1:", bad, 0.525, 0.545)
        return _write(canvas, "0:", safe, 0.62, 0.1)


# --- the picture -----------------------------------------------------------------------------------------------------

_PLACES = ((0.11, 0.5), (0.42, 0.85), (0.42, 0.15), (0.42, 0.5), (0.89, 0.5))  # of the states
_PAINTS = (INK, GREEN, BLUE, RED, INK)


def _between(node: np.int32, other: np.int32) -> tuple[float, float, float, float]:
    """Returns the ends of an arrow from one state to another."""
    (x, y), (to_x, to_y) = _PLACES[node], _PLACES[other]
    along = 0.11 / math.hypot(to_x - x, to_y - y)
    across, up = along * (to_x - x), along * (to_y - y)
    return x + across, y + up, to_x - across, to_y - up


def _write(canvas: Canvas, action: str, reward: jax.Array, x: float, y: float) -> Canvas:
    """Writes an action and its reward with one decimal, at most 99.9."""
    tenths = jnp.round(jnp.minimum(10 * jnp.abs(reward), 999)).astype(jnp.int32)
    minus = (reward < 0).astype(jnp.float32)
    canvas = canvas.text(action, x, y, 0.05, GREY).text("-", x + 0.065, y, 0.05, INK, alpha=minus)
    canvas = canvas.number(tenths // 10, x + 0.16, y, 0.05, INK, digits=2, align=1).text(".", x + 0.16, y, 0.05, INK)
    return canvas.number(tenths % 10, x + 0.2, y, 0.05, INK, digits=1)
