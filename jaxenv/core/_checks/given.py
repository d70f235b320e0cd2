"""Rules for what a call of an environment is given: a state, keys, lane numbers, levels, devices.

``step`` is the innermost call of every loop, so it does not compare its state with a reset's. With a wrong state it
fails somewhere, and the reason is determined only then. Loops check once, before they start.
"""

import re
import reprlib
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import is_dataclass
from typing import Any

import jax.core
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv._util.checks import INT32_MAX, Range, check_arrays, check_integer, is_concrete
from jaxenv.core import _shapes
from jaxenv.core._declared import Declared, declared_leaves
from jaxenv.core.starts import Place
from jaxenv.core.timestep import TimeStep
from jaxenv.tree import Tree
from jaxenv.tree._structure import is_array, mismatch

# Inside of `jaxenv.testing.checked`: a function ``(env, state, action, used)`` that adds an error for an action that
# compiled code would clip, in a lane of ``used`` (bool [B]). For layers that choose actions themselves.
reporting: ContextVar[Callable[[Any, Tree, Tree, jax.Array], None] | None] = ContextVar("reporting", default=None)


class explained:
    """A context for a call with a state: if the call fails because of a wrong state, the error says so.

    A class, since ``step`` enters it on every call: a generator would cost three times as much. Errors start with the
    name of the ``call``. ``start`` is its state, or state and timestep, if it takes them; ``arguments`` are its other
    arguments that must be trees of arrays.
    """

    __slots__ = ("_arguments", "_call", "_env", "_start")

    def __init__(self, call: str, env: Any, *start: Tree, **arguments: Tree):
        self._call, self._env, self._start, self._arguments = call, env, start, arguments

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: type[Any] | None, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, Exception):
            if self._start and (fault := start_fault(self._env, *self._start)) is not None:
                raise ValueError(f"{self._call}: {fault}") from None
            for name, value in self._arguments.items():
                check_arrays(self._call, name, value)


def start_fault(env: Any, *start: Tree) -> str | None:
    """Returns the rule that a state, or a state and its timestep, break in ``env``, or ``None``."""
    try:
        expected = env.start_shapes()
    except Exception:  # the environment itself fails, and its methods raise that error
        return None
    if (fault := difference(env, expected, *start)) is not None:
        return fault
    try:
        check_lanes(env, env.clock(start[0]).env_id.shape[0])
    except ValueError as error:
        return str(error)
    return None


def difference(env: Any, expected: tuple[Tree, TimeStep], *start: Tree) -> str | None:
    """Compares a state, or a state and its timestep, with the ``expected`` ones or their shapes; returns the fault."""
    lanes = None
    for name, own, given in zip(("state", "timestep"), expected, start, strict=False):
        if (found := mismatch(own, given, name)) is not None:
            return f"{found}: pass the {name} that {env} returned"
        for where, shape, x in leaves_with_names(name, own, given):
            if jnp.shape(x) == shape.shape[1:]:
                rule = f"{where} must lead with the lanes, got shape {jnp.shape(x)}"
                return f"{env} takes whole batches, without vmap: {rule}"
            if (found := _leaf_fault(where, shape, x, lanes)) is not None:
                return f"{found}: pass the {name} that {env} returned"
            lanes = jnp.shape(x)[0]
    return None


def _leaf_fault(where: str, expected: Any, x: Any, lanes: int | None) -> str | None:
    """Returns the rule that an array with lanes breaks, given the number of lanes of the arrays before it."""
    if jnp.ndim(x) == 0 or (jnp.shape(x)[1:], jnp.result_type(x)) != (expected.shape[1:], expected.dtype):
        kind = f"{expected.dtype}[{', '.join(['lanes', *map(str, expected.shape[1:])])}]"
        return f"{where} must be {kind}, got {jnp.result_type(x)}{list(jnp.shape(x))}"
    if lanes not in (None, jnp.shape(x)[0]):
        return f"{where} must have {lanes} lanes, as the other arrays, got {jnp.shape(x)[0]}"
    return None


def leaves_with_names(name: str, own: Tree, given: Tree) -> Iterator[tuple[str, Any, Any]]:
    """Yields name, expected and given leaf of every array with lanes, in two trees of one structure."""
    nodes = (jax.tree_util.tree_leaves_with_path(t, is_leaf=tree.is_shared) for t in (own, given))
    for (path, shape), (_, x) in zip(*nodes, strict=True):
        if not tree.is_shared(shape):
            yield tree.path_name(path, name), shape, x


# --- reset: keys, lanes, levels and states ---------------------------------------------------------------------------


