"""Environments that a library wrote in JAX for one lane: the functions of a lane, and the task that maps them."""

import abc
import dataclasses
import functools
import importlib
import inspect
import weakref
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv._util.library import default_types, outside_traces
from jaxenv.core import Environment, EnvSpec, ResetStrategy, Task, Transition, registry
from jaxenv.random import Stream
from jaxenv.suites._options import check_known, check_unknown, checked_option, thaw
from jaxenv.tree import Static, Tree, _typed_keys
from jaxenv.wrappers.stack._make import OPTIONS, make

# State, observation, reward, whether the task itself ended, and entries of ``env_info``, of one lane.
Stepped: TypeAlias = tuple[Tree, Tree, jax.Array, jax.Array, dict[str, Tree]]


@tree.struct
class NoParams:
    """The params of an environment without params."""


@tree.struct
class Shapes:
    """Shapes and strong dtypes of one lane's state, observation and info after a step; typed keys as their words."""

    env_state: Tree
    observation: Tree
    info: Tree
    key_kinds: Static = tree.static()


class Single(abc.ABC):
    """One environment of a suite, written for one lane.

    A suite builds each configuration once, because jit caches by the object's identity. ``reset`` and ``step`` hold the
    physics and nothing else: they neither restart episodes nor end them at the time limit, which is ``limit``.
    """

    suite: str  # the prefix of its ids
    env: Any  # the library's object
    agent_names: tuple[str, ...] = ("agent",)
    turns: bool = False  # whether several agents take turns
    alternates: bool = True  # whether every move of a game of turns passes the turn
    params: Any = NoParams()  # a struct of the numeric params with their defaults
    limit: int | None = None  # the suite's own time limit in steps, None for none
    limit_name: str | None = None  # the suite's keyword for it, which the stack takes over
    reset_strategy: ResetStrategy = "select"  # the fastest way to restart lanes
    opt_outs: Mapping[str, str] = {}  # properties of the conformance kit that the suite's code lacks, with the reasons
    unbounded: tuple[str, ...] = ()  # names of entries of observations whose declared bounds do not hold

    def __init__(self, id: str, options: tuple[Any, ...]):
        check_known(self.suite, id, _module(self.suite).ids())
        self.owner = f"{self.suite}:{id}"  # the prefix of errors
        self.options, arguments = options, {name: thaw(value) for name, value in options}
        with outside_traces():
            self.build(id, arguments)

    @abc.abstractmethod
    def build(self, id: str, arguments: dict[str, Any]) -> None:
        """Makes the library's environment, inside `reporting`, and outside sets the attributes that depend on it."""

    @abc.abstractmethod
    def reset(self, values: Mapping[str, Any], key: jax.Array) -> tuple[Tree, Tree]:
        """Returns state and observation of a new episode, for params by name and a typed key."""

    @abc.abstractmethod
    def step(self, values: Mapping[str, Any], key: jax.Array, state: Tree, action: Tree) -> Stepped:
        """Steps the lane."""

    @abc.abstractmethod
    def declared_action(self) -> Tree:
        """Returns the action spec."""

    def declared_observation(self) -> Tree:
        """Returns the observation spec that the suite declares, ``None`` if it declares none."""
        return None

    def state_info(self, state: Tree, observation: Tree) -> dict[str, Tree]:
        """Entries of ``env_info`` that describe a state, ``[B, ...]``, such as ``action_mask``."""
        return {}

    def example_values(self) -> dict[str, Any]:
        """Returns values of all params, for tracing shapes."""
        return values_of(self.params)

    @functools.cached_property
    def action_spec(self) -> Static:
        with outside_traces():
            return Static(self.declared_action())

    @functools.cached_property
    def observation_spec(self) -> Static:
        """Shapes and dtypes of the actual observations, with the declared bounds where these hold."""
        with outside_traces():
            declared = self.declared_observation()
        observed = self.shapes.observation
        if declared is None or tree.structure(declared) != tree.structure(observed):
            return Static(specs.from_array(observed))
        return Static(jax.tree_util.tree_map_with_path(self._corrected, declared, observed))

    def _corrected(self, path: tuple[Any, ...], declared: specs.Array, observed: jax.ShapeDtypeStruct) -> specs.Array:
        named_unbounded = tree.path_name(path).split(".")[-1] in self.unbounded
        if not isinstance(declared, specs.Bounded) or declared.shape != observed.shape or named_unbounded:
            return specs.Array(observed.shape, observed.dtype, "observation")
        low, high = np.array(declared.minimum, np.float64), np.array(declared.maximum, np.float64)
        return self.bounded(observed, low, high)

    def bounded(self, observed: jax.ShapeDtypeStruct, low: np.ndarray, high: np.ndarray) -> specs.Array:
        """Returns a bounded spec; a suite may override it to correct bounds that its observations exceed."""
        return specs.Bounded(observed.shape, observed.dtype, low, high, "observation")

    @functools.cached_property
    def shapes(self) -> Shapes:
        """Shapes and dtypes of the results of a step. A reset may return other dtypes."""
        found: dict[str, Tree] = {}

        def first(values: Any, key: jax.Array) -> Any:
            state, _ = self.reset(values, key)
            found["kinds"] = _typed_keys.kinds(state)
            return _typed_keys.to_words(state)

        def later(values: Any, key: jax.Array, state: Tree, action: Tree) -> Any:
            state = _typed_keys.from_words(found["kinds"], state)
            state, observation, _, _, info = self.step(values, key, state, action)
            return _typed_keys.to_words(state), observation, info

        with outside_traces():
            key = jax.eval_shape(lambda: jax.random.key(0, impl="threefry2x32"))
            action = _strong(self.action_spec.value)
            values = _strong(jax.eval_shape(lambda: jax.tree.map(jnp.asarray, self.example_values())))
            state = _strong(jax.eval_shape(first, values, key))
            for _ in range(2):  # the second step starts from the dtypes that the first one returned
                before = state
                state, observation, info = _strong(jax.eval_shape(later, values, key, state, action))
                if jax.tree.leaves(before) == jax.tree.leaves(state):
                    break
        return Shapes(state, observation, info, Static(found["kinds"]))


