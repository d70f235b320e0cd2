"""Number discrete actions from 0."""

import numpy as np

from jaxenv import specs
from jaxenv.core import ActionWrapper
from jaxenv.tree import Tree


class ActionOffset(ActionWrapper):
    """Shifts discrete actions so that the agent's actions start from 0.

    Owns ``prev_action``: the agent's action.

    Args:
        env: an environment with one bounded integer action array ``[B, ...]``; the shift is elementwise.

    Raises:
        ValueError: for any other action, or if the shifted range does not fit the action's dtype.

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
