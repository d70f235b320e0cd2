"""Base class of grid worlds: an agent that walks, carries a key and opens a door, and sees part of its grid.

Reference: MiniGrid 3.2.0, ``MiniGridEnv`` (tests/envs/grid/test_grid_world.py).
Paper: Chevalier-Boisvert et al. (2023), "Minigrid & Miniworld: modular & customizable reinforcement learning
environments for goal-oriented tasks", arXiv:2306.13831.

Observation   image: uint8[7, 7, 3], object, colour and state of each cell ahead, by column and row, 0 where walls
              hide it, or with fully_observable of each cell of the grid, uint8[columns, rows, 3], where the agent is
              object 10; direction: int32, 0 right, 1 down, 2 left, 3 up
Action        int32        0 turns left, 1 turns right, 2 moves forward, 3 picks up, 4 drops, 5 toggles, 6 does nothing
Reward        success_reward * (1 - time_penalty * min(step / max_steps, 1)) on the step onto the goal, else 0
Starts        see the levels, one file each in this package
Terminates    on the goal and in lava
Time limit    max_steps, a truncation as in MiniGrid; if make sets another limit, max_steps only sets the number of
              steps over which the reward decreases

MiniGrid's observation also contains the mission as text. It is constant in these levels, so it is a class attribute
here. With observe_mission=True the observation has it as mission: uint8[20], a token per word.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import Canvas
from jaxenv.core import Range, Task, Transition, in_one_kernel, in_own_kernels, is_concrete, toward
from jaxenv.envs.grid import _grid_text, _mission, _picture, _view
from jaxenv.envs.grid._cell_set import CellSet
from jaxenv.envs.grid._view import Pose, ViewSet
from jaxenv.tree import Tree

ACTIONS: tuple[str, ...] = ("left", "right", "forward", "pickup", "drop", "toggle", "done")
LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = (np.int32(i) for i in range(7))
OPEN, CLOSED, LOCKED = (np.int32(i) for i in range(3))
CARRIED = np.int32(-1)  # position of the key while the agent carries it; all other positions are cell numbers

# A row of cells is a word of 32 bits, and the view extends 3 cells beyond the grid.
LARGEST = 32 - _view.SIZE // 2


# MiniGrid's codes for objects and colours: goals are green, keys and doors yellow.
_GOAL, _DOOR, _KEY = (np.uint32(kind | colour << 8) for kind, colour in ((8, 1), (4, 4), (5, 4)))


@tree.struct
class Params:
    """Parameters of the task: scalars, or ``[B]`` for one value per lane."""

    size: int = tree.leaf(default=0, unit="cells", low=0, doc="cells per side, outer walls included; 0: max_size")
    max_steps: int = tree.leaf(
        default=0, unit="steps", low=0, doc="time limit, over which the reward decreases; 0: the level's, by its size"
    )
    success_reward: float = tree.leaf(default=1.0, doc="reward for reaching the goal, before the penalty")
    time_penalty: float = tree.leaf(default=0.9, doc="fraction of the reward that is lost by max_steps")


@tree.struct
class Lock:
    """A locked door and its key, int32 ``[B]`` each."""

    door: jax.Array  # cell
    door_state: jax.Array  # OPEN, CLOSED or LOCKED
    key: jax.Array  # cell, or CARRIED


@tree.struct
class State:
    """A grid and the agent in it."""

    floor: CellSet  # all cells without a wall
    lava: CellSet | None  # None in levels without lava
    lock: Lock | None  # None in levels without a door
    goal: jax.Array  # int32 [B], cell
    agent: Pose
    step: jax.Array  # int32 [B]


class GridWorld(Task):
    """Base class of the levels: a grid of at most ``max_size`` by ``max_size`` cells, which ``initial`` fills.

    Grids of different sizes fit in one batch: ``with_params(size=...)`` takes one size per lane. Beyond it are walls.
    """

    # Generating a level takes as long as a step, a maze as tens of steps, so only lanes that restart generate one
    # (docs/evidence/grid.md). On accelerators, sequential blocks should be slower than all lanes at once.
    reset_strategy = {"cpu": "compact", "default": "select"}

    params: Params = Params()
    max_size: int = tree.static(default=8, doc="largest size of a grid; sets the size of the state")
    see_through_walls: bool = tree.static(default=False, doc="whether the agent sees through walls and doors")
    fully_observable: bool = tree.static(default=False, doc="whether the image shows the whole grid with the agent")
    observe_mission: bool = tree.static(default=False, doc="whether the observation contains the mission")

    mission: ClassVar[str] = "get to the green goal square"
    largest: ClassVar[int] = LARGEST  # largest size of the level
    odd: ClassVar[bool] = False  # whether sizes must be odd
    sized_by: ClassVar[str] = ""  # the option that the smallest size depends on
    text_form: ClassVar[Any] = _grid_text.TEXT_FORM
    steps_per_cell: ClassVar[int] = 4  # default of max_steps, divided by the square of the size
    action_names = ACTIONS

    smallest: ClassVar[int] = 4  # size of a level

    @property
    def size(self) -> jax.Array:
        """Size of the grid, int32 ``()`` or ``[B]``."""
        size = _or_default(self.params.size, np.int32(self.max_size))
        if not is_concrete(size):  # and could not be checked
            size = jnp.clip(size, np.int32(self.smallest), np.int32(self.max_size))
        return size - (1 - size % 2) if self.odd else size

    @property
    def max_steps(self) -> jax.Array:
        """Number of steps over which the reward decreases, int32 ``()`` or ``[B]``."""
        return _or_default(self.params.max_steps, self._default_max_steps())

    @property
    def time_limit(self) -> jax.Array:
        return self.max_steps

    def _default_max_steps(self) -> jax.Array:
        return self.steps_per_cell * self.size**2

    @property
    def extent(self) -> tuple[int, int]:
        """Number of columns and of rows of the largest grid."""
        return self.max_size, self.max_size

    @property
    def num_lines(self) -> int:
        """Number of rows and columns of the state's cells, at least as many as the grid has."""
        return max(self.extent)

    def check(self) -> None:
        if self.max_size < self.smallest and self.sized_by:
            count = getattr(self, self.sized_by)
            rule = f"{self.sized_by} must fit into the grid, {count} need a max_size of {self.smallest}"
            raise ValueError(f"{self}: {rule}, got {self.max_size}")
        Range(self.smallest, self.largest).check(f"{self}", "max_size", self.max_size)
        if self.odd and self.max_size % 2 == 0:
            raise ValueError(f"{self}: max_size must be odd, got {self.max_size}")
        if is_concrete(self.params.size):
            size = np.asarray(self.params.size)
            fits = (size == 0) | ((size >= self.smallest) & (size <= self.max_size) & ~(self.odd & (size % 2 == 0)))
            if not np.all(fits):
                rule = f"size must be {'odd and ' * self.odd}in {self.smallest} .. {self.max_size}, or 0 for max_size"
                raise ValueError(f"{self}: {rule}, got {size[~fits].flat[0]}")

    # --- used by the levels ------------------------------------------------------------------------------------------

    def sizes(self, lanes: tuple[int, ...]) -> jax.Array:
        """Returns the size of the grid in every lane, int32 ``[B]``."""
        return jnp.broadcast_to(self.size, lanes)

    def room(self, size: jax.Array) -> CellSet:
        """Returns the floor of an empty grid of ``size`` (int32 ``[B]``): all cells except the outermost."""
        one, last = jnp.ones_like(size), size - 1
        lines = CellSet.rectangle(one, last, one, last, self.max_size).rows  # the columns are alike
        return CellSet(lines, lines)

    def start(
        self, floor: CellSet, goal: jax.Array, agent: Pose, lava: CellSet | None = None, lock: Lock | None = None
    ) -> State:
        """Returns the state at the start of an episode."""
        return State(floor, lava, lock, goal, agent, step=jnp.zeros_like(goal))

    parse_levels, format_levels = _grid_text.parse_levels, _grid_text.format_levels

    # --- the task ----------------------------------------------------------------------------------------------------

    def transition(self, state: Tree, action: jax.Array, stream: random.Stream) -> Transition:
        x, y = state.agent.ahead
        floor = state.floor.has(x, y)
        lava = jnp.zeros_like(floor) if state.lava is None else state.lava.has(x, y)
        at_goal = state.goal == cell(x, y)
        agent, lock, success, failure = in_one_kernel(_acted, action, state.agent, state.lock, at_goal, floor, lava)
        state = tree.rebuild(state, agent=agent, lock=lock, step=state.step + 1)
        reward = jnp.where(success, self._reward(state.step), np.float32(0))
        return Transition(state, reward, terminated=success | failure)

    def _reward(self, step: jax.Array) -> jax.Array:
        p = self.params
        # In MiniGrid episodes end at max_steps. If another time limit allows more steps, the reward stays constant.
        elapsed = jnp.minimum(step.astype(jnp.float32) / self.max_steps.astype(jnp.float32), 1)
        return p.success_reward * (1 - p.time_penalty * elapsed)

    def observe(self, state: Tree) -> dict[str, jax.Array]:
        image = self._whole_image(state) if self.fully_observable else self._image(state)
        observation = {"image": image, "direction": state.agent.direction}
        return {**observation, "mission": self.mission_of(state)} if self.observe_mission else observation

    def mission_of(self, state: Any) -> jax.Array:
        """Returns the tokens of the mission, uint8 ``[B, 20]``; ``mission_text`` says what they mean."""
        return jnp.broadcast_to(_mission.encode(self.mission), (*state.step.shape, _mission.LENGTH))

    mission_text = staticmethod(_mission.decode)

    def _image(self, state: Any) -> jax.Array:
        """Returns MiniGrid's encoding of the view, uint8 ``[B, 7, 7, 3]``."""
        floor, indices = _view.in_view(state.floor, state.agent), self._indices(state)
        lava = None if state.lava is None else _view.in_view(state.lava, state.agent)
        lock = None if state.lock is None else (_door_code(state.lock), state.lock.key == CARRIED)
        image = in_own_kernels(_encode, floor, lava, self._seen(state, floor, indices), indices, lock)
        return image.reshape(-1, _view.SIZE, _view.SIZE, 3)

    def _indices(self, state: Any) -> Any:
        """Returns the view index of the goal, and of the door and the key if there are any, int32 ``[B]`` each."""
        things = (state.goal,) if state.lock is None else (state.goal, state.lock.door, state.lock.key)
        return [_view.index_of(place, state.agent) for place in things]

    def _seen(self, state: Any, floor: ViewSet, indices: Any) -> ViewSet | None:
        """Returns the cells of the view that the agent sees, None for all, given the floor in view."""
        return None if self.see_through_walls else _view.visible(self._transparent(state, floor, indices))

    def _transparent(self, state: Any, floor: ViewSet, indices: Any) -> ViewSet:
        """Returns the cells of the view that do not block the agent's sight: floor, but no door unless it is open."""
        if state.lock is None:
            return floor
        return _view.remove(floor, jnp.where(state.lock.door_state == OPEN, _view.OUT_OF_VIEW, indices[1]))

    def _whole_image(self, state: Any) -> jax.Array:
        things: list[tuple[jax.Array, Any]] = [(state.goal, _GOAL)]
        if state.lock is not None:
            things += [(state.lock.door, _door_code(state.lock)), (state.lock.key, _KEY)]
        return _view.whole_grid(state.floor, state.lava, things, state.agent, self.extent)

    def observation_spec(self) -> dict[str, specs.Bounded]:
        cells = self.extent if self.fully_observable else (_view.SIZE, _view.SIZE)
        observation = {
            "image": specs.Bounded((*cells, 3), np.uint8, 0, 255, "image"),
            "direction": specs.discrete(4, name="direction"),
        }
        if self.observe_mission:
            largest = len(_mission.WORDS) - 1
            observation["mission"] = specs.Bounded((_mission.LENGTH,), np.uint8, 0, largest, "mission")
        return observation

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(len(self.action_names), name="action")

    def draw(self, state: Tree, canvas: Canvas) -> Canvas:
        return _picture.draw(state, self.sizes(state.goal.shape), self._seen_on_grid(state), canvas)

    def _seen_on_grid(self, state: Any) -> jax.Array:
        """Returns which cells the agent sees, bool ``[B, rows, columns]``."""
        seen = self._seen(state, _view.in_view(state.floor, state.agent), self._indices(state))
        columns, rows = self.extent
        return _view.on_grid(seen, state.agent, self.num_lines)[:, :rows, :columns]


