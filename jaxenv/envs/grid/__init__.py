"""Grid worlds in the style of MiniGrid: an agent observes part of a grid with walls, doors and keys."""

import functools

from jaxenv.core import registry

# max_steps is the time limit and scales the reward, and by default follows from the size.
register = functools.partial(registry.register, limit_follows_params=True)

register("MiniGrid-Empty-5x5-v0", f"{__name__}.empty:Empty", max_episode_steps=100, kwargs={"max_size": 5})
register("MiniGrid-Empty-8x8-v0", f"{__name__}.empty:Empty", max_episode_steps=256)
register(
    "MiniGrid-Empty-Random-5x5-v0",
    f"{__name__}.empty:Empty",
    max_episode_steps=100,
    kwargs={"max_size": 5, "random_start": True},
)
register("MiniGrid-LavaGapS7-v0", f"{__name__}.lava_gap:LavaGap", max_episode_steps=196, kwargs={"max_size": 7})
register("MiniGrid-FourRooms-v0", f"{__name__}.four_rooms:FourRooms", max_episode_steps=100)
register("MiniGrid-DoorKey-5x5-v0", f"{__name__}.door_key:DoorKey", max_episode_steps=250, kwargs={"max_size": 5})
register("MiniGrid-DoorKey-8x8-v0", f"{__name__}.door_key:DoorKey", max_episode_steps=640)
register("MiniGrid-DoorKey-16x16-v0", f"{__name__}.door_key:DoorKey", max_episode_steps=2560, kwargs={"max_size": 16})
register("MiniGrid-Unlock-v0", f"{__name__}.unlock:Unlock", max_episode_steps=288)
register("MiniGrid-UnlockPickup-v0", f"{__name__}.unlock_pickup:UnlockPickup", max_episode_steps=288)
register(
    "MiniGrid-BlockedUnlockPickup-v0",
    f"{__name__}.blocked_unlock_pickup:BlockedUnlockPickup",
    max_episode_steps=576,
)
register("MiniGrid-SimpleCrossingS9N1-v0", f"{__name__}.crossing:SimpleCrossing", max_episode_steps=324)
register(
    "MiniGrid-SimpleCrossingS11N5-v0",
    f"{__name__}.crossing:SimpleCrossing",
    max_episode_steps=484,
    kwargs={"max_size": 11, "num_crossings": 5},
)
register("MiniGrid-LavaCrossingS9N1-v0", f"{__name__}.crossing:LavaCrossing", max_episode_steps=324)
register(
    "MiniGrid-Dynamic-Obstacles-5x5-v0",
    f"{__name__}.dynamic_obstacles:DynamicObstacles",
    max_episode_steps=100,
    kwargs={"max_size": 5, "num_obstacles": 2},
)
register(
    "MiniGrid-Dynamic-Obstacles-Random-5x5-v0",
    f"{__name__}.dynamic_obstacles:DynamicObstacles",
    max_episode_steps=100,
    kwargs={"max_size": 5, "num_obstacles": 2, "random_start": True},
)
register(
    "MiniGrid-Dynamic-Obstacles-16x16-v0",
    f"{__name__}.dynamic_obstacles:DynamicObstacles",
    max_episode_steps=1024,
    kwargs={"max_size": 16, "num_obstacles": 8},
)
register(
    "MiniGrid-Fetch-5x5-N2-v0",
    f"{__name__}.fetch:Fetch",
    max_episode_steps=125,
    kwargs={"max_size": 5, "num_objects": 2},
)
register("MiniGrid-Fetch-8x8-N3-v0", f"{__name__}.fetch:Fetch", max_episode_steps=320)
register("MiniGrid-GoToDoor-5x5-v0", f"{__name__}.go_to_door:GoToDoor", max_episode_steps=100, kwargs={"max_size": 5})
register("MiniGrid-GoToDoor-8x8-v0", f"{__name__}.go_to_door:GoToDoor", max_episode_steps=256)
register(
    "MiniGrid-GoToObject-6x6-N2-v0",
    f"{__name__}.go_to_object:GoToObject",
    max_episode_steps=180,
    kwargs={"max_size": 6},
)
register("MiniGrid-PutNear-6x6-N2-v0", f"{__name__}.put_near:PutNear", max_episode_steps=30)
register(
    "MiniGrid-RedBlueDoors-6x6-v0",
    f"{__name__}.red_blue_doors:RedBlueDoors",
    max_episode_steps=720,
    kwargs={"max_size": 6},
)
register("MiniGrid-MemoryS7-v0", f"{__name__}.memory:Memory", max_episode_steps=245)
register(
    "MiniGrid-MemoryS13Random-v0",
    f"{__name__}.memory:Memory",
    max_episode_steps=845,
    kwargs={"max_size": 13, "random_length": True},
)
register("MiniGrid-LockedRoom-v0", f"{__name__}.locked_room:LockedRoom", max_episode_steps=190)
register("MiniGrid-KeyCorridorS3R1-v0", f"{__name__}.key_corridor:KeyCorridor", max_episode_steps=270)
register(
    "MiniGrid-KeyCorridorS3R3-v0",
    f"{__name__}.key_corridor:KeyCorridor",
    max_episode_steps=270,
    kwargs={"num_rows": 3},
)
register(
    "MiniGrid-MultiRoom-N2-S4-v0",
    f"{__name__}.multi_room:MultiRoom",
    max_episode_steps=40,
    kwargs={"num_rooms": 2, "max_room_size": 4},
)
# MiniGrid's id says four rooms, but its level has six.
register(
    "MiniGrid-MultiRoom-N4-S5-v0",
    f"{__name__}.multi_room:MultiRoom",
    max_episode_steps=120,
    kwargs={"max_room_size": 5},
)
register("MiniGrid-MultiRoom-N6-v0", f"{__name__}.multi_room:MultiRoom", max_episode_steps=120)
register(
    "MiniGrid-ObstructedMaze-1Dl-v0",
    f"{__name__}.obstructed_maze:ObstructedMaze1D",
    max_episode_steps=288,
    kwargs={"key_in_box": False, "blocked": False},
)
register(
    "MiniGrid-ObstructedMaze-1Dlh-v0",
    f"{__name__}.obstructed_maze:ObstructedMaze1D",
    max_episode_steps=288,
    kwargs={"blocked": False},
)
register("MiniGrid-ObstructedMaze-1Dlhb-v0", f"{__name__}.obstructed_maze:ObstructedMaze1D", max_episode_steps=288)
register("MiniGrid-ObstructedMaze-2Dlh-v0", f"{__name__}.obstructed_maze:ObstructedMaze2D", max_episode_steps=576)
register("Maze-13x13-v0", f"{__name__}.maze:Maze", max_episode_steps=676)
