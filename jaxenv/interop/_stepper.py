"""Compiled reset and step of a batch for programs that call them from Python; `host` and the adapters build on it."""

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util import xla
from jaxenv._util.checks import check_mask, is_integer
from jaxenv._util.programs import forget, programs_of
from jaxenv.core._checks import check_lanes
from jaxenv.core.environment import Environment
from jaxenv.core.lanes import reset_where
from jaxenv.core.timestep import TimeStep
from jaxenv.interop._packing import Packing
from jaxenv.tree import Tree
from jaxenv.tree._typed_keys import is_key

Seeds = int | Sequence[int] | np.ndarray
# The largest number of lanes whose step is compiled as one of few lanes.
_FEW = 64


class Stepper:
    """The state of a batch, and compiled functions that replace it. The state is donated and never shared.

    ``start``, ``restart`` and ``step`` return ``shown`` of the TimeStep. Each is compiled once; steppers of equal
    environments share the programs.

    Args:
        env: any environment.
        shown: a hashable function from a TimeStep to a tree of arrays ``[B, ...]``. It must equal other instances that
            do the same, like a frozen dataclass.
        numpy: whether to return NumPy arrays, which are writable, instead of arrays of JAX.
        owner: the start of error messages.
    """

    def __init__(self, env: Environment, shown: Callable[[TimeStep], Tree], numpy: bool, owner: str):
        if _first_process() != os.getpid():
            rule = "JAX does not run in a forked process, start it in another way, as by AsyncVectorEnv(..., context="
            raise RuntimeError(f"{owner}: {rule}'forkserver')")
        check_lanes(env, env.num_envs)
        self._arguments = env, shown, numpy, owner
        self._num_envs, self._numpy, self._owner = env.num_envs, numpy, owner
        leaves = tree.flatten(env)[0]
        shapes = tuple(jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
        arguments = shapes, env.num_envs, shown, numpy, _device()
        key, programs = (Stepper, arguments, jax.config.read("jax_enable_x64")), programs_of(env)
        self._programs: Any = programs.compiled(key, lambda: _programs(programs.structure, *arguments))
        self._leaves = self._programs.leaves(leaves)
        self._state: Any = None
        self._row: Any = None
        self._is_outside_jax = env.facts.outside_jax
        self._key: Any = None
        self._starts = 0

    def __getstate__(self) -> dict[str, Any]:
        if self._is_outside_jax and self.started:
            raise TypeError(f"{self._owner}: the state of {self._arguments[0]} is in its engine and cannot be copied")
        # Programs are left out: a copy finds them by its arguments.
        names = ("_arguments", "_state", "_row", "_key", "_starts")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(*state["_arguments"])  # type: ignore[misc]
        self.__dict__.update(state)

    @property
    def started(self) -> bool:
        """Whether there is a state."""
        return self._state is not None

    def start(self, seed: Seeds) -> Tree:
        """Calls ``env.reset`` with the keys of ``seed``."""
        self._key, self._starts = self.key(seed), 0
        return self._begin(self._key)

    def restart(self, mask: Any, seed: Seeds | None = None) -> Tree:
        """Calls ``jaxenv.reset_where``: the lanes outside of ``mask`` keep their rows.

        Raises:
            ValueError: if ``mask`` is not bool ``[num_envs]``, or leaves out lanes of an engine outside JAX.
        """
        check_mask(self._owner, mask, self._num_envs)
        if self._is_outside_jax and np.all(mask):
            # The only restart of the engine is a reset with new keys.
            if seed is not None:
                return self.start(seed)
            self._starts += 1
            fold = jax.random.fold_in if self._key.ndim == 0 else jax.vmap(jax.random.fold_in, (0, None))
            return self._begin(fold(self._key, self._starts))
        key = None if seed is None else self.key(seed)
        self._state, self._row = self._programs.restart(self._leaves, self._state, self._row, mask, key)
        return self._result()

    def _begin(self, key: jax.Array) -> Tree:
        self._state, self._row = self._programs.start(self._leaves, key)
        return self._result()

    def step(self, action: Tree) -> Tree:
        """Calls ``env.step``."""
        self._state, self._row = self._programs.step(self._leaves, self._state, action)
        return self._result()

    def render(self, size: int) -> np.ndarray:
        """Renders all lanes, uint8 ``[num_envs, size, size, 3]``."""
        return np.array(self._programs.render(self._leaves, self._state, size))

    def _result(self) -> Tree:
        # Arrays of JAX are read-only, and so are views of them.
        return self._programs.row.views([np.array(array) for array in self._row]) if self._numpy else self._row

    def close(self) -> None:
        """Frees the state and the programs."""
        self._state = self._row = self._programs = self._leaves = None
        forget(self._arguments[0])

    def key(self, seed: Seeds) -> jax.Array:
        """Returns the key of a seed, or the keys of one seed per lane.

        Raises:
            ValueError: unless the seeds are integers in [0, 2**32), one or ``num_envs`` of them.
        """
        rule = "seed must be an integer or one per lane"
        if is_key(seed):
            raise ValueError(f"{self._owner}: {rule}, got a JAX key")
        if isinstance(seed, int | np.integer):
            check_seed(self._owner, seed)
            return jax.random.key(int(seed))
        if isinstance(seed, str) or not hasattr(seed, "__len__") or getattr(seed, "ndim", 1) == 0:
            raise ValueError(f"{self._owner}: {rule}, got {seed!r}")
        if len(seed) != self._num_envs:
            raise ValueError(f"{self._owner}: seed must be one integer or {self._num_envs}, got {len(seed)} of them")
        for one in seed:
            check_seed(self._owner, one)
        return jax.vmap(jax.random.key)(np.array(seed, np.uint32))


def check_seed(owner: str, seed: Any) -> None:
    """Raises a ``ValueError`` unless ``seed`` is an integer in [0, 2**32)."""
    if not is_integer(seed) or not 0 <= seed < 2**32:
        got = "a JAX key" if is_key(seed) else repr(seed)
        raise ValueError(f"{owner}: seed must be an integer in [0, 2**32), got {got}")


@functools.cache
def _first_process() -> int:
    """Returns the id of the process that made the first stepper, also in forks, in which JAX's threads are gone."""
    return os.getpid()


class _Programs(NamedTuple):
    leaves: Any
    start: Any
    restart: Any
    step: Any
    render: Any
    row: Packing


def _programs(
    structure: Any,
    shapes: tuple[Any, ...],
    num_envs: int,
    shown: Callable[[TimeStep], Tree],
    numpy: bool,
    device: jax.Device,
) -> _Programs:
    """Returns the programs of environments of one structure. Leaves are arguments, so other values compile nothing.

    An argument costs time in every call, so the leaves are packed, once for all calls.
    """
    of_env = Packing(shapes)

    def environment(leaves: tuple[Any, ...]) -> Environment:
        return structure.unflatten(of_env.unpack(leaves))

    def packed(state: Tree, row: Tree) -> tuple[Any, ...]:
        return of_state.pack(state), of_row.pack(row) if numpy else row

    def start(leaves: tuple[Any, ...], key: jax.Array) -> tuple[tuple[jax.Array, ...], TimeStep]:
        lanes = jnp.arange(num_envs, dtype=jnp.int32)  # with lane numbers, keys may repeat
        state, timestep = environment(leaves).reset(key, lanes)
        return packed(state, shown(timestep))

    def restart(
        leaves: tuple[Any, ...], state: tuple[Any, ...], row: Tree, mask: jax.Array, key: jax.Array | None
    ) -> Any:
        env = environment(leaves)
        state, timestep = reset_where(env, of_state.unpack(state), tree.zeros(first), jnp.asarray(mask), key)
        return packed(state, tree.where(mask, shown(timestep), of_row.unpack(row) if numpy else row))

    def step(leaves: tuple[Any, ...], state: tuple[Any, ...], action: Tree) -> tuple[tuple[jax.Array, ...], TimeStep]:
        with xla.few_lanes(num_envs <= _FEW):
            state, timestep = environment(leaves).step(of_state.unpack(state), action)
        return packed(state, shown(timestep))

    def render(leaves: tuple[Any, ...], state: tuple[Any, ...], size: int) -> Any:
        return environment(leaves).render(of_state.unpack(state), size)

    state, first = structure.unflatten(shapes).start_shapes()
    of_state, of_row = Packing(state), Packing(jax.eval_shape(shown, first))
    # Without an explicit device JAX compiles again where arguments are committed to it, as those from DLPack are.
    place = jax.sharding.SingleDeviceSharding(device)
    compiled = functools.partial(jax.jit, in_shardings=place, out_shardings=place)
    return _Programs(
        compiled(of_env.pack),
        compiled(start),
        compiled(restart, donate_argnums=1),
        compiled(step, donate_argnums=1),
        compiled(render, static_argnums=2),
        of_row,
    )


def _device() -> jax.Device:
    """Returns the device on which JAX puts new arrays."""
    (device,) = jnp.zeros(()).devices()
    return device
