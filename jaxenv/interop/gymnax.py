"""Environments for trainers that were written for gymnax: one lane, which the trainer vmaps.

Replace ``import gymnax`` by ``from jaxenv.interop import gymnax``: ``env, params = gymnax.make("CartPole-v1")``.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any, Literal, TypeVar

import jax.core
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import Range, check_arrays, check_choice, check_kind, described, is_concrete
from jaxenv._util.library import import_library
from jaxenv._util.names import explained, missing_attribute
from jaxenv._util.programs import jitted
from jaxenv._util.source import install_command
from jaxenv.core import Environment, TimeStep, layers
from jaxenv.core._declared import Declared, check_number, declared_leaves
from jaxenv.core.registry import ids
from jaxenv.interop import _environment
from jaxenv.interop._environment import LaneAdapter, check_reward, lane_action, not_one_number, one_lane, params_of
from jaxenv.interop._spaces import space_of
from jaxenv.tree import Tree
from jaxenv.wrappers import TimeLimit

API = Literal["1.x", "0.x"]

_NO_LIMIT = np.iinfo(np.int32).max
# Id -> name of a param or an option -> gymnax's name of the same quantity in the same unit.
_CART_POLE = {"force": "force_mag", "position_limit": "x_threshold", "angle_limit": "theta_threshold_radians"}
CONSTANT_NAMES = {
    "CartPole-v0": _CART_POLE,
    "CartPole-v1": _CART_POLE,
    "Pendulum-v1": {"gravity": "g", "mass": "m", "length": "l"},
    "Acrobot-v1": {
        "length_1": "link_length_1",
        "mass_1": "link_mass_1",
        "mass_2": "link_mass_2",
        "com_1": "link_com_pos_1",
        "com_2": "link_com_pos_2",
        "inertia": "link_moi",
        "max_rate_1": "max_vel_1",
        "max_rate_2": "max_vel_2",
    },
}
_LIMIT = Declared("max_steps_in_episode", None, 0, np.dtype(np.int32), Range(low=1))


F = TypeVar("F", bound=Callable[..., Any])


def _compiled(method: F) -> F:
    """Decorates a method of `GymnaxEnv`: a compiled function, as in gymnax, which equal environments share."""
    signature = inspect.signature(method)

    def on_env(env: Environment, api: API, *args: Any, **kwargs: Any) -> Any:
        made = object.__new__(GymnaxEnv)
        made._env, made._api = env, api
        return method(made, *args, **kwargs)

    program = jitted(on_env, static_argnums=1)

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return program(self._env, self._api, *args, **kwargs)
        except TypeError:
            for name, value in list(signature.bind(self, *args, **kwargs).arguments.items())[1:]:
                check_arrays(str(self), name, value)
            raise

    return call  # type: ignore[return-value]


def to_gymnax(env: Environment | str, api: API = "1.x", **options: Any) -> "GymnaxEnv":
    """Exports one lane with gymnax's methods: ``jax.vmap`` over keys and states makes a batch of it.

    The vmapped ``reset`` and ``step`` run this library's batched code. As in gymnax, ``step`` starts the next episode
    in the step that ends one, ``step_env`` does not, and all randomness comes from the given keys, typed or legacy.

    Args:
        env: an id, or an environment without ``AutoReset`` that has one agent and one reward.
        api: ``"1.x"``: ``step`` returns ``(obs, state, reward, terminated, truncated, info)``, as gymnax 1.0 does.
            ``"0.x"``: ``(obs, state, reward, done, info)``, as earlier versions and the trainers written for them.
        **options: of `jaxenv.make`, also under the names of ``default_params``.
    """
    check_choice("to_gymnax", "api", api, ("1.x", "0.x"))
    if isinstance(env, str):
        options = _with_our_names(env, options)
    env = one_lane("to_gymnax", env, options, "step restarts episodes itself", "jax.vmap over keys makes the lanes")
    return GymnaxEnv(env, api)


def make(id: str, **options: Any) -> tuple["GymnaxEnv", Any]:
    """Makes the environment of an id and its default params, like ``gymnax.make``; arguments as for `to_gymnax`."""
    env = to_gymnax(id, **options)
    return env, env.default_params


def __getattr__(name: str) -> Any:
    """Returns other names of the module ``gymnax``: the ids that `make` takes, and gymnax's spaces and wrappers."""
    if name == "registered_envs":
        return ids()
    if name in ("environments", "wrappers"):
        return import_library(f"gymnax.{name}", install_command("gymnax"))
    raise AttributeError(explained(f"module {__name__!r} has no attribute {name!r}", name, r"^use jaxenv\."))


