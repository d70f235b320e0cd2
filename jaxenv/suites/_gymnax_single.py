"""One environment of gymnax, built once for each configuration, with its params, shapes and specs."""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._library import import_library, outside_traces
from jaxenv._names import did_you_mean
from jaxenv.suites import _gymnax_tasks
from jaxenv.suites._params import is_numeric, params_struct, values_of
from jaxenv.suites._spaces import spec_of
from jaxenv.tree import Tree

# Entries of gymnax's info that the TimeStep contains already.
_STANDARD_INFO = ("terminated", "truncated", "final_observation", "discount")


def gymnax() -> Any:
    """The library itself, imported on first use."""
    return import_library("gymnax", "pip install gymnax six")


@tree.struct
class Shapes:
    """Shapes and strong dtypes of the results of one lane's step."""

    env_state: Tree
    observation: Tree
    info: Tree


@dataclasses.dataclass(frozen=True, eq=False)
class Single:
    """A gymnax environment; `single` builds each configuration once, because jit caches by the object's identity.

    Attributes:
        env: gymnax's object.
        defaults: its ``EnvParams``, with those options that are params.
        params: the other numeric params as a struct.
        limit: its ``max_steps_in_episode``.
        derived: functions that compute params from other params.
        bounds: corrections of the declared observation bounds, see `_gymnax_tasks.BOUNDS`.
        fixed: fields of its ``EnvParams`` that are not numbers or are part of its tree structure; they never change.
    """

    env: Any
    defaults: Any
    params: Any
    limit: int
    derived: Mapping[str, Callable[[dict], Any]]
    bounds: list[tuple[Any, tuple[float, float]]]
    fixed: tuple[str, ...]

    def env_params(self, values: dict[str, Any]) -> Any:
        """The ``EnvParams`` of gymnax from numbers by name, ``max_steps_in_episode`` included."""
        values = {name: jnp.asarray(value) for name, value in values.items()}
        horizon = values.pop("max_steps_in_episode")
        derived = {name: compute(values) for name, compute in self.derived.items()}
        dtype = jnp.result_type(type(self.defaults.max_steps_in_episode))
        params = self.defaults.replace(**values, **derived, max_steps_in_episode=horizon.astype(dtype))
        return tree.strong(params)

    @functools.cached_property
    def shapes(self) -> Shapes:
        """Shapes and dtypes of the results of a step. Those of a reset may differ in dtype."""
        with outside_traces():
            key = jax.eval_shape(lambda: jax.random.key(0))
            action = jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype), self.action_spec.value)
            values = {name: jnp.asarray(value) for name, value in values_of(self.params).items()}
            params = _strong(self.env_params({**values, "max_steps_in_episode": np.int32(self.limit)}))
            _, state = jax.eval_shape(self.env.reset_env, key, params)
            for _ in range(2):  # the second step starts from the dtypes that the first one returned
                observation, state, _, _, info = jax.eval_shape(self.env.step_env, key, _strong(state), action, params)
        return _strong(Shapes(state, observation, own_info(info)))

    @functools.cached_property
    def observation_spec(self) -> tree.Static:
        """Shapes and dtypes of the actual observations, with the declared bounds where these hold."""
        with outside_traces():
            declared = spec_of(self.env.observation_space(self.defaults), "observation")
        observed = self.shapes.observation
        if tree.structure(declared) != tree.structure(observed):
            return tree.Static(specs.from_array(observed))
        return tree.Static(jax.tree.map(self._corrected, declared, observed))

    @functools.cached_property
    def action_spec(self) -> tree.Static:
        with outside_traces():
            return tree.Static(spec_of(self.env.action_space(self.defaults), "action"))

    def check(self, owner: str, options: tuple) -> None:
        """Raises a ``ValueError`` if a reset, a step or a space fails, which is how gymnax rejects some options."""
        with _reporting(owner, {name: _thaw(value) for name, value in options}):
            _ = self.shapes, self.observation_spec, self.action_spec

    def _corrected(self, declared: specs.Array, observed: jax.ShapeDtypeStruct) -> specs.Array:
        if not isinstance(declared, specs.Bounded):
            return specs.Array(observed.shape, observed.dtype, "observation")
        low, high = np.array(declared.minimum, np.float64), np.array(declared.maximum, np.float64)
        for index, (minimum, maximum) in self.bounds:
            low[index], high[index] = minimum, maximum
        return specs.Bounded(observed.shape, observed.dtype, low, high, "observation")


