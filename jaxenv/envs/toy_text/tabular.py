"""Tasks with finitely many states, their exact transition tables, and value iteration.

A subclass of `Tabular` defines the effect and the probability of each of a few outcomes of an action. A step draws one
outcome; `Tabular.mdp` enumerates all of them, so the table describes the code that runs. The tests of
tests/envs/toy_text/ compare every entry of the tables with Gymnasium's ``env.unwrapped.P``.
"""

import abc
import dataclasses
import functools
import itertools
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv._util.programs import jitted
from jaxenv.core import Task, Transition, check_integer, check_real
from jaxenv.core._declared import declared_leaves, map_declared

_MAX_ITERATIONS = 20_000


@dataclasses.dataclass(frozen=True)
class MDP:
    """A finite Markov decision process of S states and A actions, as NumPy arrays float64 or bool."""

    P: np.ndarray  # [S, A, S], the probability of each transition
    R: np.ndarray  # [S, A, S], the expected reward of each transition; 0 for impossible ones
    terminated: np.ndarray  # [S, A, S], whether a transition terminates the episode; later rewards are not counted
    start: np.ndarray  # [S], the probability of each initial state


def value_iteration(mdp: MDP, gamma: float = 1.0, horizon: int | None = None) -> np.ndarray:
    """Computes the optimal action values by value iteration: float64 ``[S, A]``.

    ``values.max(axis=-1)`` are the state values, ``values.argmax(axis=-1)`` is an optimal policy. At a ``gamma`` of 1
    that policy may postpone a reward forever; choose ``gamma`` below 1 to obtain a policy that collects it.

    ``horizon`` is the number of remaining steps, ``None`` for no limit. Values that do not converge are a
    ``ValueError``; it can happen at a ``gamma`` of 1 if some policy never terminates.
    """
    check_real("value_iteration", "gamma", gamma, 0, 1)
    if horizon is not None:
        check_integer("value_iteration", "horizon", horizon, 1)
    expected_reward = np.sum(mdp.P * mdp.R, axis=-1)
    continuation = gamma * np.where(mdp.terminated, 0.0, mdp.P)
    values = np.zeros_like(expected_reward)
    for _ in range(_MAX_ITERATIONS if horizon is None else horizon):
        previous, values = values, expected_reward + continuation @ values.max(axis=-1)
        if horizon is None and np.max(np.abs(values - previous)) <= 1e-12 * max(1.0, np.max(np.abs(values))):
            return values
    if horizon is None:
        raise ValueError(f"value_iteration: no convergence in {_MAX_ITERATIONS} iterations at gamma {gamma}")
    return values


@tree.struct
class State:
    """A row of the table, one integer, so that a step writes little; and the probability of the last outcome."""

    index: jax.Array  # int32 [B]
    prob: Any = ()  # float32 [B], 1 at the start; () if always 1


@tree.struct
class Outcome:
    """One possible result of an action, each ``[B]``."""

    index: jax.Array  # int32, the next state
    reward: jax.Array  # float32
    terminated: jax.Array  # bool
    prob: jax.Array  # float32, the probability of this outcome


