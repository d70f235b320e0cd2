"""Stacks and keys for adapters whose lanes restart outside the stack."""

from typing import Any

import jax
import numpy as np

from jaxenv._make import load
from jaxenv.environment import Environment
from jaxenv.wrapper import layers
from jaxenv.wrappers import BatchWrapper


def one_lane(owner: str, env: Environment | str, options: dict[str, Any], restarts: str) -> Environment:
    """The stack of one lane, without restarts, of an id or an environment.

    Args:
        owner: the start of error messages.
        env: an id, or an environment.
        options: options of `jaxenv.load`, for an id.
        restarts: what starts the next episode, for the error about an environment that does it itself.

    Raises:
        ValueError: for anything else than an id or an environment, options with an environment, an environment that
            restarts its lanes, carries state of the whole batch or has params per lane.
    """
    if isinstance(env, str):
        if options.setdefault("autoreset", None) is not None:
            raise ValueError(f"{owner}: {restarts}, leave out autoreset, got {options['autoreset']!r}")
        if options.get("reset_strategy") is not None:
            raise ValueError(f"{owner}: reset_strategy is that of the environment, leave it out")
        env = load(env, 1, **options)
    elif options:
        raise ValueError(f"{owner}: options belong to an id, but env is {env}, got {', '.join(options)}")
    if not isinstance(env, Environment):
        raise ValueError(f"{owner}: env must be an id or an environment of jaxenv, got {env!r}")
    if env.autoreset is not None:
        raise ValueError(f"{owner}: {restarts}, make {env} with autoreset=None")
    for layer in layers(env):
        if isinstance(layer, BatchWrapper):
            raise ValueError(
                f"{owner}: {type(layer).__name__} carries state of the whole batch, which one lane does not have; "
                "use the trainer's own wrapper"
            )
    env = env._with_num_envs(1)
    env.check_lanes(1)
    return env


def typed(key: Any) -> Any:
    """Typed keys of legacy ``uint32`` ones; other values pass through."""
    if getattr(key, "dtype", None) == np.uint32 and key.ndim:
        return jax.random.wrap_key_data(key)
    return key