@tree.struct
class GymnaxState:
    """The state of a `GymnaxEnv`."""

    inner: Tree  # the state of the environment for one lane, without the axis of lanes
    time: jax.Array  # int32, the steps of the episode that the time limit counts


class GymnaxEnv(LaneAdapter):
    """The environment that `to_gymnax` returns, with the methods of ``gymnax.environments.Environment``."""

    _owner = "to_gymnax"
    # Entries of infos that ``step`` and gymnax's ``LogWrapper`` fill.
    _reserved = (
        *("discount", "final_observation", "terminated", "truncated"),
        *("returned_episode", "returned_episode_lengths", "returned_episode_returns"),
    )

    def __init__(self, env: Environment, api: API):
        if not _limits(env):
            env = TimeLimit(env, _NO_LIMIT)
        check_reward("to_gymnax", env)
        super().__init__(env)
        self._api = api
        self.observation_space(), self.action_space()  # raises if a spec has no space
        self._is_fixed = True

    @property
    def num_actions(self) -> int:
        """The number of discrete actions, or of components of a continuous action."""
        spec = self._env.action_spec()
        return spec.num_values if spec.is_discrete and spec.shape == () else spec.numel

    @property
    def obs_shape(self) -> tuple[int, ...]:
        return self.observation_space().shape

    def observation_space(self, params: Any = None) -> Any:
        return space_of(self._env.observation_spec(), _spaces(), f"to_gymnax: {self._env}: observation")

    def action_space(self, params: Any = None) -> Any:
        return space_of(self._env.action_spec(), _spaces(), f"to_gymnax: {self._env}: action")

    @property
    def default_params(self) -> Any:
        """The params under gymnax's names, and ``max_steps_in_episode``; ``.replace`` changes some."""
        values = {self._gymnax_name(name): value for name, value in _params(self._env).items()}
        limit = _limits(self._env)[0].duration
        # A Python number, because programs write loops of this length.
        values["max_steps_in_episode"] = int(limit) if is_concrete(limit) else limit
        return _params_class(self._declared)(**values)

    @_compiled
    def reset(self, key: jax.Array, params: Any = None) -> tuple[Tree, GymnaxState]:
        """Starts an episode: the observation and the state."""
        state, timestep = _environment.begin(self._with(params), *self._lane_and_words(key))
        return timestep.observation, self._state(state)

    @_compiled
    def step(self, key: jax.Array, state: GymnaxState, action: Tree, params: Any = None) -> tuple[Any, ...]:
        """Advances by one step, and starts the next episode if this one ends.

        ``info["final_observation"]`` is the observation of the step itself. With ``api="0.x"`` it is omitted, because
        trainers written for it keep every ``info``.
        """
        inner, row = self._stepped(_environment.step_and_restart, key, state, action, params)
        obs, reward, terminated, truncated, info = row
        if self._api == "0.x":
            return obs, self._state(inner), reward, terminated | truncated, {"discount": info["discount"]}
        return obs, self._state(inner), reward, terminated, truncated, info

    reset_env = reset

    @_compiled
    def step_env(self, key: jax.Array, state: GymnaxState, action: Tree, params: Any = None) -> tuple[Any, ...]:
        """Advances by one step without a restart: ``(obs, state, reward, terminated, info)``.

        With ``api="0.x"`` the fourth value includes truncation.
        """
        inner, row = self._stepped(_environment.step, key, state, action, params)
        obs, reward, terminated, truncated, info = row
        ended = terminated | truncated if self._api == "0.x" else terminated
        return obs, self._state(inner), reward, ended, info

    def is_truncated(self, state: GymnaxState, params: Any = None) -> jax.Array:
        """Returns whether the time limit is reached in a state that ``step_env`` returned."""
        return state.time >= _limits(self._with(params))[0].duration

    def __getattr__(self, name: str) -> Any:
        return missing_attribute(self, name, r"\benv\b")

    def _gymnax_name(self, name: str) -> str:
        return CONSTANT_NAMES.get(self.name, {}).get(name, name)

    @property
    def _declared(self) -> tuple[Declared, ...]:
        """The declarations of the params, without their values."""
        params = params_of(self._env)
        declared = [] if params is None else declared_leaves(params)
        return *(dataclasses.replace(d, path=self._gymnax_name(d.path), value=None) for d in declared), _LIMIT

    def _with(self, params: Any) -> Environment:
        if params is None:
            return self._env
        if not all(hasattr(params, declared.path) for declared in self._declared):
            raise ValueError(f"{self}: params must be env.default_params or a replace of it, got {described(params)}")
        for declared in self._declared:
            if np.ndim(value := getattr(params, declared.path)) != declared.rank:
                raise ValueError(not_one_number("to_gymnax", f"params.{declared.path}", declared.rank, value))
        values = {name: getattr(params, self._gymnax_name(name)) for name in _params(self._env)}
        env = self._env.with_params(**values) if values else self._env
        return _with_limit(env, params.max_steps_in_episode)

    def _stepped(
        self, step: Callable[..., Any], key: jax.Array, state: GymnaxState, action: Tree, params: Any
    ) -> tuple[Any, ...]:
        check_kind(str(self), "state", state, GymnaxState, ", as reset and step return it")
        action = lane_action(str(self), self._env.action_spec(), action)
        inner, timestep = step(self._with(params), *self._lane_and_words(key), state.inner, action)
        # As in gymnax, gradients pass through rewards only.
        obs, reward, *flags, info = _fields(timestep)
        return tree.detach(inner), (tree.detach(obs), reward, *flags, tree.detach(info))

    def _state(self, inner: Tree) -> GymnaxState:
        return GymnaxState(inner, _elapsed(self._env, inner))


