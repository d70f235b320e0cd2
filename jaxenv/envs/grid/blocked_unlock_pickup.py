"""Move the ball away from the locked door, open it with the key, and pick up the box behind it.

Reference: MiniGrid 3.2.0, ``MiniGrid-BlockedUnlockPickup-v0`` (tests/envs/grid/objects/test_levels.py).

Observation   see object_world.py
Action        see grid_world.py
Reward        see grid_world.py
Starts        as in unlock_pickup.py, with a ball of a random colour in front of the door
Terminates    when the agent carries the box
Time limit    16 * size**2: 576 (registry)
"""

from typing import ClassVar

import jax

from jaxenv import tree
from jaxenv.envs.grid import _mission
from jaxenv.envs.grid._two_rooms import TwoRooms
from jaxenv.envs.grid.object_world import BOX, State, picks_up
from jaxenv.random import Stream


class BlockedUnlockPickup(TwoRooms):
    """Two rooms with a locked and blocked door between them and a box in the second; see the module docstring."""

    observe_mission: bool = tree.static(default=True)

    mission: ClassVar[str] = "pick up the box"
    steps_per_cell: ClassVar[int] = 16

    def initial(self, stream: Stream) -> State:
        state = self.generate(stream, box=True, ball=True)
        box = _mission.colour(state.objects.code[:, 2])
        return tree.rebuild(state, mission=_mission.phrase("pick up the", box, "box"))

    def judge(self, before: State, action: jax.Array, after: State) -> tuple[jax.Array, jax.Array | bool]:
        return picks_up(BOX, action, after), False
