"""Replace a tree of actions by one vector."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._bounds import bounds
from jaxenv._numeric import clip
from jaxenv._wrapper_bases import ActionWrapper


class FlattenAction(ActionWrapper):
    """Takes one vector ``[B, n]`` with the elements of all leaves, in tree order and each leaf in row-major order.

    Bounds are kept. Elements are cast to the dtype of their leaf; for a discrete leaf floats are rounded to the nearest
    integer within its bounds.

    Owns ``prev_action``: the agent's vector.

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

    def check(self):
        dtypes = sorted({str(s.dtype) for s in jax.tree.leaves(self.env.action_spec())})
        if self.dtype is None and len(dtypes) != 1:
            raise ValueError(f"FlattenAction: dtype must be given if the leaves differ in dtype, they have {dtypes}")
        try:
            np.dtype(self.dtype)
        except TypeError:
            raise ValueError(f"FlattenAction: dtype must be a dtype, got {self.dtype!r}") from None
        self.action_spec()  # refuses bounds that do not fit the dtype

    def action_spec(self):
        leaves = jax.tree.leaves(self.env.action_spec())
        dtype = np.dtype(leaves[0].dtype if self.dtype is None else self.dtype)
        size = sum(s.numel for s in leaves)
        if not any(isinstance(s, specs.Bounded) for s in leaves):
            return specs.Array((size,), dtype, "action")
        low, high = (np.concatenate([bounds(s)[end].reshape(-1) for s in leaves]) for end in (0, 1))
        return specs.Bounded((size,), dtype, low, high, "action")

    def action(self, action):
        leaves, structure = tree.flatten(self.env.action_spec())
        parts = jnp.split(action, np.cumsum([s.numel for s in leaves])[:-1], axis=-1)
        return structure.unflatten([_part(s, part) for s, part in zip(leaves, parts, strict=True)])


def _part(spec: specs.Array, part: jax.Array) -> jax.Array:
    """The elements of one leaf, in its shape and dtype."""
    part = part.reshape(part.shape[0], *spec.shape)
    if spec.is_discrete and jnp.issubdtype(part.dtype, jnp.floating):
        part = clip(jnp.round(part), *(specs.aligned(bound, part.ndim) for bound in bounds(spec)))
    return part.astype(spec.dtype)
