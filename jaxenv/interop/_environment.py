"""The environment that an adapter exports: its argument, its agents, its infos, and one lane of it under ``vmap``."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._util import xla
from jaxenv._util.checks import described
from jaxenv._util.programs import jitted
from jaxenv.core import (
    Environment,
    Starts,
    TimeStep,
    check_agents_lead,
    check_environment,
    layers,
    marks_of_agents,
    registry,
)
from jaxenv.core._declared import declared_leaves
from jaxenv.core._merging import for_one_lane
from jaxenv.core.levels import refuse_given_levels
from jaxenv.random import Clock, KeyWords
from jaxenv.specs._array import rearranged
from jaxenv.tree import Tree
from jaxenv.tree._structure import mismatch
from jaxenv.tree._typed_keys import is_key
from jaxenv.wrappers import AutoReset, BatchWrapper
from jaxenv.wrappers.episode.autoreset import AutoResetState
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
        agent: jax.tree.map(lambda s, number=number: rearranged(s, lambda x: x[:, number]), spec)
        for number, agent in enumerate(env.agent_names)
    }


def info_of_agent(env: Environment, info: dict[str, Tree], number: int) -> dict[str, Any]:
    """Returns the ``env_info`` of one agent from a lane's, whose entries have an axis of agents or are shared."""
    return jax.tree.map(lambda of_agents, x: x[number] if of_agents else x, marks_of_agents(env, info), info)


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
    reserved, found = frozenset(reserved), env.env_info_spec()
    for name in sorted(reserved & found.keys()):
        number = found[name]
        if name == "episode" and isinstance(number, Mapping) and number.keys() == _STATISTICS:
            number = number["return"]
        elif name != "is_success":
            number = None
        is_number = specs.is_spec(number) and number.shape == ()
        if is_number or (name == "final_observation" and env.autoreset == "same_step"):
            continue
        rule = "is a name that its clients read in another meaning, report it under another one"
        if number is not None:
            hint = " (ScalarizeReward makes one of rewards)" if name == "episode" else ""
            rule = f"must be one number per lane, as its clients read it{hint}"
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


def one_lane(
    owner: str,
    env: Environment | str | Sequence[str],
    options: dict[str, Any],
    restarts: str,
    lanes: str = "a batch of keys makes the lanes",
) -> Environment:
    """Builds the stack of one lane by `single_lane`, for a trainer that maps it: no batch state, no params per lane."""
    if isinstance(env, str | list | tuple) and options.get("reset_strategy") is not None:
        raise ValueError(f"{owner}: reset_strategy must be left out, the environment declares it")
    env = single_lane(owner, env, options, restarts, lanes)
    for layer in layers(env):
        if isinstance(layer, BatchWrapper):
            what = "state of the whole batch, which one lane does not have; use the trainer's own wrapper"
            raise ValueError(f"{owner}: {type(layer).__name__} carries {what}")
    refuse_given_levels(owner, env, "leave out with_level, since the trainer's keys make the lanes")
    for declared in declared_leaves(env):
        if declared.per_lane:
            name = declared.path.removeprefix("env." * declared.path.count("env."))
            raise ValueError(not_one_number(owner, name, declared.rank, declared.value))
    return env._with_num_envs(1)


def not_one_number(owner: str, name: str, rank: int, value: Any) -> str:
    """Returns the message about a number of one lane whose axes are not ``rank``, such as an axis of lanes."""
    rule = f"have rank {rank}" if rank else "be one number"
    return f"{owner}: {name} must {rule}, got shape {jnp.shape(value)}: jax.vmap over params gives each lane its own"


def params_of(env: Environment) -> Any:
    """Returns the params of the task; ``None`` without params, or if there are several tasks."""
    params = getattr(env, "params", None)
    return None if isinstance(params, tuple) else params


def with_params_like(owner: str, env: Environment, name: str, params: Any) -> Environment:
    """Returns the environment with other params, a struct like `params_of`; ``name`` names the argument."""
    if type(params) is not type(params_of(env)):
        raise ValueError(f"{owner}: {name} must be like its params {params_of(env)}, got {params!r}")
    if params is None:
        return env
    return env.with_params(**{field.name: getattr(params, field.name) for field in dataclasses.fields(params)})


def check_action(owner: str, spec: Tree, action: Tree) -> None:
    """Raises a ``ValueError`` unless an array has the shape of one lane's action; a batch of lanes is a ``vmap``."""
    if (fault := mismatch(spec, action, "action")) is not None:
        raise ValueError(f"{owner}: {fault}, as in the action spec")
    for (path, s), x in zip(jax.tree.flatten_with_path(spec)[0], jax.tree.leaves(action), strict=True):
        if jnp.shape(x) != s.shape:
            name = f"action {tree.path_name(path)}".rstrip()
            rule = f"must have the shape {s.shape} of one lane (jax.vmap runs more)"
            raise ValueError(f"{owner}: {name} {rule}, got {jnp.shape(x)}")


