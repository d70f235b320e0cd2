"""gymnax's environments as batched ones: ``jaxenv.load("gymnax:Asterix-MinAtar", num_envs=8)``.

Every number is gymnax's own: its ``reset_env`` and ``step_env`` run for each lane under ``jax.vmap``, which is right
here and nowhere else, since the environment is written for one lane. Episodes are not gymnax's: the time limit, the
restarts and the discount are those of all environments (its ``step`` would reset at every step, hide the last
observation, and call some ends both terminated and truncated). What bsuite keeps across episodes is kept.

``tests/suites/test_gymnax.py`` holds the steps to gymnax's own and to the native environments of the same name;
``docs/gymnax.md`` lists per id what differs.
"""

import contextlib
import dataclasses
import difflib
import functools
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv._checks import is_concrete
from jaxenv._declared import Declared, check_number, check_option
from jaxenv._make import make
from jaxenv.environment import Environment
from jaxenv.registry import EnvSpec
from jaxenv.suites import gymnax_tasks
from jaxenv.task import Task, Transition
from jaxenv.tree import Tree

# Entries of gymnax's info that the TimeStep holds, or that its `step` adds.
_STANDARD_INFO = ("terminated", "truncated", "final_observation", "discount")


def ids() -> list[str]:
    """The ids that ``load`` takes: all that gymnax has, those included that were registered there."""
    return sorted(_gymnax().registered_envs)


def load(name: str, /, num_envs: int = 1, *, horizon_terminates: bool | None = None, **kwargs) -> Environment:
    """Builds a gymnax environment with everything around it, as `jaxenv.make` does with those of this library.

    Args:
        name: an id of gymnax.
        num_envs: how many lanes ``reset(key)`` makes.
        horizon_terminates: whether reaching the time limit is a termination (discount 0). By default it is where the
            original task ends there (DiscountingChain, Freeway, MetaMaze, both bandits) and the limit is the id's own.
        **kwargs: keywords of `jaxenv.make`; arguments of gymnax's constructor; fields of gymnax's ``EnvParams``, one
            number or ``[num_envs]`` for one per lane. ``max_episode_steps`` is gymnax's ``max_steps_in_episode``.

    Raises:
        ImportError: if gymnax is not installed.
        ValueError: for an unknown id or keyword, listing the valid ones, or a value that does not fit.
    """
    parameters = inspect.signature(make).parameters.values()
    for_make = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    of_make = {key: value for key, value in kwargs.items() if key in for_make}
    own = {key: value for key, value in kwargs.items() if key not in for_make}
    owner = f"gymnax:{name}"
    options, values = _sorted_out(name, own)
    single = _single(name, options)
    given = kwargs.get("max_episode_steps")
    if given is not None:
        given = check_number(owner, Declared("max_episode_steps", given, 0, np.dtype(np.int32)))
        if np.ndim(given) and len(given) != num_envs:
            raise ValueError(
                f"{owner}: max_episode_steps has {len(given)} values, one per lane would be num_envs = {num_envs}"
            )
    endless = given is not None and is_concrete(given) and not np.any(np.asarray(given))
    horizon = single.limit if given is None or endless else given  # DiscountingChain shows how much of it is over
    if not isinstance(horizon_terminates, bool | None):
        raise ValueError(f"{owner}: horizon_terminates must be True, False or None, got {horizon_terminates!r}")
    if horizon_terminates and endless:
        raise ValueError(f"{owner}: horizon_terminates=True needs a time limit, got max_episode_steps=0")
    terminal = horizon_terminates
    if terminal is None:  # a shorter limit of the user's own ends no task
        of_task = given is None or (is_concrete(given) and np.all(np.asarray(given) == single.limit))
        terminal = name in gymnax_tasks.HORIZON_ENDS and bool(of_task)

    def bare(num_envs: int) -> Environment:
        env = GymnaxEnvironment(single.params, horizon, name, options, num_envs=num_envs, name=owner)
        return env.with_params(**values) if values else env

    spec = EnvSpec(owner, bare, max_episode_steps=single.limit, terminal_limit=terminal)
    return make(spec, num_envs, **of_make)


