"""Let the agent act within chosen bounds."""

from jaxenv import specs
from jaxenv.wrappers.action.affine_action import AffineAction


class RescaleAction(AffineAction):
    """Maps actions affinely from [minimum, maximum] onto the bounds of the environment.

    It does not clip: values out of range map out of range. `AffineAction` does the same for trees of actions.

    Owns ``prev_action``: the agent's action.

    Args:
        env: an environment with one continuous action array and finite bounds.
        minimum: the agent's lower bound: a number, or a nested tuple in the action's shape.
        maximum: the agent's upper bound, above ``minimum`` everywhere.

    >>> import jaxenv, numpy as np
    >>> env = jaxenv.wrappers.RescaleAction(jaxenv.spec("Pendulum-v1").make(), 0, 1)
    >>> env.action_spec()
    Bounded((1,), float32, 0.0, 1.0, name='action')
    >>> env.action(np.array([[0.0], [0.5], [1.0]], np.float32)).tolist()
    [[-2.0], [0.0], [2.0]]
    """

    in_evaluation = "kept"

    def check(self) -> None:
        spec = self.env.action_spec()
        if not (isinstance(spec, specs.Bounded) and spec.is_continuous and spec.is_bounded):
            raise ValueError(f"RescaleAction: the action must be one continuous array with finite bounds, got {spec}")
        super().check()
