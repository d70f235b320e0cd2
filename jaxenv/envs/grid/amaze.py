"""Find the goal of a maze of random walls: the task on which methods of unsupervised environment design are compared.

References: jaxued 0.0.2, ``Maze`` and ``make_level_generator``, and minimax 0.2.0, ``Maze``, there named AMaze
(tests/envs/grid/test_amaze.py).
Papers: Dennis et al. (2020), "Emergent Complexity and Zero-shot Transfer via Unsupervised Environment Design",
arXiv:2012.02096; Jiang et al. (2023), "minimax: Efficient Baselines for Autocurricula in JAX", arXiv:2311.12716;
Coward, Beukman and Foerster (2024), "JaxUED: A simple and useable UED library in Jax", arXiv:2403.13091.

Observation   image: uint8[5, 5, 3], object, colour and state of each cell ahead, by column and row, or with
              normalize_obs float32, divided by 10; the agent is at [2, 4] and not shown, and nothing hides a cell;
              direction: int32, 0 right, 1 down, 2 left, 3 up
Action        int32        0 turns left, 1 turns right, 2 moves forward; 3 to 6 do nothing
Reward        1 - time_penalty * min(step / max_steps, 1) on the step that moves forward against the goal, else 0
Starts        in a level: num_walls walls in uniformly random cells, drawn with replacement unless distinct_walls, or
              with vary_num_walls a uniform number of them from 0 to num_walls; agent and goal in two uniformly random
              free cells, the agent facing a random direction; a level may have no way to the goal
Terminates    at the goal, which the agent does not enter
Time limit    max_steps, 250 (registry), a truncation

Objects and colours are MiniGrid's: empty cells (1, 0, 0), walls and everything outside the maze (2, 5, 0), the goal
(8, 1, 0). Without walls around it the maze has size by size cells.
"""

import pathlib
import tomllib
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import Canvas
from jaxenv.core import Range, Task, Transition, in_one_kernel, in_own_kernels
from jaxenv.core.levels import sample_level
from jaxenv.envs._drawing import floor, goal, wall
from jaxenv.envs._level_text import TextForm
from jaxenv.envs.grid import _amaze_view, _picture
from jaxenv.envs.grid._amaze_level import LARGEST, MazeLevel, format_levels, parse_levels
from jaxenv.envs.grid._cell_set import CellSet, nth_cell, plane_of
from jaxenv.envs.grid._view import Pose
from jaxenv.envs.grid.amaze_editor import AMazeEditor
from jaxenv.envs.grid.grid_world import ACTIONS, FORWARD, cell, choice, moved, other_choice

_ONE, _ZERO = np.uint32(1), np.uint32(0)
_FLIP_WALL, _MOVE_GOAL = 1, 2  # edits; 0 changes nothing


@tree.struct
class Params:
    """Parameters of the task: scalars, or ``[B]`` for one value per lane."""

    max_steps: int = tree.leaf(default=250, unit="steps", low=1, doc="time limit, over which the reward decreases")
    time_penalty: float = tree.leaf(default=0.9, doc="fraction of the reward that is lost by max_steps")


@tree.struct
class State:
    """A maze and the agent in it."""

    floor: jax.Array  # uint32[B, N], cells without a wall: bit x of word y is cell (x, y)
    goal: jax.Array  # int32[B], x + 32 * y
    agent: Pose
    step: jax.Array  # int32[B]


