"""Replace a tree of actions by one vector."""

from typing import Any

import jax
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import ActionWrapper
from jaxenv.tree import Tree


class FlattenAction(ActionWrapper):
    """Takes one vector ``[B, n]`` with the elements of all leaves, in tree order and each leaf in row-major order.

    Bounds are kept. Elements are cast to the dtype of their leaf; for a discrete leaf floats are rounded to the nearest
    integer within its bounds. Owns ``prev_action``: the agent's vector.

    Args:
        env: an environment whose action is an array or a tree of arrays.
        dtype: dtype of the vector; by default the common dtype of all leaves.

    Raises:
        ValueError: if the leaves differ in dtype and ``dtype`` is not given, or if bounds do not fit ``dtype``.

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
