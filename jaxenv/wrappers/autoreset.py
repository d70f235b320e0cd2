"""Restart lanes whose episode ended, inside ``step``."""

import dataclasses
import functools
from typing import ClassVar, get_args

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import _xla, tree
from jaxenv._declared import declared_leaves, map_declared
from jaxenv.environment import AutoResetMode, ResetStrategy
from jaxenv.random import Clock
from jaxenv.wrapper import Wrapper, layers
from jaxenv.wrappers.base import BatchWrapper


@tree.struct
class AutoResetState:
    """State of the environment inside, and in ``next_step`` mode ``ended`` (bool ``[B]``): lanes whose row was LAST."""

    inner: object
    ended: object


class AutoReset(Wrapper):
    """Begins the next episode of every lane of ``[B]`` that ended; written once and applied once in a stack.

    ``next_step``: the step after LAST ignores the action and returns the FIRST row of the next episode.

    ``same_step``: the LAST row keeps reward, discount, ``prev_action`` and the transition's ``env_info``, and already
    shows the next episode's first observation. The one that the step led to is in ``env_info["final_observation"]``,
    which holds the step's own observation on every row. The stream is that of ``next_step`` without its FIRST rows.

    All strategies give the same lanes. ``"select"`` starts all lanes at every step and keeps what is needed;
    ``"cond"`` does so only at steps where a lane ended; ``"compact"`` gathers the lanes that ended and starts those,
    ``block`` at a time. Under ``vmap`` (over seeds, say) the lanes of all batches count as one batch. Gradients stop at
    the start of an episode. Of lanes that are sharded by ``jit`` only ``"select"`` needs no word from other devices;
    under ``shard_map`` all three do without.

    Owns ``step_type``, ``reward``, ``discount``, ``observation``, ``prev_action`` and ``env_info`` on the rows where an
    episode begins; all other rows pass through.

    Args:
        env: anything without an ``AutoReset`` and without batch state.
        mode: ``"next_step"`` or ``"same_step"``.
        strategy: ``"select"``, ``"cond"``, ``"compact"``, or ``None`` for what the environment declares.
        block: how many lanes ``compact`` starts at a time.

    Raises:
        ValueError: for an unknown mode or strategy, a block below 1, or an ``env`` that already restarts its lanes or
            carries batch state.
    """

    mode: AutoResetMode = tree.static(default="next_step")
    strategy: ResetStrategy | None = tree.static(default=None)
    block: int = tree.static(default=64)

    owns: ClassVar[frozenset[str]] = frozenset(
        {"step_type", "reward", "discount", "observation", "prev_action", "env_info"}
    )

    def check(self):
        if self.mode not in ("next_step", "same_step"):
            raise ValueError(f"AutoReset: mode must be 'next_step' or 'same_step', got {self.mode!r}")
        if self.strategy not in (*get_args(ResetStrategy), None):
            raise ValueError(f"AutoReset: strategy must be 'select', 'cond', 'compact' or None, got {self.strategy!r}")
        if self.block < 1:
            raise ValueError(f"AutoReset: block must be at least 1, got {self.block}")
        for layer in layers(self.env):
            if isinstance(layer, AutoReset):
                raise ValueError("AutoReset: the environment inside already has an AutoReset, one is enough")
            if isinstance(layer, BatchWrapper):
                raise ValueError(
                    f"AutoReset: {type(layer).__name__} carries state of the whole batch, put it outside AutoReset"
                )

    @property
    def autoreset(self):
        return self.mode

    def observation_spec(self):
        return self.env.observation_spec()

    def reward_spec(self):
        return self.env.reward_spec()

    def inner(self, state):
        return state.inner

    def starts(self, timestep):
        first = self.env.starts(timestep)
        return first | timestep.is_last() if self.mode == "same_step" else first

    def begin(self, keys, env_id, episode, previous=None):
        state, timestep = self.env.begin(keys, env_id, episode, None if previous is None else previous.inner)
        if self.mode == "same_step":
            # The copy is for eager callers who donate: the row shows the same observation twice.
            final = jax.tree.map(jnp.copy, timestep.observation)
            env_info = {**timestep.env_info, "final_observation": final}
            return AutoResetState(state, ()), dataclasses.replace(timestep, env_info=env_info)
        return AutoResetState(state, jnp.zeros(env_id.shape, bool)), timestep

    def step(self, state, action):
        # An observation may be a part of the state: copies, so that donating the one never deletes the other.
        return _xla.unshare(self._step(state, action))

    def _step(self, state, action):
        stepped, timestep = self.env.step(state.inner, action)
        if self.mode == "next_step":
            # What outlives the episode is taken from where it ended: the step that was ignored must leave no trace.
            fresh, first = self._begin_where(state.ended, state.inner, timestep)
            inner = tree.where(state.ended, fresh, stepped)
            observation = self._observation_where(state.ended, inner, first, timestep)
            row = tree.where(state.ended, _unseen(first), _unseen(timestep))
            return AutoResetState(inner, row.is_last()), dataclasses.replace(row, observation=observation)

        ended = timestep.is_last()
        fresh, first = self._begin_where(ended, stepped, timestep)
        of_state = self.env.info_of_state(stepped).keys()
        of_first, of_last = ({k: t.env_info[k] for k in of_state} for t in (first, timestep))
        env_info = {
            **timestep.env_info,
            **tree.where(ended, of_first, of_last),
            "final_observation": timestep.observation,
        }
        inner = tree.where(ended, fresh, stepped)
        observation = self._observation_where(ended, inner, first, timestep)
        return AutoResetState(inner, ()), dataclasses.replace(timestep, observation=observation, env_info=env_info)

    def _observation_where(self, mask, inner, first, timestep):
        """The observation after the choice of states: observing the chosen state once beats choosing between two."""
        if self.env.shows_state:
            return self.env.observation_of(inner)
        return tree.where(mask, first.observation, timestep.observation)

    def _begin_where(self, mask, state, timestep):
        """State and FIRST row of the next episode, right in the lanes of ``mask``; what the others hold is not used."""
        fresh = self._begin(mask, state, timestep)
        try:
            chex.assert_trees_all_equal_shapes_and_dtypes((state, timestep), fresh)
        except AssertionError as difference:
            raise ValueError(f"{self.env}: begin and step must return the same tree: {difference}") from None
        return fresh

    def _begin(self, mask, state, timestep):
        ways = {
            "select": _begin_all,
            "cond": _over_batches(_begin_all_if_any),
            "compact": _over_batches(functools.partial(_begin_in_blocks, self.block)),
        }
        # No gradient passes the start of an episode, and none may enter a branch or a loop of unknown length.
        arguments = tree.detach((self.env, mask, *_xla.vary_like(mask, (state, timestep))))
        declared = self.strategy or self.reset_strategy
        if isinstance(declared, str):
            return ways[declared](*arguments)
        return jax.lax.platform_dependent(*arguments, **{platform: ways[name] for platform, name in declared.items()})


