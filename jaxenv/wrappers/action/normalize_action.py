"""Let the agent act in [-1, 1]."""

from typing import ClassVar

from jaxenv import tree
from jaxenv.tree import Tree
from jaxenv.wrappers.action.affine_action import AffineAction
from jaxenv.wrappers.action.clip_action import clip_continuous


class NormalizeAction(AffineAction):
    """Maps the continuous leaves of an action elementwise from [-1, 1] onto their bounds. Discrete leaves pass through.

    Owns ``prev_action``: the agent's action.

    Args:
        env: an environment whose action has continuous leaves, all with finite bounds.
        clip: clip to [-1, 1] first; otherwise values out of range map out of range.

    >>> import jaxenv, numpy as np
    >>> env = jaxenv.wrappers.NormalizeAction(jaxenv.spec("Pendulum-v1").make())
    >>> env.action(np.array([[-1.0], [0.5], [2.0]], np.float32)).tolist()
    [[-2.0], [1.0], [4.0]]
    """

    in_evaluation = "kept"
    # These are constants here, not fields.
    minimum: ClassVar[float] = -1.0  # type: ignore[misc]
    maximum: ClassVar[float] = 1.0  # type: ignore[misc]

    clip: bool = tree.static(default=False)

    def action(self, action: Tree) -> Tree:
        return super().action(clip_continuous(self.action_spec(), action) if self.clip else action)
