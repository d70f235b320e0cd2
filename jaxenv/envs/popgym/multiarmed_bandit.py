"""Find the arm that pays most often; each episode draws new arms, and the observation shows neither arm nor time.

Reference: POPGym 1.0.7 ``MultiarmedBandit`` (tests/envs/popgym/test_parity.py).
Paper: Morad et al. (2023), "POPGym: Benchmarking Partially Observable Reinforcement Learning", arXiv:2303.01859.

Observation   int32        1 if the last arm paid, else 0; with observability="full" float32[num_bandits], the
                           probability with which each arm pays
Action        int32        the arm to pull; a policy needs its last action too
Reward        1 / time_limit if the arm pays, otherwise the negative
Starts        with probabilities uniform in [0, 1)
Terminates    never
Time limit    the option time_limit
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import Canvas
from jaxenv.core import Transition
from jaxenv.envs._arms import Arms
from jaxenv.envs._drawing import timeline
from jaxenv.envs.popgym import _deck
from jaxenv.envs.popgym._partly_observed import PartlyObserved


@tree.struct
class State:
    """The arms of an episode, and the last pull."""

    probabilities: jax.Array  # float32[B, num_bandits]
    arm: jax.Array  # int32[B], the last one
    paid: jax.Array  # int32[B], 1 if it paid
    time: jax.Array  # int32[B], steps taken


class MultiarmedBandit(PartlyObserved):
    """Multi-armed bandit; the module docstring is the specification."""

    reset_strategy = {"cpu": "cond", "default": "select"}
    num_bandits: int = tree.static(default=10, low=1, doc="number of arms")
    time_limit: int = tree.static(default=200, low=1, doc="steps of an episode")

    def initial(self, stream: random.Stream) -> State:
        none = jnp.zeros(stream.shape, jnp.int32)
        return State(random.uniform(stream, (self.num_bandits,)), none, none, none)

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        return self.advance(state, action, random.uniform(stream))

    def advance(self, state: State, action: jax.Array, noise: jax.Array) -> Transition:
        """Pulls an arm, which pays if ``noise``, float32 ``[B]`` in [0, 1), is below its probability."""
        pays = noise < _deck.chosen(state.probabilities, action)
        state = State(state.probabilities, action, pays.astype(jnp.int32), state.time + 1)
        return Transition(state, _deck.right_or_wrong(pays, 1 / self.time_limit), jnp.zeros_like(pays))

    def observe(self, state: State) -> jax.Array:
        return state.probabilities if self.is_full else state.paid

    def observation_spec(self) -> specs.Bounded:
        if self.is_full:
            return specs.Bounded((self.num_bandits,), np.float32, 0, 1, "probabilities")
        return specs.discrete(2, name="paid")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(self.num_bandits, name="action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        arms = Arms(self.num_bandits, 0.0, 1.0)
        canvas = arms.draw(canvas, state.probabilities)
        canvas = arms.draw_pull(canvas, state.arm, state.paid.astype(jnp.float32), state.time > 0)
        return timeline(canvas, 0.7, 9.3, 0.5, state.time.astype(jnp.float32) / np.float32(self.time_limit))
