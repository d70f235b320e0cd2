"""Functions of environments that compile themselves where they are called outside of traces, such as ``step``."""

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._util import xla
from jaxenv._util.checks import is_known_array
from jaxenv._util.programs import programs_of
from jaxenv.core._checks import actions as _actions
from jaxenv.core._checks import given as _checks
from jaxenv.core.starts import Place, Starts
from jaxenv.core.timestep import TimeStep
from jaxenv.tree import Tree

F = TypeVar("F", bound=Callable[..., Any])

_one_by_one = contextvars.ContextVar("one_by_one", default=False)


def self_compiling(function: F, check: Callable | None = None) -> F:
    """Decorates a function of an environment and arrays: called outside of traces, it runs as one compiled program.

    Otherwise JAX would compile and dispatch every operation separately: the first ``reset`` and ``step`` of DoorKey
    took twice as long, and every later step a hundred times as long.

    The function is called directly inside traces, for arguments that are not arrays (it raises its own errors), and for
    environments that do not compile themselves. ``check`` is called before the program, with the same arguments.
    """

    @functools.wraps(function)
    def call(env: Any, *args: Any, **kwargs: Any) -> Any:
        if (own := _known_leaves(env)) is not None and not _one_by_one.get():
            leaves = jax.tree.leaves((args, kwargs))
            if all(map(is_known_array, leaves)) and env.facts.compiles_itself:
                if check is not None:
                    check(env, *args, **kwargs)
                if any(map(_is_cut, leaves)):
                    args, kwargs = jax.tree.map(_saturated, (args, kwargs))
                return programs_of(env).jitted(function)(own, *args, **kwargs)
        return function(env, *args, **kwargs)

    return call  # type: ignore[return-value]


def _known_leaves(env: Any) -> list[Any] | None:
    """Returns the leaves of an environment, which never change; ``None`` unless all are arrays with known values."""
    if (leaves := env.__dict__.get("_leaves")) is None:
        if not all(map(is_known_array, leaves := jax.tree.flatten(env)[0])):
            return None
        object.__setattr__(env, "_leaves", leaves)
    return leaves


# Decorates a function of arrays with a loop whose body is a new function at every call. Outside traces the loop is then
# compiled at the first call only; inside them JAX inlines the function.
compiled_once = functools.partial(jax.jit, inline=True)


def _is_cut(x: Any) -> bool:
    """Returns whether ``x`` is a NumPy array whose integers JAX would cut to fewer bits, as for int64."""
    is_integer = isinstance(x, np.ndarray | np.generic) and x.dtype.kind in "iu"
    return is_integer and jax.dtypes.canonicalize_dtype(x.dtype) != x.dtype


def _saturated(x: Any) -> Any:
    """Casts ``x`` to the dtype of JAX; integers beyond its range become the nearest ones."""
    dtype = jax.dtypes.canonicalize_dtype(x.dtype) if _is_cut(x) else None
    return x if dtype is None else _actions.saturated(x, dtype).astype(dtype)


@contextlib.contextmanager
def one_by_one() -> Iterator[None]:
    """Opens a context in which nothing compiles itself. Loops are still compiled, unlike under ``jax.disable_jit``."""
    token = _one_by_one.set(True)
    try:
        yield
    finally:
        _one_by_one.reset(token)


# --- the calls of an environment -------------------------------------------------------------------------------------


@self_compiling
def first_episodes(env: Any, key: jax.Array, env_id: jax.Array | None, place: Place | None) -> tuple[Tree, TimeStep]:
    """Starts the first episodes, for arguments of ``reset`` that have been checked."""
    starts = starts_at(env, key, env_id).at(place)
    _checks.check_lanes(env, starts.env_id.shape[0])
    state, timestep = env.begin(starts)
    return xla.unshare(tree.vary_like(starts.env_id, (state, timestep)))


def starts_at(env: Any, key: jax.Array, env_id: jax.Array | None) -> Starts:
    """Returns the first episodes of the lanes, in new levels."""
    if env_id is None:
        env_id = jnp.arange(key.shape[0] if key.ndim else env.num_envs, dtype=jnp.int32)
    words = env._lane_words(key, env_id)
    env_id = tree.vary_like(words[0], env_id)  # seeds over a mesh: each shard has all lane numbers, and its own keys
    return Starts(words, env_id, jnp.zeros_like(env_id))


def _proceed(env: Any, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
    stepped: tuple[Tree, TimeStep] = env.proceed(state, action)
    return stepped


def _check_action(env: Any, state: Tree, action: Tree) -> None:
    """Raises a ``ValueError`` for a discrete action out of range in a lane that does not ignore its action."""
    if (bounds := env.__dict__.get("_action_bounds")) is None:  # computed once, as a spec takes longer than a step
        object.__setattr__(env, "_action_bounds", bounds := _actions.discrete_bounds(env.action_spec()))
    if not _actions.are_legal(bounds, action):
        anything = specs.zeros(env.action_spec(), env.clock(state).env_id.shape)
        _, timestep = programs_of(env).jitted(_proceed)(jax.tree.flatten(env)[0], state, anything)
        _actions.check_values(bounds, action, ~np.asarray(timestep.is_first()), env)


next_step = self_compiling(_proceed, check=_check_action)  # ``env.step``


@functools.lru_cache(maxsize=64)
def renderer(size: tuple[int, int]) -> Callable[[Any, Tree], jax.Array]:
    """Returns ``env.render`` for pictures of one size."""

    def render(env: Any, state: Tree) -> jax.Array:
        picture: jax.Array = env.picture_of(state, size)
        return picture

    return self_compiling(render)