def _strong(shapes: Tree) -> Tree:
    return jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype), shapes)


class BraxLike(Single):
    """An environment with Brax's interface, of Brax itself or of MuJoCo Playground."""

    limit_name = "episode_length"
    reset_strategy = "compact"  # a start runs the kinematics and dynamics of a step

    def reset(self, values: Mapping[str, Any], key: jax.Array) -> tuple[Tree, Tree]:
        state = self.env.reset(key)
        return state, state.obs

    def step(self, values: Mapping[str, Any], key: jax.Array, state: Tree, action: Tree) -> Stepped:
        state = self.env.step(state, action)
        return state, state.obs, state.reward, state.done > 0, dict(state.metrics)

    def declared_action(self) -> Tree:
        return specs.Bounded((self.env.action_size,), np.float32, -1, 1, "action")


def functions_of(cls: type[Single]) -> tuple[Any, Any, Any]:
    """Returns the functions ``single``, ``action_and_limit`` and ``docstring`` of a suite.

    ``single`` makes one object for equal arguments. It goes with the last environment that holds it, but the newest
    ones stay. The others take an id; they trace no step.
    """
    made: weakref.WeakValueDictionary[tuple[Any, ...], Any] = weakref.WeakValueDictionary()

    @functools.lru_cache(maxsize=16)
    def single(id: str, options: tuple[Any, ...]) -> Single:
        if (found := made.get((id, options))) is None:
            found = made[id, options] = cls(id, options)
        return found

    def action_and_limit(name: str) -> tuple[Tree, int | None]:
        built = single(name, ())
        return built.action_spec.value, built.limit

    def docstring(name: str) -> str:
        cls = type(single(name, ()).env)  # whose own docstring counts, not an inherited one
        text = inspect.cleandoc(vars(cls).get("__doc__") or "").removeprefix("### Description").strip()
        return "" if text.startswith(f"{cls.__name__}(") else text  # a dataclass without one shows its signature

    return single, action_and_limit, docstring


