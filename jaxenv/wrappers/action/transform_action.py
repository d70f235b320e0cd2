"""Map actions by a function."""

from collections.abc import Callable
from typing import Any

from jaxenv import specs, tree
from jaxenv.core import ActionWrapper, check_callable
from jaxenv.tree import Tree


class TransformAction(ActionWrapper):
    """Maps the agent's actions by a function.

    Owns ``prev_action``: the agent's action, before the function.

    Args:
        fn: maps a batch of the agent's actions (a tree of arrays ``[B, ...]``, discrete ones within their bounds) to a
            batch of the environment's. Functions compare by identity: a new function object triggers a recompilation.
        spec: spec of the agent's action, or a tree of specs; by default the environment's.

    >>> import jaxenv, numpy as np
    >>> env = TransformAction(jaxenv.spec("Pendulum-v1").make(), lambda action: -action)
    >>> env.action(np.array([[2.0]])).tolist()
    [[-2.0]]
    """

    fn: Callable[[Any], Any] = tree.static()
    spec: Any = tree.static(default=None)

    in_evaluation = "kept"

    def convert(self) -> dict[str, Any]:
        if self.spec is None or isinstance(self.spec, tree.Static):
            return {}
        specs.check_spec("TransformAction", self.spec)
        return {"spec": tree.Static(self.spec)}  # trees of specs need not be hashable

    def check(self) -> None:
        check_callable("TransformAction", "fn", self.fn)

    def action_spec(self) -> Tree:
        return self.env.action_spec() if self.spec is None else self.spec.value

    def action(self, action: Tree) -> Tree:
        return self.fn(action)
