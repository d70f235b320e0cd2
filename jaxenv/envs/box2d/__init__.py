"""Tasks with rigid-body physics, as in Gymnasium's Box2D environments.

They are not registered yet, because a step still compiles for too long: ``jaxenv.make(LUNAR_LANDER, num_envs=8)``.
"""

from jaxenv.registry import EnvSpec

_LANDER = f"{__name__}.lunar_lander:LunarLander"

LUNAR_LANDER = EnvSpec("LunarLander-v3", _LANDER, max_episode_steps=1000, reward_threshold=200.0)
LUNAR_LANDER_CONTINUOUS = EnvSpec(
    "LunarLanderContinuous-v3",
    _LANDER,
    max_episode_steps=1000,
    reward_threshold=200.0,
    kwargs={"continuous": True},
)