@tree.struct
class State:
    """``env_state``: gymnax's own; ``observation``: the last one. Every leaf leads with the lanes ``[B]``.

    Some of gymnax's observations are no function of its state alone: they are drawn, or are those of the step before.
    """

    env_state: Tree
    observation: Tree


class GymnaxEnvironment(Task):
    """Lanes of one gymnax environment; ``load`` makes it.

    Attributes:
        params: fields of gymnax's ``EnvParams``, without those that follow from others, that a spec shows, and the
            time limit.
        max_steps_in_episode: the limit that gymnax's own code sees. It ends no episode: ``TimeLimit`` does.
        id: gymnax's id.
        options: constructor arguments, and the params that a spec shows, as pairs of name and value.
    """

    params: Any
    max_steps_in_episode: Any = tree.leaf(dtype=np.int32)
    id: str = tree.static()
    options: tuple = tree.static()

    def initial(self, stream):
        single = self._single
        observation, env_state = self._over_lanes(single.env.reset_env, random.jax_keys(stream))
        return State(_as(single.shapes.env_state, env_state), _as(single.shapes.observation, observation))

    def transition(self, state, action, stream):
        single = self._single
        observation, env_state, reward, terminated, info = self._over_lanes(
            single.env.step_env, random.jax_keys(stream), state.env_state, action
        )
        after = State(_as(single.shapes.env_state, env_state), _as(single.shapes.observation, observation))
        info = {name: entry for name, entry in info.items() if name not in _STANDARD_INFO}
        return Transition(after, reward.astype(jnp.float32), terminated.astype(bool), _as(single.shapes.info, info))

    def observe(self, state):
        return state.observation

    def state_info(self, state):
        return {name: getattr(state.env_state, name) for name in gymnax_tasks.COUNTERS.get(self.id, ())}

    def carry(self, old, new):
        carried = gymnax_tasks.COUNTERS.get(self.id, ()) + gymnax_tasks.CARRIED.get(self.id, ())
        kept = {name: getattr(old.env_state, name) for name in carried}
        return State(new.env_state.replace(**kept), new.observation) if kept else new

    def observation_spec(self):
        return self._single.observation_spec.value

    def action_spec(self):
        return self._single.action_spec.value

    @property
    def opt_outs(self):
        alike = dict.fromkeys(("lanes_differ", "episodes_differ"), "gymnax starts all its episodes alike")
        looping = {
            "sharding_invariant": "gymnax searches for a free slot in a loop that runs until the last lane has finished"
        }
        return {
            **(looping if self.id in gymnax_tasks.LOOPING else {}),
            **(alike if self._starts_alike else {}),
        }

    def with_params(self, **values):
        for name, value in values.items():
            if name in gymnax_tasks.SHOWN.get(self.id, ()):
                raise ValueError(
                    f"{self}: {name} moves the bounds of a spec: give it to load, as one number, got {value!r}"
                )
            _refuse_special(f"{self}", name, self._single, value)
        return super().with_params(**values)

    @property
    def _starts_alike(self) -> bool:
        """Whether it is known now that all episodes start alike."""
        drawn = [getattr(self.params, name) for name in gymnax_tasks.ALIKE.get(self.id, ())]
        return self.id in gymnax_tasks.ALIKE and all(is_concrete(x) and not np.any(x) for x in drawn)

    @property
    def _single(self) -> "_Single":
        return _single(self.id, self.options)

    def _over_lanes(self, function: Callable, *arguments: Tree) -> Tree:
        """What a function of one lane, ``(*arguments, params)``, gives for all of them."""
        values = {field.name: getattr(self.params, field.name) for field in dataclasses.fields(self.params)}
        ranks = {field.name: field.metadata["rank"] for field in dataclasses.fields(self.params)}
        values["max_steps_in_episode"], ranks["max_steps_in_episode"] = self.max_steps_in_episode, 0
        per_lane = {name: value for name, value in values.items() if np.ndim(value) > ranks[name]}

        def one(lane: dict, *arguments):
            return function(*arguments, params=self._single.env_params({**values, **lane}))

        with _lenient():
            return jax.vmap(one)(per_lane, *arguments)


# --- one environment of gymnax's -------------------------------------------------------------------------------------


@tree.struct
class _Shapes:
    """Shapes and dtypes of what one lane's step gives, without weak types."""

    env_state: Tree
    observation: Tree
    info: Tree


