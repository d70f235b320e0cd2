"""Delay actions."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from jaxenv import specs, tree
from jaxenv.core import LaneWrapper, TimeStep, check_no_turns
from jaxenv.random import Stream
from jaxenv.tree import Tree


class ActionDelay(LaneWrapper):
    """Executes the action that the agent gave ``delay`` steps ago.

    The first ``delay`` actions of an episode are zeros, clipped to the bounds of the action. Actions of the previous
    episode are never executed. Owns ``prev_action``: the agent's latest action, not the one executed.

    Args:
        delay: number of steps, at least 0. The queue, ``[B, delay, ...]`` for every leaf, is part of the state.

    >>> import jaxenv
    >>> env = ActionDelay(jaxenv.spec("CartPole-v1").make(), 2)
    >>> env.reset(jax.random.key(0))[0].own.tolist()
    [[0, 0]]
    """

    delay: int = tree.static(default=1, low=0)

    owns: ClassVar[frozenset[str]] = frozenset({"prev_action"})
    in_evaluation = "kept"
    noop_kwargs = {"delay": 0}

    def check(self) -> None:
        check_no_turns("ActionDelay", self.env)

    def init(self, timestep: TimeStep, stream: Stream) -> Tree:
        """Returns the queue, oldest action first: a tree of arrays ``[B, delay, ...]``."""
        lanes = timestep.env_id.shape[0]
        idle = lambda s: jnp.broadcast_to(specs.nearest_zero(s), (lanes, self.delay, *s.shape))  # noqa: E731
        return jax.tree.map(idle, self.action_spec())

    def before(self, own: Tree, action: Tree, stream: Stream) -> tuple[Tree, Tree]:
        queue = jax.tree.map(lambda old, new: jnp.concatenate([old, new[:, None]], axis=1), own, action)
        return jax.tree.map(lambda x: x[:, 1:], queue), jax.tree.map(lambda x: x[:, 0], queue)
