"""Let the agent act within chosen bounds."""

from typing import Any

import jax
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import ActionWrapper, check_interval
from jaxenv.tree import Tree
from jaxenv.wrappers.action.clip_action import clip_continuous


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
