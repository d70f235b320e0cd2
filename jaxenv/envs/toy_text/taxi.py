"""Drive a taxi through a small town: pick up the passenger and drop them off where they want to go.

Reference: Gymnasium ``Taxi-v4`` (tests/envs/toy_text/test_taxi.py).
Paper: Dietterich (2000), "Hierarchical reinforcement learning with the MAXQ value function decomposition",
doi:10.1613/jair.639; rain and the fickle passenger are those of its section 7.1.

Observation   int32        ((row * 5 + column) * 5 + passenger) * 4 + destination
Action        int32        0 south, 1 north, 2 east, 3 west, 4 pick up, 5 drop off
Reward        20 for dropping off at the destination, -10 for picking up or dropping off where that is not possible,
              else -1
Starts        in any cell, the passenger at one of the four stops and bound for another: 300 states, each as likely
Terminates    with the passenger dropped off at the destination
Time limit    200 (registry)
env_info      prob: float32, the probability of the outcome that happened; action_mask: bool[6], the actions that
              change something

The passenger is at stop 0 to 3 (red, green, yellow, blue) or, 4, in the taxi, and may be let out at any stop. In rain
the taxi moves as intended with probability rainy_probability, else to the left or the right, each as likely; where the
way ahead is blocked, it stays. A fickle passenger (with probability fickle_probability, decided at the start) turns to
one of the other stops, each as likely, as soon as the taxi has first moved with them inside.
"""

import functools
import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv._actions import toward
from jaxenv._checks import is_concrete
from jaxenv.envs.toy_text.tabular import Outcome, Tabular, marked, split
from jaxenv.task import Transition

# Cells from which the next one to the east can be reached.
_OPEN_TO_EAST = np.array([[1, 0, 1, 1, 0], [1, 0, 1, 1, 0], [1, 1, 1, 1, 0], [0, 1, 0, 1, 0], [0, 1, 0, 1, 0]], bool)
_OPEN_TO_WEST = np.roll(_OPEN_TO_EAST, 1, axis=1)
_STOPS = (0, 4, 20, 23)  # cells, 5 * row + column
_SOUTH, _NORTH, _EAST, _WEST, _PICK_UP, _DROP_OFF = range(6)
_IN_TAXI = np.int32(4)
# The direction to the left and the right of each, two bits an entry.
_LEFT_OF, _RIGHT_OF = (
    np.int32(sum(side << (2 * ahead) for ahead, side in enumerate(sides)))
    for sides in ((_EAST, _WEST, _NORTH, _SOUTH), (_WEST, _EAST, _SOUTH, _NORTH))
)


@tree.struct
class Params:
    """Numbers of the task, the same for all lanes or one each."""

    rainy_probability: float = 0.8  # of moving as intended, where it rains
    fickle_probability: float = 0.3  # of a passenger who will change the destination, where they may


@tree.struct
class State:
    """``number``: of the state, int32 ``[B]``. ``fickle``: whether the destination is still to change, bool ``[B]``."""

    number: jax.Array
    fickle: Any  # () without fickle passengers


