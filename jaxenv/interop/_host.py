"""Stepping a batch from Python, for loops that run on the host."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from jaxenv._util.checks import check_names
from jaxenv.core import Environment, TimeStep
from jaxenv.interop._adapter import Adapter, Seeds
from jaxenv.interop._environment import environment_of
from jaxenv.interop._spaces import HostActions
from jaxenv.tree import Tree

_NAMES = tuple(TimeStep.__dataclass_fields__)


def host(
    env_or_id: Environment | str,
    num_envs: int | None = None,
    seed: Seeds = 0,
    *,
    fields: Sequence[str] | None = None,
    **options: Any,
) -> "Host":
    """Wraps a batch together with its state, for Python code that steps it call by call.

    ``reset`` and ``step`` are compiled once, at their first call. The state stays inside and its memory is reused;
    returned TimeSteps are never overwritten. If the whole loop can be compiled, `jaxenv.unroll` is faster.

    Args:
        env_or_id: an environment, or an id.
        num_envs: number of lanes of an id, 1 by default.
        seed: seed of the first episodes: an integer, the key ``jax.random.key(seed)`` of the batch, or one per lane.
        fields: names of the TimeStep's fields to return, all by default; the others hold ``()``. Each array that is
            returned costs about a microsecond.
        **options: of `jaxenv.make`.

    >>> import numpy as np
    >>> env = host("CartPole-v1", num_envs=4, seed=0)
    >>> timestep = env.reset()
    >>> for _ in range(10):
    ...     timestep = env.step(np.asarray(timestep.observation[:, 2] > 0, np.int32))
    >>> timestep.observation.shape
    (4, 4)
    """
    env = environment_of("host", env_or_id, num_envs, options)
    if fields is not None:
        check_names("host", "fields", fields)
    names = _NAMES if fields is None else tuple(fields)
    if unknown := [name for name in names if name not in _NAMES]:
        raise ValueError(f"host: fields must be names out of {', '.join(_NAMES)}, got {unknown[0]!r}")
    return Host(env, names, seed)


@dataclasses.dataclass(frozen=True)
class _Fields:
    names: tuple[str, ...]

    def __call__(self, timestep: TimeStep) -> TimeStep:
        return TimeStep(**{name: getattr(timestep, name) for name in self.names})


class Host(Adapter):
    """The object that `host` returns: the environment ``env``, and ``timestep``, the last TimeStep, of JAX arrays."""

    _owner = "host"
    _settable = frozenset({"timestep"})

    def __init__(self, env: Environment, fields: tuple[str, ...], seed: Seeds):
        super().__init__(env, _Fields(fields), numpy=False)
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
