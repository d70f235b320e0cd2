"""Let the agent choose from a table of actions."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import ActionWrapper
from jaxenv.tree import Tree


class DiscreteActions(ActionWrapper):
    """Lets the agent choose an action from a table by its number: int32 in 0 .. N - 1.

    Owns ``prev_action``: the number.

    Args:
        env: an environment with one action array.
        table: ``[N, ...]``, actions of the environment, each within its bounds.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.DiscreteActions(jaxenv.spec("Pendulum-v1").make(), [[-2], [0], [1.5]])
    >>> env.action_spec()
    Bounded((), int32, 0, 2, name='action')
    >>> env.action(jnp.array([2, 0])).tolist()
    [[1.5], [-2.0]]
    """

    table: Any = tree.static()

    in_evaluation = "kept"

    def check(self) -> None:
        spec = self.env.action_spec()
        if not specs.is_spec(spec):
            raise ValueError(f"DiscreteActions: the action must be one array, got {spec}")
        try:
            given = np.asarray(self.table)
        except ValueError:
            raise ValueError(f"DiscreteActions: the actions in table differ in shape: {self.table}") from None
        if given.ndim != 1 + spec.ndim or len(given) == 0 or given.shape[1:] != spec.shape:
            rule = f"table must have shape (N, *{spec.shape}), N at least 1"
            raise ValueError(f"DiscreteActions: {rule}, got {given.shape}")
        fits = given.dtype.kind in ("b" if spec.dtype.kind == "b" else "iu" if spec.is_discrete else "iuf")
        if spec.is_discrete and fits:
            fits = np.array_equal(given.astype(spec.dtype), given)  # no value wraps around
        if not fits or not spec.batched(len(given)).contains(given.astype(spec.dtype)):
            raise ValueError(f"DiscreteActions: table must hold actions of {spec}, got {self.table}")

    def action_spec(self) -> Tree:
        return specs.discrete(len(self.table), name=self.env.action_spec().name)

    def action(self, action: Tree) -> Tree:
        table = np.asarray(self.table, self.env.action_spec().dtype)
        return jnp.take(table, action, axis=0, mode="clip")
