"""Base class of grid worlds with any number of objects: doors, keys, balls, boxes and goals of six colours.

Reference: MiniGrid 3.2.0, ``MiniGridEnv`` and ``WorldObj`` (tests/envs/grid/objects/test_object_world.py).
Paper: Chevalier-Boisvert et al. (2023), "Minigrid & Miniworld: modular & customizable reinforcement learning
environments for goal-oriented tasks", arXiv:2306.13831.

Observation   image and direction as in grid_world.py; mission: uint8[20], a token per word, 0 after the last one, in
              levels whose mission differs between episodes, elsewhere with observe_mission=True
Action        int32        0 turns left, 1 turns right, 2 moves forward, 3 picks up, 4 drops, 5 toggles, 6 does nothing
Reward        success_reward * (1 - time_penalty * min(step / max_steps, 1)) on success, else 0
Starts        see the levels, one file each in this package
Terminates    see the levels
Time limit    max_steps, see grid_world.py

The levels of grid_world.py have at most a goal, a door and a key, each in a separate array, and no list of objects.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv.canvas import Canvas
from jaxenv.core import Transition, in_one_kernel, in_own_kernels
from jaxenv.envs.grid import _object_picture, _view, _whole_grid
from jaxenv.envs.grid._cell_set import CellSet, nth_bit_of
from jaxenv.envs.grid._view import Pose
from jaxenv.envs.grid.grid_world import (
    CARRIED,
    CLOSED,
    DROP,
    FORWARD,
    LOCKED,
    OPEN,
    PICKUP,
    TOGGLE,
    GridWorld,
    cell,
    choice,
    moved,
)

GONE = np.int32(-2)  # position of an object that is not in the grid: a box that was opened, a door that was not built

# MiniGrid's codes of kinds and colours.
DOOR, KEY, BALL, BOX, GOAL = (np.uint32(i) for i in range(4, 9))
RED, GREEN, BLUE, PURPLE, YELLOW, GREY = (np.uint32(i) for i in range(6))
_EMPTY, _WALL = np.uint32(1), np.uint32(2 | GREY << 8)


@tree.struct
class Objects:
    """The objects of every lane, K of them in an order that the level chooses; no two are in the same cell."""

    cell: jax.Array  # int32 [B, K], the cell, CARRIED or GONE
    # uint32 [B, K], kind | colour << 8 | state << 16 | hidden << 24. Only doors have a state; hidden is 1 + the colour
    # of the key in a box, else 0.
    code: jax.Array

    @staticmethod
    def stack(*objects: tuple[Any, Any]) -> "Objects":
        """Returns objects given as pairs of a cell, int32 ``[B]``, and a code, uint32 ``[B]`` or one for all lanes."""
        lanes = objects[0][0].shape
        cells, codes = ([jnp.broadcast_to(x, lanes) for x in column] for column in zip(*objects, strict=True))
        return Objects(jnp.stack(cells, axis=1), jnp.stack(codes, axis=1))

    def code_at(self, cell: Any) -> jax.Array:
        """Returns the code of the object in a cell (int32 ``[B]`` or ``CARRIED``), uint32 ``[B]``; 0 for none."""
        here = self.cell == (cell if jnp.ndim(cell) == 0 else cell[:, None])
        return jnp.sum(jnp.where(here, self.code, np.uint32(0)), axis=1, dtype=jnp.uint32)


@tree.struct
class State:
    """A grid with objects, and the agent in it."""

    floor: CellSet  # all cells without a wall
    objects: Objects
    target: Any  # int32 [B, ...], the objects of the mission; None if they are the same for all lanes
    mission: jax.Array | None  # uint8 [B, 20]; None if it never changes
    agent: Pose
    step: jax.Array  # int32 [B]


class ObjectWorld(GridWorld):
    """Base class of the levels with any number of objects.

    A level implements ``initial`` and ``judge``. If its missions differ between episodes, the class attribute
    ``mission`` has their common words, and ``mission_of`` returns the mission of each lane.
    """

    @property
    def num_doors(self) -> int:
        """Number of doors, which are the first objects."""
        return 0

    def judge(self, before: State, action: jax.Array, after: State) -> tuple[jax.Array, jax.Array | bool]:
        """Returns whether the agent has succeeded and whether it has failed with this step, bool ``[B]`` each.

        By default it succeeds when it moves onto a goal, and never fails.
        """
        return (action == FORWARD) & (kind(before.objects.code_at(ahead(before.agent))) == GOAL), False

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        after = self.act(state, action)
        success, failure = self.judge(state, action, after)
        reward = jnp.where(success, self._reward(after.step), np.float32(0))
        return Transition(after, reward, terminated=success | failure)

    def act(self, state: State, action: jax.Array) -> State:
        """Returns the state after an action: the agent turns or moves, or handles the object ahead of it."""
        ahead = cell(*state.agent.ahead)
        objects = state.objects
        front, held = objects.code_at(ahead), objects.code_at(CARRIED)
        floor = state.floor.has(ahead & 31, ahead >> 5)
        agent = in_one_kernel(_moved, state.agent, action, front, floor)
        columns = (x[:, None] for x in (action, ahead, front, held, floor & (front == 0)))
        objects = in_one_kernel(_handle, objects, *columns)
        return tree.rebuild(state, agent=agent, objects=objects, step=state.step + 1)

    def mission_of(self, state: State) -> jax.Array:
        return super().mission_of(state) if state.mission is None else state.mission

    def _image(self, state: State) -> jax.Array:
        floor, indices, held = (
            _view.in_view(state.floor, state.agent),
            _view_indices(state),
            state.objects.code_at(CARRIED),
        )
        seen = None
        if not self.see_through_walls:
            seen = _view.visible(self._transparent(state, floor, indices))
        image = in_own_kernels(_encode_view, floor, seen, indices, state.objects.code, held)
        return image.reshape(-1, _view.SIZE, _view.SIZE, 3)

    def _whole_image(self, state: Any) -> jax.Array:
        objects = state.objects
        things = [(objects.cell[:, i], objects.code[:, i]) for i in range(objects.cell.shape[1])]
        return _whole_grid.encode(state.floor, None, things, state.agent, self.extent)

    def _transparent(self, state: State, floor: _view.ViewSet, indices: jax.Array) -> _view.ViewSet:
        """Returns the cells of the view that do not block the agent's sight: floor, but no door unless it is open."""
        if self.num_doors == 0:
            return floor
        shut = door_state(state.objects.code[:, : self.num_doors]) != OPEN
        return _view.remove(floor, jnp.where(shut, indices[:, : self.num_doors], _view.OUT_OF_VIEW))

    # --- the picture -------------------------------------------------------------------------------------------------

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        seen = None
        if not self.see_through_walls:
            floor = _view.in_view(state.floor, state.agent)
            seen = _view.visible(self._transparent(state, floor, _view_indices(state)))
        columns, rows = self.extent
        return _object_picture.draw(state, _view.on_grid(seen, state.agent, self.num_lines)[:, :rows, :columns], canvas)


