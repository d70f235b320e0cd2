"""One environment of a suite in one configuration: functions of one lane, with params, shapes and specs."""

import abc
import dataclasses
import functools
import importlib
import inspect
import weakref
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._util.library import outside_traces
from jaxenv.core import ResetStrategy, registry
from jaxenv.suites._options import check_known, thaw
from jaxenv.tree import Static, Tree, _typed_keys

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


def ranks_of(params: Any) -> dict[str, int]:
    """Returns the number of axes of each field whose value is the same for all lanes."""
    return {field.name: field.metadata["rank"] for field in dataclasses.fields(params)}


def map_lanes(
    function: Callable[..., Any], values: Mapping[str, Any], ranks: Mapping[str, int], *arguments: Tree
) -> Tree:
    """Maps ``function(values, *arguments)``, written for one lane, over the lanes of ``arguments``.

    A value with one axis more than its rank holds one value per lane; all others are the same for all lanes.
    """
    per_lane = {name: value for name, value in values.items() if np.ndim(value) > ranks[name]}

    def one_lane(of_lane: dict[str, Any], *arguments: Any) -> Any:
        return function({**values, **of_lane}, *arguments)

    if jax.config.jax_debug_key_reuse:  # type: ignore[attr-defined]
        # Under vmap a branch becomes a selection, which this check counts as a use of the keys that pass through.
        return jax.lax.map(lambda given: one_lane(*given), (per_lane, *arguments))
    return jax.vmap(one_lane)(per_lane, *arguments)


T = TypeVar("T")
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
            action = jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype), self.action_spec.value)
            values = _strong(jax.eval_shape(lambda: jax.tree.map(jnp.asarray, self.example_values())))
            state = _strong(jax.eval_shape(first, values, key))
            for _ in range(2):  # the second step starts from the dtypes that the first one returned
                before = state
                state, observation, info = _strong(jax.eval_shape(later, values, key, state, action))
                if jax.tree.leaves(before) == jax.tree.leaves(state):
                    break
        return Shapes(state, observation, info, Static(found["kinds"]))


class BraxLike(Single):
    """An environment with Brax's interface, of Brax itself or of MuJoCo Playground."""

    reset_strategy = "compact"  # a start runs the kinematics and dynamics of a step

    def reset(self, values: Mapping[str, Any], key: jax.Array) -> tuple[Tree, Tree]:
        state = self.env.reset(key)
        return state, state.obs

    def step(self, values: Mapping[str, Any], key: jax.Array, state: Tree, action: Tree) -> Stepped:
        state = self.env.step(state, action)
        return state, state.obs, state.reward, state.done > 0, dict(state.metrics)

    def declared_action(self) -> Tree:
        return specs.Bounded((self.env.action_size,), np.float32, -1, 1, "action")


def _strong(shapes: Tree) -> Tree:
    return jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype), shapes)


def one_per_arguments(function: Callable[..., T]) -> Callable[..., T]:
    """Decorates a function of hashable arguments that makes an object: equal arguments give the same one.

    An object goes with the last environment that holds it, but the newest ones stay.
    """
    made: weakref.WeakValueDictionary[tuple[Any, ...], Any] = weakref.WeakValueDictionary()

    @functools.lru_cache(maxsize=16)
    def newest(*arguments: Any) -> Any:
        if (found := made.get(arguments)) is None:
            found = made[arguments] = function(*arguments)
        return found

    return functools.update_wrapper(newest, function, updated=())


def action_and_limit_of(single: Callable[..., Any]) -> Callable[[str], tuple[Tree, int | None]]:
    """Returns the function of an id that gives action spec and time limit without tracing a step."""

    def action_and_limit(name: str) -> tuple[Tree, int | None]:
        built = single(name, ())
        return built.action_spec.value, built.limit

    return action_and_limit


def docstring_of(single: Callable[..., Any]) -> Callable[[str], str]:
    """Returns the function of an id that gives the library's docstring of the environment."""
    return lambda name: own_docstring(type(single(name, ()).env))


def own_docstring(cls: Any) -> str:
    """Returns the docstring of a class itself, not an inherited one."""
    return inspect.cleandoc(vars(cls).get("__doc__") or "")


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
