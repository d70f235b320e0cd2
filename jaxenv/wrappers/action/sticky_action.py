"""Repeat the previous action at random."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.core import LaneWrapper, TimeStep, check_no_turns
from jaxenv.random import Stream
from jaxenv.tree import Tree


@tree.struct
class Sticky:
    """The action that a lane repeats."""

    last: Any  # the action executed last, leaves [B, ...]; zeros before the first
    left: jax.Array  # int32[B], the remaining repetitions; -1 before the first step of an episode


class StickyAction(LaneWrapper):
    """Executes the previously executed action instead of the agent's, with some probability at every step.

    The first action of an episode is always the agent's. A repetition lasts ``duration`` steps and may be followed by
    another. See Machado et al. (2018, doi:10.1613/jair.5699, section 5.2). Inside an `ActionRepeat` the probability
    applies to every repeated step. Owns ``prev_action``: the agent's action, even if another one was executed.

    Args:
        probability: probability of a repetition in [0, 1): one number, or one per lane.
        duration: steps per repetition: a number, or (least, most) to draw from uniformly, both included.

    >>> import jaxenv
    >>> env = StickyAction(jaxenv.spec("CartPole-v1").make(), 0.25)
    >>> repr(env)
    '<StickyAction<CartPole-v1>>'
    """

    probability: Any = tree.leaf(low=0, below=1)
    duration: Any = tree.static(default=(1, 1))

    owns: ClassVar[frozenset[str]] = frozenset({"prev_action"})
    in_evaluation = "kept"
    noop_kwargs = {"probability": np.float32(0)}

    def check(self) -> None:
        check_no_turns("StickyAction", self.env)
        given = np.asarray(self.duration)
        if given.dtype.kind not in "iu" or given.shape not in ((), (2,)) or not 1 <= given.flat[0] <= given.flat[-1]:
            rule = "duration must be a number of steps, at least 1, or (least, most)"
            raise ValueError(f"StickyAction: {rule}, got {self.duration}")

    def init(self, timestep: TimeStep, stream: Stream) -> Sticky:
        lanes = timestep.env_id.shape
        return Sticky(specs.zeros(self.action_spec(), lanes), jnp.full(lanes, np.int32(-1)))

    def before(self, own: Sticky, action: Tree, stream: Stream) -> tuple[Tree, Tree]:
        drawn = random.bernoulli(stream, (), self.probability)
        repeating = own.left > 0
        sticks = repeating | (drawn & (own.left == 0))
        left = jnp.where(repeating, own.left, self._draw_duration(stream)) - 1
        executed = tree.where(sticks, own.last, action)
        return Sticky(executed, jnp.where(sticks, left, 0)), executed

    def _draw_duration(self, stream: random.Stream) -> jax.Array:
        least, most = np.broadcast_to(np.asarray(self.duration, np.int32), 2)
        if least == most:
            return least
        return random.integers(random.fold_in(stream, "duration"), (), least, most + 1)
