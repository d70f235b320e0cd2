"""The base of transformers that normalise by statistics of what they have seen, in three modes of remembering."""

import dataclasses
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import _moments, tree
from jaxenv._count import Count
from jaxenv._moments import Moments, summable
from jaxenv._numeric import clip
from jaxenv.data.transformers.base import Transformer, check_number, on_windows, rows_of, vary_like
from jaxenv.timestep import TimeStep

Mode = Literal["adaptive", "window", "exponential"]
Update = Literal["rollout", "replay", "never"]


@tree.struct
class Estimate:
    """What is known of one array.

    Attributes:
        moments: count, mean and variance to normalise by.
        memory: what they are made of: ``()`` (adaptive), the moments of the last updates ``[window, ...]`` and the
            number of updates, int32 (window), or the weight of all updates so far, float32 (exponential).
    """

    moments: Moments
    memory: Any


@dataclasses.dataclass(frozen=True)
class Normalizer(Transformer):
    """Gives numbers mean 0 and variance 1, as far as has been seen. Write ``init``, ``learned`` and ``shown``.

    The state is a tree of `Estimate` in `jaxenv.tree.Shared`: all lanes share it, and it outlives episodes. An update
    is one batch of rows: one step of all lanes, or all rows of the windows. They enter before they are normalised.
    ``mode`` says how the updates are remembered:

    - ``"adaptive"``: mean and variance of all rows ever seen, exactly. (ALF's weights grow with age, update t of T
      counting ``(t / T) ** (speed - 1)``; to forget, take one of the others.)
    - ``"window"``: those of the last ``window`` updates, which costs ``window`` times the array to keep and to merge at
      each update. (ALF averages the updates, each with the same weight; here each row has.)
    - ``"exponential"``: an update counts ``rate`` and those before it ``1 - rate`` times what they did, divided by the
      sum of these weights, so that the first updates are not drawn towards 0.

    Args:
        mode: ``"adaptive"``, ``"window"`` or ``"exponential"``.
        update: when the statistics learn: ``"rollout"``, ``"replay"``, or ``"never"`` (see ``frozen``).
        clip: the largest magnitude shown; ``None`` for no bound.
        epsilon: added to the variance.
        window: how many updates are remembered, at least 1.
        rate: weight of an update, in (0, 1].
        axis_name: a mesh axis over which the statistics are those of all shards.
    """

    mode: Mode = "adaptive"
    update: Update = "rollout"
    clip: float | None = None
    epsilon: float = 1e-8
    window: int = 1000
    rate: float = 1e-3
    axis_name: str | None = None

    def check(self):
        name = type(self).__name__
        for option, kinds in (("mode", Mode), ("update", Update)):
            if getattr(self, option) not in get_args(kinds):
                listed = ", ".join(map(repr, get_args(kinds)))
                raise ValueError(f"{name}: {option} must be one of {listed}, got {getattr(self, option)!r}")
        if self.clip is not None:
            check_number(name, "clip", self.clip, lambda x: x > 0, "None or positive")
        check_number(name, "epsilon", self.epsilon, lambda x: 0 <= x < np.inf, "at least 0")
        check_number(name, "window", self.window, lambda x: isinstance(x, int) and x >= 1, "a whole number from 1")
        check_number(name, "rate", self.rate, lambda x: 0 < x <= 1, "in (0, 1]")

    def learned(self, estimates: Any, timestep: TimeStep) -> Any:
        """The statistics after rows ``[B, ...]``."""
        raise NotImplementedError(f"{type(self).__name__}.learned")

    def shown(self, estimates: Any, timestep: TimeStep) -> TimeStep:
        """The rows to show for rows ``[B, ...]``, by the statistics given."""
        raise NotImplementedError(f"{type(self).__name__}.shown")

    def statistics(self, state: Any) -> Any:
        """`jaxenv._moments.Moments` of every array that is normalised: mean and variance in its shape."""
        return jax.tree.map(lambda e: e.moments, state.value, is_leaf=lambda node: isinstance(node, Estimate))

    def frozen(self):
        return dataclasses.replace(self, update="never")

    def transform_timestep(self, state, timestep):
        if self.update == "rollout":
            state = self._after(state, timestep)
        return state, self.shown(state.value, timestep)

    def transform_batch(self, state, batch, replay=None, stored=None):
        if self.update == "replay":
            state = self._after(state, rows_of(batch))
        return state, on_windows(lambda rows: self.shown(state.value, rows), batch)

    def _after(self, state: tree.Shared, timestep: TimeStep) -> tree.Shared:
        return tree.Shared(tree.strong(self.learned(state.value, timestep)))

    # --- one array ---------------------------------------------------------------------------------------------------

    def _empty(self, timestep: TimeStep, shape: tuple[int, ...]) -> Estimate:
        moments, memory = _moments.empty(shape), ()  # type: tuple[Moments, Any]
        if self.mode == "window":
            ring = jax.tree.map(lambda x: jnp.zeros((self.window, *x.shape), x.dtype), moments)
            memory = (ring, jnp.zeros((), jnp.int32))
        elif self.mode == "exponential":
            memory = jnp.zeros((), jnp.float32)
        estimate = Estimate(moments, memory)
        # Shards with statistics of their own differ from the start, or no loop's carry would fit.
        return vary_like(timestep, estimate) if self.axis_name is None else estimate

    def _update(self, estimate: Estimate, x: jax.Array, valid: jax.Array | None = None) -> Estimate:
        """The estimate after rows ``x`` (``[B, ...]``), of those that are ``valid`` (bool ``[B]``) and finite."""
        counted = summable(x) if valid is None else summable(x) & valid
        rows = _moments.of(x, counted, self.axis_name)
        moments, memory = estimate.moments, estimate.memory
        merged = _moments.merge(moments, rows)
        if self.mode == "adaptive":
            return Estimate(merged, ())
        seen = ~rows.count.is_zero()
        if self.mode == "window":
            ring, number = memory
            slot = number % np.int32(self.window)
            # Only the one slot is selected: a choice between two rings would copy them.
            ring = jax.tree.map(lambda past, new: past.at[slot].set(jnp.where(seen, new, past[slot])), ring, rows)
            new, memory = _of_window(ring), (ring, number + seen.astype(jnp.int32))
        else:
            rate = np.float32(self.rate)
            mass = memory * (1 - rate) + rate
            new, memory = _weighted(merged, moments, rows, rate / mass), jnp.where(seen, mass, memory)
        return Estimate(jax.tree.map(lambda a, b: jnp.where(seen, a, b), new, moments), memory)

    def _shown(self, estimate: Estimate, x: jax.Array, centre: bool = True) -> jax.Array:
        moments = estimate.moments
        if centre:
            shown = _moments.normalize(moments, x, self.epsilon)
        else:
            shown = (x.astype(jnp.float32) / _moments.scale(moments, x.ndim, self.epsilon)).astype(x.dtype)
        return shown if self.clip is None else clip(shown, -self.clip, self.clip)


# --- ways to remember ------------------------------------------------------------------------------------------------


def _of_window(ring: Moments) -> Moments:
    """The moments of the rows of all updates in a ring, leaves ``[window, ...]``; one at least has a row."""
    low = jnp.sum(ring.count.low, axis=0, dtype=jnp.uint32)
    share = tree.expand(ring.count.low.astype(jnp.float32) / low.astype(jnp.float32), ring.mean.ndim)
    mean = jnp.sum(share * (ring.mean + ring.mean_rest), axis=0)
    spread = jnp.sum(share * (ring.variance + jnp.square(ring.mean - mean[None])), axis=0)
    zeros = jnp.zeros_like(mean)
    return Moments(Count(jnp.zeros_like(low), low), mean, spread, zeros, zeros)


def _weighted(counted: Moments, a: Moments, b: Moments, weight: jax.Array) -> Moments:
    """The moments of a mixture of ``a`` and a ``weight`` of ``b``, with the count of ``counted``."""
    delta = b.mean - a.mean
    mean = a.mean + weight * delta
    variance = (1 - weight) * a.variance + weight * b.variance + weight * (1 - weight) * jnp.square(delta)
    zeros = jnp.zeros_like(mean)
    return Moments(counted.count, mean, variance, zeros, zeros)