# --- the strategies: environment, mask, state and row to state and FIRST row, right in the lanes of the mask ----------


def _begin_all(env, mask, state, timestep):
    clock = env.clock(state)
    return _xla.vary_like(mask, env.begin(clock.key, clock.env_id, clock.episode + 1, previous=state))


def _begin_all_if_any(env, mask, state, timestep):
    return jax.lax.cond(jnp.any(mask), _begin_all, lambda env, mask, *now: now, env, mask, state, timestep)


def _begin_in_blocks(block, env, mask, state, timestep):
    lanes = mask.shape[0]
    block = min(block, lanes)
    count = jnp.sum(mask, dtype=jnp.int32)
    slots = -(-lanes // block) * block

    def list_none(mask):
        return _xla.vary_like(mask, jnp.full(slots, lanes, jnp.int32))

    def list_ended(mask):
        slot = jnp.where(mask, jnp.cumsum(mask, dtype=jnp.int32) - 1, np.int32(slots))
        numbers = jnp.arange(lanes, dtype=jnp.int32)
        return list_none(mask).at[slot].set(numbers, mode="drop", unique_indices=True)

    ended = jax.lax.cond(count > 0, list_ended, list_none, mask)

    def begin_block(i, buffers):
        rows = jax.lax.dynamic_slice(ended, (i * block,), (block,))
        previous = tree.gather(buffers[0], rows)
        clock = env.clock(previous)
        fresh = env.take(rows).begin(clock.key, clock.env_id, clock.episode + 1, previous=previous)
        return _scatter(buffers, fresh, rows)

    blocks = (count + np.int32(block - 1)) // np.int32(block)
    return jax.lax.fori_loop(np.int32(0), blocks, begin_block, (state, timestep))


def _over_batches(begin):
    """``begin`` with a rule for ``vmap``: S batches of B lanes, side by side, are one batch of S * B.

    JAX's own rule would take both branches of a guard at every step, and run a loop for all batches until the last one
    is done.
    """
    begin = jax.custom_batching.custom_vmap(begin)

    @begin.def_vmap
    def side_by_side(size, batched, env, *rows):
        lanes = rows[0].shape[-1]
        batched_env, *batched_rows = batched
        flags = iter(declared_leaves(batched_env))

        def beside(x, batched):
            x = x if batched else jnp.broadcast_to(x, (size, *x.shape))
            return x.reshape(size * lanes, *x.shape[2:])

        def parameter(d):
            batched = next(flags).value
            if not batched and not d.per_lane:
                return d.value
            one_a_batch = batched and d.value.ndim == d.rank + 1
            return jnp.repeat(d.value, lanes, axis=0) if one_a_batch else beside(d.value, batched)

        rows = jax.tree.map(beside, rows, tuple(batched_rows))
        fresh = begin(map_declared(parameter, env), *rows)
        fresh = jax.tree.map(lambda x: x.reshape(size, lanes, *x.shape[1:]), fresh)
        return fresh, jax.tree.map(lambda _: True, fresh)

    return begin


def _unseen(timestep):
    return dataclasses.replace(timestep, observation=())


def _scatter(buffers, rows, index):
    """Writes ``rows`` at ``index`` (out-of-range entries are dropped). Lane keys and ids never change, so they stay."""

    def write(buffer, row):
        if isinstance(buffer, Clock):
            episode, step = write(buffer.episode, row.episode), write(buffer.step, row.step)
            return dataclasses.replace(buffer, episode=episode, step=step)
        return buffer.at[index].set(row, mode="drop")

    return jax.tree.map(write, buffers, rows, is_leaf=lambda node: isinstance(node, Clock))