class Taxi(Tabular):
    """The taxi; see the module.

    Attributes:
        is_rainy: whether the taxi may move to the side.
        fickle_passenger: whether passengers may change their destination.
    """

    params: Params = Params()
    is_rainy: bool = tree.static(default=False)
    fickle_passenger: bool = tree.static(default=False)

    def check(self):
        for name in ("rainy_probability", "fickle_probability"):
            p = getattr(self.params, name)
            if is_concrete(p) and not np.all((np.asarray(p) >= 0) & (np.asarray(p) <= 1)):
                raise ValueError(f"{self}: {name} must lie in [0, 1], got {p}")

    def initial(self, stream):
        start, fickle = random.separate_bits(stream, 2)
        index = random.high_product(start, jnp.full_like(start, 300)).astype(jnp.int32)
        cell, trip = split(index, 12)
        passenger, destination = split(trip, 3)
        number = _number(cell, passenger, _other_than(passenger, destination))
        likely = random.unit(fickle) < self.params.fickle_probability
        return State(number, likely if self.fickle_passenger else ())

    def transition(self, state, action, stream):
        out = self.outcome(state.number, action, self.choose(stream))
        number, fickle = out.number, state.fickle
        if self.fickle_passenger:
            cell, passenger, destination = _parts(state.number)
            new_cell, now, _ = _parts(number)
            changes = fickle & (passenger == _IN_TAXI) & (new_cell != cell)
            number = jnp.where(
                changes, _number(new_cell, now, _other_than(destination, self.reconsider(stream))), number
            )
            fickle &= ~changes
        return Transition(State(number, fickle), out.reward, out.terminated, {"prob": out.prob})

    def reconsider(self, stream: random.Stream) -> jax.Array:
        """Which of the other three stops, in their order, a fickle passenger turns to: int32 ``[B]``, 0 to 2."""
        word = random.separate_bits(stream, 2)[1]  # the first is that of `choose`
        return random.high_product(word, jnp.full_like(word, 3)).astype(jnp.int32)

    def outcome(self, number, action, choice):
        cell, passenger, destination = _parts(number)
        drives = action < _PICK_UP
        ways = _ways(cell)
        heading = action
        if self.is_rainy:
            aside = jnp.where(choice == 1, _LEFT_OF, _RIGHT_OF) >> (2 * (action & 3)) & 3
            # Where the way ahead is blocked the taxi does not drift either.
            heading = jnp.where((choice == 0) | ~drives | ~_among(ways, action), action, aside)
        step = 5 * toward(heading, _SOUTH, _NORTH) + toward(heading, _EAST, _WEST)
        new_cell = cell + jnp.where(_among(ways, heading), step, 0)

        stop = _stop(cell)
        boards = (action == _PICK_UP) & (passenger == stop)
        alights = (action == _DROP_OFF) & (passenger == _IN_TAXI) & (stop >= 0)
        arrives = alights & (stop == destination)
        passenger = jnp.where(boards, _IN_TAXI, jnp.where(alights, stop, passenger))
        reward = jnp.where(drives | boards | alights, np.float32(-1), np.float32(-10))
        reward = jnp.where(arrives, np.float32(20), reward)
        prob = jnp.where(drives, self._prob(choice), np.float32(1))
        return Outcome(_number(new_cell, passenger, destination), reward, arrives, prob)

    def _prob(self, choice):
        p = self.params.rainy_probability
        return jnp.where(choice == 0, p, (1 - p) / 2) if self.is_rainy else np.float32(1)

    def probabilities(self):
        if not self.is_rainy:
            return np.ones(1)
        p = np.asarray(self.params.rainy_probability, np.float64)
        return np.stack([p, (1 - p) / 2, (1 - p) / 2])

    def choose(self, stream):
        if not self.is_rainy:
            return super().choose(stream)
        p = self.params.rainy_probability
        u = random.uniform(stream)
        return (u >= p).astype(jnp.int32) + (u >= p + (1 - p) / 2).astype(jnp.int32)

    def mdp(self, lane=None):
        if self.fickle_passenger:
            raise ValueError(
                f"{self}: with fickle_passenger the next state depends on more than the observation, on whether this "
                "passenger may still change the destination: there is no table of the 500 observations"
            )
        return super().mdp(lane)

    def first_states(self):
        number = np.arange(500, dtype=np.int32)
        passenger, destination = number // 4 % 5, number % 4
        return number[(passenger < 4) & (passenger != destination)]

    def state_info(self, state):
        cell, passenger, _ = _parts(state.number)
        stop = _stop(cell)
        boards = passenger == stop
        alights = (passenger == _IN_TAXI) & (stop >= 0)
        return {"action_mask": jnp.stack([*_ways(cell), boards, alights], axis=-1)}

    def observation_spec(self):
        return specs.discrete(500, name="observation")

    def action_spec(self):
        return specs.discrete(6, name="action")


def _parts(number: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Cell of the taxi (5 * row + column), passenger and destination of a state."""
    rest, destination = split(number, 4)
    return *split(rest, 5), destination


def _number(cell: jax.Array, passenger: jax.Array, destination: jax.Array) -> jax.Array:
    return (5 * cell + passenger) * 4 + destination


def _ways(cell: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Which of the directions lead from a cell to another one: bool ``[B]`` each."""
    return cell < 20, cell >= 5, marked(_OPEN_TO_EAST, cell), marked(_OPEN_TO_WEST, cell)


def _among(ways: tuple[jax.Array, ...], direction: jax.Array) -> jax.Array:
    """Whether the way in a direction is open; for actions that are no direction none is."""
    return functools.reduce(operator.or_, [(direction == number) & way for number, way in enumerate(ways)])


def _stop(cell: jax.Array) -> jax.Array:
    """The stop in a cell, 0 to 3, or -1: int32 ``[B]``."""
    stop = jnp.full_like(cell, -1)
    for number, at in enumerate(_STOPS):
        stop = jnp.where(cell == at, np.int32(number), stop)
    return stop


def _other_than(stop: jax.Array, index: jax.Array) -> jax.Array:
    """The stop number ``index`` (0 to 2) among the three that are not ``stop``."""
    return index + (index >= stop).astype(jnp.int32)
