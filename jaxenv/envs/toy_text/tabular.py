"""Environments of finitely many states, the exact tables of their transitions, and value iteration on those.

An author writes what each of a few numbered outcomes of an action does and how likely each is (`Tabular`). A step
draws the number of one outcome; `Tabular.mdp` goes through all of them, so that the table is that of the very code
that plays. tests/envs/toy_text/ holds the tables to Gymnasium's ``env.unwrapped.P``, entry by entry.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv._declared import declared_leaves, map_declared
from jaxenv.random import Stream
from jaxenv.task import Task, Transition

_MOST_ROUNDS = 20_000  # of value iteration
_WORD = 32  # bits
_MOST_WORDS = 32  # of a table that is not looked up in memory


@dataclasses.dataclass(frozen=True)
class MDP:
    """A finite Markov decision process of S states and A actions, as NumPy arrays.

    Attributes:
        P: float64 ``[S, A, S]``, the probability of each next state.
        R: float64 ``[S, A, S]``, the expected reward of that transition; 0 where it cannot happen.
        terminated: bool ``[S, A, S]``, whether that transition ends the episode. What follows an end counts nothing.
        start: float64 ``[S]``, the probability of each first state.
    """

    P: np.ndarray
    R: np.ndarray
    terminated: np.ndarray
    start: np.ndarray


def value_iteration(mdp: MDP, gamma: float = 1.0, horizon: int | None = None) -> np.ndarray:
    """The value of every action, followed by the best ones: float64 ``[S, A]``, by value iteration.

    ``values.max(axis=-1)`` are the values of the states, ``values.argmax(axis=-1)`` a best policy. At a ``gamma`` of 1
    such a policy may put off for ever what it could have at once: take it at a ``gamma`` below 1.

    Args:
        mdp: from `Tabular.mdp`.
        gamma: what a reward one step later counts, in [0, 1].
        horizon: how many steps are left, after which nothing counts; ``None`` for no limit.

    Raises:
        ValueError: if ``gamma`` is not in [0, 1], ``horizon`` is below 1, or values do not settle: at a ``gamma`` of 1
            they need not where some policy never ends.
    """
    if not 0 <= gamma <= 1:
        raise ValueError(f"value_iteration: gamma must lie in [0, 1], got {gamma}")
    if horizon is not None and horizon < 1:
        raise ValueError(f"value_iteration: horizon must be at least 1 or None, got {horizon}")
    expected = np.sum(mdp.P * mdp.R, axis=-1)
    goes_on = gamma * np.where(mdp.terminated, 0.0, mdp.P)
    values = np.zeros_like(expected)
    for _ in range(_MOST_ROUNDS if horizon is None else horizon):
        last, values = values, expected + goes_on @ values.max(axis=-1)
        if horizon is None and np.max(np.abs(values - last)) <= 1e-12 * max(1.0, np.max(np.abs(values))):
            return values
    if horizon is None:
        raise ValueError(f"value_iteration: no limit was found in {_MOST_ROUNDS} rounds at gamma {gamma}")
    return values


@tree.struct
class State:
    """``number``: int32 ``[B]``, of the state. One number and not its parts: a step writes as little as it can."""

    number: jax.Array


@tree.struct
class Outcome:
    """One of the things that an action may lead to, each ``[B]``."""

    number: jax.Array  # int32, of the next state
    reward: jax.Array  # float32
    terminated: jax.Array  # bool
    prob: jax.Array  # float32, how likely this was


class Tabular(Task):
    """An environment whose states can be numbered and whose actions have a few outcomes of known probabilities.

    The observation is the number of the state, ``env_info["prob"]`` the probability of the outcome that happened.
    """

    # --- what an author writes ---------------------------------------------------------------------------------------

    def outcome(self, number: jax.Array, action: jax.Array, choice: jax.Array) -> Outcome:
        """What happens in state ``number`` if outcome ``choice`` of ``action`` is drawn, int32 ``[B]`` each."""
        raise NotImplementedError(f"{type(self).__name__}.outcome")

    def probabilities(self) -> np.ndarray:
        """How likely each outcome is: float64 ``[K]``; params are those of one lane."""
        return np.ones(1)

    def choose(self, stream: Stream) -> jax.Array:
        """Draws the number of an outcome: int32 ``[B]``. Without a choice nothing is drawn."""
        return jnp.zeros(stream.shape, jnp.int32)

    def first_states(self) -> np.ndarray:
        """Numbers of the states in which an episode may start, all as likely: int32 ``[N]``, in rising order."""
        raise NotImplementedError(f"{type(self).__name__}.first_states")

    # --- the environment ---------------------------------------------------------------------------------------------

    def initial(self, stream):
        first = self.first_states()
        if len(first) == 1:
            return State(jnp.full(stream.shape, first[0]))
        return State(jnp.asarray(first)[random.integers(stream, (), 0, len(first))])

    def transition(self, state, action, stream):
        out = self.outcome(state.number, action, self.choose(stream))
        return Transition(State(out.number), out.reward, out.terminated, {"prob": out.prob})

    def observe(self, state):
        return state.number

    def mdp(self, lane: int | None = None) -> MDP:
        """The exact table of the task, 17 bytes for each of its S * A * S entries; see `MDP`.

        Args:
            lane: whose, where params differ by lane.

        Raises:
            ValueError: if params differ by lane and none is named, or if there is no such lane.
        """
        if lane is not None and not 0 <= lane < self.num_envs:
            raise ValueError(f"{self}: mdp needs a lane from 0 to {self.num_envs - 1}, got {lane}")
        env: Tabular = self
        if per_lane := [d.path for d in declared_leaves(self) if d.per_lane]:
            if lane is None:
                raise ValueError(f"{self}: {per_lane[0]} differs by lane: mdp needs a lane, got {lane}")
            env = map_declared(lambda d: np.asarray(d.value)[lane] if d.per_lane else d.value, self)
        probabilities = env.probabilities()
        after, reward, terminated, _ = every_outcome(env)
        num_states, num_actions, _ = after.shape
        grid = np.indices(after.shape)
        state, action, choice = grid[0], grid[1], grid[2]
        possible = probabilities[choice] > 0
        likely = probabilities[choice][possible]
        entries = (state[possible], action[possible], after[possible])

        shape = (num_states, num_actions, num_states)
        P, R, ends, start = np.zeros(shape), np.zeros(shape), np.zeros(shape, bool), np.zeros(num_states)
        np.add.at(P, entries, likely)
        np.add.at(R, entries, likely * reward[possible])
        np.divide(R, P, out=R, where=P > 0)
        ends[entries] = terminated[possible]
        start[self.first_states()] = 1 / len(self.first_states())
        return MDP(P, R, ends, start)


def every_outcome(env: Tabular) -> tuple[np.ndarray, ...]:
    """What every outcome of every action in every state is, each ``[S, A, K]``.

    Returns:
        The number of the next state, the reward, whether the episode ends, and ``env_info["prob"]``.
    """
    counts = *map(_count, (env.observation_spec(), env.action_spec())), len(env.probabilities())
    found = _outcomes(env, *np.indices(counts, np.int32).reshape(3, -1))
    return tuple(np.asarray(x).reshape(counts) for x in found)


@jax.jit
def _outcomes(env: Tabular, number: jax.Array, action: jax.Array, choice: jax.Array) -> tuple[jax.Array, ...]:
    out = env.outcome(number, action, choice)
    return tuple(jnp.broadcast_to(x, number.shape) for x in (out.number, out.reward, out.terminated, out.prob))


def _count(spec: specs.Bounded) -> int:
    return spec.num_values


def marked(table: np.ndarray, cell: jax.Array) -> jax.Array:
    """Whether ``table`` (bool, of any shape) marks each cell (int32 ``[B]``, row by row): bool ``[B]``.

    Small tables are words among the instructions: no memory is looked up.
    """
    flags = np.zeros(-(-table.size // _WORD) * _WORD, bool)
    flags[: table.size] = table.reshape(-1)
    words = np.packbits(flags, bitorder="little").view("<u4").astype(np.uint32)
    which = cell // np.int32(_WORD)
    if len(words) > _MOST_WORDS:
        word = jnp.asarray(words)[which]
    else:
        word = jnp.full(cell.shape, words[0])
        for i, other in enumerate(words[1:], 1):
            word = jnp.where(which == np.int32(i), other, word)
    return (word >> (cell % np.int32(_WORD)).astype(jnp.uint32)) & np.uint32(1) != 0


def slid(action: jax.Array, choice: jax.Array) -> jax.Array:
    """Of four directions in circular order the one before ``action``, ``action`` itself or the next: choice 0, 1, 2."""
    return (action + choice + np.int32(3)) & np.int32(3)


def split(number: jax.Array, base: int) -> tuple[jax.Array, jax.Array]:
    """Quotient and remainder of numbers that are not negative; quicker than ``//``, which looks at signs."""
    quotient = jax.lax.div(number, np.int32(base))
    return quotient, number - quotient * np.int32(base)
