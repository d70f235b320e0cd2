"""The base of wrappers that map the action by a function."""

import abc
import dataclasses
from typing import ClassVar

from jaxenv import specs
from jaxenv.core._checks import actions as _actions
from jaxenv.core.starts import Starts
from jaxenv.core.timestep import TimeStep
from jaxenv.core.wrapper import Wrapper
from jaxenv.tree import Tree


class ActionWrapper(Wrapper):
    """Maps the agent's action to the action for ``env``. Subclasses implement ``action`` and ``action_spec``.

    Owns ``prev_action``, a tree of ``[B, ...]``: the action as the agent gave it, zeros at FIRST.
    """

    owns: ClassVar[frozenset[str]] = frozenset({"prev_action"})

    @abc.abstractmethod
    def action(self, action: Tree) -> Tree:
        """Maps actions ``[B, ...]`` that fit ``action_spec`` to actions for ``env``; discrete actions are in bounds."""

    def begin(self, starts: Starts, previous: Tree = None) -> tuple[Tree, TimeStep]:
        state, timestep = super().begin(starts, previous)
        return state, dataclasses.replace(timestep, prev_action=specs.zeros(self.action_spec(), starts.env_id.shape))

    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        spec = self.action_spec()
        given = _actions.conform(spec, action, self.clock(state).env_id.shape[0], str(self))
        state, timestep = self.env.proceed(state, self.action(_actions.clip_discrete(spec, given)))
        return state, _actions.with_prev_action(self, timestep, given)