def spec_of(space: Any, name: str) -> Tree:
    """Converts a space with the attributes of Gymnasium's Dict, Tuple, Discrete or Box to a tree of specs."""
    if hasattr(space, "spaces"):
        if isinstance(space.spaces, Mapping):
            return {key: spec_of(inner, name) for key, inner in space.spaces.items()}
        return tuple(spec_of(inner, name) for inner in space.spaces)
    if hasattr(space, "n"):
        return specs.discrete(space.n, name=name)
    # The largest float32 stands for "no bound".
    low, high = (np.broadcast_to(np.asarray(bound, np.float64), space.shape) for bound in (space.low, space.high))
    largest = float(np.finfo(np.float32).max)
    low, high = np.where(low <= -largest, -np.inf, low), np.where(high >= largest, np.inf, high)
    if np.all(np.isinf(low)) and np.all(np.isinf(high)):
        return specs.Array(space.shape, space.dtype, name)
    return specs.Bounded(space.shape, space.dtype, low, high, name)


@tree.struct
class State:
    """The state of the suite, typed keys as their words, and the last observation, every leaf ``[B, ...]``.

    The observation is stored because a suite's observations are not always functions of the state: some are random,
    others belong to the state before the step.
    """

    env_state: Tree
    observation: Tree


class SuiteTask(Task):
    """Lanes of one environment of a suite.

    The suite's functions of one lane run under ``jax.vmap`` and JAX's default types. Each call gets a separate key,
    derived from the lane's stream. Results are cast to fixed dtypes, rewards to float32.
    """

    params: Any  # a struct of the suite's numeric params, one number or one per lane
    suite: str = tree.static()  # the prefix of the id; its module has a function single(id, options)
    id: str = tree.static()  # the suite's id
    options: tuple[Any, ...] = tree.static()  # constructor arguments as sorted pairs of name and value

    def initial(self, stream: Stream) -> Tree:
        env_state, observation = self._map_lanes(self._single.reset, random.jax_keys(stream))
        return self._state(env_state, observation)

    def transition(self, state: Tree, action: Tree, stream: Stream) -> Transition:
        single = self._single

        def step(values: Any, key: jax.Array, env_state: Any, action: Tree) -> Any:
            env_state = _typed_keys.from_words(single.shapes.key_kinds.value, env_state)
            return single.step(values, key, env_state, action)

        given = random.jax_keys(stream), state.env_state, action
        env_state, observation, reward, terminated, info = self._map_lanes(step, *given)
        state = self._state(env_state, observation)
        info = _cast(single.shapes.info, info)
        return Transition(state, reward.astype(jnp.float32), terminated.astype(bool), info)

    def observe(self, state: Tree) -> Tree:
        return state.observation

    def state_info(self, state: Tree) -> dict[str, Tree]:
        return self._single.state_info(state.env_state, state.observation)

    def observation_spec(self) -> Tree:
        return self._single.observation_spec.value

    def action_spec(self) -> Tree:
        return self._single.action_spec.value

    agent_names = property(lambda self: self._single.agent_names)
    turns = property(lambda self: self._single.turns)
    alternates = property(lambda self: self._single.alternates)
    reset_strategy = property(lambda self: self._single.reset_strategy)
    opt_outs = property(lambda self: dict(self._single.opt_outs))

    @property
    def _single(self) -> Any:
        return single_of(self.suite, self.id, self.options)

    def _values(self) -> dict[str, Any]:
        return values_of(self.params)

    def _map_lanes(self, function: Callable[..., Any], *arguments: Tree) -> Tree:
        ranks = {field.name: field.metadata["rank"] for field in dataclasses.fields(self.params)}
        with default_types():
            return map_lanes(lambda *given: _typed_keys.to_words(function(*given)), self._values(), ranks, *arguments)

    def _state(self, env_state: Tree, observation: Tree) -> State:
        shapes = self._single.shapes
        return State(_cast(shapes.env_state, env_state), _cast(shapes.observation, observation))


def _cast(shapes: Tree, arrays: Tree) -> Tree:
    return jax.tree.map(lambda s, x: jax.lax.convert_element_type(x, s.dtype), shapes, arrays)