class AMaze(Task):
    """The maze; the module docstring is the specification."""

    # Generating a level takes as long as several steps, so only lanes that restart generate one.
    reset_strategy = {"cpu": "compact", "default": "select"}

    params: Params = Params()
    size: int = tree.static(default=13, low=2, high=LARGEST, doc="number of cells along each side of the maze")
    num_walls: int = tree.static(default=60, low=0, doc="number of walls that are drawn for a level")
    distinct_walls: bool = tree.static(default=False, doc="whether all walls are in different cells")
    vary_num_walls: bool = tree.static(default=False, doc="whether levels have 0 .. num_walls walls, a uniform number")
    normalize_obs: bool = tree.static(default=False, doc="whether the image is divided by 10")

    Level = MazeLevel
    action_names = ACTIONS
    text_form: ClassVar[TextForm] = TextForm(
        text=lambda task, key: format_levels(sample_level(task, key))[0],
        with_text=lambda task, text: task.with_level(parse_levels(text, task.size)),
    )

    def check(self) -> None:
        # Agent and goal need a free cell each.
        Range(0, self.size**2 - 2).check(f"{self}", "num_walls", self.num_walls)

    @property
    def time_limit(self) -> Any:
        return self.params.max_steps

    # --- levels ------------------------------------------------------------------------------------------------------

    def sample_level(self, stream: random.Stream) -> MazeLevel:
        """Draws a level for every lane; the module docstring says from which distribution."""
        free = ~self._walls(random.fold_in(stream, "walls")) & np.uint32(2**self.size - 1)
        count = _count(free)
        places = random.bits(random.fold_in(stream, "places"), (3,))
        agent = choice(places[:, 0], count)
        target = other_choice(places[:, 1], count, taken=agent)
        return MazeLevel(
            ~plane_of(free, self.size),
            jnp.stack(nth_cell(free, target), axis=1),
            jnp.stack(nth_cell(free, agent), axis=1),
            choice(places[:, 2], jnp.full_like(count, 4)),
        )

    def _walls(self, stream: random.Stream) -> jax.Array:
        cells = self.size**2
        if self.distinct_walls:
            drawn = random.permutation(stream, cells)[:, : self.num_walls]
        else:
            drawn = random.integers(stream, (self.num_walls,), 0, cells)
        if self.vary_num_walls:
            count = random.integers(random.fold_in(stream, "count"), (1,), 0, self.num_walls + 1)
            number, outside = np.arange(self.num_walls, dtype=np.int32)[None], np.int32(cells)
            drawn = jnp.where(number < count, drawn, outside)
        return _set_of(drawn, self.size)

    def mutate_level(self, level: MazeLevel, stream: random.Stream) -> MazeLevel:
        """Edits the level of every lane once at random, as ACCEL does.

        With equal probability an edit changes nothing, turns a uniform cell without agent or goal into a wall or
        back, or moves the goal to another uniform free cell without the agent, if there is one. These are the edits of
        minimax and of jaxued's ``make_level_mutator_minimax``.
        """
        edit, word = random.separate_bits(stream, 2)
        edit = choice(edit, jnp.full_like(level.agent_dir, 3))
        agent, target = (at[:, 0] + self.size * at[:, 1] for at in (level.agent_pos, level.goal_pos))
        # The cell to flip has this number among all cells but two, which it skips in their order.
        flipped = choice(word, jnp.full_like(agent, self.size**2 - 2))
        for place in (jnp.minimum(agent, target), jnp.maximum(agent, target)):
            flipped = flipped + (flipped >= place).astype(jnp.int32)
        flips = plane_of(_set_of(flipped[:, None], self.size), self.size) & (edit == _FLIP_WALL)[:, None, None]

        others = CellSet.from_plane(~level.wall_map).rows & ~_set_of(jnp.stack([agent, target], axis=1), self.size)
        count = _count(others)
        moved_to = jnp.stack(nth_cell(others, choice(word, count)), axis=1)
        moves = (edit == _MOVE_GOAL) & (count > 0)
        goal_pos = jnp.where(moves[:, None], moved_to, level.goal_pos)
        return tree.rebuild(level, wall_map=level.wall_map ^ flips, goal_pos=goal_pos)

    def editor(self, num_steps: int) -> AMazeEditor:
        """Returns the task in which an agent builds a maze in ``num_steps`` steps."""
        return AMazeEditor(self.size, num_steps, num_envs=self.num_envs)

    def check_level(self, level: MazeLevel) -> None:
        """Checks that agent and goal are in two free cells of the maze and that the agent has a direction."""
        walls, goals, agents, directions = (np.asarray(field) for field in jax.tree.leaves(level))
        lanes = np.arange(len(walls))

        def check(valid: np.ndarray, name: str, rule: str, values: np.ndarray) -> None:
            if not valid.all():
                lane = int(np.argmin(valid))
                raise ValueError(f"{self}: level: {name} must be {rule}, got {values[lane].tolist()} in lane {lane}")

        for name, positions in (("goal_pos", goals), ("agent_pos", agents)):
            inside = np.all((positions >= 0) & (positions < self.size), axis=1)
            check(inside, name, f"x and y in 0 .. {self.size - 1}", positions)
            check(~walls[lanes, positions[:, 1], positions[:, 0]], name, "a cell without a wall", positions)
        check(np.any(goals != agents, axis=1), "goal_pos", "another cell than agent_pos", goals)
        check((directions >= 0) & (directions < 4), "agent_dir", "in 0 .. 3", directions)

    # --- the task ----------------------------------------------------------------------------------------------------

    def initial(self, stream: random.Stream, level: MazeLevel) -> State:
        return State(
            CellSet.from_plane(~level.wall_map).rows,
            cell(level.goal_pos[:, 0], level.goal_pos[:, 1]),
            Pose(level.agent_pos[:, 0], level.agent_pos[:, 1], level.agent_dir),
            step=jnp.zeros_like(level.agent_dir),
        )

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        agent, at_goal = in_one_kernel(_acted, action, state.agent, state.goal, tuple(jnp.unstack(state.floor, axis=1)))
        state = tree.rebuild(state, agent=agent, step=state.step + 1)
        elapsed = jnp.minimum(state.step.astype(jnp.float32) / jnp.float32(self.params.max_steps), 1)
        reward = jnp.where(at_goal, 1 - self.params.time_penalty * elapsed, np.float32(0))
        return Transition(state, reward, terminated=at_goal)

    def observe(self, state: State) -> dict[str, jax.Array]:
        seen = in_one_kernel(_seen, state.agent, state.goal, tuple(jnp.unstack(state.floor, axis=1)))
        image = in_own_kernels(_amaze_view.encode, *seen)
        image = image.reshape(-1, _amaze_view.SIZE, _amaze_view.SIZE, 3)
        if self.normalize_obs:
            image = image.astype(jnp.float32) / np.float32(10)
        return {"image": image, "direction": state.agent.direction}

    def observation_spec(self) -> dict[str, specs.Bounded]:
        shape, largest = (_amaze_view.SIZE, _amaze_view.SIZE, 3), 8  # the object of the goal
        if self.normalize_obs:
            image = specs.Bounded(shape, np.float32, 0, largest / 10, "image")
        else:
            image = specs.Bounded(shape, np.uint8, 0, largest, "image")
        return {"image": image, "direction": specs.discrete(4, name="direction")}

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(len(ACTIONS), name="action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        number = jnp.arange(self.size, dtype=jnp.int32)
        x, y = number[None, None, :], number[None, :, None]
        lanes = jax.tree.map(lambda x: x[:, None, None], state.agent)
        kinds = jnp.where(plane_of(state.floor, self.size), np.int32(0), np.int32(1))
        kinds = jnp.where(cell(x, y) == state.goal[:, None, None], np.int32(2), kinds)
        seen = _amaze_view.index(x, y, lanes) != _amaze_view.OUT_OF_VIEW
        agents = jnp.where((x == lanes.x) & (y == lanes.y), 1 + lanes.direction, 0)
        return _picture.paint(canvas, kinds, [floor, wall, goal], seen, agents)


def held_out(size: int = 13) -> tuple[tuple[str, ...], MazeLevel]:
    """Returns names and levels of the mazes with a fixed layout in jaxued and minimax that fit into ``size`` cells.

    They are 12 for 13 cells: SixteenRooms, SixteenRooms2, Labyrinth, LabyrinthFlipped, Labyrinth2, StandardMaze,
    StandardMaze2 and StandardMaze3, on which jaxued evaluates by default, SmallCorridor, and three trivial ones. From
    19 cells on there is LargeCorridor. minimax draws the goal of a corridor among its dead ends, and here it is in the
    first one. Smaller mazes have walls on the right and below.
    """
    mazes = tomllib.loads(pathlib.Path(__file__).with_name("held_out.toml").read_text())
    texts = {name: text for name, text in mazes.items() if len(text.split()) <= size}
    if not texts:
        raise ValueError(f"held_out: size must be at least 3, got {size}")
    return tuple(texts), parse_levels(list(texts.values()), size)


def _acted(action: jax.Array, agent: Pose, goal: jax.Array, rows: tuple[jax.Array, ...]) -> tuple[Pose, jax.Array]:
    """Returns the agent after an action, and whether it moved against the goal."""
    x, y = agent.ahead
    forward, is_goal = action == FORWARD, cell(x, y) == goal
    free = (_amaze_view.line(rows, y) >> x.astype(jnp.uint32)) & _ONE == _ONE
    return moved(agent, action, forward & free & ~is_goal), forward & is_goal


def _seen(agent: Pose, goal: jax.Array, rows: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
    """Returns the floor in view, uint32 ``[B]``, and the view index of the goal."""
    return _amaze_view.in_view(rows, agent), _amaze_view.index(goal & 31, goal >> 5, agent)


def _set_of(cells: jax.Array, size: int) -> jax.Array:
    """Returns the set of cells x + size * y, int32 ``[B, K]``, which may be equal or outside: uint32 ``[B, N]``."""
    y, bit = cells // size, _ONE << (cells % size).astype(jnp.uint32)
    is_row = y[:, None, :] == np.arange(size, dtype=np.int32)[None, :, None]
    return jax.lax.reduce(jnp.where(is_row, bit[:, None, :], _ZERO), _ZERO, jax.lax.bitwise_or, (2,))


def _count(rows: jax.Array) -> jax.Array:
    return jnp.sum(jax.lax.population_count(rows), axis=1).astype(jnp.int32)
