"""A toy environment that counts its steps and ends after scripted lengths."""

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._util.checks import check_choice
from jaxenv.core.task import Task
from jaxenv.core.timestep import Transition
from jaxenv.random import Stream
from jaxenv.tree import Tree


@tree.struct
class Counters:
    """State of `Counting`: completed episodes and steps of the current one, int32 ``[B]``."""

    episode: jax.Array
    step: jax.Array


class Counting(Task):
    """Counts its steps and ends after a scripted number of them, per lane and episode.

    The action is an integer from 0 to 9.

    Args:
        lengths: int32 ``[E]``, the length of episode e is ``lengths[e % E]``; ``[B, E]`` for lengths per lane. An
            episode of length 0 never ends.
        stride: the increment of the observation per episode.
        pays: ``"action"``, or ``"end"`` for 1 on the last step of an episode and 0 on others.
        shows: ``"number"`` for ``stride * episode + step`` (int32 ``[B]``), ``"tuple"`` for ``(episode, step)``, or
            ``"dict"`` for ``{"episode": ..., "step": ...}``.
    """

    lengths: Any = tree.leaf(rank=1, dtype=np.int32)
    stride: int = tree.static(default=0)
    pays: Literal["action", "end"] = tree.static(default="action")
    shows: Literal["number", "tuple", "dict"] = tree.static(default="number")

    def check(self) -> None:
        if np.shape(self.lengths)[-1] == 0:
            raise ValueError("Counting: lengths must hold at least one length, got none")
        check_choice("Counting", "shows", self.shows, ("number", "tuple", "dict"))
        check_choice("Counting", "pays", self.pays, ("action", "end"))

    def initial(self, stream: Stream) -> Counters:
        return Counters(jnp.zeros(stream.shape, jnp.int32), jnp.zeros(stream.shape, jnp.int32))

    def carry(self, old: Counters, new: Counters) -> Counters:
        return Counters(old.episode + 1, new.step)

    def transition(self, state: Counters, action: Tree, stream: Stream) -> Transition:
        step = state.step + 1
        lengths = jnp.broadcast_to(self.lengths, (*step.shape, np.shape(self.lengths)[-1]))
        index = state.episode % lengths.shape[-1]
        ended = step == jnp.take_along_axis(lengths, index[:, None], axis=-1)[:, 0]
        reward = (action if self.pays == "action" else ended).astype(jnp.float32)
        return Transition(Counters(state.episode, step), reward, terminated=ended)

    def observe(self, state: Counters) -> Tree:
        if self.shows == "number":
            return self.stride * state.episode + state.step
        return self._pair(state.episode, state.step)

    def observation_spec(self) -> Tree:
        if self.shows == "number":
            return specs.Array((), np.int32, "observation")
        return self._pair(specs.Array((), np.int32, "episode"), specs.Array((), np.int32, "step"))

    def _pair(self, episode: Any, step: Any) -> Any:
        return (episode, step) if self.shows == "tuple" else {"episode": episode, "step": step}

    def action_spec(self) -> Tree:
        return specs.discrete(10, name="action")


def count_to_two(num_envs: int = 1) -> Counting:
    """Makes an environment that observes 0, 1, 2, 0, ...; every third row is LAST with reward 1 and discount 0."""
    return Counting(np.array([2]), pays="end", num_envs=num_envs)
