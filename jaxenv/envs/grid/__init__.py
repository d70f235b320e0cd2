"""Grid worlds in the style of MiniGrid: an agent observes part of a grid with walls, doors and keys."""

from functools import partial
from typing import Any

from jaxenv.core import register


def _register(id: str, where: str, limit: int, **kwargs: Any) -> None:
    # max_steps is the time limit and scales the reward, and by default follows from the size.
    register(id, f"{__name__}.{where}", max_episode_steps=limit, kwargs=kwargs, limit_follows_params=True)


_register("MiniGrid-Empty-5x5-v0", "empty:Empty", 100, max_size=5)
_register("MiniGrid-Empty-8x8-v0", "empty:Empty", 256)
_register("MiniGrid-Empty-Random-5x5-v0", "empty:Empty", 100, max_size=5, random_start=True)
_register("MiniGrid-LavaGapS7-v0", "lava_gap:LavaGap", 196, max_size=7)
_register("MiniGrid-FourRooms-v0", "four_rooms:FourRooms", 100)
_register("MiniGrid-DoorKey-5x5-v0", "door_key:DoorKey", 250, max_size=5)
_register("MiniGrid-DoorKey-8x8-v0", "door_key:DoorKey", 640)
_register("MiniGrid-DoorKey-16x16-v0", "door_key:DoorKey", 2560, max_size=16)
_register("MiniGrid-Unlock-v0", "unlock:Unlock", 288)
_register("MiniGrid-UnlockPickup-v0", "unlock_pickup:UnlockPickup", 288)
_register("MiniGrid-BlockedUnlockPickup-v0", "blocked_unlock_pickup:BlockedUnlockPickup", 576)
_register("MiniGrid-SimpleCrossingS9N1-v0", "crossing:SimpleCrossing", 324)
_register("MiniGrid-SimpleCrossingS11N5-v0", "crossing:SimpleCrossing", 484, max_size=11, num_crossings=5)
_register("MiniGrid-LavaCrossingS9N1-v0", "crossing:LavaCrossing", 324)
_register("MiniGrid-Dynamic-Obstacles-5x5-v0", "dynamic_obstacles:DynamicObstacles", 100, max_size=5, num_obstacles=2)
_obstacles = "dynamic_obstacles:DynamicObstacles"
_register("MiniGrid-Dynamic-Obstacles-Random-5x5-v0", _obstacles, 100, max_size=5, num_obstacles=2, random_start=True)
_register("MiniGrid-Dynamic-Obstacles-16x16-v0", _obstacles, 1024, max_size=16, num_obstacles=8)
_register("MiniGrid-Fetch-5x5-N2-v0", "fetch:Fetch", 125, max_size=5, num_objects=2)
_register("MiniGrid-Fetch-8x8-N3-v0", "fetch:Fetch", 320)
_register("MiniGrid-GoToDoor-5x5-v0", "go_to_door:GoToDoor", 100, max_size=5)
_register("MiniGrid-GoToDoor-8x8-v0", "go_to_door:GoToDoor", 256)
_register("MiniGrid-GoToObject-6x6-N2-v0", "go_to_object:GoToObject", 180, max_size=6)
_register("MiniGrid-PutNear-6x6-N2-v0", "put_near:PutNear", 30)
_register("MiniGrid-RedBlueDoors-6x6-v0", "red_blue_doors:RedBlueDoors", 720, max_size=6)
_register("MiniGrid-MemoryS7-v0", "memory:Memory", 245)
_register("MiniGrid-MemoryS13Random-v0", "memory:Memory", 845, max_size=13, random_length=True)
_register("MiniGrid-LockedRoom-v0", "locked_room:LockedRoom", 190)
_register("MiniGrid-KeyCorridorS3R1-v0", "key_corridor:KeyCorridor", 270)
_register("MiniGrid-KeyCorridorS3R3-v0", "key_corridor:KeyCorridor", 270, num_rows=3)
_register("MiniGrid-MultiRoom-N2-S4-v0", "multi_room:MultiRoom", 40, num_rooms=2, max_room_size=4)
# MiniGrid's id says four rooms, but its level has six.
_register("MiniGrid-MultiRoom-N4-S5-v0", "multi_room:MultiRoom", 120, max_room_size=5)
_register("MiniGrid-MultiRoom-N6-v0", "multi_room:MultiRoom", 120)
_register("MiniGrid-ObstructedMaze-1Dl-v0", "obstructed_maze:ObstructedMaze1D", 288, key_in_box=False, blocked=False)
_register("MiniGrid-ObstructedMaze-1Dlh-v0", "obstructed_maze:ObstructedMaze1D", 288, blocked=False)
_register("MiniGrid-ObstructedMaze-1Dlhb-v0", "obstructed_maze:ObstructedMaze1D", 288)
_register("MiniGrid-ObstructedMaze-2Dlh-v0", "obstructed_maze:ObstructedMaze2D", 576)
_register("Maze-13x13-v0", "maze:Maze", 676)
_register("AMaze-13x13-v0", "amaze:AMaze", 250)


# terminal_limit: in the original the limit is the end of the game.
_forage = partial(register, entry_point=f"{__name__}.foraging:Foraging", max_episode_steps=50, terminal_limit=True)
_forage("Foraging-8x8-2p-2f-coop-v3", kwargs={"force_coop": True})
_forage("Foraging-10x10-3p-3f-v3", kwargs={"size": 10, "agents": 3, "foods": 3})
_forage("Foraging-2s-10x10-3p-3f-v3", kwargs={"size": 10, "agents": 3, "foods": 3, "sight": 2})
_forage("Foraging-15x15-4p-3f-v3", kwargs={"size": 15, "agents": 4, "foods": 3})

for _layout in ("cramped_room", "asymm_advantages", "coord_ring", "forced_coord", "counter_circuit"):
    _register(f"Overcooked-{_layout.title().replace('_', '')}-v1", "overcooked:Overcooked", 400, layout=_layout)