@functools.cache
def single(id: str, options: tuple) -> Single:
    """The gymnax environment of an id and its options; the same object for equal arguments."""
    check_id(id)
    spec_params = {name: value for name, value in options if name in _gymnax_tasks.SPEC_PARAMS.get(id, ())}
    arguments = {name: _thaw(value) for name, value in options if name not in spec_params}
    with outside_traces():
        with _reporting(f"gymnax:{id}", arguments):
            env, defaults = gymnax().make(id, **arguments)
        if env.supports_transition_gradients:  # otherwise gymnax stops gradients at every step
            env = env.with_transition_gradients()
        defaults = defaults.replace(**spec_params)
        derived = _gymnax_tasks.DERIVED.get(id, {})
        hidden = {"max_steps_in_episode", *_gymnax_tasks.SPEC_PARAMS.get(id, ()), *derived}
        fields = [f for f in dataclasses.fields(defaults) if f.name not in hidden]
        fixed = tuple(f.name for f in fields if not _is_param(f, getattr(defaults, f.name)))
        values = {f.name: np.asarray(getattr(defaults, f.name)) for f in fields if f.name not in fixed}
    limit = int(defaults.max_steps_in_episode)
    doc = f"Params of gymnax's {id}: one value for all lanes, or one per lane."
    params, bounds = params_struct(doc, values, _restore, (id, options)), _gymnax_tasks.BOUNDS.get(id, [])
    return Single(env, defaults, params, limit, derived, bounds, fixed)


def check_id(id: str) -> None:
    """Raises a ``ValueError`` for an unknown id, or if gymnax would download data for it."""
    known = gymnax().registered_envs
    if id not in known:
        every = f"the ids are {', '.join(sorted(known))}"
        raise ValueError(f"gymnax: no environment {id!r}, {did_you_mean(id, known, otherwise=every)}")
    if id == "MNISTBandit-bsuite" and (
        missing := [path for path in _gymnax_tasks.MNIST_FILES if not os.path.exists(path)]
    ):
        raise ValueError(f"gymnax:{id}: gymnax would download MNIST: put the files there first, no file {missing[0]}")


def own_info(info: Mapping[str, Tree]) -> dict[str, Tree]:
    """The entries of gymnax's info that are not part of a TimeStep."""
    return {name: entry for name, entry in info.items() if name not in _STANDARD_INFO}


def _is_param(field: dataclasses.Field, value: Any) -> bool:
    return field.metadata.get("pytree_node", True) and is_numeric(value)


def _restore(id: str, options: tuple, values: dict[str, Any]) -> Any:
    """Rebuilds pickled params."""
    return tree.rebuild(single(id, options).params, **values)


@contextlib.contextmanager
def _reporting(owner: str, options: Mapping[str, Any]) -> Iterator[None]:
    """Turns errors of gymnax's code into a ``ValueError`` that shows the options."""
    try:
        yield
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"{owner}: gymnax rejects {options}: {error or type(error).__name__}") from None


def _strong(shapes: Tree) -> Tree:
    return jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype), shapes)


# --- options ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _FrozenKey:
    """A typed key in hashable form."""

    words: tuple[int, ...]
    implementation: str


def freeze(value: Any) -> Any:
    """A constructor argument in hashable form."""
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        return _FrozenKey(tuple(np.asarray(jax.random.key_data(value)).tolist()), str(jax.random.key_impl(value)))
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        value = np.asarray(value).tolist()
    return tuple(freeze(item) for item in value) if isinstance(value, list | tuple) else value


def _thaw(value: Any) -> Any:
    if not isinstance(value, _FrozenKey):
        return value
    return jax.random.wrap_key_data(jnp.array(value.words, jnp.uint32), impl=value.implementation)
