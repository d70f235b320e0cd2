"""Build a maze for AMaze, cell by cell: the environment of an adversary that designs levels for others.

Reference: jaxued 0.0.2, ``MazeEditor`` (tests/envs/grid/test_amaze_editor.py). Paper: Dennis et al. (2020), "Emergent
Complexity and Zero-shot Transfer via Unsupervised Environment Design", arXiv:2012.02096.

Observation   image: float32[N, N, 3], object, colour and state of each cell as AMaze shows them, divided by 10, row by
              row; the goal from the first step on, the agent (10, 0, direction) from the third;
              step: int32; noise: float32[num_noise] in [0, 1), redrawn at every step
Action        int32        a cell, x + N * y. Step 1 puts the goal there, step 2 faces the agent in direction
              action % 4, step 3 puts the agent there, or in a uniformly random other cell if the goal is there, and
              the later ones turn the cell into a wall or back, unless goal or agent is there
Reward        0
Starts        with the empty maze
Terminates    after num_steps steps

A learner takes the level from the state and rewards the last step. In jaxued noise is 0 by default.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.core import Task, Transition
from jaxenv.envs.grid._amaze_level import LARGEST, MazeLevel
from jaxenv.envs.grid.grid_world import other_choice

_GOAL, _DIRECTION, _AGENT = range(3)  # what the first steps place
_EMPTY_CELL, _WALL_CELL, _GOAL_CELL = np.array([(1, 0, 0), (2, 5, 0), (8, 1, 0)], np.uint8)
_AGENT_OBJECT, _LARGEST_CODE = 10, 10


@tree.struct
class State:
    """A maze under construction."""

    level: MazeLevel
    step: jax.Array  # int32[B]
    noise: jax.Array  # float32[B, num_noise]


class AMazeEditor(Task):
    """The editor; the module docstring is the specification."""

    size: int = tree.static(default=13, low=2, high=LARGEST, doc="number of cells along each side of the maze")
    num_steps: int = tree.static(default=50, low=3, doc="number of steps of an episode")
    num_noise: int = tree.static(default=16, low=0, doc="number of random numbers in the observation")

    def initial(self, stream: random.Stream) -> State:
        zero = jnp.zeros(stream.shape, jnp.int32)
        walls = jnp.zeros((*stream.shape, self.size, self.size), bool)
        corner = jnp.stack([zero, zero], axis=1)
        return State(MazeLevel(walls, corner, corner + 1, zero), zero, self._noise(stream))

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        level, step, size = state.level, state.step, self.size
        at = jnp.stack([action % size, action // size], axis=1)
        goal_pos = jnp.where((step == _GOAL)[:, None], at, level.goal_pos)
        goal = goal_pos[:, 0] + size * goal_pos[:, 1]
        other = other_choice(random.bits(random.fold_in(stream, "agent")), jnp.full_like(action, size**2), taken=goal)
        placed = jnp.where(action == goal, other, action)
        agent_pos = jnp.stack([placed % size, placed // size], axis=1)
        agent_pos = jnp.where((step == _AGENT)[:, None], agent_pos, level.agent_pos)
        agent_dir = jnp.where(step == _DIRECTION, action % 4, level.agent_dir)
        agent = agent_pos[:, 0] + size * agent_pos[:, 1]
        flips = (step > _AGENT) & (action != goal) & (action != agent)
        wall_map = level.wall_map ^ (self._is_cell(at) & flips[:, None, None])
        state = State(MazeLevel(wall_map, goal_pos, agent_pos, agent_dir), step + 1, self._noise(stream))
        return Transition(state, jnp.zeros_like(step, jnp.float32), terminated=state.step >= self.num_steps)

    def observe(self, state: State) -> dict[str, jax.Array]:
        level = state.level
        image = jnp.where(level.wall_map[..., None], _WALL_CELL, _EMPTY_CELL)
        has_goal = self._is_cell(level.goal_pos) & (state.step > _GOAL)[:, None, None]
        image = jnp.where(has_goal[..., None], _GOAL_CELL, image)
        direction = level.agent_dir.astype(jnp.uint8)
        agent = jnp.stack([jnp.full_like(direction, _AGENT_OBJECT), jnp.zeros_like(direction), direction], axis=1)
        has_agent = self._is_cell(level.agent_pos) & (state.step > _AGENT)[:, None, None]
        image = jnp.where(has_agent[..., None], agent[:, None, None], image)
        image = image.astype(jnp.float32) / np.float32(_LARGEST_CODE)
        return {"image": image, "step": state.step, "noise": state.noise}

    def observation_spec(self) -> dict[str, specs.Bounded]:
        return {
            "image": specs.Bounded((self.size, self.size, 3), np.float32, 0, 1, "image"),
            "step": specs.discrete(self.num_steps + 1, name="step"),
            "noise": specs.Bounded((self.num_noise,), np.float32, 0, 1, "noise"),
        }

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(self.size**2, name="action")

    def _noise(self, stream: random.Stream) -> jax.Array:
        return random.uniform(random.fold_in(stream, "noise"), (self.num_noise,))

    def _is_cell(self, at: jax.Array) -> jax.Array:
        """Returns the map of one cell per lane, bool ``[B, N, N]``, given x and y, int32 ``[B, 2]``."""
        number = np.arange(self.size, dtype=np.int32)
        is_row, is_column = at[:, 1, None] == number[None], at[:, 0, None] == number[None]
        return is_row[:, :, None] & is_column[:, None, :]
