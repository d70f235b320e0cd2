"""Classic control problems."""

from jaxenv.core import register

register("CartPole-v0", f"{__name__}.cart_pole:CartPole", max_episode_steps=200, reward_threshold=195.0)
register("CartPole-v1", f"{__name__}.cart_pole:CartPole", max_episode_steps=500, reward_threshold=475.0)
register("MountainCar-v0", f"{__name__}.mountain_car:MountainCar", max_episode_steps=200, reward_threshold=-110.0)
register(
    "MountainCarContinuous-v0",
    f"{__name__}.mountain_car_continuous:MountainCarContinuous",
    max_episode_steps=999,
    reward_threshold=90.0,
)
register("Pendulum-v1", f"{__name__}.pendulum:Pendulum", max_episode_steps=200)
register("Acrobot-v1", f"{__name__}.acrobot:Acrobot", max_episode_steps=500, reward_threshold=-100.0)
