"""Open the locked door with the key and pick up the box in the other room.

Reference: MiniGrid 3.2.0, ``MiniGrid-UnlockPickup-v0`` (tests/envs/grid/objects/test_levels.py).

Observation   see object_world.py
Action        see grid_world.py
Reward        see grid_world.py
Starts        as in unlock.py, with a box of a random colour in a random cell of the right room, but not in or next to
              the middle of the grid, (8, 3), where MiniGrid puts the agent first
Terminates    when the agent carries the box
Time limit    8 * size**2: 288 (registry)
"""

import jax

from jaxenv import tree
from jaxenv.envs.grid import _mission
from jaxenv.envs.grid._objects import BOX
from jaxenv.envs.grid.object_world import State, picks_up
from jaxenv.envs.grid.unlock import Unlock
from jaxenv.random import Stream


class UnlockPickup(Unlock):
    """Two rooms with a locked door between them and a box in the second; see the module docstring."""

    observe_mission: bool = tree.static(default=True)

    mission = "pick up the box"
    has_box = True

    def initial(self, stream: Stream) -> State:
        state = super().initial(stream)
        box = _mission.colour(state.objects.code[:, 2])
        return tree.rebuild(state, mission=_mission.phrase("pick up the", box, "box"))

    def judge(self, before: State, action: jax.Array, after: State) -> tuple[jax.Array, jax.Array | bool]:
        return picks_up(BOX, action, after), False
