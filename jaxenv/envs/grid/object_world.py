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

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv.canvas import Canvas
from jaxenv.core import Transition, in_one_kernel, in_own_kernels
from jaxenv.envs.grid import _picture, _view, grid_world
from jaxenv.envs.grid._cell_set import CellSet, nth_cell
from jaxenv.envs.grid._objects import BALL, BOX, DOOR, GOAL, GONE, KEY, Objects, colour, door_state, encode, kind
from jaxenv.envs.grid._view import Pose, ViewSet
from jaxenv.envs.grid.grid_world import CARRIED, CLOSED, FORWARD, OPEN, PICKUP, TOGGLE, GridWorld, cell, choice


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

    num_doors = 0  # they are the first objects

    def judge(self, before: State, action: jax.Array, after: State) -> tuple[jax.Array, jax.Array | bool]:
        """Returns whether the agent has succeeded and whether it has failed with this step, bool ``[B]`` each.

        By default it succeeds when it moves onto a goal, and never fails.
        """
        return (action == FORWARD) & (kind(before.objects.code_at(cell(*before.agent.ahead))) == GOAL), False

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
        floor, indices = _view.in_view(state.floor, state.agent), self._indices(state)
        held, seen = state.objects.code_at(CARRIED), self._seen(state, floor, indices)
        image = in_own_kernels(_encode, floor, seen, indices, state.objects.code, held)
        return image.reshape(-1, _view.SIZE, _view.SIZE, 3)

    def _whole_image(self, state: Any) -> jax.Array:
        objects = state.objects
        things = [(objects.cell[:, i], objects.code[:, i]) for i in range(objects.cell.shape[1])]
        return _view.whole_grid(state.floor, None, things, state.agent, self.extent)

    def _indices(self, state: State) -> jax.Array:
        """Returns the view index of every object, int32 ``[B, K]``; out of view where it is not in the grid."""
        return _view.index_of(state.objects.cell, jax.tree.map(lambda x: x[:, None], state.agent))

    def _transparent(self, state: State, floor: ViewSet, indices: jax.Array) -> ViewSet:
        if self.num_doors == 0:
            return floor
        shut = door_state(state.objects.code[:, : self.num_doors]) != OPEN
        return _view.remove(floor, jnp.where(shut, indices[:, : self.num_doors], _view.OUT_OF_VIEW))

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        return _picture.draw_objects(state, self._seen_on_grid(state), canvas)


def _encode(floor: ViewSet, seen: ViewSet | None, indices: jax.Array, codes: jax.Array, held: jax.Array) -> jax.Array:
    """Encodes the view, given view indices and codes of the objects, ``[B, K]``; ``held`` is the carried code, or 0."""
    things = [(indices[:, i], codes[:, i, None]) for i in range(indices.shape[1])]
    return _view.encode(floor, None, seen, things, jnp.where(held == 0, _view.EMPTY, held)[:, None])


def start_state(
    floor: CellSet, objects: Objects, agent: Pose, target: jax.Array | None = None, mission: jax.Array | None = None
) -> State:
    """Returns the state at the start of an episode."""
    return State(floor, objects, target, mission, agent, step=jnp.zeros_like(agent.x))


def picks_up(wanted: np.uint32, action: jax.Array, after: State) -> jax.Array:
    """Returns whether the agent picks up an object of a kind, bool ``[B]``."""
    return (action == PICKUP) & (kind(after.objects.code_at(CARRIED)) == wanted)


def place(free: CellSet, word: jax.Array) -> tuple[jax.Array, jax.Array, CellSet]:
    """Draws one of the cells of a set uniformly by a random word; returns its x and y and the set without it."""
    x, y = nth_cell(free.rows, choice(word, free.count()))
    return x, y, free.remove(x, y)


def place_agent(free: CellSet, word: jax.Array, direction: jax.Array) -> Pose:
    """Draws a cell of a set and a direction; the words are random, uint32 ``[B]`` each."""
    x, y, _ = place(free, word)
    return Pose(x, y, choice(direction, jnp.full_like(x, 4)))


def distance(agent: Pose, cell: jax.Array) -> jax.Array:
    """Returns the number of steps between the agent and a cell (int32 ``[B]``) if nothing is in the way, ``[B]``."""
    return jnp.abs(agent.x - (cell & 31)) + jnp.abs(agent.y - (cell >> 5))


def _moved(agent: Pose, action: jax.Array, front: jax.Array, floor: jax.Array) -> Pose:
    """Returns the agent after an action, given the code ahead of it and whether there is floor ahead."""
    can_enter = (front == 0) | (kind(front) == GOAL) | ((kind(front) == DOOR) & (door_state(front) == OPEN))
    return grid_world.moved(agent, action, (action == FORWARD) & floor & can_enter)


def _handle(
    objects: Objects, action: jax.Array, ahead: jax.Array, front: jax.Array, held: jax.Array, bare: jax.Array
) -> Objects:
    """Applies pickup, drop and toggle to one of the objects.

    ``front`` is the code of the object in the cell ``ahead`` and ``held`` of the carried one, 0 for none; ``bare`` is
    whether the cell is floor without an object.
    """
    toggles = action == TOGGLE
    movable = (kind(front) == KEY) | (kind(front) == BALL) | (kind(front) == BOX)
    picks = (action == PICKUP) & movable & (held == 0)
    drops = (action == grid_world.DROP) & bare
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
    turned = jnp.where((door_state(front) == grid_world.LOCKED) & ~fits, grid_world.LOCKED, swung)
    door = encode(DOOR, colour(front), turned)
    turns = toggles & (kind(front) == DOOR)
    return Objects(moved, jnp.where(turns & here, door, code))