def _or_default(number: Any, default: Any) -> Any:
    """Returns ``default`` in place of 0; by NumPy where both are known, as making an environment must use no device."""
    if is_concrete(number) and is_concrete(default):
        return np.where(np.asarray(number) > 0, number, default)
    return jnp.where(number > 0, number, default)


def cell(x: Any, y: Any) -> Any:
    """Returns the cell number of (x, y), int32 ``[B]``: x + 32 * y."""
    return x + 32 * y


def choice(word: jax.Array, count: Any) -> jax.Array:
    """Maps a random word, uint32 ``[B]``, to a uniform integer in [0, count), int32 ``[B]``."""
    return random.high_product(word, count.astype(jnp.uint32)).astype(jnp.int32)


def other_choice(word: jax.Array, count: jax.Array, taken: jax.Array) -> jax.Array:
    """Maps a random word to a uniform integer in [0, count) that is not ``taken``, int32 ``[B]`` each."""
    number = choice(word, count - 1)
    return number + (number >= taken).astype(jnp.int32)


def in_corner(size: jax.Array) -> Pose:
    """Returns an agent in the upper left corner of a room that faces right."""
    return Pose(jnp.ones_like(size), jnp.ones_like(size), jnp.zeros_like(size))


def _acted(
    action: jax.Array, agent: Pose, lock: Lock | None, goal: jax.Array, floor: jax.Array, lava: jax.Array
) -> tuple[Pose, Lock | None, jax.Array, jax.Array]:
    """Returns agent and lock after an action, and whether the agent enters the goal or lava, bool ``[B]`` each.

    ``goal``, ``floor`` and ``lava``, bool ``[B]``, say whether they are ahead.
    """
    x, y = agent.ahead
    free, ahead = floor, cell(x, y)
    if lock is not None:
        door = ahead == lock.door
        free = floor & ~(door & (lock.door_state != OPEN)) & (ahead != lock.key)
        lock = _handle(lock, action, ahead, empty=free & ~door & ~goal & ~lava)
    goes = action == FORWARD
    return moved(agent, action, goes & free), lock, goes & goal, goes & lava


