"""Drive a taxi through a small town: pick up the passenger and drop them off at their destination.

Reference: Gymnasium ``Taxi-v4`` (tests/envs/toy_text/test_taxi.py).
Paper: Dietterich (2000), "Hierarchical reinforcement learning with the MAXQ value function decomposition",
doi:10.1613/jair.639; section 7.1 defines rain and the fickle passenger.

Observation   int32        ((row * 5 + column) * 5 + passenger) * 4 + destination
Action        int32        0 south, 1 north, 2 east, 3 west, 4 pick up, 5 drop off
Reward        20 for dropping off at the destination, -10 for an impossible pick-up or drop-off, -1 otherwise
Starts        uniform over 300 states: any cell, the passenger at one of four stops, another stop as the destination
Terminates    when the passenger is dropped off at the destination
Time limit    200 (registry)
env_info      prob: float32, the outcome's probability, 1 at the start; action_mask: bool[6], what changes the state

The passenger is at stop 0 to 3 (red, green, yellow, blue) or in the taxi (4), and can be dropped off at any stop. In
rain the taxi moves as intended with probability rainy_probability, otherwise to the left or to the right with equal
probability; if the way ahead is blocked, it stays. With probability fickle_probability, drawn at the start, a fickle
passenger switches to one of the other stops, drawn uniformly, when the taxi first moves with them inside.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import BLACK, BLUE, GOLD, GREEN, INK, NIGHT, PINK, RED, SILVER, SKY, WHITE, Canvas, mix
from jaxenv.core import Transition, take_rows, toward
from jaxenv.envs._bitmap import lookup
from jaxenv.envs._drawing import flag, person, place
from jaxenv.envs.toy_text import tabular
from jaxenv.envs.toy_text.tabular import Outcome, Tabular, div_mod

# Cells that have no wall to the east.
_OPEN_TO_EAST = np.array([[1, 0, 1, 1, 0], [1, 0, 1, 1, 0], [1, 1, 1, 1, 0], [0, 1, 0, 1, 0], [0, 1, 0, 1, 0]], bool)
_OPEN_TO_WEST = np.roll(_OPEN_TO_EAST, 1, axis=1)
_STOPS = (0, 4, 20, 23)  # cells, 5 * row + column
_SOUTH, _NORTH, _EAST, _WEST, _PICK_UP, _DROP_OFF = range(6)
_IN_TAXI = np.int32(4)
# The directions to the left and to the right of each direction, packed with two bits per entry.
_LEFT_OF, _RIGHT_OF = (
    np.int32(sum(side << (2 * ahead) for ahead, side in enumerate(sides)))
    for sides in ((_EAST, _WEST, _NORTH, _SOUTH), (_WEST, _EAST, _SOUTH, _NORTH))
)


@tree.struct
class Params:
    """Probabilities: one value for all lanes, or ``[B]`` for one per lane."""

    rainy_probability: float = tree.leaf(default=0.8, low=0, high=1, doc="of moving as intended in rain")
    fickle_probability: float = tree.leaf(default=0.3, low=0, high=1, doc="that a passenger changes the destination")


@tree.struct
class State(tabular.State):
    """The observable state, the probability of the last draw and the passenger's intention."""

    fickle: Any = ()  # bool[B], whether the destination is still to change; () without fickle passengers