@dataclasses.dataclass(frozen=True, eq=False)
class _Single:
    """A gymnax environment, built once for each configuration: its identity is part of what is compiled.

    Attributes:
        env: gymnax's object.
        defaults: its ``EnvParams``, with the options that are params.
        params: the other params, strong numbers in a struct.
        limit: its ``max_steps_in_episode``.
        derived: functions of the params that follow from others.
        bounds: where observations leave the declared space, see `gymnax_tasks.BOUNDS`.
        fixed: fields of its ``EnvParams`` that are no numbers, or of its structure: they stay as they are.
    """

    env: Any
    defaults: Any
    params: Any
    limit: int
    derived: Mapping[str, Callable[[dict], Any]]
    bounds: list[tuple[Any, tuple[float, float]]]
    fixed: tuple[str, ...]

    def env_params(self, values: dict[str, Any]) -> Any:
        """The params as gymnax has them, from numbers by name."""
        values = {name: jnp.asarray(value) for name, value in values.items()}
        horizon = values.pop("max_steps_in_episode")
        derived = {name: of(values) for name, of in self.derived.items()}
        kind = jnp.result_type(type(self.defaults.max_steps_in_episode))
        params = self.defaults.replace(**values, **derived, max_steps_in_episode=horizon.astype(kind))
        return tree.strong(params)

    @functools.cached_property
    def shapes(self) -> _Shapes:
        """Of what a step gives: what a reset gives may be of other dtypes."""
        with _at_once():
            key = jax.eval_shape(lambda: jax.random.key(0))
            action = jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype), self.action_spec.value)
            fields = dataclasses.fields(self.params)
            values = {field.name: jnp.asarray(getattr(self.params, field.name)) for field in fields}
            params = _strong(self.env_params({**values, "max_steps_in_episode": np.int32(self.limit)}))
            _, state = jax.eval_shape(self.env.reset_env, key, params)
            for _ in range(2):  # the second step starts from the types that the first one gave
                observation, state, _, _, info = jax.eval_shape(self.env.step_env, key, _strong(state), action, params)
        info = {name: entry for name, entry in info.items() if name not in _STANDARD_INFO}
        return _strong(_Shapes(state, observation, info))

    @functools.cached_property
    def observation_spec(self) -> tree.Static:
        """Shapes and dtypes of what is observed, and the declared bounds where they hold."""
        with _at_once():
            declared = _spec(self.env.observation_space(self.defaults))
        observed = self.shapes.observation
        if tree.structure(declared) != tree.structure(observed):
            return tree.Static(specs.from_array(observed))
        return tree.Static(jax.tree.map(self._true, declared, observed))

    @functools.cached_property
    def action_spec(self) -> tree.Static:
        with _at_once():
            return tree.Static(_spec(self.env.action_space(self.defaults), "action"))

    def check(self, owner: str, options: tuple) -> None:
        """Raises a ``ValueError`` if a start, a step or a space fails, which is how gymnax refuses some options."""
        with _refused(owner, {name: _thawed(value) for name, value in options}):
            _ = self.shapes, self.observation_spec, self.action_spec

    def _true(self, declared: specs.Array, observed: jax.ShapeDtypeStruct) -> specs.Array:
        if not isinstance(declared, specs.Bounded):
            return specs.Array(observed.shape, observed.dtype, "observation")
        low, high = np.array(declared.minimum, np.float64), np.array(declared.maximum, np.float64)
        for index, (least, most) in self.bounds:
            low[index], high[index] = least, most
        return specs.Bounded(observed.shape, observed.dtype, low, high, "observation")


@functools.cache
def _single(id: str, options: tuple) -> _Single:
    """The gymnax environment of an id and its options, one and the same for equal ones."""
    _check_id(id)
    shown = {name: value for name, value in options if name in gymnax_tasks.SHOWN.get(id, ())}
    arguments = {name: _thawed(value) for name, value in options if name not in shown}
    with _at_once():
        with _refused(f"gymnax:{id}", arguments):
            env, defaults = _gymnax().make(id, **arguments)
        if env.supports_transition_gradients:  # otherwise gymnax detaches what a step returns
            env = env.with_transition_gradients()
        defaults = defaults.replace(**shown)
        derived = gymnax_tasks.DERIVED.get(id, {})
        hidden = {"max_steps_in_episode", *gymnax_tasks.SHOWN.get(id, ()), *derived}
        fields = [f for f in dataclasses.fields(defaults) if f.name not in hidden]
        fixed = tuple(f.name for f in fields if not _is_number(f, getattr(defaults, f.name)))
        values = {f.name: np.asarray(getattr(defaults, f.name)) for f in fields if f.name not in fixed}
    limit = int(defaults.max_steps_in_episode)
    params, bounds = _params_of(id, options, values), gymnax_tasks.BOUNDS.get(id, [])
    return _Single(env, defaults, params, limit, derived, bounds, fixed)


