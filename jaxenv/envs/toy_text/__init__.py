"""Small tasks with discrete states and exact solutions."""

from jaxenv.core import register

_LAKE = f"{__name__}.frozen_lake:FrozenLake"

register("FrozenLake-v1", _LAKE, max_episode_steps=100, reward_threshold=0.7, kwargs={"map_name": "4x4"})
register("FrozenLake8x8-v1", _LAKE, max_episode_steps=200, reward_threshold=0.85, kwargs={"map_name": "8x8"})
register("CliffWalking-v1", f"{__name__}.cliff_walking:CliffWalking")
register("CliffWalkingSlippery-v1", f"{__name__}.cliff_walking:CliffWalking", kwargs={"is_slippery": True})
register("Taxi-v4", f"{__name__}.taxi:Taxi", max_episode_steps=200, reward_threshold=8.0)
register("Blackjack-v1", f"{__name__}.blackjack:Blackjack", kwargs={"natural": False, "sab": True})