class Tabular(Task):
    """A task with numbered states, whose actions have a few numbered outcomes of known probabilities.

    The observation is the state's index. ``env_info["prob"]`` is the probability of the outcome that led to the state,
    and 1 at the start of an episode, as in Gymnasium.
    """

    # --- implemented by each task ------------------------------------------------------------------------------------

    @abc.abstractmethod
    def outcome(self, index: jax.Array, action: jax.Array, choice: jax.Array) -> Outcome:
        """Returns the result of ``action`` in state ``index`` if outcome ``choice`` is drawn, int32 ``[B]`` each."""

    def chances(self, of: Callable[[Any], Any] = lambda param: param) -> tuple[Any, ...]:
        """Returns the probabilities of the K outcomes of an action, computed from ``of(param)`` for each param."""
        return (1.0,)

    @property
    def is_random(self) -> bool:
        """Whether an action has more than one outcome."""
        return len(self.chances(lambda _: 0.5)) > 1  # which computes nothing

    def probabilities(self) -> np.ndarray:
        """Returns the probability of each of the K outcomes of one lane: float64 ``[K]``."""
        return np.stack(self.chances(lambda param: np.asarray(param, np.float64)))

    def choose(self, stream: random.Stream) -> jax.Array:
        """Draws an outcome's number: int32 ``[B]``. A deterministic task draws nothing."""
        limits = list(itertools.accumulate(self.chances()))[:-1]
        if not limits:
            return jnp.zeros(stream.shape, jnp.int32)
        u = random.uniform(stream)
        return functools.reduce(operator.add, [(u >= limit).astype(jnp.int32) for limit in limits])

    @abc.abstractmethod
    def first_states(self) -> np.ndarray:
        """Returns the equally likely initial states in ascending order: int32 ``[N]``."""

    # --- the task ----------------------------------------------------------------------------------------------------

    def check_level(self, level: State) -> None:
        index, last = np.asarray(level.index), self.observation_spec().num_values - 1
        if np.any((index < 0) | (index > last)):
            outside = index[(index < 0) | (index > last)][0]
            raise ValueError(f"{self}: level.index must lie in 0 .. {last}, got {outside}")

    def initial(self, stream: random.Stream) -> State:
        first = self.first_states()
        if len(first) == 1:
            return State(jnp.full(stream.shape, first[0]), self.stored_prob(1, stream.shape))
        index = jnp.asarray(first)[random.integers(stream, (), 0, len(first))]
        return State(index, self.stored_prob(1, stream.shape))

    def transition(self, state: Any, action: jax.Array, stream: random.Stream) -> Transition:
        out = self.outcome(state.index, action, self.choose(stream))
        return Transition(State(out.index, self.stored_prob(out.prob, out.index.shape)), out.reward, out.terminated)

    def observe(self, state: State) -> jax.Array:
        return state.index

    def state_info(self, state: Any) -> dict[str, jax.Array]:
        return {"prob": state.prob if self.is_random else jnp.ones(state.index.shape, jnp.float32)}

    def stored_prob(self, prob: Any, shape: tuple[int, ...]) -> Any:
        """Returns a probability in the form that the state keeps."""
        return jnp.broadcast_to(jnp.asarray(prob, jnp.float32), shape) if self.is_random else ()

    def mdp(self, lane: int | None = None) -> MDP:
        """Returns the exact table of the task, 17 bytes for each of its S * A * S entries; see `MDP`.

        ``lane`` is the one whose params are used; required if params differ by lane.
        """
        if lane is not None:
            check_integer(f"{self}", "lane", lane, 0, self.num_envs - 1)
        env: Tabular = self
        if per_lane := [d.path for d in declared_leaves(self) if d.per_lane]:
            if lane is None:
                raise ValueError(f"{self}: {per_lane[0]} differs by lane, so mdp needs a lane, got None")
            env = map_declared(lambda d: np.asarray(d.value)[lane] if d.per_lane else d.value, self)
        probabilities = env.probabilities()
        after, reward, terminated, _ = every_outcome(env)
        num_states, num_actions, _ = after.shape
        grid = np.indices(after.shape)
        state, action, choice = grid[0], grid[1], grid[2]
        possible = probabilities[choice] > 0
        probability = probabilities[choice][possible]
        entries = (state[possible], action[possible], after[possible])

        shape = (num_states, num_actions, num_states)
        P, R, terminates, start = np.zeros(shape), np.zeros(shape), np.zeros(shape, bool), np.zeros(num_states)
        np.add.at(P, entries, probability)
        np.add.at(R, entries, probability * reward[possible])
        np.divide(R, P, out=R, where=P > 0)
        terminates[entries] = terminated[possible]
        start[self.first_states()] = 1 / len(self.first_states())
        return MDP(P, R, terminates, start)


def every_outcome(env: Tabular) -> tuple[np.ndarray, ...]:
    """Enumerates all outcomes of all actions in all states: next state, reward, end and probability, ``[S, A, K]``."""
    observations, actions = env.observation_spec(), env.action_spec()
    counts = observations.num_values, actions.num_values, len(env.probabilities())
    outcomes = _outcomes(env, *np.indices(counts, np.int32).reshape(3, -1))
    return tuple(np.asarray(x).reshape(counts) for x in outcomes)


@jitted
def _outcomes(env: Tabular, index: jax.Array, action: jax.Array, choice: jax.Array) -> tuple[jax.Array, ...]:
    out = env.outcome(index, action, choice)
    return tuple(jnp.broadcast_to(x, index.shape) for x in (out.index, out.reward, out.terminated, out.prob))


def slip(action: jax.Array, choice: jax.Array) -> jax.Array:
    """Returns the direction before, at or after ``action`` in circular order, for choice 0, 1 or 2."""
    return (action + choice + np.int32(3)) & np.int32(3)


def div_mod(index: jax.Array, base: int) -> tuple[jax.Array, jax.Array]:
    """Returns quotient and remainder of non-negative integers, cheaper than ``//`` and ``%``, which handle signs."""
    quotient = jax.lax.div(index, np.int32(base))
    return quotient, index - quotient * np.int32(base)
