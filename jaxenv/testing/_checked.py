"""An environment that raises on illegal actions, non-finite values and observations outside of their spec."""

import dataclasses
import functools
import math
from typing import Any, ClassVar

import jax.core
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify

from jaxenv import specs, tree
from jaxenv._util.programs import jitted
from jaxenv.core._checks import actions as _actions
from jaxenv.core._checks import given as _checks
from jaxenv.core.environment import Environment
from jaxenv.core.facts import Facts
from jaxenv.core.levels import given_places
from jaxenv.core.starts import Place, Starts
from jaxenv.core.timestep import StepType, TimeStep
from jaxenv.core.wrapper import Wrapper
from jaxenv.random import Clock
from jaxenv.tree import Tree
from jaxenv.wrappers import LevelReplay

_MAX_RANK = 8  # axes of a leaf, lanes included


def checked(env: Environment) -> "Checked":
    """Wraps an environment so that it raises at the first invalid action, reward or observation.

    Jitted code cannot raise errors, so environments contain invalid values: they clip actions, and they end lanes
    whose values diverge. This suits training but hides mistakes. The checked environment raises an error if

    - an action is illegal: not finite, outside of the action spec, or not allowed by the ``action_mask`` of the state.
      The action is checked as passed by the caller, before any clipping. Actions that the environment ignores (after
      LAST in ``next_step`` mode, and of lanes that wait in ``jaxenv.step_where``) are not checked. Answers of an
      `Opponent` are;
    - a reward or an observation is NaN or infinite, or a row is abnormal (`jaxenv.Transition`, ``GuardNonFinite``);
    - an observation, including ``env_info["final_observation"]``, lies outside of the observation spec;
    - a level that is given inside of ``jax.jit``, where the values are not known before, holds a float that is not
      finite, or the task refuses it by ``check_level``. A level that was assigned in a ``LevelReplay`` is checked when
      an episode starts in it, and by ``reset_where`` in all lanes;
    - a lane steps past LAST, in a stack without ``AutoReset``: such a step would keep paying rewards. Restart the lane
      with ``jaxenv.reset_where``.

    It belongs outermost in a stack. Called directly, ``reset`` and ``step`` are compiled and raise immediately. In
    traced code (``jax.jit``, ``jax.lax.scan``), apply ``jax.experimental.checkify.checkify`` to the outermost function
    and call ``error.throw()``; otherwise JAX refuses to compile it.

    The wrapper owns nothing: rows, specs and state equal ``env``'s. Without ``AutoReset`` the state also holds
    which lanes ended. A ``ValueError`` has the leaf, the lane, the episode, the step within it (FIRST is step 0; for an
    action, the step at which it was taken), the value and the rule.

    >>> import jax, jax.numpy as jnp, jaxenv
    >>> env = checked(jaxenv.make("CardGame-v0", num_envs=2))
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> env.step(state, jnp.array([0, 2]))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: <AutoReset<CardGame-v0>>: action at lane 1, episode 0, step 0 is 2: it must lie within Bounded(...)
    """
    return Checked(env)


@tree.struct
class CheckedState:
    """State of the environment inside, and ``ended`` (bool ``[B]``): the lanes whose row was LAST."""

    inner: Tree
    ended: jax.Array


class Checked(Wrapper):
    """The environment that `checked` returns. Owns nothing."""

    owns: ClassVar[frozenset[str]] = frozenset()

    def inner(self, state: Tree) -> Tree:
        return state.inner if self.autoreset is None else state

    def begin(self, starts: Starts, previous: Tree = None) -> tuple[Tree, TimeStep]:
        inner = None if previous is None else self.inner(previous)
        return self._with_ended(*_raised(*_begin(self.env, starts, inner)))

    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        return self._step_lanes(state, action, jnp.ones_like(self.clock(state).env_id, bool))

    def _step_lanes(self, state: Tree, action: Tree, mask: jax.Array) -> tuple[Tree, TimeStep]:
        ended = state.ended if self.autoreset is None else None
        return self._with_ended(*_raised(*_step(self.env, self.inner(state), action, ended, mask)))

    def facts_of(self, inner: Facts) -> Facts:
        return dataclasses.replace(inner, compiles_itself=False)  # an error in compiled code is one of JAX

    def _with_ended(self, state: Tree, timestep: TimeStep) -> tuple[Tree, TimeStep]:
        return (CheckedState(state, timestep.is_last()) if self.autoreset is None else state), timestep


