"""Walk to the goal through the gap in a stream of lava.

Reference: MiniGrid 3.2.0, ``MiniGrid-LavaGapS*-v0`` (tests/envs/grid/test_levels.py).

Observation   see grid_world.py
Action        see grid_world.py; the last four have no effect
Reward        see grid_world.py
Starts        in the upper left corner, facing right; a random column is lava except for one random cell
Terminates    on the goal and in lava
Time limit    4 * size**2: 196 (registry)
"""

from jaxenv import random
from jaxenv.envs.grid.grid_world import GridWorld, State, cell, choice, in_corner


class LavaGap(GridWorld):
    """A room divided by lava; see the module docstring."""

    reset_strategy = {"default": "select"}
    mission = "avoid the lava and get to the green goal square"
    smallest = 5

    def initial(self, stream: random.Stream) -> State:
        size = self.sizes(stream.shape)
        column, row = random.separate_bits(stream, 2)
        gap_x, gap_y = 2 + choice(column, size - 4), 1 + choice(row, size - 2)
        room = self.room(size)
        lava = (room - room.remove_column(gap_x)).remove(gap_x, gap_y)
        return self.start(room, cell(size - 2, size - 2), in_corner(size), lava)
