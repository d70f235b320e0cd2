"""gymnax's environments as batched environments: ``jaxenv.make("gymnax:Asterix-MinAtar", num_envs=8)``.

It runs gymnax's ``reset_env`` and ``step_env``. gymnax's ``step`` resets at every step, hides the last observation, and
reports some ends as both terminated and truncated. State that outlives episodes in bsuite is carried over.
``docs/evidence/gymnax.md`` lists the differences from the native environments of the same name.
"""

import dataclasses
import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._util.checks import INT32_MAX, is_concrete, is_real
from jaxenv.core import Environment, EnvSpec, StepType, TimeStep
from jaxenv.core._declared import Declared, check_number
from jaxenv.core.timestep import TaskState
from jaxenv.suites._options import arguments_of, check_known, check_unknown, checked_option, library, reporting, thaw
from jaxenv.suites._task import (
    Single,
    State,
    Stepped,
    SuiteTask,
    functions_of,
    is_numeric,
    params_struct,
    spec_of,
    values_of,
)
from jaxenv.tree import Tree, _typed_keys
from jaxenv.wrappers.stack._make import OPTIONS, make

_gymnax = library("gymnax")

# --- facts about single tasks of gymnax 1.0.1, by id ---

# Tasks whose horizon is part of the original task. gymnax reports a truncation there.
_TERMINAL_HORIZON = (
    *("DiscountingChain-bsuite", "Freeway-MinAtar"),
    *("BernoulliBandit-misc", "GaussianBandit-misc", "MetaMaze-misc"),
)
# Fields of the state that outlive episodes in bsuite. gymnax keeps only DeepSea's, and redraws the arms of the bandit
# at every step, so that nothing can be learned. The counters are numbers, which env_info shows.
_COUNTERS: dict[str, tuple[str, ...]] = {
    "DeepSea-bsuite": ("total_bad_episodes", "denoised_return"),
    "MemoryChain-bsuite": ("total_perfect", "total_regret"),
    "MNISTBandit-bsuite": ("regret",),
    "SimpleBandit-bsuite": ("total_regret",),
    "UmbrellaChain-bsuite": ("total_regret",),
}
_CARRIED: dict[str, tuple[str, ...]] = {"SimpleBandit-bsuite": ("rewards",)}
# Tasks whose episodes all start in the same state unless one of these params is true.
_CONSTANT_START: dict[str, tuple[str, ...]] = {
    "Asterix-MinAtar": (),
    "DeepSea-bsuite": ("sample_action_map",),
    "DiscountingChain-bsuite": (),
    "FourRooms-misc": ("resample_init_pos", "resample_goal_pos"),
    "FrozenLake-misc": (),
    "Pong-misc": (),
    "Seaquest-MinAtar": (),
    "SpaceInvaders-MinAtar": (),
}
# Params that gymnax stores although they are determined by others.
_DERIVED: dict[str, dict[str, Callable[[dict[str, Any]], Any]]] = {
    "CartPole-v1": {
        "total_mass": lambda p: p["masscart"] + p["masspole"],
        "polemass_length": lambda p: p["masspole"] * p["length"],
    }
}
# Params that determine a spec. They are options, because a spec cannot depend on tracers or on values per lane.
_SPEC_PARAMS = {
    "CartPole-v1": ("theta_threshold_radians", "x_threshold"),
    "Pendulum-v1": ("max_speed", "max_torque"),
    "Acrobot-v1": ("max_vel_1", "max_vel_2"),
    "MountainCar-v0": ("min_position", "max_position", "max_speed"),
    "MountainCarContinuous-v0": ("min_action", "max_action", "min_position", "max_position", "max_speed"),
    "PointRobot-misc": ("max_force",),
}
_ANY = (-np.inf, np.inf)
# Elements of observations that exceed the space declared by gymnax: index, minimum and maximum.
_BOUNDS: dict[str, list[tuple[Any, tuple[float, float]]]] = {
    "MemoryChain-bsuite": [(0, (-1e-6, 1)), (slice(2, None), (-1, 1))],  # the context consists of -1 and 1
    "UmbrellaChain-bsuite": [(2, (-1e-6, 1))],  # the remaining time rounds to a number below 0
    "DiscountingChain-bsuite": [(1, (0, np.inf))],  # the time, relative to a limit that may be absent
    "MNISTBandit-bsuite": [(..., (-0.51, 1))],  # pixels are read as signed bytes
    "MetaMaze-misc": [(-2, _ANY), (-1, _ANY)],  # the last reward; the time, normalized or not
    "BernoulliBandit-misc": [(-1, _ANY)],  # the time
    "GaussianBandit-misc": [(0, _ANY), (-1, _ANY)],  # the last reward, which is normal; the time
}
# The files of MNIST, which gymnax downloads if one is missing.
_MNIST_FILES = [f"/tmp/mnist/{of}-ubyte.gz" for of in ("train-images-idx3", "train-labels-idx1")]
_MNIST_FILES += [f"/tmp/mnist/{of}-ubyte.gz" for of in ("t10k-images-idx3", "t10k-labels-idx1")]
# Entries of gymnax's info that the TimeStep contains already.
_STANDARD_INFO = ("terminated", "truncated", "final_observation", "discount")


