"""Maps the observation of a row together with its ``final_observation``."""

import dataclasses
from collections.abc import Callable

from jaxenv.timestep import TimeStep
from jaxenv.tree import Tree


def map_observation(fn: Callable[[Tree], Tree], timestep: TimeStep) -> TimeStep:
    """Applies ``fn`` to the observation and to ``env_info["final_observation"]`` where it exists.

    ``timestep`` holds rows ``[B]`` or their specs.
    """
    env_info = timestep.env_info
    if "final_observation" in env_info:
        env_info = {**env_info, "final_observation": fn(env_info["final_observation"])}
    return dataclasses.replace(timestep, observation=fn(timestep.observation), env_info=env_info)
