"""Draws windows in proportion to their priorities."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv._util.checks import check_integer, check_real, is_concrete
from jaxenv.data.replay._sum_tree import SumTree, level_sizes
from jaxenv.data.replay.replay_state import Span
from jaxenv.data.replay.sampling import Draw, Sampling

# The upper bound of a priority raised to the exponent. The sum of 2**31 such priorities fits float32.
LARGEST = np.float32(2.0**96)


@tree.struct
class Priorities:
    """State of `PrioritizedSampling`."""

    # The priorities, raised to the exponent. Leaf slot * B + lane belongs to the window that starts in this slot of
    # this lane; 0 if there is none.
    sum_tree: SumTree
    greatest: jax.Array  # float32[], the greatest priority ever set, at least 1; new windows get it
    saved_settings: jax.Array  # float32[3], the values of settings. Checkpoints hold arrays and no static fields
    # Names and values of the options that the priorities depend on.
    settings: tuple[tuple[str, float], ...] = tree.static()


@dataclasses.dataclass(frozen=True)
class PrioritizedSampling(Sampling):
    """Draws windows ``[N, L]`` in proportion to ``(|error| + epsilon) ** exponent``.

    Schaul et al. (2016), "Prioritized Experience Replay", arXiv:1511.05952. Draws are stratified: one window is drawn
    from each of N equal parts of the sum of all priorities. The sum tree takes 4.6 bytes per row.

    Args:
        exponent: alpha in the paper, at least 0; 0 makes all windows equally likely.
        length: L, rows in a window.
        epsilon: at least 0; above 0 a window whose error is 0 can be drawn again.
    """

    exponent: float
    length: int = 2
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        check_real("PrioritizedSampling", "exponent", self.exponent, 0)
        check_integer("PrioritizedSampling", "length", self.length, 1)
        check_real("PrioritizedSampling", "epsilon", self.epsilon, 0)
        object.__setattr__(self, "exponent", float(self.exponent))  # states compare their settings as floats

    def check_buffer(self, capacity: int, num_envs: int, ignore_earliest: int) -> None:
        check_integer("PrioritizedSampling", "length", self.length, 1, capacity - ignore_earliest)
        if sum(level_sizes(capacity * num_envs)) >= 2**31:
            rule = "the sum tree must have fewer than 2**31 numbers"
            raise ValueError(f"PrioritizedSampling: {rule}, got {capacity} rows of {num_envs} lanes")

    def check_state(self, owner: str, state: Any, ignore_earliest: int) -> None:
        if not isinstance(state, Priorities):
            raise ValueError(f"{owner}: the state was made with UniformSampling, this Replay has PrioritizedSampling")
        found = [value for _, value in state.settings]
        if is_concrete(state.saved_settings):  # a restored state has the static settings of the tree that it replaced
            saved = np.asarray(state.saved_settings).reshape(-1, len(found))[0]  # float32, exact up to 2**24
            found = [a if np.float32(a) == b else b for a, b in zip(found, saved, strict=True)]
        for value, (name, expected) in zip(found, self._settings(ignore_earliest), strict=True):
            number = np.float32 if isinstance(expected, float) else int
            if number(value) != number(expected):
                made = f"the state was made with {name}={number(value)!s}"
                raise ValueError(f"{owner}: {made}, this Replay has {expected}")

    def init(self, capacity: int, num_envs: int, ignore_earliest: int) -> Any:
        settings = self._settings(ignore_earliest)
        values = jnp.asarray(np.array([value for _, value in settings], np.float32))
        return Priorities(SumTree.zeros(capacity * num_envs), jnp.ones((), jnp.float32), values, settings)

    def extend(self, state: Priorities, span: Span, env_id: jax.Array, num_rows: int) -> Priorities:
        # Windows that the new rows may complete, the new rows, and the oldest rows, which start no window any more.
        count = min(num_rows + self.length - 1 + span.ignore_earliest, span.capacity)
        first = span.end_of(env_id[None]) - np.int32(num_rows + self.length - 1)
        position = first + np.arange(count, dtype=np.int32)[:, None]
        starts = span.starts_window(position, env_id[None], self.length)
        place = _place(span, position, env_id[None])
        place = jnp.where(env_id[None] < span.num_envs, place, state.sum_tree.out_of_range)
        priority = jnp.broadcast_to(jnp.where(starts, state.greatest, np.float32(0)), place.shape)
        return dataclasses.replace(state, sum_tree=state.sum_tree.put(place, priority, contiguous=span.aligned))

    def clear(self, state: Any, span: Span, keep: int) -> Any:
        if not keep:
            return dataclasses.replace(state, sum_tree=state.sum_tree.cleared())
        slot = np.arange(span.capacity, dtype=np.int32)[:, None]
        env_id = np.arange(span.num_envs, dtype=np.int32)[None]
        remains = span.position_of(slot, env_id) >= span.begin_of(env_id) + np.int32(span.ignore_earliest)
        remains = jnp.broadcast_to(remains, (span.capacity, span.num_envs)).reshape(-1)
        return dataclasses.replace(state, sum_tree=state.sum_tree.masked(remains))

    def can_sample(self, state: Any, num_windows: jax.Array) -> jax.Array:
        return super().can_sample(state, num_windows) & (state.sum_tree.total > 0)

    def sample(
        self,
        state: Priorities,
        span: Span,
        stream: random.Stream,
        batch_size: int,
        length: int,
        num_windows: jax.Array,
        importance_exponent: Any,
    ) -> Draw:
        if length != self.length:
            raise ValueError(f"Replay.sample: length must be {self.length}, as in PrioritizedSampling, got {length}")
        total = state.sum_tree.total
        if is_concrete(total) and not total > 0:
            raise ValueError("Replay.sample: all windows have priority 0")
        place, priority = state.sum_tree.draw(stream, batch_size)
        slot, env_id = place // np.int32(span.num_envs), place % np.int32(span.num_envs)
        # The number M of windows and the sum of priorities cancel in (1 / (M P)) ** beta over the batch's greatest.
        priority = jnp.maximum(priority, np.finfo(np.float32).tiny)
        weight = (jnp.min(priority) / priority) ** jnp.asarray(importance_exponent, jnp.float32)
        return env_id, span.position_of(slot, env_id), weight

    def update(
        self, state: Any, span: Span, env_id: jax.Array, position: jax.Array, priority: jax.Array, valid: Any
    ) -> Any:
        base = jnp.abs(jnp.asarray(priority, jnp.float32)) + np.float32(self.epsilon)
        # The power may overflow where the base is finite.
        power = jnp.minimum(base ** np.float32(self.exponent), LARGEST)
        power = jnp.where(jnp.isfinite(base), power, state.greatest)
        power = power if valid is None else jnp.where(valid, power, np.float32(0))
        starts = span.starts_window(position, env_id, self.length)
        place = jnp.where(starts, _place(span, position, env_id), state.sum_tree.out_of_range)
        greatest = jnp.maximum(state.greatest, jnp.max(jnp.where(starts, power, np.float32(0)), initial=np.float32(0)))
        return dataclasses.replace(state, sum_tree=state.sum_tree.put_max(place, power), greatest=greatest)

    def _settings(self, ignore_earliest: int) -> tuple[tuple[str, float], ...]:
        return (("exponent", self.exponent), ("length", self.length), ("ignore_earliest", ignore_earliest))


def _place(span: Span, position: jax.Array, env_id: jax.Array) -> jax.Array:
    return span.slot_of(position) * np.int32(span.num_envs) + env_id
