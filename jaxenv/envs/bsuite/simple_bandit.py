"""Pull one of several arms, each of which always pays the same amount.

Reference: bsuite 0.3.6, ``environments/bandit.py`` (tests/envs/bsuite/test_simple_bandit.py).
Paper: Osband et al. (2020), "Behaviour Suite for Reinforcement Learning", arXiv:1908.03568.

Observation   float32[1, 1]   always 1
Action        int32           the arm, 0 to num_actions - 1
Reward        the payoff of the arm: one arm each pays 0, 1 / (num_actions - 1), ..., 1
Starts        the first episode of a lane draws a uniform permutation of the payoffs, which all later ones keep
Terminates    with the first step
Time limit    none
env_info      total_regret: float32, 1 minus the reward, accumulated over the episodes of a lane
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import INK, Canvas
from jaxenv.core import Task, Transition, check_choice, check_integer
from jaxenv.envs._arms import Arms


@tree.struct
class State:
    """The regret is counted in units of 1 / (num_actions - 1), so that its sum stays exact over any number of steps."""

    arms: jax.Array  # float32[B, num_actions], the payoffs
    total_regret: jax.Array  # int32[B], in units of 1 / (num_actions - 1)


class SimpleBandit(Task):
    """A deterministic bandit; the module docstring is the specification."""

    num_actions: int = tree.static(default=11, low=2, doc="number of arms, at least 2")
    mapping_seed: int | None = tree.static(
        default=None, doc="gives all lanes bsuite's permutation of this seed; with ``None`` each lane draws its own"
    )
    compat: str = tree.static(
        default="",
        doc='``"gymnax"`` redraws the arms and clears the regret at the start of every episode, as gymnax '
        "1.0.1 does. Nothing learned in one episode then helps in the next.",
    )

    def check(self) -> None:
        if self.mapping_seed is not None:
            check_integer(f"{self}", "mapping_seed", self.mapping_seed, 0, 2**32 - 1)
        check_choice(f"{self}", "compat", self.compat, ("", "gymnax"))

    def initial(self, stream: random.Stream) -> State:
        n = self.num_actions
        if self.mapping_seed is None:
            ranks = random.permutation(stream, n)
        else:
            drawn = np.random.RandomState(self.mapping_seed).choice(n, n, replace=False)
            ranks = jnp.broadcast_to(drawn.astype(np.int32), (*stream.shape, n))
        return State(jnp.asarray(np.linspace(0, 1, n), jnp.float32)[ranks], jnp.zeros(stream.shape, jnp.int32))

    def carry(self, old: State, new: State) -> State:
        return new if self.compat == "gymnax" else old

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        pulled = action[:, None] == np.arange(self.num_actions, dtype=np.int32)[None]
        reward = jnp.sum(jnp.where(pulled, state.arms, np.float32(0)), axis=-1)
        regret = jnp.round((1 - reward) * self._units).astype(jnp.int32)
        state = State(state.arms, state.total_regret + regret)
        return Transition(state, reward, terminated=jnp.ones(action.shape, bool))

    def state_info(self, state: State) -> dict[str, jax.Array]:
        return {"total_regret": state.total_regret.astype(jnp.float32) / self._units}

    def observe(self, state: State) -> jax.Array:
        return jnp.ones((*state.total_regret.shape, 1, 1), jnp.float32)

    def observation_spec(self) -> specs.Bounded:
        return specs.Bounded((1, 1), np.float32, 1, 1, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(self.num_actions, name="action")

    @property
    def _units(self) -> np.float32:
        return np.float32(self.num_actions - 1)

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        canvas = Arms(self.num_actions, 0.0, 1.0).draw(canvas, state.arms)
        # The regret in tenths.
        regret = jnp.round(10 * state.total_regret.astype(jnp.float32) / self._units).astype(jnp.int32)
        canvas = canvas.text("REGRET", 0.7, 0.15, 0.7, INK).text(".", 8.6, 0.15, 0.7, INK)
        canvas = canvas.number(jax.lax.div(regret, np.int32(10)), 8.5, 0.15, 0.7, INK, digits=6, align=1)
        return canvas.number(jax.lax.rem(regret, np.int32(10)), 9.3, 0.15, 0.7, INK, digits=1, align=1)
