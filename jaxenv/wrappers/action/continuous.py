"""Wrappers of continuous actions."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.core import ActionWrapper, LaneWrapper, TimeStep, check_callable, check_interval, clip
from jaxenv.random import Stream
from jaxenv.tree import Tree


class ClipAction(ActionWrapper):
    """Clips continuous actions elementwise to the bounds of the action spec. NaN passes through.

    Discrete actions pass through: every environment clips them itself. `GuardNonFinite` handles NaN. Owns
    ``prev_action``: the action before clipping.

    Args:
        announce_bounds: whether the action spec shows the bounds; ``False`` announces unbounded continuous actions.

    >>> import jaxenv, numpy as np
    >>> env = ClipAction(jaxenv.spec("Pendulum-v1").make())
    >>> env.action(np.array([[-3.0], [0.5]], np.float32)).tolist()
    [[-2.0], [0.5]]
    """

    announce_bounds: bool = tree.static(default=True)

    in_evaluation = "kept"

    def action_spec(self) -> Tree:
        spec = self.env.action_spec()
        if self.announce_bounds:
            return spec
        return jax.tree.map(lambda s: specs.Array(s.shape, s.dtype, s.name) if s.is_continuous else s, spec)

    def action(self, action: Tree) -> Tree:
        return clip_continuous(self.env.action_spec(), action)


def clip_continuous(spec: Any, action: Any) -> Any:
    """Clips the continuous leaves of actions ``[B, ...]`` to their specs; NaN passes through."""

    def clipped(s: specs.Bounded, a: jax.Array) -> jax.Array:
        if isinstance(s, specs.Bounded) and s.is_continuous:
            return clip(a, specs.aligned(s.minimum, a.ndim), specs.aligned(s.maximum, a.ndim))
        return a

    return jax.tree.map(clipped, spec, action)


class RescaleAction(ActionWrapper):
    """Maps the continuous leaves of an action affinely from [minimum, maximum] onto their bounds.

    The map is elementwise. Discrete leaves pass through. Owns ``prev_action``: the agent's action.

    Args:
        env: an environment whose action has continuous leaves, all with finite bounds.
        minimum: the agent's lower bound for every leaf: a number, or a nested tuple that broadcasts to the leaf.
        maximum: the agent's upper bound, above ``minimum`` everywhere.
        clip: clip to the agent's bounds first; otherwise values out of range map out of range.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.RescaleAction(jaxenv.spec("Pendulum-v1").make(), 0, 4)
    >>> env.action(np.array([[0.0], [1.0], [5.0]], np.float32)).tolist()
    [[-2.0], [-1.0], [3.0]]
    """

    minimum: Any = tree.static(default=-1.0)
    maximum: Any = tree.static(default=1.0)
    clip: bool = tree.static(default=False)

    in_evaluation = "kept"

    def check(self) -> None:
        inner = self.env.action_spec()
        check_interval("RescaleAction", "minimum", self.minimum, "maximum", self.maximum)
        continuous = [s for s in jax.tree.leaves(inner) if s.is_continuous]
        if not continuous or not all(s.is_bounded for s in continuous):
            raise ValueError(f"RescaleAction: the action must have continuous leaves with finite bounds, got {inner}")
        try:
            self.action_spec()
        except ValueError as fault:  # bounds that do not broadcast to a leaf
            raise ValueError(f"RescaleAction: {fault}") from None

    def action_spec(self) -> Tree:
        def within(s: Any) -> specs.Array:
            return s.replace(minimum=self.minimum, maximum=self.maximum) if s.is_continuous else s

        return jax.tree.map(within, self.env.action_spec())

    def action(self, action: Tree) -> Tree:
        spec = self.action_spec()
        action = clip_continuous(spec, action) if self.clip else action
        return jax.tree.map(_mapped, self.env.action_spec(), spec, action)


def _mapped(inner: specs.Bounded, outer: specs.Bounded, action: jax.Array) -> jax.Array:
    if inner.is_discrete:
        return action
    # In float64, in which the span of two finite float32 bounds is finite.
    low, high, start, end = (
        bound.astype(np.float64) for bound in (inner.minimum, inner.maximum, outer.minimum, outer.maximum)
    )
    scale = (high - low) / (end - start)
    offset = low - start * scale
    scale, offset = (specs.aligned(x.astype(inner.dtype), action.ndim) for x in (scale, offset))
    return action * scale + offset


class TransformAction(ActionWrapper):
    """Maps the agent's actions by a function.

    Owns ``prev_action``: the agent's action, before the function.

    Args:
        fn: maps a batch of the agent's actions (a tree of arrays ``[B, ...]``, discrete ones within their bounds) to a
            batch of the environment's. Functions compare by identity: a new function object triggers a recompilation.
        spec: spec of the agent's action, or a tree of specs; by default the environment's.

    >>> import jaxenv, numpy as np
    >>> env = TransformAction(jaxenv.spec("Pendulum-v1").make(), lambda action: -action)
    >>> env.action(np.array([[2.0]])).tolist()
    [[-2.0]]
    """

    fn: Callable[[Any], Any] = tree.static()
    spec: Any = tree.static(default=None)

    in_evaluation = "kept"

    def convert(self) -> dict[str, Any]:
        if self.spec is None or isinstance(self.spec, tree.Static):
            return {}
        specs.check_spec("TransformAction", self.spec)
        return {"spec": tree.Static(self.spec)}  # trees of specs need not be hashable

    def check(self) -> None:
        check_callable("TransformAction", "fn", self.fn)

    def action_spec(self) -> Tree:
        return self.env.action_spec() if self.spec is None else self.spec.value

    def action(self, action: Tree) -> Tree:
        return self.fn(action)


class FlattenAction(ActionWrapper):
    """Takes one vector ``[B, n]`` with the elements of all leaves, in tree order and each leaf in row-major order.

    Bounds are kept. Elements are cast to the dtype of their leaf; for a discrete leaf floats are rounded to the nearest
    integer within its bounds. Owns ``prev_action``: the agent's vector.

    Args:
        env: an environment whose action is an array or a tree of arrays.
        dtype: dtype of the vector, which all bounds must fit. It must be given if the leaves differ in dtype.

    >>> from jaxenv import testing
    >>> wheels = {"left": specs.Bounded((), np.float32, -1, 1), "right": specs.Bounded((2,), np.float32, 0, 9)}
    >>> env = FlattenAction(testing.random_environment(specs.discrete(2), wheels))
    >>> env.action_spec()
    Bounded((3,), float32, [-1.0, 0.0, 0.0], [1.0, 9.0, 9.0], name='action')
    >>> jax.tree.map(lambda x: x.tolist(), env.action(np.array([[1.0, 2.0, 3.0]])))
    {'left': [1.0], 'right': [[2.0, 3.0]]}
    """

    dtype: Any = tree.static(default=None)

    in_evaluation = "kept"

    def check(self) -> None:
        dtypes = sorted({str(s.dtype) for s in jax.tree.leaves(self.env.action_spec())})
        if self.dtype is None and len(dtypes) != 1:
            raise ValueError(f"FlattenAction: dtype must be given if the leaves differ in dtype, they have {dtypes}")
        try:
            np.dtype(self.dtype)
        except TypeError:
            raise ValueError(f"FlattenAction: dtype must be a dtype, got {self.dtype!r}") from None
        self.action_spec()  # refuses bounds that do not fit the dtype

    def action_spec(self) -> Tree:
        return specs.flattened(self.env.action_spec(), one_hot=False, dtype=self.dtype).replace(name="action")

    def action(self, action: Tree) -> Tree:
        return specs.unflatten(self.env.action_spec(), action, one_hot=False)


class ActionNoise(LaneWrapper):
    """Adds ``draw[t] + past_weight * draw[t - 1]`` to continuous actions and clips them to their bounds.

    Draws are normal with mean 0 and standard deviation ``sigma``, independent for every element and step. The noise of
    consecutive steps is therefore correlated (Swamy et al. 2022, arXiv:2202.01312). At the first step of an episode,
    ``draw[-1]`` is one more draw. Discrete leaves pass through. Owns ``prev_action``: the agent's action, without the
    noise.

    Args:
        env: an environment with at least one continuous leaf in its action.
        sigma: standard deviation of a draw, in units of the action: one number, or one per lane.
        past_weight: weight of the previous draw, at least 0; with 0 the noise of every step is independent.

    >>> import jaxenv
    >>> env = ActionNoise(jaxenv.spec("Pendulum-v1").make(), 0.1)
    >>> env.action_spec()
    Bounded((1,), float32, -2.0, 2.0, name='action')
    """

    sigma: Any = tree.leaf(low=0)
    past_weight: Any = tree.leaf(default=1.0, low=0)

    owns: ClassVar[frozenset[str]] = frozenset({"prev_action"})
    in_evaluation = "kept"
    noop_kwargs = {"sigma": np.float32(0)}

    def check(self) -> None:
        spec = self.env.action_spec()
        if not any(s.is_continuous for s in jax.tree.leaves(spec)):
            raise ValueError(f"ActionNoise: the action must have a continuous leaf, got {spec}")

    def init(self, timestep: TimeStep, stream: Stream) -> Tree:
        return self._draw(stream)

    def before(self, own: Tree, action: Tree, stream: Stream) -> tuple[Tree, Tree]:
        drawn, spec = self._draw(stream), self.action_spec()
        noisy = iter(zip(drawn, own, strict=True))

        def disturbed(s: specs.Bounded, a: jax.Array) -> jax.Array:
            if s.is_discrete:
                return a
            now, past = next(noisy)
            return a + (now + tree.expand(self.past_weight, a.ndim) * past).astype(a.dtype)

        return drawn, clip_continuous(spec, jax.tree.map(disturbed, spec, action))

    def _draw(self, stream: random.Stream) -> list[jax.Array]:
        """Draws once for every continuous leaf: a list of float32 ``[B, *shape]``."""
        shapes = [s.shape for s in jax.tree.leaves(self.action_spec()) if s.is_continuous]
        normal = [random.normal(random.fold_in(stream, i), shape) for i, shape in enumerate(shapes)]
        return [tree.expand(self.sigma, x.ndim) * x for x in normal]


class ActionOffset(ActionWrapper):
    """Shifts discrete actions so that the agent's actions start from 0.

    Owns ``prev_action``: the agent's action.

    Args:
        env: an environment with one bounded integer action array ``[B, ...]``, whose range fits its dtype from 0 on.
            The shift is elementwise.

    >>> from jaxenv import testing
    >>> env = ActionOffset(testing.random_environment(specs.discrete(2), specs.discrete(3, start=-1)))
    >>> env.action_spec()
    Bounded((), int32, 0, 2)
    >>> env.action(np.array([0, 2])).tolist()
    [-1, 1]
    """

    in_evaluation = "kept"

    def check(self) -> None:
        spec = self.env.action_spec()
        if not (isinstance(spec, specs.Bounded) and spec.dtype.kind in "iu"):
            raise ValueError(f"ActionOffset: the action must be one bounded array of integers, got {spec}")
        if np.any(_span(spec) > np.iinfo(spec.dtype).max):
            raise ValueError(f"ActionOffset: the range of the action does not fit {spec.dtype} from 0 on: {spec}")

    def action_spec(self) -> Tree:
        inner = self.env.action_spec()
        return inner.replace(minimum=0, maximum=_span(inner))

    def action(self, action: Tree) -> Tree:
        return action + specs.aligned(self.env.action_spec().minimum, action.ndim)


def _span(spec: specs.Bounded) -> np.ndarray:
    return spec.maximum.astype(np.int64) - spec.minimum.astype(np.int64)
