"""Tasks with rigid-body physics: Gymnasium's Box2D environments."""

from jaxenv.core import register

_LANDER = f"{__name__}.lunar_lander:LunarLander"
_WALKER = f"{__name__}.bipedal_walker:BipedalWalker"

register("LunarLander-v3", _LANDER, max_episode_steps=1000, reward_threshold=200.0)
_CONTINUOUS = {"continuous": True}
register("LunarLanderContinuous-v3", _LANDER, max_episode_steps=1000, reward_threshold=200.0, kwargs=_CONTINUOUS)
register("CarRacing-v3", f"{__name__}.car_racing:CarRacing", max_episode_steps=1000, reward_threshold=900.0)
register("BipedalWalker-v3", _WALKER, max_episode_steps=1600, reward_threshold=300.0)
register("BipedalWalkerHardcore-v3", _WALKER, max_episode_steps=2000, reward_threshold=300.0, kwargs={"hardcore": True})