def lane_action(owner: str, spec: Tree, action: Tree) -> Tree:
    """Returns one lane's action as arrays, checked. Trainers keep or drop an axis of length 1."""
    action = jax.tree.map(jnp.asarray, action)
    if isinstance(action, jax.Array) and action.size == 1 and specs.is_spec(spec) and spec.numel == 1:
        action = action.reshape(spec.shape)
    check_action(owner, spec, action)
    return action


def typed(key: Any) -> Any:
    """Converts legacy ``uint32`` keys to typed ones; other values pass through."""
    if getattr(key, "dtype", None) == np.uint32 and key.ndim:
        return jax.random.wrap_key_data(key)
    return key


# --- steps of one lane, and of a batch under vmap --------------------------------------------------------------------
# jit keeps constants such as lookup tables inside the functions. Stoa calls them in a lax.cond, whose rule for vmap
# would batch them, which functions with their own rule do not allow.


@jitted
@for_one_lane
def begin(env: Environment, env_id: jax.Array, words: KeyWords) -> tuple[Tree, TimeStep]:
    """Starts an episode with these key words."""
    return env.begin(Starts(words, env_id, jnp.zeros_like(env_id)))


@jitted
@for_one_lane
def step(env: Environment, env_id: jax.Array, words: KeyWords, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
    """Advances by one step; everything drawn from now on depends on these key words."""
    return env.step(_with_words(state, words), action)


@jitted
@for_one_lane
def step_and_restart(
    env: Environment, env_id: jax.Array, words: KeyWords, state: Tree, action: Tree
) -> tuple[Tree, TimeStep]:
    """Acts as `step`, and starts the next episode where this one ends, as in mode ``"same_step"``."""
    state, timestep = AutoReset(env, "same_step").step(AutoResetState(_with_words(state, words), ()), action)
    return state.inner, timestep


def _with_words(state: Tree, words: KeyWords) -> Tree:
    """Puts other key words in the clock of a state."""
    words = xla.computed_once(words)  # a trainer splits keys in the same program, and every draw reads the words

    def changed(node: Any) -> Any:
        return dataclasses.replace(node, key=words) if isinstance(node, Clock) else node

    return jax.tree.map(changed, state, is_leaf=lambda node: isinstance(node, Clock))


# Private attributes of Gymnasium's own environments and wrappers that programs set.
_OF_OTHERS = ("_elapsed_steps", "_max_episode_steps")


class Fixed:
    """Refuses new attributes, and new values of public ones, once ``_is_fixed`` is set: the step would ignore them.

    Methods may be replaced; private attributes belong to the class itself.
    """

    _owner: ClassVar[str]
    _settable: ClassVar[frozenset[str]] = frozenset()
    _is_fixed = False

    def __setattr__(self, name: str, value: Any) -> None:
        private = name[0] == "_" and name not in _OF_OTHERS
        free = private or name in self._settable or callable(getattr(type(self), name, None))
        if self._is_fixed and not free:
            raise AttributeError(not_settable(self._owner, self._exported, name, value), name=name, obj=self)
        super().__setattr__(name, value)

    @property
    def _exported(self) -> Environment:
        return self.__dict__["env" if "env" in self.__dict__ else "_env"]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{self._exported!r}>"


class LaneAdapter(Fixed):
    """One lane, which a trainer maps: the base of exports whose ``step`` takes and returns the state."""

    _reserved: ClassVar[tuple[str, ...]]  # names in ``env_info`` that the trainer's library fills

    def __init__(self, env: Environment):
        check_infos(self._owner, env, self._reserved)
        self._env = env

    @property
    def name(self) -> str:
        return self._env.name

    @property
    def unwrapped(self) -> Self:
        return self

    def _lane_and_words(self, key: Any) -> tuple[jax.Array, KeyWords]:
        """Returns the number of the lane and its key words for one key, typed or legacy."""
        key = typed(key)
        if not is_key(key) or key.ndim:
            several = f"{key.shape[0]} keys: jax.vmap runs over them" if is_key(key) else ""
            got = several or f"{described(key)}, use jax.random.key(seed)"
            raise ValueError(f"{self}: key must be one key, got {got}")
        first, second = self._env._lane_words(key[None], jnp.zeros(1, jnp.int32))
        return jnp.int32(0), (first[0], second[0])


def not_settable(owner: str, env: Environment, name: str, value: Any) -> str:
    """Returns the message about an attribute that a program tries to set."""
    options = {field.name for field in dataclasses.fields(env.unwrapped)} - {"num_envs", "name"}
    if hasattr(params_of(env), name) or name in options:
        how = f"give it where the environment is made: {owner}({env.name!r}, {name}={value!r})"
    else:
        how = (
            "nothing would read it: docs/howto/branch.md steps from a state, "
            "docs/howto/start-states.md chooses where episodes start"
        )
    return f"{owner}: {name} cannot be set, {how}"
