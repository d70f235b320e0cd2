"""Clip continuous actions to their bounds."""

import jax

from jaxenv import specs
from jaxenv.numeric import clip
from jaxenv.wrappers.base import ActionWrapper


class ClipAction(ActionWrapper):
    """Clips continuous actions to the bounds of the action spec, which stays as it is; NaN passes through.

    Discrete leaves are clipped by whatever interprets them, so they pass. `GuardNonFinite` deals with NaN.
    Owns ``prev_action``: the action before clipping.
    """

    def action(self, action):
        def clipped(spec, a):
            if isinstance(spec, specs.Bounded) and spec.is_continuous:
                return clip(a, specs.aligned(spec.minimum, a.ndim), specs.aligned(spec.maximum, a.ndim))
            return a

        return jax.tree.map(clipped, self.action_spec(), action)
