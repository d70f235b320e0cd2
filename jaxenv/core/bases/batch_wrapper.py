"""The base of wrappers with state of the whole batch."""

import abc
import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from jaxenv import specs, tree
from jaxenv._util import xla
from jaxenv.core._checks.rows import check_owned
from jaxenv.core.environment import Environment
from jaxenv.core.starts import Starts
from jaxenv.core.timestep import TimeStep
from jaxenv.core.wrapper import Wrapper, layers
from jaxenv.specs._trees import fit_fault
from jaxenv.tree import Tree


@tree.struct
class BatchState:
    """State of a batch wrapper: the state of ``env``, the part that all lanes share, and the part per lane ``[B]``."""

    inner: Tree
    shared: tree.Shared
    lanes: Tree


class BatchWrapper(Wrapper):
    """Carries state of the whole batch, such as a running mean, across episodes.

    Subclasses implement ``init`` and ``after``. The leaves of this state, called statistics here, need no axis of
    lanes ``[B]``. ``init_lanes`` adds state per lane.

    A batch wrapper goes outside ``AutoReset``. The FIRST rows that ``reset_where`` produces are transformed by the
    current statistics and do not update them.

    Args:
        env: any environment.
        frozen: stop updating the statistics.
        axis_name: a mesh axis over which ``after`` sums, so that all shards hold the same statistics.
    """

    owns: ClassVar[frozenset[str]] = frozenset()
    place = "batch"
    opt_outs = dict.fromkeys(
        (
            "sharding_invariant",
            "batch_equals_single_lanes",
            "permutation_equivariant",
            "lane_independent",
            "nan_contained",
            "any_number_of_lanes",
            "growth_invariant",
        ),
        "all lanes share its state",
    )

    frozen: bool = tree.static(default=False, kw_only=True)
    axis_name: str | None = tree.static(default=None, kw_only=True)

    @abc.abstractmethod
    def init(self, timestep: TimeStep) -> Tree:
        """Returns the statistics before the first row; leaves need not lead with ``[B]``."""

    def init_lanes(self, timestep: TimeStep) -> Tree:
        """Returns state per lane, leaves ``[B, ...]``, initialised at the start of every episode; none by default."""
        return ()

    @abc.abstractmethod
    def after(self, shared: Tree, lanes: Tree, timestep: TimeStep, learn: bool) -> tuple[Tree, Tree, TimeStep]:
        """Processes a batch of rows: returns the new statistics, the new state per lane and the new rows.

        With ``learn=False`` (the wrapper is frozen, or some rows are placeholders) the rows must be transformed by the
        statistics in ``shared`` without updating them: the returned statistics are ignored. A wrapper that changes the
        observation changes ``env_info["final_observation"]`` in the same way (`jaxenv.wrappers.map_observation`).
        """

    def statistics(self, state: Tree) -> Tree:
        """Returns the statistics in a state of this wrapper."""
        return state.shared.value

    def with_statistics(self, state: Tree, statistics: Tree) -> Tree:
        """Replaces the statistics in a state, for example by saved ones; leaves may be NumPy arrays.

        The current rows keep the old statistics. To transform them again, restart the lanes by ``reset_where``.

        Raises:
            ValueError: if structure, a shape or a dtype differs from the statistics in ``state``.
        """
        if (fault := fit_fault(specs.from_array(state.shared.value), statistics)) is not None:
            raise ValueError(f"{type(self).__name__}: statistics do not fit: {fault}")
        return dataclasses.replace(state, shared=tree.Shared(jax.tree.map(jnp.asarray, statistics)))

    def inner(self, state: BatchState) -> Tree:
        return state.inner

    def begin(self, starts: Starts, previous: BatchState | None = None) -> tuple[Tree, TimeStep]:
        state, timestep = super().begin(starts, previous)
        lanes = tree.strong(self.init_lanes(timestep))
        if previous is None:
            shared = tree.strong(self.init(timestep))
            if self.axis_name is None:
                # Each shard has its own statistics, which must vary over the mesh from the start to be a scan carry.
                shared = tree.vary_like(starts.env_id, shared)
            return self._process(state, shared, lanes, timestep, not self.frozen)
        # Only the rows of restarted lanes are kept, so this batch must not update the statistics.
        return self._process(state, previous.shared.value, lanes, timestep, False)

    def proceed(self, state: BatchState, action: Tree) -> tuple[Tree, TimeStep]:
        inner, timestep = self.env.proceed(state.inner, action)
        shared, lanes, learn = state.shared.value, state.lanes, not self.frozen
        if self.autoreset is None:
            return self._process(inner, shared, lanes, timestep, learn)
        fresh = tree.strong(self.init_lanes(timestep))
        if self.autoreset == "next_step":
            lanes = tree.where(timestep.is_first(), fresh, lanes)
            return self._process(inner, shared, lanes, timestep, learn)
        new, row = self._process(inner, shared, lanes, timestep, learn)
        return dataclasses.replace(new, lanes=tree.where(self.episode_starts(timestep), fresh, new.lanes)), row

    def _process(
        self, inner: Any, shared: Any, lanes: Any, timestep: TimeStep, learn: bool
    ) -> tuple[BatchState, TimeStep]:
        # Statistics are not differentiated: they would carry gradients across the start of an episode.
        new, lanes, row = self.after(tree.detach(shared), lanes, timestep, learn)
        check_owned(self, timestep, row)
        shared = tree.Shared(tree.strong(new) if learn else shared)
        return xla.unshare((BatchState(inner, shared, tree.strong(lanes)), row))


def has_batch_state(env: Environment) -> bool:
    """Returns whether a layer of the stack carries state of the whole batch."""
    return any(isinstance(layer, BatchWrapper) for layer in layers(env))


def summed_over(env: Environment, axis_name: str) -> Environment:
    """Sets ``axis_name`` in every `BatchWrapper` of the stack: all shards of the axis then hold the same statistics."""
    if not has_batch_state(env):
        return env
    assert isinstance(env, Wrapper)
    inner = summed_over(env.env, axis_name)
    return tree.rebuild(env, env=inner, **({"axis_name": axis_name} if isinstance(env, BatchWrapper) else {}))
