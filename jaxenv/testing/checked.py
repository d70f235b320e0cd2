"""An environment that raises where others contain: on illegal actions, numbers that are none, broken specs."""

import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify

from jaxenv import _actions, specs, tree
from jaxenv.environment import Environment
from jaxenv.random import Clock
from jaxenv.timestep import TimeStep
from jaxenv.tree import Tree
from jaxenv.wrapper import Wrapper

_MAX_RANK = 8  # of a leaf, the lanes included


def checked(env: Environment) -> "Checked":
    """An environment that steps like ``env`` and raises at the first fault of the caller's or of its own.

    Jitted code cannot raise, so environments contain what is wrong: they clip, and they end a lane whose numbers
    diverge. That is right for training and hides mistakes. Here an error is raised where

    - an action is illegal: not finite, outside the action spec, or not marked by the state's ``action_mask``. It is
      the caller's own action that counts, not what clipping makes of it. Rows whose action the environment ignores
      (those after LAST in ``next_step`` streams) are left out;
    - a reward or an observation is NaN or infinite, or ``GuardNonFinite`` found a lane to be so;
    - an observation (``env_info["final_observation"]`` too) lies outside the observation spec.

    Put it outermost. Called as they are, ``reset`` and ``step`` compile themselves and raise at the call. In code that
    is traced (``jax.jit``, ``jax.lax.scan``) an error has to be carried out: hand the outermost function to
    ``checkify``, as in the second example, and call ``error.throw()``. Without that JAX refuses to compile it.

    Returns:
        A wrapper that owns nothing: state, rows and specs are those of ``env``.

    Raises:
        ValueError: from ``reset`` and ``step``: the leaf, the lane, its episode, the step in it (FIRST is step 0; for
            an action, the step at which it was taken), the value and the rule.

    >>> import jax, jax.numpy as jnp, jaxenv
    >>> from jax.experimental import checkify
    >>> env = checked(jaxenv.make("CardGame-v0", num_envs=2))
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> env.step(state, jnp.array([0, 2]))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: <AutoReset<CardGame-v0>>: action at lane 1, episode 0, step 0 is 2: it must lie within Bounded(...)

    >>> def rollout(state, actions):
    ...     return jax.lax.scan(env.step, state, actions)
    >>> error, _ = jax.jit(checkify.checkify(rollout))(state, jnp.array([[0, 0], [-1, 0]]))
    >>> print(error.get())  # doctest: +ELLIPSIS
    <AutoReset<CardGame-v0>>: action at lane 0, episode 0, step 1 is -1: it must lie within Bounded(...)...
    """
    return Checked(env)


class Checked(Wrapper):
    """The environment that `checked` makes. Owns nothing."""

    owns: ClassVar[frozenset[str]] = frozenset()

    def begin(self, keys, env_id, episode, previous=None):
        return _raised(*_begin(self.env, keys, env_id, episode, previous))

    def step(self, state, action):
        return _raised(*_step(self.env, state, action))


def _begin_and_check(env: Environment, keys: Any, env_id: Any, episode: Any, previous: Tree) -> tuple[Tree, TimeStep]:
    state, timestep = env.begin(keys, env_id, episode, previous)
    _check_row(env, env.clock(state), timestep)
    return state, timestep


def _step_and_check(env: Environment, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
    new, timestep = env.step(state, action)  # refuses wrong structures, shapes and kinds of dtype
    _check_action(env, state, action, heeded=~timestep.is_first())
    clock = env.clock(new)
    if env.autoreset == "same_step":
        # The row that ends an episode belongs to it, though the state is that of the next one already.
        clock = tree.where(timestep.is_last(), env.clock(state).tick(), clock)
    _check_row(env, clock, timestep)
    return new, timestep


_begin = jax.jit(checkify.checkify(_begin_and_check))
_step = jax.jit(checkify.checkify(_step_and_check))


def _raised(error: checkify.Error, out: tuple[Tree, TimeStep]) -> tuple[Tree, TimeStep]:
    if any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(error)):
        checkify.check_error(error)  # for the checkify around the caller
    elif (message := error.get()) is not None:
        raise ValueError(message.removesuffix(" (`check` failed)"))
    return out


# --- what is checked -------------------------------------------------------------------------------------------------


