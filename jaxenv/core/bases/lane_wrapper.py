"""The base of wrappers with state per lane."""

import dataclasses
from typing import Any, ClassVar

from jaxenv import specs, tree
from jaxenv._util import xla
from jaxenv.core._checks import actions as _actions
from jaxenv.core._checks.returned import check_leading
from jaxenv.core._checks.rows import check_owned
from jaxenv.core.starts import Starts
from jaxenv.core.timestep import TimeStep
from jaxenv.core.wrapper import Wrapper
from jaxenv.random import Clock, Stream
from jaxenv.tree import Tree
from jaxenv.tree._structure import mismatch


@tree.struct
class LaneState:
    """State of a lane wrapper: the state of ``env`` and the wrapper's own, every leaf ``[B, ...]``."""

    inner: Tree
    own: Tree


class LaneWrapper(Wrapper):
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

    def inner(self, state: LaneState) -> Tree:
        return state.inner

    def begin(self, starts: Starts, previous: LaneState | None = None) -> tuple[Tree, TimeStep]:
        state, timestep = super().begin(starts, previous)
        clock = self.env.clock(state)
        own = tree.strong(self.init(timestep, self._stream(clock, "init")))
        check_leading(self, "init", own, starts.env_id.shape)
        own, timestep = self._after(own, timestep, clock)
        if self.rewrites_action:
            zeros = specs.zeros(self.action_spec(), starts.env_id.shape)
            timestep = dataclasses.replace(timestep, prev_action=zeros)
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
