"""The interface between a replay buffer and the ways of choosing windows."""

import abc
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from jaxenv import random
from jaxenv.data.replay.replay_state import Span

# The lane of each of N windows, int32 [N], the position of its first row, int32 [N], and its weight, float32 [N].
Draw: TypeAlias = tuple[jax.Array, jax.Array, jax.Array]


class Sampling(abc.ABC):
    """Chooses the windows ``[N, L]`` of a `Replay`: `UniformSampling` or `PrioritizedSampling`.

    The object holds static options and is hashable. Its state is a tree of arrays, ``ReplayState.sampling``.
    """

    def check_buffer(self, capacity: int, num_envs: int, ignore_earliest: int) -> None:  # noqa: B027
        """Raises a ``ValueError`` if the options do not fit a buffer with these arguments."""

    @abc.abstractmethod
    def check_state(self, owner: str, state: Any, ignore_earliest: int) -> None:
        """Raises a ``ValueError`` for a state that was made with other options."""

    def init(self, capacity: int, num_envs: int, ignore_earliest: int) -> Any:
        """Returns the state for an empty buffer; ``()`` by default."""
        return ()

    def extend(self, state: Any, span: Span, env_id: jax.Array, num_rows: int) -> Any:
        """Returns the state after adding ``num_rows`` rows to lanes ``env_id`` (int32 ``[K]``); ``span`` has them."""
        return state

    def clear(self, state: Any, span: Span, keep: int) -> Any:
        """Returns the state after all but the newest ``keep`` rows of each lane were removed, which leaves ``span``."""
        return state

    def can_sample(self, state: Any, num_windows: jax.Array) -> jax.Array:
        """Returns whether any window can be drawn, bool ``()``, given `Span.num_windows`."""
        return jnp.any(num_windows > 0)

    @abc.abstractmethod
    def sample(
        self,
        state: Any,
        span: Span,
        stream: random.Stream,
        batch_size: int,
        length: int,
        num_windows: jax.Array,
        importance_exponent: Any,
    ) -> Draw:
        """Draws ``batch_size`` windows of ``length`` rows with a stream of shape ``()``."""

    @abc.abstractmethod
    def update(
        self, state: Any, span: Span, env_id: jax.Array, position: jax.Array, priority: jax.Array, valid: Any
    ) -> Any:
        """Returns the state with new priorities, float32 ``[N]``, of windows ``[N]``; 0 where not ``valid``."""
