"""Decide once whether to take an umbrella, and receive the outcome at the end of a long chain of random rewards.

Reference: bsuite 0.3.6 ``umbrella_length`` and ``umbrella_distract`` (tests/envs/bsuite/test_umbrella_chain.py).
Paper: Osband et al. (2020), "Behaviour Suite for Reinforcement Learning", arXiv:1908.03568.

Observation   float32[1, 3 + n_distractor]   whether an umbrella is needed, whether one is held, remaining time from 1
                                             to 0, and n_distractor fair coins, redrawn in every step
Action        int32                          1 takes the umbrella, 0 does not; only the first action matters
Reward        1 or -1 by a fair coin; in the last step 1 if held and needed agree, else -1
Starts        needed and held by fair coins
Terminates    with step chain_length
Time limit    none
env_info      total_regret: float32, 2 for every wrong choice, accumulated over the episodes of a lane
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import Canvas
from jaxenv.core import Task, Transition
from jaxenv.envs.bsuite import _chains
from jaxenv.tree import Tree


@tree.struct
class Params:
    """A scalar, or ``[B]`` for one value per lane."""

    chain_length: int = tree.leaf(default=10, unit="steps", low=1)


@tree.struct
class State:
    """The task of an episode, the coins of the last step, and a counter."""

    time: jax.Array  # int32[B], steps taken
    needed: jax.Array  # bool[B]
    held: jax.Array  # bool[B]
    coins: tuple[jax.Array, ...]  # uint32[B] words of 32 coins: two for the task, then the distractors
    failures: jax.Array  # int32[B], wrong choices in all episodes


class UmbrellaChain(Task):
    """Umbrella chain; the module docstring is the specification."""

    params: Params = Params()
    n_distractor: int = tree.static(default=0, low=0, doc="number of coins in the observation without information")
    finite_observation = True
    action_names = ("leave", "take")

    def initial(self, stream: random.Stream) -> State:
        words = self._words(stream)
        both = _chains.flips(words[:1], 2)
        lanes = jnp.zeros(stream.shape, jnp.int32)
        return State(lanes, needed=both[:, 0], held=both[:, 1], coins=words, failures=lanes)

    def carry(self, old: Tree, new: Tree) -> Tree:
        return tree.rebuild(new, failures=old.failures)

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        return self.advance(state, action, self._words(stream))

    def advance(self, state: State, action: jax.Array, words: tuple[jax.Array, ...]) -> Transition:
        """Takes one step, given its coins: the first one determines the reward, the second is unused."""
        held = jnp.where(state.time == 0, action == 1, state.held)
        time = state.time + 1
        ended = time == self.params.chain_length
        failed = held != state.needed
        good = jnp.where(ended, ~failed, _chains.flips(words[:1], 1)[:, 0])
        state = State(time, state.needed, held, words, state.failures + (ended & failed).astype(jnp.int32))
        return Transition(state, 2 * good.astype(jnp.float32) - 1, terminated=ended)

    def observe(self, state: State) -> jax.Array:
        length = self.params.chain_length
        time_left = (length - state.time).astype(jnp.float32) / jnp.asarray(length, jnp.float32)
        head = jnp.stack([state.needed.astype(jnp.float32), state.held.astype(jnp.float32), time_left], axis=-1)
        distractors = self._distractors(state).astype(jnp.float32)
        return jnp.concatenate([head, distractors], axis=-1)[:, None]

    def state_info(self, state: State) -> dict[str, Tree]:
        return {"total_regret": np.float32(2) * state.failures.astype(jnp.float32)}

    def observation_spec(self) -> specs.Bounded:
        return specs.Bounded((1, 3 + self.n_distractor), np.float32, 0, 1, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(2, name="action")

    def _words(self, stream: random.Stream) -> tuple[jax.Array, ...]:
        return random.separate_bits(stream, _chains.num_words(2 + self.n_distractor))

    def _distractors(self, state: State) -> jax.Array:
        return _chains.flips(state.coins, 2 + self.n_distractor)[:, 2:]

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        canvas = _chains.umbrella(canvas, state.needed, state.held)
        canvas = _chains.coins(canvas, self._distractors(state))
        return _chains.steps_left(canvas, state.time, self.params.chain_length)
