"""Clip continuous actions to their bounds."""

from typing import Any

import jax

from jaxenv import specs
from jaxenv._numeric import clip
from jaxenv._wrapper_bases import ActionWrapper


class ClipAction(ActionWrapper):
    """Clips continuous actions elementwise to the bounds of the action spec. NaN passes through.

    Discrete actions pass through: every environment clips them itself. `GuardNonFinite` handles NaN.

    Owns ``prev_action``: the action before clipping.

    >>> import jaxenv, numpy as np
    >>> env = ClipAction(jaxenv.spec("Pendulum-v1").make())
    >>> env.action(np.array([[-3.0], [0.5]], np.float32)).tolist()
    [[-2.0], [0.5]]
    """

    def action(self, action):
        return clip_continuous(self.action_spec(), action)


def clip_continuous(spec: Any, action: Any) -> Any:
    """A tree of actions ``[B, ...]`` with its continuous leaves clipped to their specs; NaN passes through."""

    def clipped(s, a):
        if isinstance(s, specs.Bounded) and s.is_continuous:
            return clip(a, specs.aligned(s.minimum, a.ndim), specs.aligned(s.maximum, a.ndim))
        return a

    return jax.tree.map(clipped, spec, action)
