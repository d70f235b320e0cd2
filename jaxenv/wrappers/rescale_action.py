"""Let the agent act within bounds of its own."""

from typing import Any

import numpy as np

from jaxenv import specs, tree
from jaxenv.wrappers.base import ActionWrapper


class RescaleAction(ActionWrapper):
    """Maps actions in [minimum, maximum] affinely onto the bounds of the environment, as Gymnasium's wrapper does.

    Nothing is clipped: what lies outside maps outside. Owns ``prev_action``: the agent's action.

    Args:
        env: an environment with one continuous action array and finite bounds.
        minimum: the agent's lower bound: a number, or a nested tuple in the action's shape.
        maximum: its upper bound, above ``minimum`` everywhere.

    Raises:
        ValueError: if the action is not one bounded continuous array, or the bounds are not finite and in order.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.RescaleAction(jaxenv.spec("Pendulum-v1").make(), 0, 1)
    >>> env.action_spec()
    Bounded((1,), float32, 0.0, 1.0, name='action')
    >>> env.action(np.array([[0.0], [0.5], [1.0]], np.float32)).tolist()
    [[-2.0], [0.0], [2.0]]
    """

    minimum: Any = tree.static(default=-1.0)
    maximum: Any = tree.static(default=1.0)

    def check(self):
        spec = self.env.action_spec()
        if not (isinstance(spec, specs.Bounded) and spec.is_continuous and spec.is_bounded):
            raise ValueError(f"RescaleAction: the action must be one continuous array with finite bounds, got {spec}")
        low, high = np.asarray(self.minimum, np.float32), np.asarray(self.maximum, np.float32)
        if not (np.all(np.isfinite(low)) and np.all(np.isfinite(high)) and np.all(low < high)):
            raise ValueError(
                f"RescaleAction: minimum must lie below maximum, both finite, got {self.minimum} and {self.maximum}"
            )

    def action_spec(self):
        return self.env.action_spec().replace(minimum=self.minimum, maximum=self.maximum)

    def action(self, action):
        inner, outer = self.env.action_spec(), self.action_spec()
        scale = (inner.maximum - inner.minimum) / (outer.maximum - outer.minimum)
        offset = inner.minimum - outer.minimum * scale
        return action * specs.aligned(scale, action.ndim) + specs.aligned(offset, action.ndim)