@contextlib.contextmanager
def _refused(owner: str, given: Mapping[str, Any]) -> Iterator[None]:
    """Says what was given where gymnax's code fails on it."""
    try:
        yield
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError) as fault:
        raise ValueError(f"{owner}: gymnax refuses {given}: {fault or type(fault).__name__}") from None


_KINDS = {"b": np.bool_, "i": np.int32, "u": np.int32, "f": np.float32}


def _is_number(field: dataclasses.Field, value: Any) -> bool:
    """Whether a field of an ``EnvParams`` may be given: a number or an array, and not of the structure."""
    numeric = isinstance(value, bool | int | float | np.generic | np.ndarray | jax.Array)
    return numeric and field.metadata.get("pytree_node", True) and np.dtype(jnp.result_type(value)).kind in _KINDS


def _params_of(id: str, options: tuple, values: dict[str, np.ndarray]) -> Any:
    """A struct of numbers with one field for each: the params of an id and its options."""
    fields = {name: tree.leaf(rank=value.ndim, dtype=_KINDS[value.dtype.kind]) for name, value in values.items()}
    doc = f"Numbers of gymnax's {id}: one for all lanes, or one per lane."
    members = {"__annotations__": dict.fromkeys(fields, Any), "__doc__": doc, **fields}
    members["__reduce__"] = lambda self: (_params_again, (id, options, dict(vars(self))))  # the class has no address
    cls = tree.struct(type("Params", (), members))
    return cls(**{name: value.astype(_KINDS[value.dtype.kind]) for name, value in values.items()})


def _params_again(id: str, options: tuple, values: dict[str, Any]) -> Any:
    """The params that were pickled."""
    return tree.rebuild(_single(id, options).params, **values)