def load_task(
    suite: str, name: str, num_envs: int | None, constructor: Mapping[str, Any], kwargs: Mapping[str, Any]
) -> Environment:
    """Builds an environment of a suite with its stack of wrappers.

    ``constructor`` has the arguments of the library's constructor, with their defaults.
    """
    owner = f"{suite}:{name}"
    of_stack = {key: value for key, value in kwargs.items() if key in OPTIONS}
    given = {key: value for key, value in kwargs.items() if key not in OPTIONS}
    own = sorted(given.keys() & constructor.keys())
    options = tuple((key, checked_option(owner, key, given.pop(key), constructor[key])) for key in own)
    built = single_of(suite, name, options)
    if built.limit_name in given:
        rule = f"{built.limit_name} is the time limit, pass max_episode_steps to load"
        raise ValueError(f"{owner}: {rule}, got {given[built.limit_name]!r}")
    check_unknown(owner, given, values_of(built.params), constructor)

    def bare(num_envs: int) -> Environment:
        env = SuiteTask(built.params, suite, name, options, num_envs=num_envs, name=owner)
        return env.with_params(**given) if given else env

    return make(EnvSpec(owner, bare, max_episode_steps=built.limit), num_envs, **of_stack)


def map_lanes(
    function: Callable[..., Any], values: Mapping[str, Any], ranks: Mapping[str, int], *arguments: Tree
) -> Tree:
    """Maps ``function(values, *arguments)``, written for one lane, over the lanes of ``arguments``.

    A value with one axis more than its rank, 0 by default, holds one value per lane; all others are the same for all.
    """
    per_lane = {name: value for name, value in values.items() if np.ndim(value) > ranks.get(name, 0)}

    def one_lane(of_lane: dict[str, Any], *arguments: Any) -> Any:
        return function({**values, **of_lane}, *arguments)

    if jax.config.jax_debug_key_reuse:  # type: ignore[attr-defined]
        # Under vmap a branch becomes a selection, which this check counts as a use of the keys that pass through.
        return jax.lax.map(lambda given: one_lane(*given), (per_lane, *arguments))
    return jax.vmap(one_lane)(per_lane, *arguments)


# --- params -----------------------------------------------------------------------------------------------------------


# Kinds of dtypes that params may have, and the dtypes that they are stored in.
_DTYPES = {"b": np.bool_, "i": np.int32, "u": np.int32, "f": np.float32}


def is_numeric(value: Any) -> bool:
    """Returns whether ``value`` is a number or an array that can be a param."""
    numeric = isinstance(value, bool | int | float | np.generic | np.ndarray | jax.Array)
    return numeric and np.dtype(jnp.result_type(value)).kind in _DTYPES


def params_struct(owner: str, options: tuple[Any, ...], values: Mapping[str, np.ndarray]) -> Any:
    """Builds a struct with one numeric field for each value, its default, which determines rank and kind of dtype.

    Pickle cannot find a class made at run time by its name; it finds the params of ``owner``, "suite:id".
    """
    fields = {name: _field(value) for name, value in values.items()}
    doc = f"Params of {owner}: one value for all lanes, or one per lane."
    members = {"__annotations__": dict.fromkeys(fields, Any), "__doc__": doc, **fields}
    members["__reduce__"] = lambda self: (_restored, (owner, options, values_of(self)))
    cls = tree.struct(type("Params", (), members))
    return cls(**{name: value.astype(_DTYPES[value.dtype.kind]) for name, value in values.items()})


def _restored(owner: str, options: tuple[Any, ...], values: dict[str, Any]) -> Any:
    suite, _, id = owner.partition(":")
    return tree.rebuild(single_of(suite, id, options).params, **values)


def single_of(suite: str, id: str, options: tuple[Any, ...]) -> Any:
    """Returns the `Single` of a configuration."""
    return _module(suite).single(id, options)


def _module(suite: str) -> Any:
    return importlib.import_module(registry.SUITES[suite])


def _field(value: np.ndarray) -> Any:
    """Declares a numeric field; integers of fewer than 32 bits keep their range, which the suite's code expects."""
    narrow = value.dtype.kind in "iu" and value.dtype.itemsize < 4
    low, high = (np.iinfo(value.dtype).min, np.iinfo(value.dtype).max) if narrow else (None, None)
    return tree.leaf(rank=value.ndim, dtype=_DTYPES[value.dtype.kind], low=low, high=high)


def values_of(params: Any) -> dict[str, Any]:
    """Returns the fields of a struct of params by name."""
    return {field.name: getattr(params, field.name) for field in dataclasses.fields(params)}
