"""What the grid worlds share: an agent that sees a part of its grid, walks, carries a key and opens a door.

Reference: MiniGrid 3.2.0, ``MiniGridEnv`` (tests/envs/grid/test_world.py).
Paper: Chevalier-Boisvert et al. (2023), "Minigrid & Miniworld: modular & customizable reinforcement learning
environments for goal-oriented tasks", arXiv:2306.13831.

Observation   image: uint8[7, 7, 3], object, colour and state of each cell ahead, by column and row, 0 where walls
              hide it; direction: int32, 0 right, 1 down, 2 left, 3 up
Action        int32        0 turns left, 1 right, 2 steps forward, 3 picks up, 4 drops, 5 toggles, 6 does nothing
Reward        success_reward * (1 - time_penalty * min(step / max_steps, 1)) on the step onto the goal, else 0
Starts        as the level says: each is a file beside this one
Terminates    on the goal, and in lava
Time limit    that of the registry, there equal to max_steps: a truncation, as in MiniGrid. ``max_steps`` alone limits
              nothing: it says over how many steps the reward falls

The mission, which MiniGrid adds to the observation as text, is the same at all times: the class names it.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv._actions import toward
from jaxenv._checks import is_concrete
from jaxenv.envs.grid import view
from jaxenv.envs.grid.lines import Lines, square
from jaxenv.envs.grid.view import Pose
from jaxenv.task import Task, Transition

ACTIONS = ("left", "right", "forward", "pickup", "drop", "toggle", "done")
LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = (np.int32(i) for i in range(7))
OPEN, CLOSED, LOCKED = (np.int32(i) for i in range(3))
CARRIED = np.int32(-1)  # where the key is that the agent holds; other places are numbers of a `cell`

# A row of lines is a word of 32 cells, and the view reaches 3 cells beyond the last.
LARGEST = 32 - view.SIZE // 2


def _code(kind: int, colour: int = 0, state: int = 0) -> np.uint32:
    return np.uint32(kind | colour << 8 | state << 16)


# MiniGrid's numbers for objects and colours: walls are grey, goals green, key and door yellow.
_EMPTY, _WALL, _GOAL, _LAVA = _code(1), _code(2, 5), _code(8, 1), _code(9, 0)
_DOOR, _KEY = _code(4, 4), _code(5, 4)


@tree.struct
class Params:
    """Numbers of the task: scalars, or ``[B]`` for one value per lane."""

    size: int = 0  # cells along either side, the walls around included; 0: max_size
    max_steps: int = 0  # steps over which the reward falls; 0: what the level has for its size
    success_reward: float = 1.0  # for reaching the goal at once
    time_penalty: float = 0.9  # share of it that is lost by max_steps


@tree.struct
class Lock:
    """A locked door and its key, int32 ``[B]`` each."""

    door: jax.Array  # cell
    door_state: jax.Array  # OPEN, CLOSED or LOCKED
    key: jax.Array  # cell, or CARRIED


@tree.struct
class State:
    """A grid and the agent in it."""

    floor: Lines  # all cells but walls
    lava: Lines | None  # None in levels without
    lock: Lock | None  # None in levels without
    goal: jax.Array  # int32 [B], cell
    agent: Pose
    step: jax.Array  # int32 [B]


class GridWorld(Task):
    """A grid of at most ``max_size`` by ``max_size`` cells; levels say in ``initial`` what is in it.

    One batch may hold grids of many sizes: ``with_params(size=...)`` takes one per lane, and what is beyond is wall.

    Attributes:
        params: the size of each lane's grid among them.
        max_size: of the grids; decides how much state a lane has.
        see_through_walls: whether walls and doors hide nothing.
    """

    params: Params = Params()
    max_size: int = tree.static(default=8)
    see_through_walls: bool = tree.static(default=False)

    mission: ClassVar[str] = "get to the green goal square"
    # The smallest grid of the level; whether sizes must be odd; max_steps over the square of the size.
    smallest: ClassVar[int] = 4
    odd: ClassVar[bool] = False
    steps_per_cell: ClassVar[int] = 4

    @property
    def size(self) -> jax.Array:
        """Size of the grid, int32, ``()`` or ``[B]``."""
        size = jnp.where(self.params.size > 0, self.params.size, np.int32(self.max_size))
        # Sizes that are traced cannot be refused: they are brought within what fits.
        size = jnp.clip(size, np.int32(self.smallest), np.int32(self.max_size))
        return size - (1 - size % 2) if self.odd else size

    @property
    def max_steps(self) -> jax.Array:
        """Steps over which the reward falls, int32, ``()`` or ``[B]``."""
        return jnp.where(self.params.max_steps > 0, self.params.max_steps, self.steps_per_cell * self.size**2)

    def check(self):
        if not self.smallest <= self.max_size <= LARGEST:
            raise ValueError(f"{self}: max_size must lie in {self.smallest} .. {LARGEST}, got {self.max_size}")
        if self.odd and self.max_size % 2 == 0:
            raise ValueError(f"{self}: max_size must be odd, got {self.max_size}")
        if is_concrete(self.params.size):
            size = np.asarray(self.params.size)
            fits = (size == 0) | ((size >= self.smallest) & (size <= self.max_size) & ~(self.odd & (size % 2 == 0)))
            if not np.all(fits):
                kind = "odd and " if self.odd else ""
                raise ValueError(
                    f"{self}: size must be {kind}in {self.smallest} .. max_size = {self.max_size}, or 0 for that, "
                    f"got {size[~fits].flat[0]}"
                )
        if is_concrete(self.params.max_steps) and np.any(np.asarray(self.params.max_steps) < 0):
            raise ValueError(f"{self}: max_steps must be at least 1, or 0 for the level's, got {self.params.max_steps}")

    # --- for levels --------------------------------------------------------------------------------------------------

    def sizes(self, lanes: tuple[int, ...]) -> jax.Array:
        """The size of the grid in every lane, int32 ``[B]``."""
        return jnp.broadcast_to(self.size, lanes)

    def room(self, size: jax.Array) -> Lines:
        """The floor of an empty grid of ``size`` (int32 ``[B]``): all cells but the outermost."""
        return square(jnp.ones_like(size), size - 1, self.max_size)

    def start(self, floor: Lines, goal: jax.Array, agent: Pose, lava=None, lock=None) -> State:
        """The state at the start of an episode."""
        return State(floor, lava, lock, goal, agent, step=jnp.zeros_like(goal))

    # --- the environment ---------------------------------------------------------------------------------------------

    def transition(self, state, action, stream):
        ahead_x, ahead_y = state.agent.heading
        x, y = state.agent.x + ahead_x, state.agent.y + ahead_y
        ahead = cell(x, y)
        goal = ahead == state.goal
        lava = jnp.zeros_like(goal) if state.lava is None else state.lava.has(x, y)
        free, lock = state.floor.has(x, y), state.lock
        if lock is not None:
            door = ahead == lock.door
            free = free & ~(door & (lock.door_state != OPEN)) & (ahead != lock.key)
            lock = _handle(lock, action, ahead, empty=free & ~door & ~goal & ~lava)

        goes = action == FORWARD
        moves = goes & free
        agent = Pose(
            x=jnp.where(moves, x, state.agent.x),
            y=jnp.where(moves, y, state.agent.y),
            direction=(state.agent.direction + toward(action, RIGHT, LEFT)) & 3,
        )
        step = state.step + 1
        reward = jnp.where(goes & goal, self._reward(step), np.float32(0))
        state = tree.rebuild(state, agent=agent, lock=lock, step=step)
        return Transition(state, reward, terminated=goes & (goal | lava))

    def _reward(self, step):
        p = self.params
        # MiniGrid's limit is max_steps; where another one lets episodes go on, the reward falls no further.
        passed = jnp.minimum(step.astype(jnp.float32) / self.max_steps.astype(jnp.float32), 1)
        return p.success_reward * (1 - p.time_penalty * passed)

    def observe(self, state):
        return {"image": _image(state, self.see_through_walls), "direction": state.agent.direction}

    def observation_spec(self):
        return {
            "image": specs.Bounded((view.SIZE, view.SIZE, 3), np.uint8, 0, 255, "image"),
            "direction": specs.discrete(4, name="direction"),
        }

    def action_spec(self):
        return specs.discrete(len(ACTIONS), name="action")


def cell(x: Any, y: Any) -> Any:
    """One number for a cell, int32 ``[B]``: x + 32 y."""
    return x + 32 * y


def choice(word: jax.Array, count: Any) -> jax.Array:
    """A number in 0 .. count - 1 (``count``: int32 ``[B]``) from a random word, uint32 ``[B]``: int32 ``[B]``."""
    return random.high_product(word, count.astype(jnp.uint32)).astype(jnp.int32)


def _handle(lock: Lock, action: jax.Array, ahead: jax.Array, empty: jax.Array) -> Lock:
    """Picks up, drops and toggles what is ahead; ``empty``: whether that is bare floor."""
    carried = lock.key == CARRIED
    picks = (action == PICKUP) & (ahead == lock.key)
    drops = (action == DROP) & carried & empty
    key = jnp.where(picks, CARRIED, jnp.where(drops, ahead, lock.key))

    toggles = (action == TOGGLE) & (ahead == lock.door)
    unlocked = jnp.where(carried, OPEN, LOCKED)
    swung = jnp.where(lock.door_state == OPEN, CLOSED, OPEN)
    turned = jnp.where(lock.door_state == LOCKED, unlocked, swung)
    return Lock(lock.door, jnp.where(toggles, turned, lock.door_state), key)


def _image(state: State, see_through_walls: bool) -> jax.Array:
    """MiniGrid's encoding of the view: uint8 ``[B, 7, 7, 3]``."""
    floor = view.cells(state.floor, state.agent)
    image = jnp.where(view.contains(floor), _EMPTY, _WALL)
    if state.lava is not None:
        image = jnp.where(view.contains(view.cells(state.lava, state.agent)), _LAVA, image)
    image = jnp.where(view.is_at(_place(state.goal, state.agent)), _GOAL, image)
    clear: view.Words = floor
    own: Any = _EMPTY
    if state.lock is not None:
        lock = state.lock
        door = _place(lock.door, state.agent)
        look = _DOOR | (lock.door_state.astype(jnp.uint32) << np.uint32(16))
        image = jnp.where(view.is_at(door), look[:, None, None], image)
        image = jnp.where(view.is_at(_place(lock.key, state.agent)), _KEY, image)
        clear = view.without(clear, jnp.where(lock.door_state == OPEN, view.OUT_OF_VIEW, door))
        own = jnp.where(lock.key == CARRIED, _KEY, _EMPTY)[:, None, None]
    # The agent sees what it carries where it stands, and not what it stands on.
    image = jnp.where(view.PLACES[None] == view.OWN, own, image)
    if not see_through_walls:
        image = jnp.where(view.contains(view.visible(clear)), image, np.uint32(0))
    # The bytes of a code are object, colour, state and one that is not used.
    return jax.lax.bitcast_convert_type(image, jnp.uint8)[..., :3]


def _place(where: jax.Array, agent: Pose) -> jax.Array:
    inside = view.place(where & 31, where >> 5, agent)
    return jnp.where(where >= 0, inside, view.OUT_OF_VIEW)