def _encode_view(
    floor: tuple[jax.Array, jax.Array],
    seen: tuple[jax.Array, jax.Array] | None,
    indices: jax.Array,
    codes: jax.Array,
    held: jax.Array,
) -> jax.Array:
    """Returns the bytes of the image, uint8 ``[B, 147]``.

    Args:
        floor: the cells of the view without a wall.
        seen: the cells that the agent sees, or None for all.
        indices: view indices of the objects, int32 ``[B, N]``.
        codes: their codes, uint32 ``[B, N]``.
        held: the code of the object that the agent carries, 0 for none.
    """
    image = jnp.where(_view.in_image(floor), _EMPTY, _WALL)
    for i in range(indices.shape[1]):
        image = jnp.where(_view.is_at(indices[:, i]), codes[:, i, None], image)
    # In its own cell the agent sees the object that it carries, not the one under it.
    carried = jnp.where(held == 0, _EMPTY, held)[:, None]
    image = jnp.where(_view.INDICES[None] == _view.AGENT_INDEX, carried, image)
    if seen is not None:
        image = jnp.where(_view.in_image(seen), image, np.uint32(0))
    # The bytes of a code are kind, colour, state and an unused one.
    return (image >> _view.BYTE_SHIFTS[None]).astype(jnp.uint8)


def kind(code: jax.Array) -> jax.Array:
    """Returns the kind of a code, uint32 of any shape."""
    return code & np.uint32(255)


def colour(code: jax.Array) -> jax.Array:
    """Returns the colour of a code, uint32 of any shape."""
    return (code >> np.uint32(8)) & np.uint32(255)


def door_state(code: jax.Array) -> jax.Array:
    """Returns the state of a door, int32 of any shape, given its code."""
    return (code >> np.uint32(16)).astype(jnp.int32)


def box_with_key(colour: Any, key: jax.Array) -> jax.Array:
    """Returns the code of a box of a colour that hides a key of another one, uint32 ``[B]``."""
    return encode(BOX, colour) | (key + np.uint32(1)) << np.uint32(24)


def encode(kind: Any, colour: Any, state: Any = OPEN) -> Any:
    """Returns the code of an object."""
    return kind | colour << np.uint32(8) | state.astype(np.uint32) << np.uint32(16)


def ahead(agent: Pose) -> jax.Array:
    """Returns the cell in front of the agent, int32 ``[B]``."""
    return cell(*agent.ahead)


def start_state(
    floor: CellSet, objects: Objects, agent: Pose, target: jax.Array | None = None, mission: jax.Array | None = None
) -> State:
    """Returns the state at the start of an episode."""
    return State(floor, objects, target, mission, agent, step=jnp.zeros_like(agent.x))