def _check_action(env: Environment, state: Tree, action: Tree, heeded: jax.Array) -> None:
    spec, clock = env.action_spec(), env.clock(state)
    cast = _actions.conform(spec, action, clock.env_id.shape[0], str(env))
    leaves = zip(tree.flatten_with_path(spec)[0], jax.tree.leaves(action), jax.tree.leaves(cast), strict=True)
    for (path, s), given, a in leaves:
        given = jnp.asarray(given)
        legal = _within(s, a)
        if s.dtype.kind in "iu":
            legal &= a.astype(given.dtype) == given  # an integer that the spec's dtype does not hold was cut
        _check(env, _name("action", path), given, legal | ~tree.expand(heeded, a.ndim), clock, _rule(s))
    mask = env.info_of_state(state).get("action_mask")
    if mask is not None and isinstance(spec, specs.Bounded) and spec.is_discrete and spec.shape == ():
        if mask.shape != (*heeded.shape, spec.num_values):
            raise ValueError(f"{env}: action_mask has shape {mask.shape}, the action spec has {spec.num_values} values")
        index = jnp.clip(cast, spec.minimum, spec.maximum).astype(jnp.int32) - np.int32(spec.minimum)
        marked = jnp.take_along_axis(mask, index[:, None], axis=-1)[:, 0]
        _check(env, "action", cast, marked | ~heeded, clock, "action_mask does not mark it")


def _check_row(env: Environment, clock: Clock, timestep: TimeStep) -> None:
    _check(env, "reward", timestep.reward, jnp.isfinite(timestep.reward), clock, "it must be finite")
    shown = {"observation": timestep.observation}
    if "final_observation" in timestep.env_info:
        shown["env_info.final_observation"] = timestep.env_info["final_observation"]
    for name, observation in shown.items():
        wanted = tree.flatten_with_path(env.observation_spec())[0]
        for (path, s), x in zip(wanted, jax.tree.leaves(observation), strict=True):
            _check(env, _name(name, path), x, _within(s, x), clock, _rule(s))
    if "abnormal" in timestep.env_info:
        abnormal = timestep.env_info["abnormal"]
        rule = "the state, observation or reward of the step was not finite, and the guard ended the lane"
        _check(env, "env_info.abnormal", abnormal, ~abnormal, clock, rule)


def _within(spec: specs.Array, x: jax.Array) -> jax.Array:
    """Where ``x`` (``[B, ...]``, in the spec's dtype) is finite and within the spec's bounds, in the shape of ``x``."""
    holds = jnp.isfinite(x) if spec.is_continuous else jnp.ones(x.shape, bool)
    if isinstance(spec, specs.Bounded):
        holds &= (x >= specs.aligned(spec.minimum, x.ndim)) & (x <= specs.aligned(spec.maximum, x.ndim))
    return holds


def _rule(spec: specs.Array) -> str:
    if isinstance(spec, specs.Bounded):
        return f"it must lie within {spec}"
    return "it must be finite" if spec.is_continuous else f"it must fit {spec.dtype}"


def _name(root: str, path: tuple) -> str:
    return ".".join(filter(None, [root, tree.path_name(path)]))


def _check(env: Environment, name: str, x: jax.Array, holds: jax.Array, clock: Clock, rule: str) -> None:
    """Adds an error for the first place (lane by lane) at which ``holds`` is false; both are ``[B, ...]``.

    Every error carries arrays of the same shapes and dtypes: of such errors checkify keeps the first in time.
    """
    if x.size == 0:
        return
    place = jnp.argmin(holds.reshape(-1)).astype(jnp.int32)
    index = [place // np.int32(math.prod(x.shape[i + 1 :])) % np.int32(n) for i, n in enumerate(x.shape)]
    lane, value = index[0], x.reshape(-1)[place]
    is_float = jnp.issubdtype(x.dtype, jnp.inexact)
    element = ", ".join(f"{{index[{i}]}}" for i in range(1, x.ndim))
    message = (
        f"{_escaped(env)}: {_escaped(name)}{f'[{element}]' if element else ''} at lane {{index[0]}}, "
        f"episode {{episode}}, step {{step}} is {'{number}' if is_float else '{integer}'}: {_escaped(rule)}"
    )
    checkify.check(
        jnp.all(holds),
        message,
        index=jnp.stack([*index, *[np.int32(0)] * (_MAX_RANK - len(index))]),
        episode=clock.episode[lane],
        step=clock.step[lane],
        number=value.astype(jnp.float32) if is_float else jnp.float32(0),
        integer=jnp.int32(0) if is_float else value.astype(jnp.int32),
    )


def _escaped(part: object) -> str:
    """Text in which braces are no places of a format."""
    return str(part).replace("{", "{{").replace("}", "}}")
