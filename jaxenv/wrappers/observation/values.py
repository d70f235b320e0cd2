"""Wrappers that map the numbers of observations."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.core import (
    BatchWrapper,
    LaneWrapper,
    LeafObservationWrapper,
    ObservationWrapper,
    TimeStep,
    check_callable,
    check_interval,
    check_numbers,
    checked_observation,
    clip,
    map_observation,
    moments,
)
from jaxenv.random import Stream
from jaxenv.tree import Tree
from jaxenv.wrappers.observation.layout import Floats


class ClipObservation(LeafObservationWrapper):
    """Clips numbers in the observation, and their bounds in the spec. NaN passes through, and shapes and dtypes do
    not change.

    With ``fields=None`` every leaf except bools is clipped. Owns ``observation``.

    Args:
        env: an environment with numbers in its observation.
        minimum: lower limit, may be infinite: a number, or a nested tuple that broadcasts to the leaf.
        maximum: upper limit, at least ``minimum``.
        fields: dotted paths of the leaves to clip.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.ClipObservation(jaxenv.spec("Pendulum-v1").make(), -2, 5)
    >>> env.observation_spec()
    Bounded((3,), float32, [-1.0, -1.0, -2.0], [1.0, 1.0, 5.0], name='observation')
    """

    minimum: Any = tree.static(default=-np.inf)
    maximum: Any = tree.static(default=np.inf)

    in_evaluation = "kept"
    kind: ClassVar[str] = "an array of numbers"
    noop_kwargs: ClassVar = {"minimum": -np.inf, "maximum": np.inf}

    def check(self) -> None:
        check_numbers("ClipObservation", "minimum", self.minimum)
        check_numbers("ClipObservation", "maximum", self.maximum)
        low, high = np.asarray(self.minimum), np.asarray(self.maximum)
        if not np.all(low <= high):
            rule = "minimum must not exceed maximum"
            raise ValueError(f"ClipObservation: {rule}, got {self.minimum!r} and {self.maximum!r}")
        super().check()

    def applies(self, spec: specs.Array) -> bool:
        return spec.dtype.kind != "b"

    def fault(self, spec: specs.Array) -> str | None:
        try:
            low, high = self._limits(spec)
        except ValueError:
            return f"have a shape that minimum {self.minimum!r} and maximum {self.maximum!r} broadcast to"
        return None if np.all(low <= high) else f"have a value between {self.minimum!r} and {self.maximum!r}"

    def _limits(self, spec: specs.Array) -> tuple[np.ndarray, np.ndarray]:
        """Returns the limits, rounded inwards to values of the leaf's dtype."""
        low, high = (
            np.broadcast_to(np.asarray(limit, np.float64), spec.shape) for limit in (self.minimum, self.maximum)
        )
        if spec.is_continuous:
            return low, high
        least, greatest = np.iinfo(spec.dtype).min, np.iinfo(spec.dtype).max
        return np.maximum(np.ceil(low), least), np.minimum(np.floor(high), greatest)

    def map_leaf(self, x: jax.Array, spec: specs.Array) -> jax.Array:
        return clip(x, *(specs.aligned(limit.astype(spec.dtype), x.ndim) for limit in self._limits(spec)))

    def map_spec(self, spec: specs.Array) -> specs.Array:
        low, high = (limit.astype(spec.dtype) for limit in self._limits(spec))
        least, greatest = (np.clip(bound, low, high) for bound in specs.bounds(spec))
        return specs.Bounded(spec.shape, spec.dtype, least, greatest, spec.name)