def reset_arguments(env: Any, key: Any, env_id: Any) -> tuple[jax.Array, jax.Array | None]:
    """Returns key and lane numbers of ``reset``; raises a ``ValueError`` for wrong ones."""
    random.check_typed(key, "reset: key")
    if env_id is not None:
        return key, lane_numbers(env, env_id)
    random.check_lane_keys(key, env.num_envs)
    if key.ndim == 0 and isinstance(key, jax.core.Tracer) and _is_called_by_jax():
        key = _refuse_lanes_of_vmap(key, env.num_envs)
    return key, None


def _is_called_by_jax() -> bool:
    """Returns whether JAX calls ``reset`` itself, as in ``jax.vmap(env.reset)``, and not a function around it."""
    return sys._getframe(4).f_globals.get("__name__", "").partition(".")[0] == "jax"


def _refuse_lanes_of_vmap(key: jax.Array, num_envs: int) -> jax.Array:
    """Returns the key of a batch; raises a ``ValueError`` under ``jax.vmap`` over as many keys as the batch has lanes.

    Other numbers of keys make several batches, for example one per seed.
    """

    @jax.custom_batching.custom_vmap
    def one(key: jax.Array) -> jax.Array:
        return key

    @one.def_vmap
    def several(axis_size: int, in_batched: list[bool], key: jax.Array) -> tuple[jax.Array, bool]:
        if axis_size == num_envs > 1:
            raise ValueError(
                f"reset: jax.vmap over {axis_size} keys makes {axis_size} batches of num_envs = {num_envs} lanes: call "
                "env.reset(keys), which takes a key per lane; several batches are jax.vmap(lambda key: env.reset(key))"
            )
        return key, in_batched[0]

    result: jax.Array = one(key)
    return result


def lane_numbers(env: Any, env_id: Any) -> jax.Array:
    """Returns lane numbers as int32 ``[B]``; raises a ``ValueError`` for anything else. Tracers are not read."""
    if not isinstance(env_id, jax.core.Tracer):
        values = np.asarray(env_id)
        if values.dtype.kind not in "iu":
            hint = ": params belong to the environment, env.with_params(...)" if is_dataclass(env_id) else ""
            raise ValueError(f"reset: env_id must be integers, got {reprlib.repr(env_id)}{hint}")
        Range(low=0, high=INT32_MAX).check("reset", "env_id", values, values.ndim)
        if len(np.unique(values)) < values.size:
            raise ValueError(f"reset: env_id must name each lane once, got {values.tolist()}")
        _check_whole_games("reset: env_id", env, values)
    lanes = jnp.asarray(env_id)
    if lanes.ndim != 1 or not jnp.issubdtype(lanes.dtype, jnp.integer):
        raise ValueError(f"reset: env_id must be integers [B], got {lanes.dtype}{list(lanes.shape)}")
    return lanes.astype(jnp.int32)


def _check_whole_games(owner: str, env: Any, values: np.ndarray) -> None:
    """Raises a ``ValueError`` unless known lane numbers are those of whole games, agent by agent."""
    agents = env.lanes_per_game
    if agents == 1 or values.ndim != 1:
        return
    num_games(env, len(values))
    games = values.reshape(-1, agents)
    if np.any(games[:, :1] % agents) or np.any(games != games[:, :1] + np.arange(agents)):
        rule = f"must be those of whole games, such as {list(range(agents))}, since {agents} lanes play a game together"
        raise ValueError(f"{owner} {rule}, got {values.tolist()}")


def num_games(env: Any, num_lanes: int) -> int:
    """Returns the number of games that ``num_lanes`` lanes play; raises a ``ValueError`` for a part of a game."""
    if num_lanes % (agents := env.lanes_per_game):
        raise ValueError(f"{env}: num_envs must be a multiple of the {agents} agents of a game, got {num_lanes} lanes")
    return num_lanes // agents