def _begin_and_check(env: Environment, starts: Starts, previous: Tree) -> tuple[Tree, TimeStep]:
    if starts.place is not None and not starts.place.in_state:
        _check_level(env, starts.place)
    if (layer := given_places(env)) is not None and not layer.in_state:
        _check_level(layer.env, Place(layer.level, layer.given))
    state, timestep = env.begin(starts, previous)
    every = jnp.ones_like(timestep.is_first())
    _check_replayed(env, state, every)
    _check_row(env, env.clock(state), timestep, every)
    return state, timestep


def _step_and_check(
    env: Environment, state: Tree, action: Tree, ended: jax.Array | None, mask: jax.Array
) -> tuple[Tree, TimeStep]:
    token = _checks.reporting.set(functools.partial(_check_action, name="action of the opponent"))
    try:
        new, timestep = env._step_lanes(state, action, mask)  # raises for wrong structures, shapes and kinds of dtype
    finally:
        _checks.reporting.reset(token)
    if ended is not None:
        kind = jnp.where(ended, np.int32(StepType.LAST), np.int32(StepType.MID))
        rule = "the episode ended, restart the lane with reset_where"
        _check(env, "step_type", kind, ~ended, mask, env.clock(state), rule)
    _check_action(env, state, action, mask & ~timestep.is_first())
    clock, starts = env.clock(new), timestep.is_first()
    if env.autoreset == "same_step":
        # The last row of an episode still belongs to it, although the state already belongs to the next one.
        clock, starts = tree.where(timestep.is_last(), env.clock(state).tick(), clock), timestep.is_last()
    _check_replayed(env, new, mask & starts)
    _check_row(env, clock, timestep, mask)
    return new, timestep


_begin = jitted(checkify.checkify(_begin_and_check))
_step = jitted(checkify.checkify(_step_and_check))


def _raised(error: checkify.Error, out: tuple[Tree, TimeStep]) -> tuple[Tree, TimeStep]:
    if any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(error)):
        checkify.check_error(error)  # an outer checkify reports it
    elif (message := error.get()) is not None:
        raise ValueError(message.removesuffix(" (`check` failed)"))
    return out


# --- checks -----------------------------------------------------------------------------------------------------------


def _check_action(env: Environment, state: Tree, action: Tree, used: jax.Array, name: str = "action") -> None:
    spec, clock = env.action_spec(), env.clock(state)
    cast = _actions.conform(spec, action, clock.env_id.shape[0], str(env))
    leaves = zip(jax.tree.flatten_with_path(spec)[0], jax.tree.leaves(action), jax.tree.leaves(cast), strict=True)
    for (path, s), given, a in leaves:
        given = jnp.asarray(given)
        legal = _within(s, a)
        if s.dtype.kind in "iu":
            legal &= a.astype(given.dtype) == given  # False if the dtype of the spec cannot represent it
        _check(env, tree.path_name(path, name), given, legal, used, clock, _rule(s))
    mask = env.env_info_of(state).get("action_mask")
    if mask is not None and isinstance(spec, specs.Bounded) and spec.is_discrete and spec.shape == ():
        if mask.shape != (*used.shape, spec.num_values):
            raise ValueError(f"{env}: action_mask has shape {mask.shape}, the action spec has {spec.num_values} values")
        index = jnp.clip(cast, spec.minimum, spec.maximum).astype(jnp.int32) - np.int32(spec.minimum)
        allowed = jnp.take_along_axis(mask, index[:, None], axis=-1)[:, 0]
        _check(env, name, cast, allowed, used, clock, "action_mask does not allow it")


def _check_row(env: Environment, clock: Clock, timestep: TimeStep, used: jax.Array) -> None:
    _check(env, "reward", timestep.reward, jnp.isfinite(timestep.reward), used, clock, "it must be finite")
    shown = {"observation": timestep.observation}
    if "final_observation" in timestep.env_info:
        shown["env_info.final_observation"] = timestep.env_info["final_observation"]
    for name, observation in shown.items():
        specs_of_leaves = jax.tree.flatten_with_path(env.observation_spec())[0]
        for (path, s), x in zip(specs_of_leaves, jax.tree.leaves(observation), strict=True):
            _check(env, tree.path_name(path, name), x, _within(s, x), used, clock, _rule(s))
    if "abnormal" in timestep.env_info:
        abnormal = timestep.env_info["abnormal"]
        rule = "the step failed: GuardNonFinite found a number that is not finite, or the task itself reported it"
        _check(env, "env_info.abnormal", abnormal, ~abnormal, used, clock, rule)


def _check_replayed(env: Environment, state: Tree, starts: jax.Array) -> None:
    """Adds errors for the levels of a `LevelReplay` in which the lanes of ``starts`` (bool ``[B]``) start."""
    while isinstance(env, Wrapper):
        layer = env
        if isinstance(layer, LevelReplay) and layer.of == "level":
            of_games = starts.reshape(*state.given.shape, -1).all(axis=1)  # where agents outside are lanes
            _check_level(layer, Place(state.values, state.given & of_games))
        env, state = layer.env, layer.inner(state)


