"""Choose once between rewards after 1, 3, 10, 30 or 100 steps, one of which is 10% larger.

Reference: bsuite 0.3.6 ``discounting_chain`` (tests/envs/bsuite/test_discounting_chain.py).
Paper: Osband et al. (2020), "Behaviour Suite for Reinforcement Learning", arXiv:1908.03568.

Observation   float32[1, 2]   the choice, 0 to 4, -1 before it is made; elapsed time, from 0 to 1
Action        int32           0 to 4; only the first action of an episode matters
Reward        1 in the chosen step, 1.1 for choice mapping_seed % 5; 0 in all other steps
Starts        all episodes start in the same state
Terminates    with step 100; never with compat="gymnax"
Time limit    none; set it to 100 with compat="gymnax"
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.canvas import GOLD, GREY, INK, ORANGE, PAPER, SILVER, Canvas
from jaxenv.core import Task, Transition, check_choice
from jaxenv.random import Stream

_REWARD_STEPS = np.array([1, 3, 10, 30, 100], np.int32)
_NUM_STEPS = np.int32(100)


@tree.struct
class Params:
    """A scalar, or ``[B]`` for one value per lane."""

    mapping_seed: int = tree.leaf(default=0, doc="the choice with the larger reward, modulo 5")


@tree.struct
class State:
    """Time and choice, each int32 ``[B]``."""

    time: jax.Array  # steps taken
    choice: jax.Array  # 0 to 4, -1 before the first step


class DiscountingChain(Task):
    """Discounting chain; the module docstring is the specification."""

    params: Params = Params()
    compat: str = tree.static(
        default="",
        doc='``"gymnax"`` for an episode that never terminates, so that a time limit of 100 steps truncates it',
    )
    finite_observation = True
    action_names = tuple(f"step {step}" for step in _REWARD_STEPS)

    def check(self) -> None:
        check_choice(f"{self}", "compat", self.compat, ("", "gymnax"))

    def initial(self, stream: Stream) -> State:
        time = jnp.zeros(stream.shape, jnp.int32)
        return State(time, time - 1)

    def transition(self, state: State, action: jax.Array, stream: Stream) -> Transition:
        choice = jnp.where(state.time == 0, action, state.choice)
        time = state.time + 1
        numbers = np.arange(len(_REWARD_STEPS), dtype=np.int32)[None]
        due = jnp.any((choice[:, None] == numbers) & (time[:, None] == _REWARD_STEPS[None]), axis=-1)
        bonus = choice == self.params.mapping_seed % len(_REWARD_STEPS)
        reward = jnp.where(due, jnp.where(bonus, np.float32(1.1), np.float32(1)), np.float32(0))
        ended = jnp.zeros_like(due) if self.compat else time == _NUM_STEPS
        return Transition(State(time, choice), reward, terminated=ended)

    def observe(self, state: State) -> jax.Array:
        time = state.time.astype(jnp.float32) / np.float32(_NUM_STEPS)
        return jnp.stack([state.choice.astype(jnp.float32), time], axis=-1)[:, None]

    def observation_spec(self) -> specs.Bounded:
        # An episode without termination may last longer than 100 steps.
        max_time = np.inf if self.compat else 1
        high = [[len(_REWARD_STEPS) - 1, max_time]]
        return specs.Bounded((1, 2), np.float32, [[-1, 0]], high, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(len(_REWARD_STEPS), name="action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints the chains from the first step, at the left, to the last, on a logarithmic scale."""
        bonus = jnp.asarray(self.params.mapping_seed, jnp.int32) % len(_REWARD_STEPS)
        canvas = canvas.view((0, 10), (0, 10))
        first, width, end = 2.1, 7.2, float(np.log1p(_REWARD_STEPS[-1]))
        at = first + width * jnp.minimum(jnp.log1p(state.time.astype(jnp.float32)) / end, 1.0)
        heights = np.linspace(8.6, 2.0, len(_REWARD_STEPS)).tolist()
        here = jnp.float32(5.3)
        for number, (y, step) in enumerate(zip(heights, _REWARD_STEPS.tolist(), strict=True)):
            chosen = state.choice == number
            canvas = canvas.path([(0.8, 5.3), (first, y), (first + width, y)], 0.16, SILVER)
            canvas = canvas.path([(0.8, 5.3), (first, y), (at, y)], 0.24, ORANGE, alpha=chosen)
            here = jnp.where(chosen, np.float32(y), here)
            # The reward, and its step above it. A reward that has been paid is hollow.
            x = first + width * math.log1p(step) / end
            more = jnp.broadcast_to(bonus == number, state.time.shape)
            paid = chosen & (state.time >= step)
            canvas = canvas.disc(x, y, 0.62, GREY).disc(x, y, 0.62, GOLD, more).disc(x, y, 0.46, PAPER, paid)
            canvas = canvas.text("1", x, y - 0.22, 0.44, INK, align=0.5, alpha=~more)
            canvas = canvas.text("1.1", x, y - 0.18, 0.36, INK, align=0.5, alpha=more)
            canvas = canvas.text(str(step), x, y + 0.7, 0.44, GREY, align=0.5)
        at = jnp.where(state.choice < 0, np.float32(0.8), at)
        canvas = canvas.disc(0.8, 5.3, 0.3, SILVER).disc(at, here, 0.42, INK).disc(at, here, 0.32, ORANGE)
        return canvas.text("STEP", 0.4, 0.4, 0.5, GREY).number(state.time, 4.1, 0.4, 0.5, INK, digits=3, align=1)