def games_of(env: Any) -> Callable[[Declared], int]:
    """Returns how many lanes of ``env`` share one value of a leaf: one game's, if its layer holds games."""
    sizes = [layer.lanes_per_game for layer in _shapes.chain(env)]

    def lanes_per_value(declared: Declared) -> int:
        depth = next(number for number, name in enumerate(declared.path.split(".")) if name != "env")
        return int(sizes[0] // sizes[min(depth, len(sizes) - 1)])

    return lanes_per_value


def lanes_of_leaves(env: Any) -> Iterator[tuple[str, int]]:
    """Yields the name of each leaf per lane, and the lanes of ``env`` for which it holds values."""
    games = games_of(env)
    for declared in declared_leaves(env):
        if declared.per_lane:
            yield re.sub(r"^(env\.)+", "", declared.path), np.shape(declared.value)[0] * games(declared)


def check_lanes(env: Any, num_lanes: int) -> None:
    """Raises a ``ValueError`` unless every leaf per lane holds values for ``num_lanes`` lanes, at least 1."""
    if not jax.export.is_symbolic_dim(num_lanes):
        check_integer(f"{env}", "num_envs", num_lanes, 1)
    num_games(env, num_lanes)
    for name, lanes in lanes_of_leaves(env):
        if lanes != num_lanes:
            raise ValueError(f"{env}: {name} holds {lanes} lanes, the batch has {num_lanes}")


def check_index(env: Any, index: Any) -> None:
    """Raises a ``ValueError`` unless ``index`` holds lane numbers for ``take``, of whole games if they are known."""
    if not (is_array(index) and jnp.ndim(index) == 1 and jnp.issubdtype(jnp.result_type(index), jnp.integer)):
        got = f"{jnp.result_type(index)}{list(jnp.shape(index))}" if is_array(index) else repr(index)
        raise ValueError(f"{env}: take: index must be numbers of lanes, integers [K], got {got}")
    if is_concrete(index):
        _check_whole_games(f"{env}: take: index", env, np.asarray(index))
    num_games(env, index.shape[0])


def given_place(call: str, env: Any, lanes: int, level: Tree, from_state: Tree) -> Place | None:
    """Returns where the episodes of ``lanes`` lanes start, if ``level`` or ``from_state`` is given."""
    if level is not None and from_state is not None:
        raise ValueError(f"{call}: pass level or from_state, one of the two")
    if level is None and from_state is None:
        return None
    name = "from_state" if level is None else "level"
    place = place_of_states(call, env, from_state) if level is None else place_of_levels(call, env, level)
    check_num_places(f"{call}: {name}", env, place, lanes)
    return place


def check_num_places(owner: str, env: Any, place: Place, lanes: int) -> None:
    """Raises a ``ValueError`` unless there is a place for each of the lanes, or for each of their games."""
    expected, found = num_games(env, lanes), int(jnp.shape(jax.tree.leaves(place.values)[0])[0])
    if found != expected:
        what = f"{expected} games, those of the {lanes} lanes" if expected != lanes else f"{lanes} lanes, as the batch"
        raise ValueError(f"{owner} must hold {what}, got {found}")


def place_of_levels(call: str, env: Any, level: Tree) -> Place:
    """Returns the place of ``level``, for all lanes; raises a ``ValueError`` if it is not a level of ``env``."""
    expected = level_shapes(env)
    check_arrays(call, "level", level)
    if (fault := mismatch(expected, level, "level")) is not None:
        raise ValueError(f"{call}: {fault}: pass a level of {env}, as jaxenv.sample_level returns it")
    lanes = None
    for where, shape, x in leaves_with_names("level", expected, level):
        if (fault := _leaf_fault(where, shape, x, lanes)) is not None:
            raise ValueError(f"{call}: {fault}")
        if not (lanes := jnp.shape(x)[0]):
            raise ValueError(f"{call}: {where} must hold at least one level, got 0")
        if is_concrete(x) and jnp.issubdtype(shape.dtype, jnp.floating) and not np.all(np.isfinite(np.asarray(x))):
            lane = int(np.argwhere(~np.isfinite(np.asarray(x)))[0][0])
            raise ValueError(f"{call}: {where} must be finite, in lane {lane} it is not")
    if all(map(is_concrete, jax.tree.leaves(level))):
        env.levels().check(level)
    return Place(tree.strong(level))


def level_shapes(env: Any) -> Tree:
    """Returns the shapes of the levels of ``env``; nothing is computed."""
    return _shapes.shapes_of("levels", env, env._spec_lanes)


def place_of_states(call: str, env: Any, state: Tree) -> Place:
    """Returns the place of states of ``env``, for all lanes; raises a ``ValueError`` for states of another stack."""
    if (fault := start_fault(env, state)) is not None:
        raise ValueError(f"{call}: from_state: {fault}")
    return Place(tree.detach(env.levels().of_state(state)), in_state=True)


def check_devices(owner: str, env: Any, devices: int) -> None:
    """Raises a ``ValueError`` if several devices would share the lanes of an engine."""
    if devices > 1 and env.facts.outside_jax:
        raise ValueError(f"{owner}: devices must be 1, {env.unwrapped} runs outside JAX in one engine, got {devices}")