def picks_up(wanted: np.uint32, action: jax.Array, after: State) -> jax.Array:
    """Returns whether the agent picks up an object of a kind, bool ``[B]``."""
    return (action == PICKUP) & (kind(after.objects.code_at(CARRIED)) == wanted)


def place(free: CellSet, word: jax.Array) -> tuple[jax.Array, jax.Array, CellSet]:
    """Draws one of the cells of a set, each with equal probability.

    Args:
        free: the set.
        word: random, uint32 ``[B]``.

    Returns:
        x and y of the cell, int32 ``[B]`` each, and the set without it.
    """
    x, y = free.nth(choice(word, free.count()))
    return x, y, free.remove(x, y)


def place_agent(free: CellSet, word: jax.Array, direction: jax.Array) -> Pose:
    """Draws a cell of a set and a direction; the words are random, uint32 ``[B]`` each."""
    x, y, _ = place(free, word)
    return Pose(x, y, choice(direction, jnp.full_like(x, 4)))


def random_code(kind: Any, word: jax.Array, state: Any = OPEN) -> jax.Array:
    """Returns the code of an object of a random colour, given a random word, uint32 of any shape."""
    return encode(kind, random.high_product(word, jnp.full_like(word, 6)), state)


def different_colours(words: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
    """Returns different random colours, uint32 ``[B]`` each, one for each random word ``[B]``; at most six."""
    return in_one_kernel(_different, tuple(words), 6)


def different_things(words: Sequence[jax.Array]) -> list[jax.Array]:
    """Returns the codes of random keys, balls and boxes of which no two are alike, one for each random word ``[B]``."""
    numbers = in_one_kernel(_different, tuple(words), 18)
    return [encode(KEY + number // np.uint32(6), number % np.uint32(6)) for number in numbers]


def _different(words: Sequence[jax.Array], count: int) -> tuple[jax.Array, ...]:
    """Returns different random numbers below ``count``, uint32 ``[B]`` each."""
    free = jnp.full_like(words[0], 2**count - 1)
    numbers = []
    for i, word in enumerate(words):
        number = nth_bit_of(free, choice(word, jnp.full_like(word, count - i))).astype(jnp.uint32)
        numbers.append(number)
        free = free & ~(np.uint32(1) << number)
    return tuple(numbers)


def distance(agent: Pose, cell: jax.Array) -> jax.Array:
    """Returns the number of steps between the agent and a cell (int32 ``[B]``) if nothing is in the way, ``[B]``."""
    return jnp.abs(agent.x - (cell & 31)) + jnp.abs(agent.y - (cell >> 5))


def _moved(agent: Pose, action: jax.Array, front: jax.Array, floor: jax.Array) -> Pose:
    """Returns the agent after an action, given the code ahead of it and whether there is floor ahead."""
    can_enter = (front == 0) | (kind(front) == GOAL) | ((kind(front) == DOOR) & (door_state(front) == OPEN))
    return moved(agent, action, (action == FORWARD) & floor & can_enter)


def _handle(
    objects: Objects, action: jax.Array, ahead: jax.Array, front: jax.Array, held: jax.Array, bare: jax.Array
) -> Objects:
    """Applies pickup, drop and toggle to one of the objects.

    Args:
        objects: the object.
        action: int32.
        ahead: the cell in front of the agent, int32.
        front: the code of the object there, 0 if there is none.
        held: the code of the object that the agent carries, 0 if there is none.
        bare: whether that cell is floor without an object.
    """
    toggles = action == TOGGLE
    movable = (kind(front) == KEY) | (kind(front) == BALL) | (kind(front) == BOX)
    picks = (action == PICKUP) & movable & (held == 0)
    drops = (action == DROP) & bare
    opens_box = toggles & (kind(front) == BOX)

    here, carried = objects.cell == ahead, objects.cell == CARRIED
    moved = jnp.where(drops & carried, ahead, objects.cell)
    moved = jnp.where(picks & here, CARRIED, moved)
    hidden = front >> np.uint32(24)
    moved = jnp.where(opens_box & (hidden == 0) & here, GONE, moved)
    key = encode(KEY, hidden - np.uint32(1))
    code = jnp.where(opens_box & (hidden != 0) & here, key, objects.code)

    fits = (kind(held) == KEY) & (colour(held) == colour(front))
    swung = jnp.where(door_state(front) == OPEN, CLOSED, OPEN)
    turned = jnp.where((door_state(front) == LOCKED) & ~fits, LOCKED, swung)
    door = encode(DOOR, colour(front), turned)
    turns = toggles & (kind(front) == DOOR)
    return Objects(moved, jnp.where(turns & here, door, code))


def _view_indices(state: State) -> jax.Array:
    """Returns the view index of every object, int32 ``[B, K]``; out of view where it is not in the grid."""
    cells = state.objects.cell
    agent = Pose(*(field[:, None] for field in (state.agent.x, state.agent.y, state.agent.direction)))
    return jnp.where(cells >= 0, _view.index(cells & 31, cells >> 5, agent), _view.OUT_OF_VIEW)