def _check_level(env: Environment, start: Place) -> None:
    """Adds errors for levels that are not finite, or that the task refuses on the host."""
    used = start.given
    if used is None:
        used = jnp.ones(jax.tree.leaves(start.values)[0].shape[0], bool)
    finite = jnp.ones_like(used)
    for path, x in jax.tree.flatten_with_path(start.values)[0]:
        if jnp.issubdtype(x.dtype, jnp.inexact):
            holds = jnp.isfinite(x)
            _check(env, tree.path_name(path, "level"), x, holds, used, None, "it must be finite")
            finite = finite & holds.reshape(*used.shape, -1).all(axis=1)
    lane = jnp.zeros((), jnp.int32)
    asked = used & finite
    refused = jax.lax.cond(
        asked.any(),
        lambda: jax.pure_callback(_first_refused, lane, env, start.values, asked, vmap_method="sequential"),
        lambda: jnp.full_like(lane, -1),
    )
    message = f"{_escaped(env)}: level at lane {{index[0]}}: check_level refuses it, call it with this level"
    _report(refused < 0, message, [refused])


def _first_refused(env: Environment, level: Tree, used: jax.Array) -> np.int32:
    """Returns the first of the ``used`` lanes whose level the task refuses, or -1. Runs on the host."""
    level, lanes = jax.tree.map(np.asarray, level), np.flatnonzero(used)

    def refuses(lanes: np.ndarray) -> bool:
        try:
            env.levels().check(jax.tree.map(lambda x: x[lanes], level))
        except ValueError:
            return True
        return False

    if lanes.size == 0 or not refuses(lanes):
        return np.int32(-1)
    return np.int32(next((lane for lane in lanes if refuses(np.array([lane]))), lanes[0]))


def _within(spec: specs.Array, x: jax.Array) -> jax.Array:
    """Returns where ``x`` (``[B, ...]``, in the dtype of the spec) is finite and within bounds, in its shape."""
    holds = jnp.isfinite(x) if spec.is_continuous else jnp.ones(x.shape, bool)
    if isinstance(spec, specs.Bounded):
        holds &= (x >= specs.aligned(spec.minimum, x.ndim)) & (x <= specs.aligned(spec.maximum, x.ndim))
    return holds


def _rule(spec: specs.Array) -> str:
    if isinstance(spec, specs.Bounded):
        return f"it must lie within {spec}"
    return "it must be finite" if spec.is_continuous else f"it must fit {spec.dtype}"


def _check(
    env: Environment, name: str, x: jax.Array, holds: jax.Array, used: jax.Array, clock: Clock | None, rule: str
) -> None:
    """Adds an error for the first element of ``x`` (in lane order) at which ``holds`` is false; both are ``[B, ...]``.

    Lanes outside of ``used`` (bool ``[B]``) have no errors. Without a ``clock`` the message names no step.
    """
    if x.size == 0:
        return
    holds = holds | ~tree.expand(used, x.ndim)
    place = jnp.argmin(holds.reshape(-1)).astype(jnp.int32)
    index = [place // np.int32(math.prod(x.shape[i + 1 :])) % np.int32(n) for i, n in enumerate(x.shape)]
    lane, value = index[0], x.reshape(-1)[place]
    is_float = jnp.issubdtype(x.dtype, jnp.inexact)
    element = ", ".join(f"{{index[{i}]}}" for i in range(1, x.ndim))
    message = (
        f"{_escaped(env)}: {_escaped(name)}{f'[{element}]' if element else ''} at lane {{index[0]}}"
        f"{'' if clock is None else ', episode {episode}, step {step}'} is {'{number}' if is_float else '{integer}'}: "
        f"{_escaped(rule)}"
    )
    values = {"number": value.astype(jnp.float32)} if is_float else {"integer": value.astype(jnp.int32)}
    if clock is not None:
        values |= {"episode": clock.episode[lane], "step": clock.step[lane]}
    _report(jnp.all(holds), message, index, **values)


def _report(holds: jax.Array, message: str, index: list[Any], **values: Any) -> None:
    """Adds an error unless ``holds``; arrays of fixed shapes and dtypes let checkify keep the first of all errors."""
    none: dict[str, Any] = {name: jnp.zeros((), jnp.int32) for name in ("episode", "step", "integer")}
    place = jnp.stack([*index, *[np.int32(0)] * (_MAX_RANK - len(index))])
    checkify.check(holds, message, index=place, **{**none, "number": jnp.zeros((), jnp.float32), **values})


def _escaped(part: object) -> str:
    return str(part).replace("{", "{{").replace("}", "}}")
