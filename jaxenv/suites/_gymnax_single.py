"""One environment of gymnax, built once for each configuration, and the keywords that configure it."""

import dataclasses
import inspect
import os
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._util.checks import is_real
from jaxenv.suites import _gymnax_tasks
from jaxenv.suites._options import arguments_of, check_known, check_unknown, checked_option, library, reporting, thaw
from jaxenv.suites._single import Single, Stepped, is_numeric, one_per_arguments, params_struct, spec_of, values_of
from jaxenv.tree import Tree

gymnax = library("gymnax")
# Entries of gymnax's info that the TimeStep contains already.
_STANDARD_INFO = ("terminated", "truncated", "final_observation", "discount")


class GymnaxSingle(Single):
    """A gymnax environment; `single` builds each configuration once."""

    suite = "gymnax"
    limit: int

    def build(self, id: str, arguments: dict[str, Any]) -> None:
        check_id(id)
        of_spec = _gymnax_tasks.SPEC_PARAMS.get(id, ())
        spec_params = {name: arguments.pop(name) for name in of_spec if name in arguments}
        with reporting(self.owner, arguments):
            self.env, defaults = gymnax().make(id, **arguments)
        if self.env.supports_transition_gradients:  # otherwise gymnax stops gradients at every step
            self.env = self.env.with_transition_gradients()
        # Its ``EnvParams``, with those options that are params, and what computes params from others.
        self.defaults = defaults.replace(**spec_params)
        self.derived = _gymnax_tasks.DERIVED.get(id, {})
        hidden = {"max_steps_in_episode", *of_spec, *self.derived}
        fields = [f for f in dataclasses.fields(self.defaults) if f.name not in hidden]
        # Fields that are not numbers or are part of the tree structure; they never change.
        leaves = {f.name: getattr(self.defaults, f.name) for f in fields if f.metadata.get("pytree_node", True)}
        values = {name: np.asarray(value) for name, value in leaves.items() if is_numeric(value)}
        self.fixed = tuple(f.name for f in fields if f.name not in values)
        self.limit = int(self.defaults.max_steps_in_episode)
        self.params = params_struct(self.owner, self.options, values)
        self.bounds = _gymnax_tasks.BOUNDS.get(id, [])
        # Whether the environment defines ``is_truncated``; gymnax's own environments do not.
        self.truncates = type(self.env).is_truncated is not gymnax().environments.environment.Environment.is_truncated

    def reset(self, values: Mapping[str, Any], key: jax.Array) -> tuple[Tree, Tree]:
        observation, state = self.env.reset_env(key, self.env_params(values))
        return state, observation

    def step(self, values: Mapping[str, Any], key: jax.Array, state: Tree, action: Tree) -> Stepped:
        params = self.env_params(values)
        observation, state, reward, terminated, info = self.env.step_env(key, state, action, params)
        shown = {name: entry for name, entry in info.items() if name not in _STANDARD_INFO}
        return state, observation, reward, terminated, shown

    def is_truncated(self, values: Mapping[str, Any], state: Any) -> Any:
        """Calls the environment's own ``is_truncated`` for a lane's state after a step."""
        return self.env.is_truncated(state, self.env_params(values))

    def env_params(self, values: Mapping[str, Any]) -> Any:
        """Builds gymnax's ``EnvParams`` from numbers by name, ``max_steps_in_episode`` included."""
        values = {name: jnp.asarray(value) for name, value in values.items()}
        horizon = values.pop("max_steps_in_episode")
        derived = {name: compute(values) for name, compute in self.derived.items()}
        dtype = jnp.result_type(type(self.defaults.max_steps_in_episode))
        params = self.defaults.replace(**values, **derived, max_steps_in_episode=horizon.astype(dtype))
        return tree.strong(params)

    def example_values(self) -> dict[str, Any]:
        return {**values_of(self.params), "max_steps_in_episode": np.int32(self.limit)}

    def declared_action(self) -> Tree:
        return spec_of(self.env.action_space(self.defaults), "action")

    def declared_observation(self) -> Tree:
        return spec_of(self.env.observation_space(self.defaults), "observation")

    def bounded(self, observed: jax.ShapeDtypeStruct, low: np.ndarray, high: np.ndarray) -> specs.Array:
        for index, (minimum, maximum) in self.bounds:
            low[index], high[index] = minimum, maximum
        return super().bounded(observed, low, high)

    def check(self, options: tuple[Any, ...]) -> None:
        """Raises a ``ValueError`` if a reset, a step or a space fails, which is how gymnax rejects some options."""
        with reporting(self.owner, {name: thaw(value) for name, value in options}):
            _ = self.shapes, self.observation_spec, self.action_spec


single = one_per_arguments(GymnaxSingle)


def check_id(id: str) -> None:
    """Raises a ``ValueError`` for an unknown id, or if gymnax would download data for it."""
    check_known("gymnax", id, gymnax().registered_envs)
    missing = [path for path in _gymnax_tasks.MNIST_FILES if not os.path.exists(path)]
    if id == "MNISTBandit-bsuite" and missing:
        raise ValueError(f"gymnax:{id}: gymnax would download MNIST: put the files there first, no file {missing[0]}")


def split_keywords(id: str, given: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Splits keywords into options, sorted pairs of name and value, and values of the other params.

    Options are constructor arguments and params that determine a spec.
    """
    check_id(id)
    owner, spec_params = f"gymnax:{id}", _gymnax_tasks.SPEC_PARAMS.get(id, ())
    constructor, takes_any = arguments_of(gymnax().registration._registry[id])
    own = [name for name in given if name in constructor]
    options = {name: checked_option(owner, name, given[name], constructor[name]) for name in own}
    if takes_any:  # a factory that passes its keywords on
        try:
            constructor |= arguments_of(type(single(id, tuple(sorted(options.items()))).env))[0]
        except ValueError:  # it cannot be built without further arguments, so all keywords are accepted
            constructor |= dict.fromkeys(given.keys() - constructor.keys(), inspect.Parameter.empty)
    for name in given:
        if name in spec_params:
            if not is_real(given[name]):
                rule = f"{name} determines a spec and must be one number"
                raise ValueError(f"{owner}: {rule}, got {given[name]!r}")
            options[name] = float(given[name])
        elif name in constructor:
            options[name] = checked_option(owner, name, given[name], constructor[name])
    chosen = tuple(sorted(options.items()))
    env = single(id, chosen)
    params = [field.name for field in dataclasses.fields(env.params)]
    values = {name: value for name, value in given.items() if name not in options}
    for name, value in values.items():
        if name not in params:
            check_settable(owner, name, env, value)
    check_unknown(owner, values, params, [*constructor, *spec_params])
    if options:
        env.check(chosen)
    return chosen, values


def check_settable(owner: str, name: str, env: GymnaxSingle, value: Any) -> None:
    """Raises a ``ValueError`` for a field of gymnax's ``EnvParams`` that cannot be set as a param."""
    got = f", got {value!r}"
    if name == "max_steps_in_episode":
        raise ValueError(f"{owner}: max_steps_in_episode is the time limit, pass max_episode_steps to load{got}")
    if name in env.derived:
        raise ValueError(f"{owner}: {name} is computed from other params, pass those{got}")
    if name in env.fixed:
        default = getattr(env.defaults, name)
        raise ValueError(f"{owner}: {name} is not a number and must stay {default!r}{got}")
