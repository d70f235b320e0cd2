"""Stepping a batch from Python: `host`, and the base of environments that do the same for other libraries."""

import functools
import itertools
import math
import os
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util import xla
from jaxenv._util.checks import check_mask, is_integer
from jaxenv._util.library import import_library
from jaxenv._util.programs import forget, programs_of
from jaxenv.core import Environment, TimeStep
from jaxenv.core._checks.given import check_lanes
from jaxenv.core.lanes import reset_where
from jaxenv.interop._environment import Fixed, environment_of
from jaxenv.interop._spaces import HostActions
from jaxenv.tree import Tree
from jaxenv.tree._typed_keys import is_key

Seeds = int | Sequence[int] | np.ndarray
RENDERING = {"render_modes": ["rgb_array"], "render_fps": 30}
_PICTURE_SIZE = 256
# The largest number of lanes whose step is compiled as one of few lanes.
_FEW = 64


class Adapter(Fixed):
    """Lanes with their state, which is donated and never shared.

    ``_start``, ``_restart`` and ``_step`` return ``shown`` of the TimeStep, as NumPy arrays, which are writable, or as
    arrays of JAX. Adapters of environments of one structure share programs, so ``shown`` must equal other instances
    that do the same, like a frozen dataclass.
    """

    _closed_error: ClassVar[type[Exception]] = ValueError
    _reset_error: ClassVar[type[Exception]] = ValueError
    # For `joined`: the module and the name of a class, and the command that installs its library.
    _base: ClassVar[tuple[str, str, str]]
    render_mode: str | None = None

    def __init__(self, env: Environment, shown: Callable[[TimeStep], Tree], numpy: bool = True):
        if _first_process() != os.getpid():
            rule = "JAX does not run in a forked process, start it in another way, as by AsyncVectorEnv(..., context="
            raise RuntimeError(f"{self._owner}: {rule}'forkserver')")
        check_lanes(env, env.num_envs)
        self.env, self._shown, self._numpy = env, shown, numpy
        self._is_closed, self._starts = False, 0
        self._state: Any = None
        self._row: Any = None
        self._key: Any = None
        self._compile()

    def _compile(self) -> None:
        leaves, programs = jax.tree.flatten(self.env)[0], programs_of(self.env)
        shapes = tuple(jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
        # Without an explicit device JAX compiles again where arguments are committed to it, as those from DLPack are.
        arguments = shapes, self.env.num_envs, self._shown, self._numpy, jnp.zeros(()).sharding
        key = Adapter, arguments, jax.config.read("jax_enable_x64")
        self._programs: Any = programs.compiled(key, lambda: _programs(programs.structure, *arguments))
        self._leaves = self._programs.leaves(leaves)

    def __getstate__(self) -> dict[str, Any]:
        if self.env.facts.outside_jax and self._state is not None:
            raise TypeError(f"{self._owner}: the state of {self.env} is in its engine and cannot be copied")
        # A copy finds the programs by its environment.
        return {name: x for name, x in vars(self).items() if name not in ("_programs", "_leaves")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if not self._is_closed:
            self._compile()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees the state; all other methods then raise an error."""
        if not self._is_closed:
            self._is_closed = True
            self._state = self._row = self._programs = self._leaves = None
            forget(self.env)
            self.env.close()

    def _open(self, before: str = "") -> None:
        """Raises an error if this is closed, or was not reset ``before`` a call."""
        if self._is_closed:
            raise self._closed_error(f"{self._owner}: the environment is closed, make a new one")
        if before and self._state is None:
            raise self._reset_error(f"{self._owner}: call reset before {before}")

    # --- rows --------------------------------------------------------------------------------------------------------

    def _start(self, seed: Seeds) -> Tree:
        self._key, self._starts = self._key_of(seed), 0
        return self._taken(self._programs.start(self._leaves, self._key))

    def _restart(self, mask: Any = None, seed: Seeds | None = None) -> Tree:
        """Calls ``jaxenv.reset_where`` for the lanes of ``mask``, by default all; the others keep their rows."""
        mask = np.ones(self.env.num_envs, bool) if mask is None else mask
        check_mask(self._owner, mask, self.env.num_envs)
        if self.env.facts.outside_jax and np.all(mask):
            # The only restart of the engine is a reset with new keys.
            if seed is not None:
                return self._start(seed)
            self._starts += 1
            fold = jax.random.fold_in if self._key.ndim == 0 else jax.vmap(jax.random.fold_in, (0, None))
            return self._taken(self._programs.start(self._leaves, fold(self._key, self._starts)))
        key = None if seed is None else self._key_of(seed)
        return self._taken(self._programs.restart(self._leaves, self._state, self._row, mask, key))

    def _step(self, action: Tree) -> Tree:
        return self._taken(self._programs.step(self._leaves, self._state, action))

    def _taken(self, found: tuple[Any, Any]) -> Tree:
        self._state, self._row = found
        # Arrays of JAX are read-only, and so are views of them.
        return self._programs.row.views([np.array(array) for array in self._row]) if self._numpy else self._row

    def _pictures(self) -> np.ndarray:
        """Renders all lanes, uint8 ``[B, 256, 256, 3]``; raises a ``ValueError`` without the render mode."""
        if self.render_mode is None:
            rule = "render needs render_mode='rgb_array', given when the environment is made"
            raise ValueError(f"{self._owner}: {rule}")
        self._open("render")
        return np.array(self._programs.render(self._leaves, self._state, _PICTURE_SIZE))

    def _key_of(self, seed: Seeds) -> jax.Array:
        """Returns the key of a seed, or the keys of one seed per lane; all are integers in [0, 2**32)."""
        if isinstance(seed, int | np.integer):
            check_seed(self._owner, seed)
            return jax.random.key(int(seed))
        is_row = isinstance(seed, Sequence | np.ndarray | jax.Array) and getattr(seed, "ndim", 1) == 1
        if is_key(seed) or isinstance(seed, str) or not is_row:
            got = "a JAX key" if is_key(seed) else repr(seed)
            raise ValueError(f"{self._owner}: seed must be an integer or one per lane, got {got}")
        if len(seed) != (lanes := self.env.num_envs):
            raise ValueError(f"{self._owner}: seed must be one integer or {lanes}, got {len(seed)} of them")
        for one in seed:
            check_seed(self._owner, one)
        return jax.vmap(jax.random.key)(np.array(seed, np.uint32))


def host(env_or_id: Environment | str, num_envs: int | None = None, seed: Seeds = 0, **options: Any) -> "Host":
    """Wraps a batch together with its state, for Python code that steps it call by call.

    ``reset`` and ``step`` are compiled once, at their first call. The state stays inside and its memory is reused;
    returned TimeSteps are never overwritten. If the whole loop can be compiled, `jaxenv.unroll` is faster.

    Args:
        env_or_id: an environment, or an id.
        num_envs: number of lanes of an id, 1 by default.
        seed: seed of the first episodes: an integer, the key ``jax.random.key(seed)`` of the batch, or one per lane.
        **options: of `jaxenv.make`.
    """
    return Host(environment_of("host", env_or_id, num_envs, options), seed)


class Host(Adapter):
    """The object that `host` returns: the environment ``env``, and ``timestep``, the last TimeStep, of JAX arrays."""

    _owner = "host"
    _settable = frozenset({"timestep"})

    def __init__(self, env: Environment, seed: Seeds):
        super().__init__(env, _whole, numpy=False)
        self.timestep, self._seed = TimeStep(), seed
        self._key_of(seed)  # raises for a wrong seed
        self._actions = HostActions(env.action_spec(), env.num_envs, "host")
        self._is_fixed = True

    @property
    def num_envs(self) -> int:
        """Number of lanes."""
        return self.env.num_envs

    def reset(self, seed: Seeds | None = None, mask: Any = None) -> TimeStep:
        """Starts an episode in every lane, or in the lanes of ``mask``, bool ``[num_envs]``.

        The first reset takes the seed of `host` and starts all lanes. A later one without ``seed`` starts the next
        episodes of the lanes' own streams, so that the first seed determines all episodes. ``seed`` is an integer, or
        one per lane; with a mask, seeds of other lanes are ignored.
        """
        self._open()
        if mask is not None and self._state is None:
            raise ValueError("host: the first reset starts all lanes, leave out mask")
        if mask is None and (seed is not None or self._state is None):
            self.timestep = self._start(self._seed if seed is None else seed)
        else:
            self.timestep = self._restart(mask, seed)
        return self.timestep

    def step(self, action: Tree) -> TimeStep:
        """Advances every lane by one step, by actions ``[num_envs, ...]`` of NumPy or JAX.

        Other dtypes of the spec's kind are cast. JAX arrays are clipped to a discrete spec, NumPy's must lie within it.
        """
        self._open("step")
        self.timestep = self._step(self._actions(action))
        return self.timestep


def check_seed(owner: str, seed: Any) -> None:
    """Raises a ``ValueError`` unless ``seed`` is an integer in [0, 2**32)."""
    if not is_integer(seed) or not 0 <= seed < 2**32:
        got = "a JAX key" if is_key(seed) else repr(seed)
        raise ValueError(f"{owner}: seed must be an integer in [0, 2**32), got {got}")


@functools.cache
def joined(adapter: Any) -> Any:
    """Returns an adapter that also inherits from the class ``_base`` of the other library, which is imported now."""
    module, name, install = adapter._base
    bases = adapter, getattr(import_library(module, install), name)
    # Pickle cannot find a class that is made on demand.
    methods = {"__module__": adapter.__module__, "__reduce__": lambda self: (_blank, (adapter,), self.__getstate__())}
    return type(adapter.__name__, bases, methods)


def _blank(adapter: Any) -> Any:
    return object.__new__(joined(adapter))


@functools.cache
def _first_process() -> int:
    """Returns the id of the process that made the first adapter, also in forks, in which JAX's threads are gone."""
    return os.getpid()


def _whole(timestep: TimeStep) -> TimeStep:
    return timestep


# --- compiled programs -----------------------------------------------------------------------------------------------


def _programs(
    structure: Any, shapes: tuple[Any, ...], num_envs: int, shown: Callable[[TimeStep], Tree], numpy: bool, place: Any
) -> SimpleNamespace:
    """Compiles the programs of environments of one structure. Leaves are arguments, so other values compile nothing.

    Each argument costs time in every call, so the leaves are packed.
    """
    of_env = Packing(shapes)
    state, first = jax.tree.unflatten(structure, shapes).start_shapes()
    of_state, of_row = Packing(state), Packing(jax.eval_shape(shown, first))

    def environment(leaves: tuple[Any, ...]) -> Environment:
        return jax.tree.unflatten(structure, of_env.unpack(leaves))

    def packed(state: Tree, row: Tree) -> tuple[Any, ...]:
        return of_state.pack(state), of_row.pack(row) if numpy else row

    def start(leaves: tuple[Any, ...], key: jax.Array) -> tuple[Any, ...]:
        lanes = jnp.arange(num_envs, dtype=jnp.int32)  # with lane numbers, keys may repeat
        state, timestep = environment(leaves).reset(key, lanes)
        return packed(state, shown(timestep))

    def restart(leaves: tuple[Any, ...], state: tuple[Any, ...], row: Tree, mask: Any, key: Any) -> tuple[Any, ...]:
        env, row = environment(leaves), of_row.unpack(row) if numpy else row
        state, timestep = reset_where(env, of_state.unpack(state), tree.zeros(first), jnp.asarray(mask), key)
        return packed(state, tree.where(mask, shown(timestep), row))

    def step(leaves: tuple[Any, ...], state: tuple[Any, ...], action: Tree) -> tuple[Any, ...]:
        with xla.few_lanes(num_envs <= _FEW):
            state, timestep = environment(leaves).step(of_state.unpack(state), action)
        return packed(state, shown(timestep))

    def render(leaves: tuple[Any, ...], state: tuple[Any, ...], size: int) -> Any:
        return environment(leaves).render(of_state.unpack(state), size)

    compiled = functools.partial(jax.jit, in_shardings=place, out_shardings=place)
    return SimpleNamespace(
        leaves=compiled(of_env.pack),
        start=compiled(start),
        restart=compiled(restart, donate_argnums=1),
        step=compiled(step, donate_argnums=1),
        render=compiled(render, static_argnums=2),
        row=of_row,
    )


# The largest tree that is packed, in words of 32 bits. XLA:CPU runs a program whose arrays have at most 512 bytes on
# the calling thread. It distributes other programs over more threads, which costs more than packing saves.
_LARGEST = 128


class Packing:
    """How a small tree of these shapes becomes one array of words; a large tree becomes its leaves."""

    def __init__(self, shapes: Tree):
        leaves, structure = jax.tree.flatten(shapes)
        self._structure: Any = structure
        ends = list(itertools.accumulate((math.prod(leaf.shape) for leaf in leaves), initial=0))
        is_plain = all(not is_key(leaf) and leaf.dtype.itemsize <= 4 for leaf in leaves)
        self._flat = bool(leaves) and is_plain and ends[-1] <= _LARGEST
        # Of each leaf: its words, its shape, the dtype of its words and its own dtype.
        self._places = [
            (slice(start, end), leaf.shape, _word(leaf.dtype), leaf.dtype)
            for start, end, leaf in (zip(ends, ends[1:], leaves, strict=False) if self._flat else ())
        ]

    def pack(self, values: Tree) -> tuple[jax.Array, ...]:
        """Packs a tree into its arrays, in a traced function."""
        leaves = jax.tree.leaves(values)
        if not self._flat:
            return tuple(leaves)
        words = [jax.lax.bitcast_convert_type(x.astype(_word(x.dtype)), np.uint32).ravel() for x in leaves]
        return (jnp.concatenate(words),)

    def unpack(self, arrays: Sequence[jax.Array]) -> Tree:
        """Unpacks the arrays to a tree, in a traced function."""
        if not self._flat:
            return jax.tree.unflatten(self._structure, arrays)
        leaves = [arrays[0][at].view(word).astype(dtype).reshape(shape) for at, shape, word, dtype in self._places]
        return jax.tree.unflatten(self._structure, leaves)

    def views(self, arrays: Sequence[np.ndarray]) -> Tree:
        """Unpacks NumPy arrays to a tree, whose leaves may share their memory."""
        if not self._flat:
            return jax.tree.unflatten(self._structure, arrays)
        arrays = [
            np.ndarray(shape, word, arrays[0], 4 * at.start).astype(dtype, copy=False)
            for at, shape, word, dtype in self._places
        ]
        return jax.tree.unflatten(self._structure, arrays)


def _word(dtype: Any) -> Any:
    """Returns the dtype of 32 bits that holds every value of a dtype."""
    if jnp.issubdtype(dtype, jnp.floating):
        return np.float32
    return np.int32 if jnp.issubdtype(dtype, jnp.signedinteger) else np.uint32