class Taxi(Tabular):
    """The taxi; the module docstring is the specification."""

    params: Params = Params()
    is_rainy: bool = tree.static(default=False, doc="whether the taxi may move to the side")
    fickle_passenger: bool = tree.static(default=False, doc="whether passengers may change their destination")
    action_names = ("south", "north", "east", "west", "pick up", "drop off")

    def initial(self, stream: random.Stream) -> State:
        start, fickle = random.separate_bits(stream, 2)
        drawn = random.high_product(start, jnp.full_like(start, 300)).astype(jnp.int32)
        cell, trip = div_mod(drawn, 12)
        passenger, destination = div_mod(trip, 3)
        index = _encode(cell, passenger, _other_than(passenger, destination))
        is_fickle = random.unit(fickle) < self.params.fickle_probability
        return State(index, self.stored_prob(1, stream.shape), is_fickle if self.fickle_passenger else ())

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        out = self.outcome(state.index, action, self.choose(stream))
        index, fickle = out.index, state.fickle
        if self.fickle_passenger:
            cell, passenger, destination = _decode(state.index)
            new_cell, new_passenger, _ = _decode(index)
            changes = fickle & (passenger == _IN_TAXI) & (new_cell != cell)
            new_destination = _other_than(destination, self.reconsider(stream))
            index = jnp.where(changes, _encode(new_cell, new_passenger, new_destination), index)
            fickle &= ~changes
        return Transition(State(index, self.stored_prob(out.prob, index.shape), fickle), out.reward, out.terminated)

    def reconsider(self, stream: random.Stream) -> jax.Array:
        """Draws which of the other three stops, in order, a fickle passenger switches to: int32 ``[B]``, 0 to 2."""
        word = random.separate_bits(stream, 2)[1]  # the first word belongs to `choose`
        return random.high_product(word, jnp.full_like(word, 3)).astype(jnp.int32)

    def outcome(self, index: jax.Array, action: jax.Array, choice: jax.Array) -> Outcome:
        cell, passenger, destination = _decode(index)
        drives = action < _PICK_UP
        ways = _open_directions(cell)
        heading = action
        prob: Any = np.float32(1)
        if self.is_rainy:
            likely, unlikely, _ = self.chances()
            prob = jnp.where(choice == 0, likely, unlikely)
            aside = jnp.where(choice == 1, _LEFT_OF, _RIGHT_OF) >> (2 * (action & 3)) & 3
            # A taxi whose way ahead is blocked does not drift to the side either.
            heading = jnp.where((choice == 0) | ~drives | ~_is_open(ways, action), action, aside)
        step = 5 * toward(heading, _SOUTH, _NORTH) + toward(heading, _EAST, _WEST)
        new_cell = cell + jnp.where(_is_open(ways, heading), step, 0)

        stop = _stop(cell)
        boards = (action == _PICK_UP) & (passenger == stop)
        alights = (action == _DROP_OFF) & (passenger == _IN_TAXI) & (stop >= 0)
        arrives = alights & (stop == destination)
        passenger = jnp.where(boards, _IN_TAXI, jnp.where(alights, stop, passenger))
        reward = jnp.where(drives | boards | alights, np.float32(-1), np.float32(-10))
        reward = jnp.where(arrives, np.float32(20), reward)
        prob = jnp.where(drives, prob, np.float32(1))
        return Outcome(_encode(new_cell, passenger, destination), reward, arrives, prob)

    def chances(self, of: Callable[[Any], Any] = lambda param: param) -> tuple[Any, ...]:
        ahead = of(self.params.rainy_probability)
        aside = (1 - ahead) / 2
        return (ahead, aside, aside) if self.is_rainy else (1.0,)

    def mdp(self, lane: int | None = None) -> Any:
        if self.fickle_passenger:
            why = "the next state also depends on whether the passenger may still change the destination"
            raise ValueError(f"{self}: mdp needs fickle_passenger=False, got True: {why}, which is not observed")
        return super().mdp(lane)

    def first_states(self) -> np.ndarray:
        index = np.arange(500, dtype=np.int32)
        passenger, destination = index // 4 % 5, index % 4
        return index[(passenger < 4) & (passenger != destination)]

    def state_info(self, state: State) -> dict[str, jax.Array]:
        cell, passenger, _ = _decode(state.index)
        stop = _stop(cell)
        boards = passenger == stop
        alights = (passenger == _IN_TAXI) & (stop >= 0)
        mask = {"action_mask": jnp.stack([*_open_directions(cell), boards, alights], axis=-1)}
        return super().state_info(state) | mask

    def observation_spec(self) -> specs.Bounded:
        return specs.discrete(500, name="observation")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(6, name="action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        cell, passenger, destination = _decode(state.index)
        grid, stops = (5, 5), np.array(_STOPS, np.int32)
        walls = (~_OPEN_TO_EAST & (np.arange(5) < 4)).astype(np.int32) + 2 * (~_OPEN_TO_WEST & (np.arange(5) > 0))
        town = np.zeros(25, np.int32)
        town[list(_STOPS)] = range(1, 5)
        road = _wet_road if self.is_rainy else _road
        canvas = canvas.fill(NIGHT).tiles(np.zeros((1, *grid), np.int32), [road])
        canvas = canvas.tiles(town.reshape(1, *grid), [None, *_PAINTED_STOPS])
        canvas = canvas.tiles(walls[None], [None, *_WALLS])
        changes = state.fickle.astype(jnp.int32) if self.fickle_passenger else 0
        flags = [None, _destination, lambda c: _destination(c).text("?", 0.66, 0.14, 0.26, WHITE)]
        canvas = canvas.tiles(place(take_rows(stops, destination), grid, 1 + changes), flags)
        inside = passenger == _IN_TAXI
        waits_at = jnp.where(inside, -1, take_rows(stops, jnp.minimum(passenger, 3)))
        canvas = canvas.tiles(place(waits_at, grid), [None, lambda c: person(c, PINK)])
        taxi = place(cell, grid, 1 + inside.astype(jnp.int32))
        return canvas.tiles(taxi, [None, _taxi, _occupied_taxi])


def _decode(index: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    rest, destination = div_mod(index, 4)
    return *div_mod(rest, 5), destination


def _encode(cell: jax.Array, passenger: jax.Array, destination: jax.Array) -> jax.Array:
    return (5 * cell + passenger) * 4 + destination


def _open_directions(cell: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Returns whether the taxi can leave a cell to the south, north, east and west: bool ``[B]`` each."""
    return cell < 20, cell >= 5, lookup(_OPEN_TO_EAST, cell), lookup(_OPEN_TO_WEST, cell)


def _is_open(ways: tuple[jax.Array, ...], direction: jax.Array) -> jax.Array:
    """Returns whether ``direction`` is open; false for actions that are not directions."""
    return functools.reduce(operator.or_, [(direction == number) & way for number, way in enumerate(ways)])


def _stop(cell: jax.Array) -> jax.Array:
    """Returns the stop in a cell, 0 to 3, or -1: int32 ``[B]``."""
    stop = jnp.full_like(cell, -1)
    for number, stop_cell in enumerate(_STOPS):
        stop = jnp.where(cell == stop_cell, np.int32(number), stop)
    return stop


def _other_than(stop: jax.Array, index: jax.Array) -> jax.Array:
    """Returns the stop at position ``index`` (0 to 2) among the three stops other than ``stop``."""
    return index + (index >= stop).astype(jnp.int32)


# --- the picture -----------------------------------------------------------------------------------------------------

_PAINTED_STOPS = [lambda c, p=p: c.box(0.5, 0.5, 0.84, 0.84, p, corner=0.12) for p in (RED, GREEN, GOLD, BLUE)]
_WALLS = [lambda c, x=x: c.box(x, 0.5, 0.16, 1, SILVER) for x in (1, 0)]  # to the east, to the west


def _road(canvas: Canvas) -> Canvas:
    return canvas.box(0.5, 0.5, 1, 1, mix(NIGHT, WHITE, 0.14)).disc(0.5, 0.5, 0.04, mix(NIGHT, WHITE, 0.4))


def _wet_road(canvas: Canvas) -> Canvas:
    """Paints a road in the rain."""
    canvas = _road(canvas)
    for x, y in ((0.2, 0.85), (0.7, 0.9), (0.45, 0.5), (0.9, 0.45), (0.15, 0.25), (0.65, 0.2)):
        canvas = canvas.line(x, y, x - 0.06, y - 0.14, 0.03, mix(SKY, NIGHT, 0.35))
    return canvas


def _destination(canvas: Canvas) -> Canvas:
    corners = [(0.1, 0.1), (0.9, 0.1), (0.9, 0.9), (0.1, 0.9)]
    return flag(canvas.path(corners, 0.08, WHITE, closed=True), WHITE, INK)


def _taxi(canvas: Canvas) -> Canvas:
    """Paints an empty taxi."""
    for border, paint in ((0.04, INK), (0.0, GOLD)):
        canvas = canvas.polygon([(0.2, 0.42), (0.32, 0.74), (0.68, 0.74), (0.8, 0.42)], paint, corner=0.04 + border)
        canvas = canvas.box(0.5, 0.38, 0.88 + 2 * border, 0.28 + 2 * border, paint, corner=0.1)
    canvas = canvas.polygon([(0.28, 0.5), (0.36, 0.7), (0.64, 0.7), (0.72, 0.5)], SKY)
    for x in (0.27, 0.73):
        canvas = canvas.disc(x, 0.24, 0.13, BLACK).disc(x, 0.24, 0.05, SILVER)
    return canvas


def _occupied_taxi(canvas: Canvas) -> Canvas:
    """Paints a taxi with the passenger in its window."""
    return _taxi(canvas).disc(0.5, 0.6, 0.1, PINK).box(0.5, 0.49, 0.26, 0.06, PINK)
