"""Clip continuous actions to their bounds."""

from typing import Any

import jax

from jaxenv import specs, tree
from jaxenv.core import ActionWrapper, clip
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