class RescaleObservation(Floats, LeafObservationWrapper):
    """Maps observations elementwise and affinely from their bounds onto [minimum, maximum].

    The result is clipped, so that rounding errors cannot exceed the bounds. With ``fields=None`` every floating-point
    leaf is mapped; cast integers by `DtypeObservation` first. Owns ``observation``.

    Args:
        env: an environment whose floating-point observations have finite bounds.
        minimum: new lower bound: a number, or a nested tuple that broadcasts to the leaf.
        maximum: new upper bound, above ``minimum`` everywhere.
        fields: dotted paths of the leaves to map.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.RescaleObservation(jaxenv.spec("Pendulum-v1").make(), 0, 1)
    >>> env.observation_spec()
    Bounded((3,), float32, 0.0, 1.0, name='observation')
    >>> env.observation(np.array([[-1.0, 0.0, 8.0]], np.float32)).tolist()
    [[0.0, 0.5, 1.0]]
    """

    minimum: Any = tree.static(default=-1.0)
    maximum: Any = tree.static(default=1.0)

    in_evaluation = "kept"

    def check(self) -> None:
        check_interval("RescaleObservation", "minimum", self.minimum, "maximum", self.maximum)
        super().check()

    def fault(self, spec: Any) -> str | None:
        if not (spec.is_bounded and np.all(spec.minimum < spec.maximum)):
            return "have finite bounds, the lower below the upper"
        try:
            np.broadcast_to(self.minimum, spec.shape), np.broadcast_to(self.maximum, spec.shape)
        except ValueError:
            return f"have a shape that minimum {self.minimum!r} and maximum {self.maximum!r} broadcast to"
        return None

    def map_leaf(self, x: jax.Array, spec: Any) -> jax.Array:
        low, high = spec.minimum.astype(np.float64), spec.maximum.astype(np.float64)
        scale = (np.asarray(self.maximum) - np.asarray(self.minimum)) / (high - low)
        scale, low, minimum = (
            specs.aligned(np.broadcast_to(c, spec.shape).astype(spec.dtype), x.ndim) for c in (scale, low, self.minimum)
        )
        # Subtracting the bound first avoids cancellation between large products.
        return specs.fit(self.map_spec(spec), (x - low) * scale + minimum)

    def map_spec(self, spec: Any) -> specs.Array:
        return spec.replace(minimum=self.minimum, maximum=self.maximum)


class NormalizeObservation(BatchWrapper):
    """Shows ``(x - mean) / sqrt(variance + epsilon)`` for the float parts of the observation.

    Mean and variance are running statistics of each element over all lanes. Rows, also from ``reset``, update
    them before they are normalised. Rows of lanes restarted by ``reset_where`` do not, nor do rows with a number that
    is non-finite or above 1e15 in magnitude (float32 sums of its square would overflow), nor does a ``frozen`` wrapper.
    In ``same_step`` mode ``env_info["final_observation"]`` is normalised in the same way and counted on LAST rows only,
    so that the statistics equal ``next_step`` mode's. They start from the first batch, without a prior.

    For each part ``statistics(state)`` returns a struct of ``count`` (``int(count)`` reads it), ``mean`` and
    ``variance``, float32 in the shape of the part, and their rounding errors; for other parts of the observation
    ``()``. This tree of arrays can be saved, and ``with_statistics`` loads it. Owns ``observation``.

    Args:
        env: any environment, with ``AutoReset`` inside if there is one.
        epsilon: added to the variance: one number, or one per lane.
        clip: limit on the magnitude of the result; ``None`` for none.
        fields: dotted paths of the parts, each of float arrays; ``None`` for all float arrays.
        frozen: stop updating the statistics.
        axis_name: a mesh axis over whose shards the statistics are computed.

    >>> import jax, jaxenv
    >>> env = jaxenv.wrappers.NormalizeObservation(jaxenv.make("Pendulum-v1", num_envs=4))
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> int(env.statistics(state).count)
    4
    """

    epsilon: Any = tree.leaf(default=1e-8, low=0)
    clip: float | None = tree.static(default=None, above=0)
    fields: Any = tree.static(default=None)

    owns: ClassVar[frozenset[str]] = frozenset({"observation"})
    in_evaluation = {"frozen": True}

    def check(self) -> None:
        self._marks(self.env.observation_spec())

    def _marks(self, observation: Tree) -> Tree:
        return specs.select_floats("NormalizeObservation", observation, self.fields)

    def observation_spec(self) -> Tree:
        spec = self.env.observation_spec()
        return specs.map_marked(self._marks(spec), lambda s: normalized_spec(s, self.clip), spec)

    def normalize(self, state: Any, observation: Any) -> Any:
        """Normalises a batch of raw observations ``[B, ...]`` by the statistics in ``state``."""
        return self._shown(state.shared.value, observation)

    def inverse(self, state: Any, observation: Any) -> Any:
        """Restores raw observations from a batch of normalised ones; clipping cannot be undone."""
        return self._map(
            lambda x, running: moments.denormalize(running, x, self.epsilon), observation, state.shared.value
        )

    def init(self, timestep: TimeStep) -> Tree:
        return self._map(lambda x: moments.empty(x.shape[1:]), timestep.observation, otherwise=lambda x: ())

    def after(self, shared: Tree, lanes: Tree, timestep: TimeStep, learn: bool) -> tuple[Tree, Tree, TimeStep]:
        if learn:
            shared = self._updated(shared, timestep.observation, jnp.ones_like(timestep.is_last()))
            if "final_observation" in timestep.env_info:
                shared = self._updated(shared, timestep.env_info["final_observation"], timestep.is_last())
        return shared, lanes, map_observation(lambda x: tree.strong(self._shown(shared, x)), timestep)

    def _updated(self, shared: moments.Moments, observation: Tree, valid: jax.Array) -> moments.Moments:
        def update(x: jax.Array, running: moments.Moments) -> moments.Moments:
            return moments.update(running, x, valid & moments.summable(x), self.axis_name)

        return self._map(update, observation, shared, otherwise=lambda x, running: ())

    def _shown(self, shared: moments.Moments, observation: Tree) -> Tree:
        def show(x: jax.Array, running: moments.Moments) -> jax.Array:
            shown = moments.normalize(running, x, self.epsilon)
            return shown if self.clip is None else clip(shown, -self.clip, self.clip)

        return self._map(show, observation, shared)

    def _map(self, fn: Callable[..., Any], observation: Tree, *shared: Any, otherwise: Any = None) -> Any:
        """Maps the normalised leaves by ``fn`` and the others by ``otherwise``."""
        return specs.map_marked(self._marks(observation), fn, observation, *shared, otherwise=otherwise)


