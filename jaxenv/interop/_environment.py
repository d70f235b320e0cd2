"""The environment that an adapter exports: the argument ``env_or_id``, its agents and the names in its infos."""

from collections.abc import Iterable, Mapping
from typing import Any

import jax

from jaxenv import specs
from jaxenv.core import Environment, check_agents_lead, check_environment, marks_of_agents, registry
from jaxenv.tree import Tree
from jaxenv.wrappers.stack._make import make


def environment_of(owner: str, env_or_id: Any, num_envs: int | None, options: dict[str, Any]) -> Environment:
    """Loads the environment of one or several ids with options of `jaxenv.make`, or returns the given one."""
    if not isinstance(env_or_id, Environment):
        if not isinstance(env_or_id, str | list | tuple) and not hasattr(env_or_id, "entry_point"):
            check_environment(owner, env_or_id)
        return make(env_or_id, 1 if num_envs is None else num_envs, **options)
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


def specs_of_agents(owner: str, what: str, env: Environment, spec: Tree) -> dict[str, Tree]:
    """Returns the specs ``[...]`` of each agent from all agents' ``[A, ...]``; in a game of turns both are the same."""
    if env.turns:
        return dict.fromkeys(env.agent_names, spec)
    if what == "observation":
        check_agents_lead(owner, env)
    return {
        agent: jax.tree.map(lambda one, number=number: _of_agent(one, number), spec)
        for number, agent in enumerate(env.agent_names)
    }


def _of_agent(spec: specs.Array, number: int) -> specs.Array:
    if isinstance(spec, specs.Bounded):
        return spec.replace(shape=spec.shape[1:], minimum=spec.minimum[number], maximum=spec.maximum[number])
    return spec.replace(shape=spec.shape[1:])


def info_of_agent(env: Environment, info: dict[str, Tree], number: int) -> dict[str, Any]:
    """Returns the ``env_info`` of one agent from a lane's, whose entries have an axis of agents or are shared."""
    marks = marks_of_agents(env, info)
    return jax.tree.map(lambda of_agents, x: x[number] if of_agents else x, marks, info)


# Names that host programs read in infos of Gymnasium and stable-baselines3, which exchange environments.
ON_HOST = (
    *("episode", "final_info", "final_obs", "final_observation"),
    *("is_success", "terminal_observation", "TimeLimit.truncated"),
)
# The entries that `EpisodeStatistics` reports.
_STATISTICS = {"return", "length", "terminated", "truncated", "valid"}


def check_infos(owner: str, env: Environment, reserved: Iterable[str]) -> None:
    """Raises a ``ValueError`` for an entry of ``env_info`` with a ``reserved`` name, which clients read otherwise.

    Allowed are ``"episode"`` from ``EpisodeStatistics`` with a scalar reward, ``"is_success"`` with one number per
    lane, and ``"final_observation"`` in ``same_step`` mode. Where ``"episode"`` is reserved, so are names that start
    with ``_``: vector environments mark lanes by them.
    """
    reserved = frozenset(reserved)
    found = env.env_info_spec()
    for name in sorted(reserved & found.keys()):
        rule = "is a name that its clients read in another meaning, report it under another one"
        if name == "final_observation" and env.autoreset == "same_step":
            continue
        if name == "is_success" and specs.is_spec(found[name]) and found[name].shape == ():
            continue
        if name == "is_success":
            rule = "must be one number per lane, as its clients read it"
        if name == "episode" and isinstance(found[name], Mapping) and found[name].keys() == _STATISTICS:
            if found[name]["return"].shape == ():
                continue
            rule = "must have a return of one number, put ScalarizeReward before EpisodeStatistics"
        raise ValueError(f"{owner}: env_info[{name!r}] {rule}, got {found[name]} of {env}")
    if "episode" in reserved:
        _check_masks(owner, "env_info", found)


def _check_masks(owner: str, place: str, found: Mapping[str, Tree]) -> None:
    for name, inside in found.items():
        if isinstance(name, str) and name.startswith("_"):
            raise ValueError(f"{owner}: {place}[{name!r}] must not start with '_', which marks masks of lanes")
        if isinstance(inside, Mapping):
            _check_masks(owner, f"{place}[{name!r}]", inside)


def has_action_mask(env: Environment) -> bool:
    """Returns whether ``env_info["action_mask"]`` is one array of flags."""
    return specs.is_spec(env.env_info_spec().get("action_mask"))
