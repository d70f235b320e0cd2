"""gymnax's environments as batched environments: ``jaxenv.make("gymnax:Asterix-MinAtar", num_envs=8)``.

It runs gymnax's ``reset_env`` and ``step_env``. gymnax's ``step`` resets at every step, hides the last observation, and
reports some ends as both terminated and truncated. State that outlives episodes in bsuite is carried over.
``docs/evidence/gymnax.md`` lists the differences from the native environments of the same name.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import INT32_MAX, is_concrete
from jaxenv.core import Environment, EnvSpec, StepType, TimeStep
from jaxenv.core._declared import Declared, check_number
from jaxenv.core.timestep import TaskState
from jaxenv.suites import _gymnax_picture, _gymnax_single, _gymnax_tasks
from jaxenv.suites._gymnax_single import check_settable, single, split_keywords
from jaxenv.suites._single import action_and_limit_of, docstring_of
from jaxenv.suites._task import State, SuiteTask
from jaxenv.tree import Tree, _typed_keys
from jaxenv.wrappers.stack._make import OPTIONS, make


def ids() -> list[str]:
    """Returns the ids that ``load`` accepts: all ids registered with gymnax."""
    return sorted(_gymnax_single.gymnax().registered_envs)


action_and_limit, docstring = action_and_limit_of(single), docstring_of(single)


def load(
    name: str, /, num_envs: int | None = None, *, horizon_terminates: bool | None = None, **kwargs: Any
) -> Environment:
    """Builds a gymnax environment.

    Args:
        name: an id of gymnax.
        num_envs: the number of lanes that ``reset(key)`` makes.
        horizon_terminates: whether reaching the time limit is a termination (discount 0). By default it is if the
            horizon is part of the task (DiscountingChain, Freeway, MetaMaze, both bandits) and the limit its own.
        **kwargs: keywords of `jaxenv.make`; arguments of gymnax's constructor; fields of gymnax's ``EnvParams``, one
            number or ``[num_envs]`` for one per lane. ``max_episode_steps`` is gymnax's ``max_steps_in_episode``.
    """
    owner = f"gymnax:{name}"
    stack_kwargs = {key: value for key, value in kwargs.items() if key in OPTIONS}
    options, values = split_keywords(name, {key: value for key, value in kwargs.items() if key not in OPTIONS})
    built = single(name, options)

    limit = _checked_limit(owner, kwargs.get("max_episode_steps"), num_envs)
    unlimited = limit is not None and is_concrete(limit) and not np.any(np.asarray(limit))
    # gymnax's own code sees a horizon even without a limit: DiscountingChain shows the elapsed fraction of it. An
    # is_truncated of the environment's own would end episodes there.
    endless = INT32_MAX if built.truncates else built.limit
    horizon = built.limit if limit is None else endless if unlimited else limit
    terminal = _is_terminal(owner, name, horizon_terminates, limit, unlimited, built.limit)

    def bare(num_envs: int) -> Environment:
        env = GymnaxEnvironment(built.params, "gymnax", name, options, horizon, num_envs=num_envs, name=owner)
        return env.with_params(**values) if values else env

    spec = EnvSpec(owner, bare, max_episode_steps=built.limit, terminal_limit=terminal)
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


def _is_terminal(
    owner: str, id: str, horizon_terminates: bool | None, limit: Any, unlimited: bool, own_limit: int
) -> bool:
    if not isinstance(horizon_terminates, bool | None):
        raise ValueError(f"{owner}: horizon_terminates must be True, False or None, got {horizon_terminates!r}")
    if horizon_terminates and unlimited:
        raise ValueError(f"{owner}: horizon_terminates=True needs a time limit, got max_episode_steps=0")
    if horizon_terminates is not None:
        return horizon_terminates
    is_own = limit is None or (is_concrete(limit) and np.all(np.asarray(limit) == own_limit))
    return id in _gymnax_tasks.TERMINAL_HORIZON and bool(is_own)


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
            return single.is_truncated(values, _typed_keys.from_words(single.shapes.key_kinds.value, env_state))

        ended = self._map_lanes(is_truncated, state.task.env_state)
        step_type = jnp.where(ended, np.int32(StepType.LAST), timestep.step_type)
        return state, dataclasses.replace(timestep, step_type=step_type)

    def state_info(self, state: Tree) -> dict[str, Tree]:
        return {name: getattr(state.env_state, name) for name in _gymnax_tasks.COUNTERS.get(self.id, ())}

    def carry(self, old: Tree, new: Tree) -> Tree:
        carried = _gymnax_tasks.COUNTERS.get(self.id, ()) + _gymnax_tasks.CARRIED.get(self.id, ())
        values = {name: getattr(old.env_state, name) for name in carried}
        return State(new.env_state.replace(**values), new.observation) if values else new

    def picture_of(self, state: TaskState, size: tuple[int, int]) -> jax.Array:
        own = state.task
        params = self._map_lanes(lambda values, _: self._single.env_params(values), own.env_state)
        return _gymnax_picture.picture(f"{self}", self._single.env, own.env_state, own.observation, params, size)

    @property
    def opt_outs(self) -> Mapping[str, str]:  # type: ignore[override]
        constant = dict.fromkeys(("lanes_differ", "episodes_differ"), "gymnax starts all episodes in the same state")
        looping = "gymnax searches for a free slot in a loop that runs until the last lane has finished"
        return {
            **({"sharding_invariant": looping} if self.id in _gymnax_tasks.LOOPING else {}),
            **(constant if self._has_constant_start else {}),
        }

    def _with_params(self, values: Mapping[str, Any]) -> Self:
        for name, value in values.items():
            if name in _gymnax_tasks.SPEC_PARAMS.get(self.id, ()):
                raise ValueError(f"{self}: {name} determines a spec: pass it to load as one number, got {value!r}")
            check_settable(f"{self}", name, self._single, value)
        return super()._with_params(values)

    @property
    def _has_constant_start(self) -> bool:
        """Whether all episodes are known to start in the same state."""
        unless = [getattr(self.params, name) for name in _gymnax_tasks.CONSTANT_START.get(self.id, ())]
        return self.id in _gymnax_tasks.CONSTANT_START and all(is_concrete(x) and not np.any(x) for x in unless)

    def _values(self) -> tuple[dict[str, Any], dict[str, int]]:
        values, ranks = super()._values()
        return {**values, "max_steps_in_episode": self.max_steps_in_episode}, {**ranks, "max_steps_in_episode": 0}