def _spaces() -> ModuleType:
    return import_library("gymnax.environments.spaces", install_command("gymnax"))


def _fields(timestep: TimeStep) -> tuple[Any, ...]:
    """Returns observation, reward, terminated, truncated and info of a row."""
    terminated, truncated = timestep.terminated, timestep.truncated
    own = {"terminated": terminated, "truncated": truncated, "discount": timestep.discount}
    info = {"final_observation": timestep.observation, **timestep.env_info, **own}
    return timestep.observation, timestep.reward, terminated, truncated, info


# --- params -----------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _params_class(declared: tuple[Declared, ...]) -> type:
    """Makes a struct class of params with gymnax's ``replace``."""
    known = {d.path: d for d in declared}

    def replace(self: Any, **changes: Any) -> Any:
        if unknown := [name for name in changes if name not in known]:
            raise ValueError(f"replace: no param {unknown[0]!r}, the params are {', '.join(known)}")
        for name, value in changes.items():
            # A field that is None belongs to a tree of axes for vmap.
            if not isinstance(value, jax.core.Tracer | jax.ShapeDtypeStruct | None) and getattr(self, name) is not None:
                _check_param(known[name], value)
                if not (name == _LIMIT.path or isinstance(value, jax.Array) or None in changes.values()):
                    # In the dtype of the default: jit would trace again for a Python number.
                    changes[name] = np.asarray(value, known[name].dtype)
        return dataclasses.replace(self, **changes)

    members = {
        "__annotations__": dict.fromkeys(known, Any),
        "__doc__": "Params under gymnax's names.",
        "replace": replace,
        # Pickle cannot find a class made at run time by its name.
        "__reduce__": lambda self: (_restored_params, (declared, [getattr(self, name) for name in known])),
    }
    return tree.struct(type("GymnaxParams", (), members))


def _restored_params(declared: tuple[Declared, ...], values: list[Any]) -> Any:
    return _params_class(declared)(*values)


def _check_param(declared: Declared, value: Any) -> None:
    """Raises a ``ValueError`` unless ``with_params`` accepts the numbers, which may have any axes for ``vmap``."""
    if (shape := np.shape(value))[declared.rank :]:
        value = np.reshape(value, (-1, *shape[len(shape) - declared.rank :]))
    check_number("replace", dataclasses.replace(declared, value=value))


def _with_our_names(id: str, options: dict[str, Any]) -> dict[str, Any]:
    """Translates options that have gymnax's names to options of `jaxenv.make`."""
    ours = {theirs: name for name, theirs in CONSTANT_NAMES.get(id, {}).items()}
    if twice := [name for name in options if ours.get(name) in options]:
        raise ValueError(f"to_gymnax: {twice[0]} and {ours[twice[0]]} are the same, give one of them")
    return {ours.get(name, name): value for name, value in options.items()}


def _params(env: Environment) -> dict[str, Any]:
    params = params_of(env)
    return {} if params is None else {f.name: getattr(params, f.name) for f in dataclasses.fields(params)}


def _limits(env: Environment) -> list[TimeLimit]:
    return [layer for layer in layers(env) if isinstance(layer, TimeLimit)]


def _elapsed(env: Any, state: Tree) -> jax.Array:
    """Returns the steps that the outermost time limit has counted."""
    return env.elapsed(state) if isinstance(env, TimeLimit) else _elapsed(env.env, env.inner(state))


def _with_limit(env: Any, duration: Any) -> Environment:
    if isinstance(env, TimeLimit):
        return tree.rebuild(env, duration=jnp.asarray(duration, jnp.int32), follows_params=False)
    return tree.rebuild(env, env=_with_limit(env.env, duration))
