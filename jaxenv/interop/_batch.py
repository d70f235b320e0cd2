"""A batch of lanes from functions that were written for one lane."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv._util.checks import check_callable
from jaxenv._util.library import default_types
from jaxenv.core import Environment, EnvSpec, Task, Transition
from jaxenv.core._checks.returned import check_returned
from jaxenv.random import Stream
from jaxenv.specs._array import check_spec
from jaxenv.tree import Static, Tree
from jaxenv.tree._structure import type_mismatch
from jaxenv.tree._typed_keys import from_words, is_key, to_words
from jaxenv.tree._typed_keys import kinds as key_kinds
from jaxenv.wrappers.stack._make import make


def batch(
    reset: Callable[..., Any],
    step: Callable[..., Any],
    *,
    action: Tree,
    observation: Tree = None,
    num_envs: int = 1,
    name: str = "batch",
    **options: Any,
) -> Environment:
    """Makes a batched environment of two pure functions that were written for one lane.

    The functions run under ``jax.vmap``, and with JAX's default types. They hold the physics and nothing else: a
    ``step`` that restarts its episodes or cuts them at a time limit hides their ends, which cannot be detected. Each
    gets a separate typed key at every call. It depends on the lane, its episode and its step, not on their number.

    Args:
        reset: ``reset(key) -> (state, observation)``. The state is any tree of arrays; typed keys may be part of it.
        step: ``step(state, action, key) -> (state, observation, reward, terminated)``, or with a fifth value, a dict of
            arrays for ``env_info``. ``reward`` is a float, ``()`` or ``(R,)`` for R above 1; ``terminated`` a bool.
        action: the spec of an action, or a tree of specs.
        observation: the spec of the observation; by default from the result of ``reset``, without bounds.
        num_envs: number of lanes that ``reset(key)`` makes.
        name: the name of the environment.
        **options: of `jaxenv.make`, such as ``max_episode_steps``, ``autoreset`` and ``wrappers``.

    Functions whose results do not fit each other, and invalid rewards and ends, are a ``ValueError``.
    """
    check_callable(name, "reset", reset, "a key")
    check_callable(name, "step", step, "state, action and key")
    check_spec(name, action, "action")
    if observation is not None:
        check_spec(name, observation, "observation")
    key_kinds, state, found = _checked_reset(name, reset)
    if observation is None:
        observation = jax.tree.map(lambda s: specs.Array(s.shape, s.dtype), found)
    if (fault := type_mismatch(found, observation, "observation")) is not None:
        raise ValueError(f"{name}: spec of {fault}, as reset returns it; {_ORDER}")
    _check_step(name, step, state, found, action)
    lane = Lane(reset, step, Static(action), Static(observation), Static(key_kinds))
    return make(EnvSpec(name, lambda num_envs: SingleLane(lane, num_envs=num_envs)), num_envs, **options)


@dataclasses.dataclass(frozen=True)
class Lane:
    """A ``reset`` and a ``step`` of one lane that fit each other, with the results of tracing them."""

    reset: Callable[..., Any]
    step: Callable[..., Any]
    action: Static  # the spec of the action
    observation: Static  # the spec of the observation
    key_kinds: Static  # a tree like the state, with the kind of each typed key and "" for other arrays


@tree.struct
class State:
    """The state of the functions, typed keys as their words, and the last observation, every leaf ``[B, ...]``."""

    inner: Tree
    observation: Tree


class SingleLane(Task):
    """A task whose hooks vmap functions of one lane. All other code of this library is written over the batch."""

    lane: Lane = tree.static()

    def initial(self, stream: Stream) -> Tree:
        inner, observation = _over_lanes(self.lane.reset, random.jax_keys(stream))
        return State(inner, observation)

    def transition(self, state: Tree, action: Tree, stream: Stream) -> Transition:
        def step(inner: Any, action: Tree, key: jax.Array) -> Any:
            return self.lane.step(from_words(self.lane.key_kinds.value, inner), action, key)

        inner, observation, *rest = _over_lanes(step, state.inner, action, random.jax_keys(stream))
        return Transition(State(inner, observation), *rest)

    def observe(self, state: Tree) -> Tree:
        return state.observation

    def observation_spec(self) -> Tree:
        return self.lane.observation.value

    def action_spec(self) -> Tree:
        return self.lane.action.value


def _over_lanes(function: Callable[..., Any], *arguments: Tree) -> tuple[Any, ...]:
    """Maps a function of one lane over all lanes; typed keys in its state become words."""
    # Weak types are dropped under the same settings: under others a weak int32 would become int64.
    with default_types():
        state, *rest = jax.vmap(lambda *arguments: function(*arguments))(*arguments)
        return tree.strong((to_words(state), *rest))


# --- checks of the functions, in the user's terms ---------------------------------------------------------------------

_ORDER = "reset returns (state, observation)"


def _checked_reset(owner: str, reset: Callable[..., Any]) -> tuple[Tree, Tree, Tree]:
    """Checks ``reset``; returns the kinds of the keys in the state, and the shapes of state and observation."""
    kinds = None

    def checked(key: jax.Array) -> Any:
        nonlocal kinds
        with _with_note("in reset(key), which batch calls under vmap for one lane"):
            out = reset(key)
        state, observation = _values(owner, "reset", out, "(state, observation)", 2)
        check_returned(owner, "reset", "state", state)
        if any(map(is_key, jax.tree.leaves(observation))):
            raise ValueError(f"{owner}.reset: observation holds a typed key, {_ORDER}")
        check_returned(owner, "reset", "observation", observation)
        kinds = key_kinds(state)
        return state, observation

    shapes = _shapes(checked)
    return kinds, *shapes


def _check_step(owner: str, step: Callable[..., Any], state: Tree, observation: Tree, action: Tree) -> None:
    def checked(state: Tree, action: Tree, key: jax.Array) -> Any:
        values = "(state, observation, reward, terminated), or these and a dict"
        with _with_note(f"in step(state, action, key), which batch calls under vmap for one lane; {_ORDER}"):
            out = step(state, action, key)
        out = _values(owner, "step", out, values, 4, 5)
        for name, x in zip(("state", "observation"), out, strict=False):
            check_returned(owner, "step", name, x)
        reward, terminated = out[2:4]
        shape = jnp.shape(reward)
        if not _has_dtype(reward, jnp.floating) or len(shape) > 1 or shape in ((0,), (1,)):
            rule = "a float of shape (), or (R,) with R of at least 2 for a vector reward"
            raise ValueError(f"{owner}.step: reward must be {rule}, got {_shown(reward)}")
        if not _has_dtype(terminated, jnp.bool_) or jnp.shape(terminated) != ():
            raise ValueError(f"{owner}.step: terminated must be a bool of shape (), got {_shown(terminated)}")
        info = out[4] if out[4:] else {}
        if not isinstance(info, dict):
            raise ValueError(f"{owner}.step: the fifth value must be a dict for env_info, got {_shown(info)}")
        check_returned(owner, "step", "env_info", info)
        return out[:2]

    action = jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype), action)
    found = _shapes(checked, state, action)
    for name, expected, given in zip(("state", "observation"), (state, observation), found, strict=True):
        if (fault := type_mismatch(expected, given, name)) is not None:
            raise ValueError(f"{owner}.step: {fault}, as reset returns it; {_ORDER}")


def _shapes(function: Callable[..., Any], *arguments: Tree) -> Tree:
    """Returns shapes and dtypes of the results, without weak types, for further arguments and a key."""
    with default_types():
        found = jax.eval_shape(lambda *given: function(*given, jax.random.key(0, impl="threefry2x32")), *arguments)
    return jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype), found)


def _values(owner: str, method: str, out: Any, expected: str, *counts: int) -> tuple[Any, ...]:
    if not isinstance(out, tuple | list) or len(out) not in counts:
        got = f"{len(out)} values" if isinstance(out, tuple | list) else f"one value, {_shown(out)}"
        raise ValueError(f"{owner}.{method}: must return {expected}, got {got}")
    return tuple(out)


@contextlib.contextmanager
def _with_note(note: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(note)
        raise


def _has_dtype(x: Any, kind: Any) -> bool:
    is_number = isinstance(x, bool | int | float | np.ndarray | np.generic | jax.Array)
    return is_number and jnp.issubdtype(jnp.result_type(x), kind)


def _shown(x: Any) -> str:
    if hasattr(x, "dtype") or isinstance(x, bool | int | float):
        dtype: Any = x.dtype if hasattr(x, "dtype") else jnp.result_type(x)
        return f"{dtype}{list(jnp.shape(x))}"
    return f"a {type(x).__name__}"
