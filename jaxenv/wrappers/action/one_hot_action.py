"""Encode discrete actions as vectors."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs
from jaxenv.core import ActionWrapper
from jaxenv.tree import Tree


class OneHotAction(ActionWrapper):
    """Takes a vector of n numbers for each discrete action with n values and executes the index of its largest element.

    A discrete leaf ``[B, ...]`` becomes float32 ``[B, ..., n]`` in [0, 1], one-hot or a distribution. The index counts
    from the minimum of the leaf. Continuous leaves pass through. Owns ``prev_action``: the agent's vectors.

    Args:
        env: an environment whose action has discrete leaves, all of them bounded integers of one range.

    >>> import jaxenv
    >>> env = OneHotAction(jaxenv.spec("CartPole-v1").make())
    >>> env.action_spec()
    Bounded((2,), float32, 0.0, 1.0, name='action')
    >>> env.action(np.array([[0.0, 1.0], [0.7, 0.3]], np.float32)).tolist()
    [1, 0]
    """

    in_evaluation = "kept"

    def check(self) -> None:
        spec = self.env.action_spec()
        discrete = [s for s in jax.tree.leaves(spec) if s.is_discrete]
        if not discrete or not all(_one_range(s) for s in discrete):
            rule = "the action must have discrete leaves, each bounded integers of one range"
            raise ValueError(f"OneHotAction: {rule}, got {spec}")

    def action_spec(self) -> Tree:
        def vectors(s: specs.Bounded) -> specs.Bounded:
            return s if s.is_continuous else specs.Bounded((*s.shape, s.num_values), np.float32, 0, 1, s.name)

        return jax.tree.map(vectors, self.env.action_spec())

    def action(self, action: Tree) -> Tree:
        def largest(s: specs.Bounded, a: jax.Array) -> jax.Array:
            if s.is_continuous:
                return a
            return jnp.argmax(a, axis=-1).astype(s.dtype) + specs.aligned(s.minimum, a.ndim - 1)

        return jax.tree.map(largest, self.env.action_spec(), action)


def _one_range(spec: specs.Array) -> bool:
    return isinstance(spec, specs.Bounded) and spec.dtype.kind in "iu" and np.ptp(spec.maximum - spec.minimum) == 0
