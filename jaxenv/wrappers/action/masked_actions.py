"""Replace actions that the action mask forbids."""

import dataclasses
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.core import LaneWrapper, TimeStep
from jaxenv.random import Stream
from jaxenv.tree import Tree


@tree.struct
class Masked:
    """The action mask of the latest row, bool ``[B, n]``, and whether the latest action was illegal, bool ``[B]``."""

    mask: jax.Array
    illegal: jax.Array


class MaskedActions(LaneWrapper):
    """Replaces every action that ``env_info["action_mask"]`` forbids by a legal one.

    The mask comes from the row that the agent saw. If it forbids every action, the agent's action passes through.
    ``env_info["action_was_illegal"]`` (bool ``[B]``, False at FIRST) marks replacements. Owns ``prev_action``, the
    agent's action, and ``env_info["action_was_illegal"]``.

    Args:
        env: an environment whose action is one bounded integer of n values, and whose `Task.state_info` holds an
            ``action_mask``, bool ``[n]`` for one lane.
        replacement: ``"random"`` draws uniformly from the legal actions; ``"first"`` takes the lowest legal action and
            needs no random numbers.

    >>> import jaxenv
    >>> env = MaskedActions(jaxenv.spec("TicTacToe-v0").make(), "first")
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> for cell in (4, 4):
    ...     state, timestep = env.step(state, jnp.array([cell]))
    >>> timestep.observation[0, 0].tolist(), timestep.env_info["action_was_illegal"].tolist()
    ([1, 0, 0], [True])
    """

    replacement: Literal["random", "first"] = tree.static(default="random")

    owns: ClassVar[frozenset[str]] = frozenset({"prev_action", "env_info"})
    in_evaluation = "kept"
    summed_entries = frozenset({"action_was_illegal"})

    def check(self) -> None:
        spec = self.action_spec()
        if not (isinstance(spec, specs.Bounded) and spec.dtype.kind in "iu" and spec.shape == ()):
            raise ValueError(f"MaskedActions: the action must be one bounded integer, got {spec}")
        info = specs.unbatched(jax.eval_shape(lambda state: self.env.env_info_of(state), self.env.start_shapes()[0]))
        mask = specs.Array((spec.num_values,), np.bool_)
        if info.get("action_mask") != mask:
            raise ValueError(f"MaskedActions: state_info must hold an action_mask {mask}, got {info}")

    def init(self, timestep: TimeStep, stream: Stream) -> Masked:
        return Masked(timestep.env_info["action_mask"], jnp.zeros(timestep.env_id.shape, bool))

    def before(self, own: Masked, action: Tree, stream: Stream) -> tuple[Tree, Tree]:
        spec = self.action_spec()
        number = action.astype(np.int32) - spec.minimum.astype(np.int32)
        allowed = jnp.take_along_axis(own.mask, number[:, None], axis=1)[:, 0]
        illegal = ~allowed & jnp.any(own.mask, axis=1)
        if self.replacement == "random":
            legal = random.categorical(stream, weights=own.mask)
        else:
            legal = jnp.argmax(own.mask, axis=1)
        action = jnp.where(illegal, legal.astype(spec.dtype) + spec.minimum, action)
        return dataclasses.replace(own, illegal=illegal), action

    def after(self, own: Masked, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        env_info = {**timestep.env_info, "action_was_illegal": own.illegal}
        own = Masked(timestep.env_info["action_mask"], own.illegal)
        return own, dataclasses.replace(timestep, env_info=env_info)