def normalized_spec(spec: specs.Array, clip: float | None) -> specs.Array:
    """Returns the spec of one lane's normalised array, bounded by ``clip``."""
    if clip is None:
        return specs.Array(spec.shape, spec.dtype, spec.name)
    return specs.Bounded(spec.shape, spec.dtype, -clip, clip, spec.name)


class StandardizeObservation(Floats, LeafObservationWrapper):
    """Shows ``clip((x - mean) / std, -limit, limit)`` for constants that were measured beforehand.

    `NormalizeObservation` measures its statistics while lanes run. With ``fields=None`` every floating-point leaf is
    mapped. Owns ``observation``.

    Args:
        env: an environment with floating-point observations.
        mean: a number, or a nested tuple or an array that broadcasts to the leaf.
        std: a number, nested tuple or array above 0.
        limit: limit on the magnitude of the result; may be infinite.
        fields: dotted paths of the leaves to map.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.StandardizeObservation(jaxenv.spec("Pendulum-v1").make(), (0, 0, 1), (1, 0.5, 2))
    >>> env.observation_spec()
    Bounded((3,), float32, [-1.0, -2.0, -3.0], [1.0, 2.0, 3.0], name='observation')
    >>> env.observation(np.array([[-1.0, 0.25, 2.0]], np.float32)).tolist()
    [[-1.0, 0.5, 0.5]]
    """

    mean: Any = tree.static(default=0.0)
    std: Any = tree.static(default=1.0)
    limit: float = tree.static(default=3.0, above=0)

    in_evaluation = "kept"
    noop_kwargs: ClassVar = {"mean": 0.0, "std": 1.0, "limit": np.inf}

    def check(self) -> None:
        check_numbers("StandardizeObservation", "mean", self.mean)
        check_numbers("StandardizeObservation", "std", self.std)
        if not np.all(np.isfinite(self.mean)):
            raise ValueError(f"StandardizeObservation: mean must be finite, got {self.mean!r}")
        if not (np.all(np.isfinite(self.std)) and np.all(np.asarray(self.std) > 0)):
            raise ValueError(f"StandardizeObservation: std must be finite and above 0, got {self.std!r}")
        super().check()

    def fault(self, spec: Any) -> str | None:
        try:
            self._constants(spec)
        except ValueError:
            return f"have a shape that mean {self.mean!r} and std {self.std!r} broadcast to"
        return None

    def _constants(self, spec: Any) -> tuple[np.ndarray, ...]:
        return tuple(np.broadcast_to(np.asarray(c, spec.dtype), spec.shape) for c in (self.mean, self.std))

    def map_leaf(self, x: jax.Array, spec: Any) -> jax.Array:
        mean, std = (specs.aligned(c, x.ndim) for c in self._constants(spec))
        return specs.fit(self.map_spec(spec), (x - mean) / std)

    def map_spec(self, spec: Any) -> specs.Array:
        mean, std = self._constants(spec)
        with np.errstate(over="ignore"):  # overflow is clipped
            low, high = (np.clip((bound - mean) / std, -self.limit, self.limit) for bound in specs.bounds(spec))
        return specs.Bounded(spec.shape, spec.dtype, low, high, spec.name)