def moved(agent: Pose, action: jax.Array, enters: jax.Array) -> Pose:
    """Returns the agent after an action, int32 ``[B]``; ``enters``, bool ``[B]``: whether it steps ahead."""
    x, y = agent.ahead
    direction = (agent.direction + toward(action, RIGHT, LEFT)) & 3
    return Pose(jnp.where(enters, x, agent.x), jnp.where(enters, y, agent.y), direction)


def _handle(lock: Lock, action: jax.Array, ahead: jax.Array, empty: jax.Array) -> Lock:
    """Applies pickup, drop and toggle to the cell ``ahead``; ``empty`` is whether that cell is bare floor."""
    carried = lock.key == CARRIED
    picks = (action == PICKUP) & (ahead == lock.key)
    drops = (action == DROP) & carried & empty
    key = jnp.where(picks, CARRIED, jnp.where(drops, ahead, lock.key))

    toggles = (action == TOGGLE) & (ahead == lock.door)
    unlocked = jnp.where(carried, OPEN, LOCKED)
    swung = jnp.where(lock.door_state == OPEN, CLOSED, OPEN)
    turned = jnp.where(lock.door_state == LOCKED, unlocked, swung)
    return Lock(lock.door, jnp.where(toggles, turned, lock.door_state), key)


def _encode(floor: ViewSet, lava: ViewSet | None, seen: ViewSet | None, indices: Any, lock: Any) -> jax.Array:
    """Encodes the view, given view indices, and of a lock the door's code and whether the agent carries the key."""
    things: list[tuple[jax.Array, Any]] = [(indices[0], _GOAL)]
    held: Any = _view.EMPTY
    if lock is not None:
        code, is_carried = lock
        things += [(indices[1], code[:, None]), (indices[2], _KEY)]
        held = jnp.where(is_carried, _KEY, _view.EMPTY)[:, None]
    return _view.encode(floor, lava, seen, things, held)


def _door_code(lock: Lock) -> jax.Array:
    return _DOOR | (lock.door_state.astype(jnp.uint32) << np.uint32(16))
