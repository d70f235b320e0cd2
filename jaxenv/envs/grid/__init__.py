"""Grid worlds in the style of MiniGrid: an agent observes part of a grid with walls, doors and keys."""

from jaxenv.registry import register

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
register("Maze-13x13-v0", f"{__name__}.maze:Maze", max_episode_steps=676)
