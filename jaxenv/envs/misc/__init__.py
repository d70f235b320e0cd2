"""Small tasks from various sources."""

from jaxenv.core import register

register("FourRooms-misc", f"{__name__}.four_rooms:FourRooms", max_episode_steps=500)
# With terminal_limit the horizon is part of the task, as in the papers: values beyond it are 0.
register("MetaMaze-misc", f"{__name__}.meta_maze:MetaMaze", max_episode_steps=200, terminal_limit=True)
register("PointRobot-misc", f"{__name__}.point_robot:PointRobot", max_episode_steps=100)
register(
    "BernoulliBandit-misc", f"{__name__}.bernoulli_bandit:BernoulliBandit", max_episode_steps=100, terminal_limit=True
)
register(
    "GaussianBandit-misc", f"{__name__}.gaussian_bandit:GaussianBandit", max_episode_steps=100, terminal_limit=True
)
register("Reacher-misc", f"{__name__}.reacher:Reacher", max_episode_steps=100)
register("Swimmer-misc", f"{__name__}.swimmer:Swimmer", max_episode_steps=500)
register("Pong-misc", f"{__name__}.pong:Pong", max_episode_steps=1000)
