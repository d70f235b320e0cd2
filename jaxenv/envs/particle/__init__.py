"""Agents that move as particles in the plane: tasks of the multi-agent particle environments."""

from jaxenv.core import register

register("SimpleSpread-mpe", f"{__name__}.simple_spread:SimpleSpread", max_episode_steps=25)
register("SimpleTag-mpe", f"{__name__}.simple_tag:SimpleTag", max_episode_steps=25)
register("SimpleReference-mpe", f"{__name__}.simple_reference:SimpleReference", max_episode_steps=25)
