"""Stacks, keys and steps for adapters of one lane, which a trainer vmaps."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util import xla
from jaxenv.core import Environment, Starts, TimeStep, layers
from jaxenv.core._declared import declared_leaves
from jaxenv.core._merging import for_one_lane
from jaxenv.core.levels import refuse_given_levels
from jaxenv.interop._environment import single_lane
from jaxenv.random import Clock, KeyWords
from jaxenv.tree import Tree
from jaxenv.tree._structure import mismatch
from jaxenv.tree._typed_keys import is_key
from jaxenv.wrappers import AutoReset, BatchWrapper
from jaxenv.wrappers.episode.autoreset import AutoResetState


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


def check_action(owner: str, spec: Tree, action: Tree) -> None:
    """Raises a ``ValueError`` unless an array has the shape of one lane's action; a batch of lanes is a ``vmap``."""
    if (fault := mismatch(spec, action, "action")) is not None:
        raise ValueError(f"{owner}: {fault}, as in the action spec")
    for (path, s), x in zip(tree.flatten_with_path(spec)[0], jax.tree.leaves(action), strict=True):
        if jnp.shape(x) != s.shape:
            name = f"action {tree.path_name(path)}".rstrip()
            rule = f"must have the shape {s.shape} of one lane (jax.vmap runs more)"
            raise ValueError(f"{owner}: {name} {rule}, got {jnp.shape(x)}")


def typed(key: Any) -> Any:
    """Converts legacy ``uint32`` keys to typed ones; other values pass through."""
    if getattr(key, "dtype", None) == np.uint32 and key.ndim:
        return jax.random.wrap_key_data(key)
    return key


def kind(value: Any) -> str:
    """Names the type of a value that is not a key, with its article; a tracer has the type of its numbers."""
    name = f"{value.dtype}{list(value.shape) or ''}" if hasattr(value, "dtype") else type(value).__name__
    return f"{'an' if name[0] in 'aeiou' and not name.startswith('uint') else 'a'} {name}"


def lane_words(owner: str, env: Environment, key: Any) -> KeyWords:
    """Returns the key words of one lane for one key, typed or legacy."""
    key = typed(key)
    if not is_key(key) or key.ndim:
        several = f"{key.shape[0]} keys: jax.vmap runs over them" if is_key(key) else ""
        got = several or f"{kind(key)}, use jax.random.key(seed)"
        raise ValueError(f"{owner}: key must be one key, got {got}")
    first, second = env._lane_words(key[None], jnp.zeros(1, jnp.int32))
    return first[0], second[0]


# --- steps of one lane, and of a batch under vmap --------------------------------------------------------------------


@for_one_lane
def begin(env: Environment, env_id: jax.Array, words: KeyWords) -> tuple[Tree, TimeStep]:
    """Starts an episode with these key words."""
    return env.begin(Starts(words, env_id, jnp.zeros_like(env_id)))


@for_one_lane
def step(env: Environment, env_id: jax.Array, words: KeyWords, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
    """Advances by one step; everything drawn from now on depends on these key words."""
    return env.step(_with_words(state, words), action)


@for_one_lane
def step_and_restart(
    env: Environment, env_id: jax.Array, words: KeyWords, state: Tree, action: Tree
) -> tuple[Tree, TimeStep]:
    """Acts as `step`, and starts the next episode where this one ends, as in mode ``"same_step"``."""
    restarting = AutoReset(env, "same_step")
    state, timestep = restarting.step(AutoResetState(_with_words(state, words), ()), action)
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