def ids() -> list[str]:
    """Returns the ids that ``load`` accepts: all ids registered with gymnax."""
    return sorted(_gymnax().registered_envs)


def load(name: str, /, num_envs: int | None = None, **kwargs: Any) -> Environment:
    """Builds a gymnax environment.

    Keywords are also arguments of gymnax's constructor, and fields of gymnax's ``EnvParams``, one number or
    ``[num_envs]`` for one per lane. ``max_episode_steps`` is gymnax's ``max_steps_in_episode``. Reaching it is a
    termination if the horizon is part of the task (DiscountingChain, Freeway, MetaMaze, both bandits) and the limit its
    own.
    """
    owner = f"gymnax:{name}"
    stack_kwargs = {key: value for key, value in kwargs.items() if key in OPTIONS}
    options, values = _split_keywords(name, {key: value for key, value in kwargs.items() if key not in OPTIONS})
    built = single(name, options)

    limit = _checked_limit(owner, kwargs.get("max_episode_steps"), num_envs)
    unlimited = limit is not None and is_concrete(limit) and not np.any(np.asarray(limit))
    # gymnax's own code sees a horizon even without a limit: DiscountingChain shows the elapsed fraction of it. An
    # is_truncated of the environment's own would end episodes there.
    endless = INT32_MAX if built.truncates else built.limit
    horizon = built.limit if limit is None else endless if unlimited else limit
    is_own = limit is None or (is_concrete(limit) and bool(np.all(np.asarray(limit) == built.limit)))

    def bare(num_envs: int) -> Environment:
        env = GymnaxEnvironment(built.params, "gymnax", name, options, horizon, num_envs=num_envs, name=owner)
        return env.with_params(**values) if values else env

    spec = EnvSpec(owner, bare, max_episode_steps=built.limit, terminal_limit=is_own and name in _TERMINAL_HORIZON)
    return make(spec, num_envs, **stack_kwargs)


def _checked_limit(owner: str, limit: Any, num_envs: int | None) -> Any:
    if limit is None:
        return None
    limit = check_number(owner, Declared("max_episode_steps", limit, 0, np.dtype(np.int32)))
    lanes = 1 if num_envs is None else num_envs
    if np.ndim(limit) and len(limit) != lanes:
        rule = f"max_episode_steps has {len(limit)} values, one per lane would be num_envs = {lanes}"
        raise ValueError(f"{owner}: {rule}")
    return limit


class GymnaxEnvironment(SuiteTask):
    """Lanes of one gymnax environment, made by `load`.

    ``params`` are the fields of gymnax's ``EnvParams`` except for the time limit, for the ones computed from others,
    and for the ones that determine a spec, which are ``options``.
    """

    # The limit that gymnax's code sees. It does not end episodes; ``TimeLimit`` does.
    max_steps_in_episode: Any = tree.leaf(dtype=np.int32)

    def proceed(self, state: TaskState, action: Tree) -> tuple[TaskState, TimeStep]:
        state, timestep = super().proceed(state, action)
        single = self._single
        if not single.truncates:
            return state, timestep

        def is_truncated(values: Any, env_state: Any) -> Any:
            own = _typed_keys.from_words(single.shapes.key_kinds.value, env_state)
            return single.env.is_truncated(own, single.env_params(values))

        ended = self._map_lanes(is_truncated, state.task.env_state)
        step_type = jnp.where(ended, np.int32(StepType.LAST), timestep.step_type)
        return state, dataclasses.replace(timestep, step_type=step_type)

    def state_info(self, state: Tree) -> dict[str, Tree]:
        return {name: getattr(state.env_state, name) for name in _COUNTERS.get(self.id, ())}

    def carry(self, old: Tree, new: Tree) -> Tree:
        values = {name: getattr(old.env_state, name) for name in _COUNTERS.get(self.id, ()) + _CARRIED.get(self.id, ())}
        return State(new.env_state.replace(**values), new.observation) if values else new

    @property
    def opt_outs(self) -> Mapping[str, str]:  # type: ignore[override]
        unless = [getattr(self.params, name) for name in _CONSTANT_START.get(self.id, ())]
        is_constant = self.id in _CONSTANT_START and all(is_concrete(x) and not np.any(x) for x in unless)
        constant = dict.fromkeys(("lanes_differ", "episodes_differ"), "gymnax starts all episodes in the same state")
        looping = "gymnax searches for a free slot in a loop that runs until the last lane has finished"
        return {
            **({"sharding_invariant": looping} if self.id == "Asterix-MinAtar" else {}),
            **(constant if is_constant else {}),
        }

    def _with_params(self, values: Mapping[str, Any]) -> Self:
        for name, value in values.items():
            if name in _SPEC_PARAMS.get(self.id, ()):
                raise ValueError(f"{self}: {name} determines a spec: pass it to load as one number, got {value!r}")
            _check_settable(f"{self}", name, self._single, value)
        return super()._with_params(values)

    def _values(self) -> dict[str, Any]:
        return {**super()._values(), "max_steps_in_episode": self.max_steps_in_episode}


