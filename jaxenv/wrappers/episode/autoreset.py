"""Restart lanes whose episode ended, inside ``step``."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from jaxenv import tree
from jaxenv.core import AutoResetMode, BatchWrapper, Facts, Starts, Stateful, TimeStep, check_choice, layers, unshare
from jaxenv.core._restart import PerPlatform, check_strategy, observation_where, restart_in_row, start_episodes
from jaxenv.tree import Tree
from jaxenv.tree._structure import mismatch


@tree.struct
class AutoResetState:
    """State of the environment inside, and in ``next_step`` mode ``ended`` (bool ``[B]``): lanes whose row was LAST."""

    inner: Tree
    ended: Tree


class AutoReset(Stateful):
    """Starts the next episode of every lane of ``[B]`` that ended. A stack has at most one.

    The end of an episode has two observations, the final one and the first of the next episode:

    ``next_step`` gives each a row. The LAST row shows the final observation; the step after it ignores its action and
    returns the FIRST row of the next episode.

    ``same_step`` gives them one row. The LAST row shows the next episode's first observation and keeps the transition's
    reward, discount, ``prev_action`` and ``env_info``. ``env_info["final_observation"]`` holds, on every row, the
    observation that the step led to. The trajectory equals ``next_step`` without FIRST rows.

    All strategies give the same rows. ``"select"`` starts an episode in every lane at every step and keeps the needed
    ones; ``"cond"`` does so only at steps where a lane ended; ``"compact"`` gathers the lanes that ended and starts
    episodes in those, ``block`` at a time. Under ``vmap``, for example over seeds, the lanes of all batches form one
    batch. Gradients stop at the start of an episode. For lanes that ``jit`` shards across devices only ``"select"``
    needs no cross-device communication, and over a mesh of explicit axes it takes the place of ``"compact"``; under
    ``shard_map`` no strategy needs any. Owns ``step_type``, ``reward``, ``discount``, ``observation``, ``prev_action``
    and ``env_info`` on the rows where an episode starts; all other rows pass through.

    Args:
        env: any environment without ``AutoReset`` and without batch state.
        mode: ``"next_step"`` or ``"same_step"``.
        reset_strategy: ``"select"``, ``"cond"`` or ``"compact"``, or one of them per platform with a ``"default"``
            entry; ``None`` for the strategy that the environment declares, which the field then holds.
        block: number of lanes that ``compact`` starts at a time, at least 1.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.AutoReset(jaxenv.testing.count_to_two())
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> for _ in range(3):
    ...     state, timestep = env.step(state, jnp.zeros(1, jnp.int32))
    ...     print(timestep.step_type.item(), timestep.observation.item())
    1 1
    2 2
    0 0
    """

    mode: AutoResetMode = tree.static(default="next_step")
    reset_strategy: Any = tree.static(default=None)
    block: int = tree.static(default=64, low=1)

    owns: ClassVar[frozenset[str]] = frozenset(
        {"step_type", "reward", "discount", "observation", "prev_action", "env_info"}
    )
    in_evaluation = "kept"
    keeps_specs: ClassVar[frozenset[str]] = frozenset({"observation", "reward"})

    def convert(self) -> dict[str, Any]:
        strategy = self.env.reset_strategy if self.reset_strategy is None else self.reset_strategy
        return {"reset_strategy": PerPlatform(strategy) if isinstance(strategy, Mapping) else strategy}

    def check(self) -> None:
        check_choice("AutoReset", "mode", self.mode, ("next_step", "same_step"))
        check_strategy("AutoReset", self.reset_strategy)
        for layer in layers(self.env):
            if isinstance(layer, AutoReset):
                raise ValueError("AutoReset: the environment inside already has an AutoReset, one is enough")
            if layer.autoreset is not None:
                raise ValueError(f"AutoReset: {layer} restarts its lanes by itself, leave out AutoReset")
            if isinstance(layer, BatchWrapper):
                fault = f"{type(layer).__name__} carries state of the whole batch"
                raise ValueError(f"AutoReset: {fault}, put it outside AutoReset")

    def facts_of(self, inner: Facts) -> Facts:
        inner = super().facts_of(inner)
        return dataclasses.replace(inner, autoreset=self.mode, reset_strategy=self.reset_strategy)

    def begin(self, starts: Starts, previous: AutoResetState | None = None) -> tuple[Tree, TimeStep]:
        state, timestep = super().begin(starts, previous)
        if self.mode == "same_step":
            # The row shows one observation twice. The copy serves eager callers who donate the row.
            final = jax.tree.map(jnp.copy, timestep.observation)
            env_info = {**timestep.env_info, "final_observation": final}
            return AutoResetState(state, ()), dataclasses.replace(timestep, env_info=env_info)
        return AutoResetState(state, jnp.zeros(starts.env_id.shape, bool)), timestep

    def proceed(self, state: AutoResetState, action: Tree) -> tuple[Tree, TimeStep]:
        stepped, timestep = self.env.proceed(state.inner, action)
        if not isinstance(timestep, TimeStep):
            raise ValueError(f"{self.env}: in step, {mismatch(TimeStep(), timestep, 'timestep')}")
        restart = self._next_step if self.mode == "next_step" else self._same_step
        # An observation may be a part of the state. Copies ensure that donating one never deletes the other.
        return unshare(restart(state, stepped, timestep))

    def _next_step(self, state: AutoResetState, stepped: Any, timestep: TimeStep) -> tuple[AutoResetState, TimeStep]:
        # Values carried across episodes come from the state before this step: the ignored action must not change them.
        fresh, first = start_episodes(self.env, state.ended, state.inner, timestep, self.reset_strategy, self.block)
        inner = tree.where(state.ended, fresh, stepped)
        observation = observation_where(self.env, state.ended, inner, first, timestep)
        row = tree.where(state.ended, _without_observation(first), _without_observation(timestep))
        return AutoResetState(inner, row.is_last()), dataclasses.replace(row, observation=observation)

    def _same_step(self, _: AutoResetState, stepped: Any, timestep: TimeStep) -> tuple[AutoResetState, TimeStep]:
        inner, row = restart_in_row(self.env, timestep.is_last(), stepped, timestep, self.reset_strategy, self.block)
        env_info = {**row.env_info, "final_observation": timestep.observation}
        return AutoResetState(inner, ()), dataclasses.replace(row, env_info=env_info)


def _without_observation(timestep: TimeStep) -> TimeStep:
    return dataclasses.replace(timestep, observation=())
