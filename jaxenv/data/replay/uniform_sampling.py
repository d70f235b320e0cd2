"""Draws windows uniformly, or in part from the newest ones."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random
from jaxenv._util.checks import check_integer, check_real
from jaxenv.data.replay import _stratified
from jaxenv.data.replay._span import Span
from jaxenv.data.replay.sampling import Draw, Sampling


@dataclasses.dataclass(frozen=True)
class UniformSampling(Sampling):
    """Draws each of the windows ``[N, L]`` with equal probability.

    Draws are stratified: no window is drawn twice before every window was drawn once, and in an aligned buffer every
    lane contributes ``N // B`` windows or one more. All weights are 1.

    Args:
        recent_fraction: fraction of the batch that is drawn from the newest windows only. These windows come first in
            the batch. While a lane has at most ``recent_rows / recent_fraction`` windows, all are drawn alike, which
            includes the newest often enough.
        recent_rows: the number of newest windows of each lane that this fraction is drawn from. Both are 0 or neither.
    """

    recent_fraction: float = 0.0
    recent_rows: int = 0

    def __post_init__(self) -> None:
        check_real("UniformSampling", "recent_fraction", self.recent_fraction, 0, 1)
        check_integer("UniformSampling", "recent_rows", self.recent_rows, 0)
        if (self.recent_fraction > 0) != (self.recent_rows > 0):
            raise ValueError(
                "UniformSampling: recent_fraction and recent_rows must both be positive or both be 0, "
                f"got {self.recent_fraction!r} and {self.recent_rows!r}"
            )

    def check_buffer(self, capacity: int, num_envs: int, ignore_earliest: int) -> None:
        pass

    def check_state(self, owner: str, state: Any, ignore_earliest: int) -> None:
        if state != ():
            raise ValueError(f"{owner}: the state was made with PrioritizedSampling, this Replay has UniformSampling")

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
        env_id, window = self._draw(span, stream, batch_size, num_windows)
        position = span.begin_of(env_id) + np.int32(span.ignore_earliest) + window
        return Draw(env_id, position, jnp.ones(batch_size, jnp.float32))

    def update(
        self, state: Any, span: Span, env_id: jax.Array, position: jax.Array, priority: jax.Array, valid: Any
    ) -> Any:
        raise ValueError(
            "Replay.update_priorities: sampling is uniform, make the Replay with sampling=PrioritizedSampling(...)"
        )

    def _draw(
        self, span: Span, stream: random.Stream, batch_size: int, num_windows: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Draws lanes and windows, int32 ``[N]`` each; windows are counted from the oldest one of the lane."""
        # Rounding first makes the product exact in decimals: 0.07 of 100 is 7.
        num_recent = math.ceil(round(self.recent_fraction * batch_size, 9))
        if not num_recent:
            return _uniform(span, stream, batch_size, num_windows)
        # In a small buffer uniform draws contain the newest windows often enough.
        is_small = num_windows.astype(jnp.float32) * np.float32(self.recent_fraction) <= np.float32(self.recent_rows)
        num_newest = jnp.where(is_small, num_windows, np.uint32(self.recent_rows))
        env_id, window = _uniform(span, random.fold_in(stream, "recent"), num_recent, num_newest)
        window = window + span.at_lanes((num_windows - num_newest).astype(jnp.int32), env_id)
        if num_recent == batch_size:
            return env_id, window
        other_env_id, other_window = _uniform(span, stream, batch_size - num_recent, num_windows)
        return jnp.concatenate([env_id, other_env_id]), jnp.concatenate([window, other_window])


def _uniform(span: Span, stream: random.Stream, number: int, num_windows: jax.Array) -> tuple[jax.Array, jax.Array]:
    if span.aligned:
        at_least_one = jnp.maximum(num_windows, np.uint32(1))
        env_id, window = _stratified.draw_from_equal_lanes(stream, number, span.num_envs, at_least_one)
    else:
        env_id, window = _stratified.draw_from_unequal_lanes(stream, number, num_windows)
    return env_id, window.astype(jnp.int32)