class GymnaxSingle(Single):
    """A gymnax environment; `single` builds each configuration once."""

    suite = "gymnax"
    limit: int

    def build(self, id: str, arguments: dict[str, Any]) -> None:
        missing = [path for path in _MNIST_FILES if not os.path.exists(path)]
        if id == "MNISTBandit-bsuite" and missing:
            rule = "gymnax would download MNIST: put the files there first"
            raise ValueError(f"{self.owner}: {rule}, no file {missing[0]}")
        of_spec = _SPEC_PARAMS.get(id, ())
        spec_params = {name: arguments.pop(name) for name in of_spec if name in arguments}
        with reporting(self.owner, arguments):
            self.env, defaults = _gymnax().make(id, **arguments)
        if self.env.supports_transition_gradients:  # otherwise gymnax stops gradients at every step
            self.env = self.env.with_transition_gradients()
        # Its ``EnvParams``, with those options that are params, and what computes params from others.
        self.defaults = defaults.replace(**spec_params)
        self.derived = _DERIVED.get(id, {})
        hidden = {"max_steps_in_episode", *of_spec, *self.derived}
        fields = [f for f in dataclasses.fields(self.defaults) if f.name not in hidden]
        # Fields that are not numbers or are part of the tree structure; they never change.
        leaves = {f.name: getattr(self.defaults, f.name) for f in fields if f.metadata.get("pytree_node", True)}
        values = {name: np.asarray(value) for name, value in leaves.items() if is_numeric(value)}
        self.fixed = tuple(f.name for f in fields if f.name not in values)
        self.limit = int(self.defaults.max_steps_in_episode)
        self.params = params_struct(self.owner, self.options, values)
        self.bounds = _BOUNDS.get(id, [])
        # Whether the environment defines ``is_truncated``; gymnax's own environments do not.
        self.truncates = type(self.env).is_truncated is not _gymnax().environments.environment.Environment.is_truncated

    def reset(self, values: Mapping[str, Any], key: jax.Array) -> tuple[Tree, Tree]:
        observation, state = self.env.reset_env(key, self.env_params(values))
        return state, observation

    def step(self, values: Mapping[str, Any], key: jax.Array, state: Tree, action: Tree) -> Stepped:
        params = self.env_params(values)
        observation, state, reward, terminated, info = self.env.step_env(key, state, action, params)
        shown = {name: entry for name, entry in info.items() if name not in _STANDARD_INFO}
        return state, observation, reward, terminated, shown

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


single, action_and_limit, docstring = functions_of(GymnaxSingle)


def _split_keywords(id: str, given: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Splits keywords into options, sorted pairs of name and value, and values of the other params.

    Options are constructor arguments and params that determine a spec.
    """
    check_known("gymnax", id, _gymnax().registered_envs)
    owner, spec_params = f"gymnax:{id}", _SPEC_PARAMS.get(id, ())
    constructor, takes_any = arguments_of(_gymnax().registration._registry[id])

    def own_options() -> dict[str, Any]:
        own = given.keys() & constructor.keys() - set(spec_params)
        return {name: checked_option(owner, name, given[name], constructor[name]) for name in given if name in own}

    if takes_any:  # a factory that hands its keywords on
        try:
            constructor |= arguments_of(type(single(id, tuple(sorted(own_options().items()))).env))[0]
        except ValueError:  # it cannot be built without further arguments, so all keywords are accepted
            constructor |= dict.fromkeys(given.keys() - constructor.keys(), inspect.Parameter.empty)
    options = own_options()
    for name in (name for name in given if name in spec_params):
        if not is_real(given[name]):
            raise ValueError(f"{owner}: {name} determines a spec and must be one number, got {given[name]!r}")
        options[name] = float(given[name])
    chosen = tuple(sorted(options.items()))
    env, values = single(id, chosen), {name: value for name, value in given.items() if name not in options}
    for name, value in values.items():
        _check_settable(owner, name, env, value)
    check_unknown(owner, values, values_of(env.params), [*constructor, *spec_params])
    if options:  # some are rejected by a reset, a step or a space
        with reporting(owner, {name: thaw(value) for name, value in chosen}):
            _ = env.shapes, env.observation_spec, env.action_spec
    return chosen, values


def _check_settable(owner: str, name: str, env: GymnaxSingle, value: Any) -> None:
    """Raises a ``ValueError`` for a field of gymnax's ``EnvParams`` that cannot be set as a param."""
    got = f", got {value!r}"
    if name == "max_steps_in_episode":
        raise ValueError(f"{owner}: max_steps_in_episode is the time limit, pass max_episode_steps to load{got}")
    if name in env.derived:
        raise ValueError(f"{owner}: {name} is computed from other params, pass those{got}")
    if name in env.fixed:
        default = getattr(env.defaults, name)
        raise ValueError(f"{owner}: {name} is not a number and must stay {default!r}{got}")
