"""Move the ball away from the locked door, open it with the key, and pick up the box behind it.

Reference: MiniGrid 3.2.0, ``MiniGrid-BlockedUnlockPickup-v0`` (tests/envs/grid/objects/test_levels.py).

Observation   see object_world.py
Action        see grid_world.py
Reward        see grid_world.py
Starts        as in unlock_pickup.py, with a ball of a random colour in front of the door
Terminates    when the agent carries the box
Time limit    16 * size**2: 576 (registry)
"""

from jaxenv.envs.grid.unlock_pickup import UnlockPickup


class BlockedUnlockPickup(UnlockPickup):
    """Two rooms with a locked and blocked door between them and a box in the second; see the module docstring."""

    steps_per_cell = 16
    blocked = True
