"""Walk to the goal in the corner of a room without running into a ball that moves or into a wall.

Reference: MiniGrid 3.2.0, ``MiniGrid-Dynamic-Obstacles-*-v0`` (tests/envs/grid/objects/test_dynamic_obstacles.py).

Observation   see object_world.py; the agent sees through walls, which are only at the edge
Action        int32        0 turns left, 1 turns right, 2 moves forward
Reward        as in grid_world.py, and collision_reward for moving forward into a ball or a wall
Starts        in the corner opposite the goal, facing right, with random_start in any cell except the goal's, facing a
              random direction; blue balls in random other cells
Terminates    on the goal and with a collision
Time limit    4 * size**2: 100, 256 and 1024 (registry)

Before the agent acts the balls move, one after the other, each to a random free cell among the eight around it, if
there is one. The agent runs into a ball that was ahead of it before the balls moved, even if that ball has
moved away. MiniGrid gives up after 101 attempts, so there a ball with a single free cell stays with a probability of
7e-6.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv.core import Transition
from jaxenv.envs.grid._cell_set import nth_bit
from jaxenv.envs.grid._objects import BALL, BLUE, GOAL, GREEN, Objects, encode, kind
from jaxenv.envs.grid.grid_world import ACTIONS, FORWARD, Params, cell, choice, in_corner
from jaxenv.envs.grid.object_world import ObjectWorld, State, place, place_agent, start_state

_GOAL, _BALL = encode(GOAL, GREEN), encode(BALL, BLUE)


@tree.struct
class DynamicObstaclesParams(Params):
    """Scalars, or ``[B]`` for one value per lane."""

    collision_reward: float = tree.leaf(default=-1.0, doc="reward for moving forward into a ball or a wall")


class DynamicObstacles(ObjectWorld):
    """A room with balls that move; see the module docstring."""

    params: DynamicObstaclesParams = DynamicObstaclesParams()
    see_through_walls: bool = tree.static(default=True)
    num_obstacles: int = tree.static(default=4, low=1, high=16, doc="number of balls")
    random_start: bool = tree.static(default=False, doc="whether the agent starts in a random cell")

    action_names = ACTIONS[:3]
    sized_by = "num_obstacles"

    @property
    def smallest(self) -> int:  # type: ignore[override]
        # MiniGrid has at most this many balls in a room.
        return max(4, 2 * (self.num_obstacles - 1))

    def initial(self, stream: random.Stream) -> State:
        size = self.sizes(stream.shape)
        room = self.room(size)
        words = random.bits(stream, (self.num_obstacles + 2,))
        free = room.remove(size - 2, size - 2)
        agent = place_agent(free, words[:, -1], words[:, -2]) if self.random_start else in_corner(size)
        free = free.remove(agent.x, agent.y)
        objects = [(cell(size - 2, size - 2), _GOAL)]
        for i in range(self.num_obstacles):
            x, y, free = place(free, words[:, i])
            objects.append((cell(x, y), _BALL))
        return start_state(room, Objects.stack(*objects), agent)

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        return self.walk(state, self.move_obstacles(state, stream), action)

    def walk(self, state: State, moved: State, action: jax.Array) -> Transition:
        """Returns the result of an action, given the states before and after the balls moved."""
        x, y = state.agent.ahead
        front = kind(state.objects.code_at(cell(x, y)))
        collides = (action == FORWARD) & ((front == BALL) | ~state.floor.has(x, y))
        out = super().transition(moved, action, None)  # type: ignore[arg-type]
        reward = jnp.where(collides, self.params.collision_reward, out.reward)
        return Transition(out.state, reward, out.terminated | collides)

    def move_obstacles(self, state: State, stream: random.Stream) -> State:
        """Returns the state after every ball has moved."""
        last = self.sizes(stream.shape) - 2
        words = random.bits(stream, (self.num_obstacles,))
        agent = cell(state.agent.x, state.agent.y)

        def move(i: jax.Array, cells: jax.Array) -> jax.Array:
            here = jax.lax.dynamic_index_in_dim(cells, i + 1, axis=1, keepdims=False)
            x, y = here & 31, here >> 5
            taken = jnp.concatenate([cells, agent[:, None]], axis=1)
            # Bit dx + 1 + 3 * (dy + 1) stands for the neighbour at (dx, dy), bit 4 for the cell itself.
            dx, dy = (taken & 31) - x[:, None] + 1, (taken >> 5) - y[:, None] + 1
            near = (dx >= 0) & (dx < 3) & (dy >= 0) & (dy < 3)
            bits = jnp.where(near, np.uint32(1) << (dx + 3 * dy).astype(jnp.uint32), np.uint32(0))
            blocked = jax.lax.reduce(bits, np.uint32(0), jax.lax.bitwise_or, (1,))
            for side, edge in ((x == 1, 0o111), (x == last, 0o444), (y == 1, 0o007), (y == last, 0o700)):
                blocked = blocked | jnp.where(side, np.uint32(edge), np.uint32(0))
            free = ~blocked & np.uint32(0o777)
            count = jax.lax.population_count(free).astype(jnp.int32)
            word = jax.lax.dynamic_index_in_dim(words, i, axis=1, keepdims=False)
            drawn = nth_bit(free, choice(word, count))
            there = jnp.where(count > 0, cell(x + drawn % 3 - 1, y + drawn // 3 - 1), here)
            return jax.lax.dynamic_update_index_in_dim(cells, there[:, None], i + 1, axis=1)

        # Under shard_map the carry must vary over the mesh from the start.
        start = tree.vary_like(stream.k0, state.objects.cell)
        cells = jax.lax.fori_loop(np.int32(0), np.int32(self.num_obstacles), move, start)
        return tree.rebuild(state, objects=Objects(cells, state.objects.code))
