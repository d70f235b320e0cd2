"""The argument ``env_or_id`` of adapters."""

from typing import Any

from jaxenv.core import registry
from jaxenv.core.environment import Environment, check_environment
from jaxenv.wrappers.stack._make import load


def environment_of(owner: str, env_or_id: Any, num_envs: int | None, options: dict[str, Any]) -> Environment:
    """Loads the environment of one or several ids with options of `jaxenv.load`, or returns the given one."""
    if not isinstance(env_or_id, Environment):
        if not isinstance(env_or_id, str | list | tuple) and not hasattr(env_or_id, "entry_point"):
            check_environment(owner, env_or_id)
        return load(env_or_id, 1 if num_envs is None else num_envs, **options)
    if options:
        raise ValueError(f"{owner}: options belong to an id, but env is {env_or_id}, got {', '.join(options)}")
    if num_envs is not None and num_envs != env_or_id.num_envs:
        raise ValueError(f"{owner}: num_envs must be {env_or_id.num_envs}, as in env, got {num_envs}")
    return env_or_id


def single_lane(owner: str, env_or_id: Any, options: dict[str, Any], restarts: str, lanes: str) -> Environment:
    """Loads or returns an environment of one lane that never restarts.

    ``restarts`` and ``lanes`` say in errors who starts the next episode and who makes the lanes.
    """
    for id in env_or_id if isinstance(env_or_id, list | tuple) else [env_or_id]:
        refuse_outside_jax(owner, id)
    if not isinstance(env_or_id, Environment):
        refuse_num_envs(owner, options, lanes)
        if options.setdefault("autoreset", None) is not None:
            raise ValueError(f"{owner}: {restarts}, leave out autoreset, got {options['autoreset']!r}")
    env = environment_of(owner, env_or_id, None, options)
    if env.autoreset is not None:
        raise ValueError(f"{owner}: {restarts}, make {env} with autoreset=None")
    return env


def refuse_outside_jax(owner: str, env_or_id: Any) -> None:
    """Raises a ``ValueError`` for an id whose lanes an engine outside JAX restarts."""
    if isinstance(env_or_id, str) and registry.suite_of(env_or_id) in ("envpool", "gymnasium"):
        others = "to_gymnasium_vector, to_dm_env and host take it"
        raise ValueError(f"{owner}: {env_or_id} runs outside JAX and restarts its episodes itself; {others}")


def refuse_num_envs(owner: str, options: dict[str, Any], why: str) -> None:
    """Removes ``num_envs`` from the options of one lane; ``why`` explains in the error who makes the lanes."""
    if (num_envs := options.pop("num_envs", 1)) != 1:
        raise ValueError(f"{owner}: leave out num_envs, {why}, got {num_envs}")


def check_one_agent(owner: str, env: Environment, batch: bool = False) -> None:
    """Raises a ``ValueError`` for a game; it says what to use instead, which ``batch``, an export of lanes, decides."""
    if env.num_agents == 1:
        return
    fold = "put AgentsAsLanes in wrappers, or " if batch else ""
    remedy = "put Opponent in wrappers, or use to_pettingzoo" if env.turns else f"{fold}use to_jaxmarl or to_pettingzoo"
    raise ValueError(f"{owner}: env must have one agent, {env} has {env.num_agents}: {remedy}")


def check_reward(owner: str, env: Environment, batch: bool = False) -> None:
    """Raises a ``ValueError`` for a game, as `check_one_agent`, and for vector rewards."""
    check_one_agent(owner, env, batch)
    if shape := env.reward_spec().shape:
        raise ValueError(f"{owner}: a reward must be one number, {env} has {shape[0]}: wrap it in ScalarizeReward")
