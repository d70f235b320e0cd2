"""Clip continuous actions to their bounds."""

from typing import Any

import jax

from jaxenv import specs
from jaxenv._numeric import clip
from jaxenv._wrapper_bases import ActionWrapper


class ClipAction(ActionWrapper):
    """Clips continuous actions, elementwise, to the bounds of the action spec, which stays as it is; NaN passes.

    Discrete leaves are clipped by whatever interprets them, so they pass. `GuardNonFinite` deals with NaN.
    Owns ``prev_action``: the action before clipping.
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
