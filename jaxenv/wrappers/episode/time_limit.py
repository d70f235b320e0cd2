"""Truncate episodes after a number of steps."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Self

import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.core import Starts, StepType, TimeStep, Wrapper, layers
from jaxenv.tree import Tree


@tree.struct
class TimeLimitState:
    """State of the environment inside, and the steps since FIRST, int32 ``[B]``, if the clock does not count them."""

    inner: Any
    elapsed: Any


class TimeLimit(Wrapper):
    """Makes the ``duration``-th row after FIRST a LAST row and leaves its discount alone.

    If the task terminates on the same step, the discount stays 0: termination wins. ``env_info["time_limit_reached"]``
    (bool ``[B]``) still reports that the limit was reached. The limit counts the steps of the environment that it
    wraps. Inside an `ActionRepeat` these are the repeated steps; outside it they are the agent's. Owns ``step_type``
    and ``env_info["time_limit_reached"]``; ``discount`` with ``terminal=True``.

    Args:
        env: any environment without ``AutoReset``.
        duration: steps per episode, at least 1: one number, or int32 ``[B]`` with one per lane.
        terminal: treat the limit as part of the task, for agents that observe the time: reaching it sets the discount
            to 0.
        follows_params: whether ``with_params`` also sets the limit, to the new ``time_limit`` that the task must have.

    >>> import jax, jaxenv
    >>> env = jaxenv.wrappers.TimeLimit(jaxenv.spec("Pendulum-v1").make(num_envs=2), 1)
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> state, timestep = env.step(state, env.action_spec().zeros((2,)))
    >>> timestep.is_last().tolist(), timestep.discount.tolist()
    ([True, True], [1.0, 1.0])
    """

    duration: Any = tree.leaf(dtype=np.int32, low=1)
    terminal: bool = tree.static(default=False)
    follows_params: bool = tree.static(default=False)

    owns: ClassVar[frozenset[str]] = frozenset({"step_type", "discount", "env_info"})
    in_evaluation = "kept"

    def check(self) -> None:
        if self.autoreset is not None:
            fault = "the lanes restart inside, so the limit would not be seen: put TimeLimit inside AutoReset"
            raise ValueError(f"TimeLimit: {fault}, or pass max_episode_steps to load")
        if self.follows_params and getattr(self.unwrapped, "time_limit", None) is None:
            raise ValueError(f"TimeLimit: follows_params needs a task with a time_limit, {self.unwrapped} has none")

    @property
    def _longest_episode(self) -> Any:
        return jnp.minimum(self.env._longest_episode, self.duration)

    def _map_task(self, change: Callable[[Any], Any]) -> Self:
        changed = super()._map_task(change)
        task: Any = changed.unwrapped
        return tree.rebuild(changed, duration=task.time_limit) if self.follows_params else changed

    @property
    def _own_count(self) -> bool:
        # The clock counts inner steps, one per step unless a wrapper inside takes several. Then this wrapper counts.
        return any(isinstance(layer, Wrapper) and layer.place == "several_steps" for layer in layers(self.env))

    def inner(self, state: Tree) -> Tree:
        return state.inner if self._own_count else state

    def elapsed(self, state: Tree) -> Any:
        """Returns the steps of the episode that the limit counts, int32 ``[B]``."""
        return state.elapsed if self._own_count else self.env.clock(state).step

    def begin(self, starts: Starts, previous: Tree = None) -> tuple[Tree, TimeStep]:
        state, timestep = super().begin(starts, previous)
        env_info = {**timestep.env_info, "time_limit_reached": jnp.zeros(starts.env_id.shape, bool)}
        if self._own_count:
            state = TimeLimitState(state, jnp.zeros_like(starts.episode))
        return state, dataclasses.replace(timestep, env_info=env_info)

    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        inner, timestep = self.env.proceed(self.inner(state), action)
        elapsed = state.elapsed + 1 if self._own_count else self.env.clock(inner).step
        reached = elapsed >= self.duration
        inside = timestep.env_info.get("time_limit_reached", np.False_)  # whether a limit inside this one was reached
        timestep = dataclasses.replace(
            timestep,
            step_type=jnp.where(reached, np.int32(StepType.LAST), timestep.step_type),
            discount=jnp.where(reached, np.float32(0), timestep.discount) if self.terminal else timestep.discount,
            env_info={**timestep.env_info, "time_limit_reached": reached | inside},
        )
        return (TimeLimitState(inner, elapsed) if self._own_count else inner), timestep
