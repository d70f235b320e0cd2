"""Bases of wrappers with state: per lane, or of the whole batch."""

import abc
import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from jaxenv import specs, tree
from jaxenv._util import xla
from jaxenv.core._checks import actions as _actions
from jaxenv.core._checks.returned import check_leading
from jaxenv.core._checks.rows import check_owned
from jaxenv.core.environment import Environment
from jaxenv.core.starts import Starts
from jaxenv.core.timestep import TimeStep
from jaxenv.core.wrapper import Wrapper, layers
from jaxenv.random import Clock, Stream
from jaxenv.specs._trees import fit_fault
from jaxenv.tree import Tree
from jaxenv.tree._structure import mismatch


class Stateful(Wrapper):
    """A wrapper whose states hold the state of ``env`` in a field ``inner``."""

    def inner(self, state: Any) -> Tree:
        return state.inner


@tree.struct
class LaneState:
    """State of a lane wrapper: the state of ``env`` and the wrapper's own, every leaf ``[B, ...]``."""

    inner: Tree
    own: Tree


class LaneWrapper(Stateful):
    """Carries state per lane that is initialised at the start of every episode.

    Subclasses override ``init`` where they have state, and ``before``, ``after`` or both; ``owns`` names the fields
    that ``after`` rewrites. Where ``before`` is overridden, the agent's action is checked and recorded in
    ``prev_action``.

    The base calls ``init`` under a mask wherever an episode starts, so a wrapper is correct inside and outside
    ``AutoReset``. In ``same_step`` mode a lane wrapper that rewrites observations or actions must be inside. Each hook
    receives its own stream, a function of the clock, the wrapper's class and the number of wrappers of this class
    further inside.
    """

    owns: ClassVar[frozenset[str]] = frozenset()

    def init(self, timestep: TimeStep, stream: Stream) -> Tree:
        """Returns the state of a new episode, leaves ``[B, ...]``, which starts with ``timestep``; none by default."""
        return ()

    def before(self, own: Tree, action: Tree, stream: Stream) -> tuple[Tree, Tree]:
        """Returns the new state and the action for ``env``, before every step; by default its arguments."""
        return own, action

    def after(self, own: Tree, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        """Returns the new state and the new row, for every row, FIRST included; by default its arguments."""
        return own, timestep

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.autoreset == "same_step" and self.rewrites:
            raise ValueError(
                f"{type(self).__name__}: it rewrites {', '.join(sorted(self.rewrites))}, but could rewrite only one of "
                "the two episodes that a LAST row of a same_step AutoReset shows: put it inside AutoReset"
            )

    def begin(self, starts: Starts, previous: LaneState | None = None) -> tuple[Tree, TimeStep]:
        state, timestep = super().begin(starts, previous)
        clock = self.env.clock(state)
        own = tree.strong(self.init(timestep, self._stream(clock, "init")))
        check_leading(self, "init", own, starts.env_id.shape)
        own, timestep = self._after(own, timestep, clock)
        if self.rewrites_action:
            timestep = dataclasses.replace(timestep, prev_action=specs.zeros(self.action_spec(), starts.env_id.shape))
        return xla.unshare((LaneState(state, tree.strong(own)), timestep))

    def proceed(self, state: LaneState, action: Tree) -> tuple[Tree, TimeStep]:
        own, inner_action = state.own, action
        if self.rewrites_action:
            spec = self.action_spec()
            action = _actions.conform(spec, action, self.clock(state).env_id.shape[0], str(self))
            stream = self._stream(self.clock(state), "before")
            own, inner_action = self.before(own, _actions.clip_discrete(spec, action), stream)
        inner, timestep = self.env.proceed(state.inner, inner_action)
        own, timestep = self._advance(own, timestep, self.clock(state).tick(), self.env.clock(inner))
        if self.rewrites_action:
            timestep = _actions.with_prev_action(self, timestep, action)
        return xla.unshare((LaneState(inner, tree.strong(own)), timestep))

    def _advance(self, own: Any, timestep: TimeStep, ticked: Clock, clock: Clock) -> tuple[Any, TimeStep]:
        """Returns the wrapper's state and the row after a step.

        ``ticked`` is the clock before the step, advanced by one step; ``clock`` is the clock after it. They differ
        where an episode starts.
        """
        if self.autoreset is None:  # Episodes start in `begin` only.
            return self._after(own, timestep, ticked)
        fresh = tree.strong(self.init(timestep, self._stream(clock, "init")))
        if self.autoreset == "next_step":
            first = timestep.is_first()
            return self._after(tree.where(first, fresh, own), timestep, tree.where(first, clock, ticked))
        # same_step: the LAST row still belongs to the episode that it ends.
        own, row = self._after(own, timestep, ticked)
        return tree.where(self.episode_starts(timestep), fresh, tree.strong(own)), row

    def _after(self, own: Any, timestep: TimeStep, clock: Clock) -> tuple[Any, TimeStep]:
        out = self.after(own, timestep, self._stream(clock, "after"))
        if not isinstance(out, tuple) or len(out) != 2:
            raise ValueError(f"{self}.after: must return its state and the timestep, got {type(out).__name__}")
        if (fault := mismatch(own, out[0], "state")) is not None:
            raise ValueError(f"{self}.after: {fault}, as init made it")
        check_owned(self, timestep, out[1])
        return out

    @property
    def rewrites_action(self) -> bool:
        """Whether ``before`` may change the action."""
        return type(self).before is not LaneWrapper.before

    @property
    def rewrites(self) -> frozenset[str]:
        """Rewritten fields among ``observation`` and ``prev_action``; ``same_step`` mode allows them only inside."""
        return (self.owns & {"observation", "prev_action"}) | ({"prev_action"} if self.rewrites_action else frozenset())


@tree.struct
class BatchState:
    """State of a batch wrapper: the state of ``env``, the part that all lanes share, and the part per lane ``[B]``."""

    inner: Tree
    shared: tree.Shared
    lanes: Tree


class BatchWrapper(Stateful):
    """Carries state of the whole batch, such as a running mean, across episodes.

    Subclasses implement ``init`` and ``after``. The leaves of this state, called statistics here, need no axis of
    lanes ``[B]``. ``init_lanes`` adds state per lane.

    A batch wrapper goes outside ``AutoReset``. The FIRST rows that ``reset_where`` produces are transformed by the
    current statistics and do not update them.

    Args:
        frozen: stop updating the statistics.
        axis_name: a mesh axis over which ``after`` sums, so that all shards hold the same statistics.
    """

    owns: ClassVar[frozenset[str]] = frozenset()
    place = "batch"
    opt_outs = dict.fromkeys(
        ("sharding_invariant", "batch_equals_single_lanes", "lane_independent", "nan_contained", "any_number_of_lanes"),
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
        """Replaces the statistics in a state, for example by saved ones, of the same structure, shapes and dtypes.

        Leaves may be NumPy arrays. The current rows keep the old statistics. To transform them again, restart the lanes
        by ``reset_where``.
        """
        if (fault := fit_fault(specs.from_array(state.shared.value), statistics)) is not None:
            raise ValueError(f"{type(self).__name__}: statistics do not fit: {fault}")
        return dataclasses.replace(state, shared=tree.Shared(jax.tree.map(jnp.asarray, statistics)))

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
        lanes, fresh = state.lanes, () if self.autoreset is None else tree.strong(self.init_lanes(timestep))
        if self.autoreset == "next_step":
            lanes = tree.where(timestep.is_first(), fresh, lanes)
        new, row = self._process(inner, state.shared.value, lanes, timestep, not self.frozen)
        if self.autoreset == "same_step":
            new = dataclasses.replace(new, lanes=tree.where(self.episode_starts(timestep), fresh, new.lanes))
        return new, row

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
