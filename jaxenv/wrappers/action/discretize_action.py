"""Let the agent choose from a grid of continuous actions."""

from typing import Any, Literal

import numpy as np

from jaxenv import specs, tree
from jaxenv.core import ActionWrapper, clip
from jaxenv.tree import Tree


class DiscretizeAction(ActionWrapper):
    """Replaces each element of a continuous action by the int32 number of an evenly spaced value.

    The action keeps its shape with one number per element, except that shape ``(1,)`` becomes ``()``. With ``flatten``
    one number encodes all elements, the first being the most significant. Owns ``prev_action``: the agent's numbers.

    Args:
        env: an environment with one continuous action array and finite bounds.
        num_actions: number of values per element, at least 2: a number, or a nested tuple that broadcasts to the
            action's shape.
        mode: ``"ends"``: both bounds are among the values. ``"centers"``: the values are the centres of bins of equal
            size.
        flatten: use one number, an int32, for all elements.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.DiscretizeAction(jaxenv.spec("Pendulum-v1").make(), 5)
    >>> env.action_spec()
    Bounded((), int32, 0, 4, name='action')
    >>> env.action(np.array([0, 1, 4])).tolist()
    [[-2.0], [-1.0], [2.0]]
    """

    num_actions: Any = tree.static()
    mode: Literal["ends", "centers"] = tree.static(default="ends")
    flatten: bool = tree.static(default=False)

    in_evaluation = "kept"

    def check(self) -> None:
        spec, counts = self.env.action_spec(), np.asarray(self.num_actions)
        if not (isinstance(spec, specs.Bounded) and spec.is_continuous and spec.is_bounded):
            rule = "the action must be one continuous array with finite bounds"
            raise ValueError(f"DiscretizeAction: {rule}, got {spec}")
        if counts.dtype.kind not in "iu" or np.any(counts < 2):
            raise ValueError(f"DiscretizeAction: num_actions must be integers of at least 2, got {self.num_actions}")
        try:
            counts = np.broadcast_to(counts, spec.shape)
        except ValueError:
            raise ValueError(
                f"DiscretizeAction: num_actions of shape {counts.shape} does not broadcast to {spec.shape}"
            ) from None
        if self.flatten and np.prod(counts, dtype=np.float64) > 2**31 - 1:
            rule = "the combinations of num_actions must fit int32 if flatten=True"
            raise ValueError(f"DiscretizeAction: {rule}, got {counts}")

    @property
    def _counts(self) -> np.ndarray:
        return np.broadcast_to(np.asarray(self.num_actions, np.int32), self.env.action_spec().shape)

    def action_spec(self) -> Tree:
        inner, counts = self.env.action_spec(), self._counts
        if self.flatten:
            return specs.discrete(int(np.prod(counts)), name=inner.name)
        shape = () if inner.shape == (1,) else inner.shape
        return specs.Bounded(shape, np.int32, 0, counts.reshape(shape) - 1, inner.name)

    def action(self, action: Tree) -> Tree:
        inner = self.env.action_spec()
        ndim = 1 + inner.ndim
        counts = specs.aligned(self._counts, ndim)
        if self.flatten:
            # The place value of each element: the number of combinations of the elements after it.
            weights = np.cumprod([1, *self._counts.reshape(-1)[:0:-1]], dtype=np.int32)[::-1].reshape(inner.shape)
            number = tree.expand(action, ndim) // specs.aligned(weights, ndim) % counts
        else:
            number = action.reshape(action.shape[0], *inner.shape)
        number, counts = number.astype(np.float32), counts.astype(np.float32)
        fraction = number / (counts - 1) if self.mode == "ends" else (number + 0.5) / counts
        low, high = (specs.aligned(bound, ndim).astype(np.float32) for bound in (inner.minimum, inner.maximum))
        # Weighted bounds are exact at both ends; between them rounding could exceed a narrow range.
        return clip(low * (1 - fraction) + high * fraction, low, high).astype(inner.dtype)