class NoisyObservation(LaneWrapper):
    """Adds Gaussian noise of standard deviation ``scale`` to the float parts of the observation, on every row.

    The noise of each row is independent and does not enter the task's state. Each number costs one random word. The
    noise reaches 5.4 standard deviations, so the specs of noisy parts have no bounds. Owns ``observation``.

    Args:
        scale: standard deviation in units of the observation, at least 0: one number, or one per lane.
        fields: dotted paths of the parts, each of float arrays; ``None`` for all float arrays.

    >>> import jaxenv
    >>> jaxenv.wrappers.NoisyObservation(jaxenv.spec("Pendulum-v1").make(), 0.1).observation_spec()
    Array((3,), float32, name='observation')
    """

    scale: Any = tree.leaf(default=0.1, low=0)
    fields: Any = tree.static(default=None)

    owns: ClassVar[frozenset[str]] = frozenset({"observation"})
    in_evaluation = "kept"
    noop_kwargs: ClassVar[dict[str, Any]] = {"scale": 0.0}

    def check(self) -> None:
        self._marks(self.env.observation_spec())

    def _marks(self, observation: Tree) -> Tree:
        return specs.select_floats("NoisyObservation", observation, self.fields)

    def observation_spec(self) -> Tree:
        spec = self.env.observation_spec()
        return specs.map_marked(self._marks(spec), lambda s: specs.Array(s.shape, s.dtype, s.name), spec)

    def after(self, own: Tree, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        numbers, structure = jax.tree.flatten(timestep.observation)
        noisy = jax.tree.leaves(self._marks(timestep.observation))

        def add(i: int, x: jax.Array) -> jax.Array:
            noise = random.normal(random.fold_in(stream, i), x.shape[1:]) * tree.expand(jnp.asarray(self.scale), x.ndim)
            return x + noise.astype(x.dtype)

        shown = [add(i, x) if add_noise else x for i, (x, add_noise) in enumerate(zip(numbers, noisy, strict=True))]
        return own, dataclasses.replace(timestep, observation=jax.tree.unflatten(structure, shown))


class TransformObservation(ObservationWrapper):
    """Maps the observations of the whole batch by a function. Owns ``observation``.

    Args:
        fn: maps a tree of observations ``[B, ...]`` to a tree of arrays ``[B, ...]``. It must not mix lanes.
        spec: specs of the result for one lane; by default the shapes and dtypes that ``fn`` returns, without bounds.

    >>> import jax, jaxenv
    >>> env = jaxenv.wrappers.TransformObservation(jaxenv.spec("Pendulum-v1").make(), lambda o: o[:, :2])
    >>> env.observation_spec()
    Array((2,), float32, name='observation')
    """

    fn: Callable[..., Any] = tree.static()
    spec: Any = tree.static(default=None)

    in_evaluation = "kept"

    def convert(self) -> dict[str, Any]:
        if self.spec is None or isinstance(self.spec, tree.Static):
            return {}
        specs.check_spec("TransformObservation", self.spec)
        return {"spec": tree.Static(self.spec)}  # trees of specs need not be hashable

    def check(self) -> None:
        check_callable("TransformObservation", "fn", self.fn)
        found = self._found()
        if self.spec is not None:
            given = specs.unbatched(self.spec.value, 0)
            specs.require_equal(given, found, "TransformObservation: spec and the result of fn")

    def _found(self) -> Tree:
        """Returns the specs of the result of ``fn``, without bounds."""
        lanes = self._spec_lanes
        return specs.mapped_spec(
            lambda x: checked_observation("TransformObservation: fn", self.fn(x), lanes),
            self.env.observation_spec(),
            lanes,
        )

    def observation(self, observation: Tree) -> Tree:
        return self.fn(observation)

    def observation_spec(self) -> Tree:
        if self.spec is not None:
            return self.spec.value
        inner, mapped = self.env.observation_spec(), self._found()
        # A single array keeps its name. In a tree the origin of a leaf is unknown.
        single = specs.is_spec(mapped) and specs.is_spec(inner)
        return mapped.replace(name=inner.name) if single else mapped
