"""Plays a policy episode by episode, with weights that may change in between."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from jaxenv import rollout, tree
from jaxenv.core.environment import Environment
from jaxenv.rollout import Policy
from jaxenv.tree import Tree


@tree.struct
class Moment:
    """The data of one frame, ``[B]`` each; ``picture`` is uint8 ``[B, H, W, 3]``."""

    picture: jax.Array
    step: jax.Array
    reward: jax.Array
    total: jax.Array
    over: jax.Array


class Player:
    """Plays whole episodes in all lanes. A lane whose episode ended stands still until the last one ends.

    The weights are arguments of the compiled functions, so new weights do not trigger compilation.
    """

    def __init__(self, env: Environment, policy: Policy, max_steps: int | None):
        self._env, self._max_steps = env, max_steps

        def moment(state: Tree, size: int, reward: jax.Array, total: Any, over: Any) -> Moment:
            return Moment(env.render(state, size), env.clock(state).step, reward, total, over)

        def start(key: jax.Array, size: int) -> Any:
            state, timestep = env.reset(key)
            none = jnp.zeros(timestep.step_type.shape, jnp.float32)
            return (state, timestep), moment(state, size, none, none, timestep.is_last())

        def advance(now: Any, memory: Any, shown: Any, initial_memory: Any, size: int) -> Any:
            (state, timestep, memory), _ = rollout.unroll(
                env, policy, now[0], now[1], 1, initial_memory=initial_memory, memory=memory
            )
            reward = timestep.reward.reshape(timestep.reward.shape[0], -1).sum(axis=-1)
            new = moment(state, size, reward, shown.total + reward, timestep.is_last())
            return (state, timestep), memory, tree.where(shown.over, shown, new)

        self._start = jax.jit(start, static_argnums=1)
        self._advance: Callable[..., Any] = jax.jit(advance, static_argnums=4)

    def episode(self, key: jax.Array, initial_memory: Any, side: Callable[[], int]) -> Iterator[Moment]:
        """Yields the moments of one episode of every lane as NumPy arrays; ``side()`` is the size of the pictures."""
        size, memory = side(), initial_memory
        now, shown = self._start(key, size)
        yield jax.device_get(shown)
        for _ in itertools.count() if self._max_steps is None else range(self._max_steps):
            if side() != size:  # the terminal has another size now
                size = side()
                shown = tree.rebuild(shown, picture=self._env.render(now[0], size))
            now, memory, shown = self._advance(now, memory, shown, initial_memory, size)
            moment = jax.device_get(shown)
            yield moment
            if moment.over.all():
                return