def _sorted_out(id: str, given: Mapping[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Keywords as options (constructor arguments, and params that a spec shows) and as values of params."""
    _check_id(id)
    owner, shown = f"gymnax:{id}", gymnax_tasks.SHOWN.get(id, ())
    constructor, takes_any = _arguments(_gymnax().registration._registry[id])
    options = {name: _option(owner, name, given[name], constructor[name]) for name in given if name in constructor}
    if takes_any:  # a factory that hands on what it is given
        try:
            constructor |= _arguments(type(_single(id, tuple(sorted(options.items()))).env))[0]
        except ValueError:  # it needs some of that
            constructor |= dict.fromkeys(given.keys() - constructor.keys(), inspect.Parameter.empty)
    for name in given:
        if name in shown:
            options[name] = _shown(owner, name, given[name])
        elif name in constructor:
            options[name] = _option(owner, name, given[name], constructor[name])
    chosen = tuple(sorted(options.items()))
    single = _single(id, chosen)
    params = [field.name for field in dataclasses.fields(single.params)]
    values = {name: value for name, value in given.items() if name not in options}
    for name, value in values.items():
        if name not in params:
            _refuse_special(owner, name, single, value)
            valid = ", ".join(sorted([*constructor, *shown, *params])) or "(none)"
            raise ValueError(f"{owner}: unknown keyword {name!r}, the valid ones are {valid}")
    if options:
        single.check(owner, chosen)
    return chosen, values


def _arguments(function: Callable) -> tuple[dict[str, Any], bool]:
    """The names that may be given, with their defaults, and whether any others may."""
    parameters = inspect.signature(function).parameters.values()
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return {p.name: p.default for p in named}, any(p.kind is p.VAR_KEYWORD for p in parameters)


def _option(owner: str, name: str, value: Any, default: Any) -> Any:
    """A constructor argument, hashable and of the type of its default."""
    frozen = _frozen(value)
    try:
        hash(frozen)
    except TypeError:
        raise ValueError(f"{owner}: {name} must be hashable, or an array or a list, got {value!r}") from None
    return check_option(owner, name, frozen, default)


def _shown(owner: str, name: str, value: Any) -> float:
    if np.ndim(value) != 0 or isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise ValueError(f"{owner}: {name} moves the bounds of a spec and must be a number, got {value!r}")
    return float(value)


def _refuse_special(owner: str, name: str, single: "_Single", value: Any) -> None:
    """Raises a ``ValueError`` for fields of gymnax's ``EnvParams`` that are no params here."""
    got = f", got {value!r}"
    if name == "max_steps_in_episode":
        raise ValueError(f"{owner}: max_steps_in_episode is the time limit: give max_episode_steps to load{got}")
    if name in single.derived:
        raise ValueError(f"{owner}: {name} follows from other params, give those{got}")
    if name in single.fixed:
        default = getattr(single.defaults, name)
        raise ValueError(f"{owner}: {name} is no number that lanes could hold and stays {default!r}{got}")


def _check_id(id: str) -> None:
    known = _gymnax().registered_envs
    if id not in known:
        close = difflib.get_close_matches(id, known, n=3, cutoff=0.0)
        raise ValueError(f"gymnax: no environment {id!r}; the closest ids are {', '.join(close)}")
    if id == "MNISTBandit-bsuite" and (
        missing := [path for path in gymnax_tasks.MNIST_FILES if not os.path.exists(path)]
    ):
        raise ValueError(f"gymnax:{id}: gymnax would download MNIST now; put it there yourself: no file {missing[0]}")


def _gymnax() -> Any:
    # Some of its modules make arrays when they are imported: not while something is traced, and of 32 bits.
    with _at_once():
        try:
            import gymnax
        except ImportError as fault:
            raise ImportError(f"the gymnax suite needs gymnax: pip install gymnax six ({fault})") from None
    return gymnax


@contextlib.contextmanager
def _lenient() -> Iterator[None]:
    """What gymnax's code counts on: implicit promotion of dtypes and ranks, and default types of 32 bits."""
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@contextlib.contextmanager
def _at_once() -> Iterator[None]:
    """The same, for what is computed now even while something is traced."""
    with _lenient(), jax.ensure_compile_time_eval():
        yield


# --- values, shapes and spaces ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Key:
    """A typed key among the options, hashable."""

    words: tuple[int, ...]
    implementation: str


def _frozen(value: Any) -> Any:
    """A constructor argument as something hashable."""
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        return _Key(tuple(np.asarray(jax.random.key_data(value)).tolist()), str(jax.random.key_impl(value)))
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        value = np.asarray(value).tolist()
    return tuple(_frozen(item) for item in value) if isinstance(value, list | tuple) else value


def _thawed(value: Any) -> Any:
    if not isinstance(value, _Key):
        return value
    return jax.random.wrap_key_data(jnp.array(value.words, jnp.uint32), impl=value.implementation)


def _strong(shapes: Tree) -> Tree:
    return jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype), shapes)


def _as(shapes: Tree, arrays: Tree) -> Tree:
    """The arrays in the dtypes of ``shapes``."""
    return jax.tree.map(lambda s, x: jax.lax.convert_element_type(x, s.dtype), shapes, arrays)


def _spec(space: Any, name: str = "observation") -> Tree:
    """The spec of a space of gymnax's."""
    if hasattr(space, "spaces"):
        if isinstance(space.spaces, Mapping):
            return {key: _spec(inner, name) for key, inner in space.spaces.items()}
        return tuple(_spec(inner, name) for inner in space.spaces)
    if hasattr(space, "n"):
        return specs.discrete(space.n, name=name)
    # It writes the largest float for "no bound".
    low, high = (np.broadcast_to(np.asarray(bound, np.float64), space.shape) for bound in (space.low, space.high))
    largest = float(np.finfo(np.float32).max)
    low, high = np.where(low <= -largest, -np.inf, low), np.where(high >= largest, np.inf, high)
    if np.all(np.isinf(low)) and np.all(np.isinf(high)):
        return specs.Array(space.shape, space.dtype, name)
    return specs.Bounded(space.shape, space.dtype, low, high, name)
