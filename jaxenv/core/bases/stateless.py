"""Bases of wrappers that keep no state."""

import abc
import dataclasses
from typing import Any, ClassVar

import jax

from jaxenv import specs, tree
from jaxenv.core._checks import actions as _actions
from jaxenv.core._checks.rows import checked_observation, checked_reward, map_observation, with_reward
from jaxenv.core.facts import Facts
from jaxenv.core.starts import Starts
from jaxenv.core.timestep import TimeStep
from jaxenv.core.wrapper import Wrapper
from jaxenv.specs import map_marked, select
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


class ObservationWrapper(Wrapper):
    """Maps the observation, a tree of ``[B, ...]``. Subclasses implement ``observation``.

    Implement ``observation_spec`` as well if the bounds of the result are known.

    Owns ``observation``; maps ``env_info["final_observation"]`` in the same way.
    """

    owns: ClassVar[frozenset[str]] = frozenset({"observation"})

    @abc.abstractmethod
    def observation(self, observation: Tree) -> Tree:
        """Maps a batch of observations ``[B, ...]`` of ``env``."""

    def observation_spec(self) -> Tree:
        """Returns shapes and dtypes of the result of ``observation``, without bounds."""
        lanes = self._spec_lanes
        return specs.mapped_spec(lambda x: self._mapped(x, lanes), self.env.observation_spec(), lanes)

    def facts_of(self, inner: Facts) -> Facts:
        return inner  # an observation of the state stays one

    def observation_of(self, state: Tree) -> Tree:
        return self._mapped(self.env.observation_of(self.inner(state)), self.clock(state).env_id.shape[0])

    def begin(self, starts: Starts, previous: Tree = None) -> tuple[Tree, TimeStep]:
        state, timestep = super().begin(starts, previous)
        return state, self._with_observation(timestep)

    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        state, timestep = self.env.proceed(state, action)
        return state, self._with_observation(timestep)

    def _with_observation(self, timestep: TimeStep) -> TimeStep:
        lanes = timestep.env_id.shape[0]
        return map_observation(lambda x: self._mapped(x, lanes), timestep)

    def _mapped(self, observation: Tree, num_lanes: int) -> Tree:
        mapped = self.observation(observation)
        return tree.strong(checked_observation(f"{type(self).__name__}.observation", mapped, num_lanes))


class Leafwise(Wrapper):
    """Selects the leaves ``[B, ...]`` of the observation that a wrapper maps. A mixin for stateless and lane wrappers.

    Owns ``observation``.

    Args:
        env: an environment whose observation has at least one leaf of the wrapper's ``kind``.
        fields: a dotted path such as ``"sensors.camera"``, or a sequence of them. A path names a leaf, or a subtree
            all of whose leaves are mapped; each must be of the ``kind``. ``None`` maps every leaf of that kind.
    """

    fields: Any = tree.static(default=None, kw_only=True)

    owns: ClassVar[frozenset[str]] = frozenset({"observation"})
    # The leaves that the wrapper maps, as error messages describe one.
    kind: ClassVar[str] = "an array"

    def applies(self, spec: specs.Array) -> bool:
        """Returns whether a leaf is of the ``kind`` that the wrapper maps. True by default."""
        return True

    def fault(self, spec: specs.Array) -> str | None:
        """Returns the rule that a leaf of the ``kind`` breaks, to follow "must": "have 3 channels"; else ``None``."""
        return None

    @abc.abstractmethod
    def map_spec(self, spec: specs.Array) -> specs.Array:
        """Returns the spec of a mapped leaf."""

    def check(self) -> None:
        leaves = jax.tree.flatten_with_path(self.env.observation_spec())[0]
        for (path, spec), mark in zip(leaves, jax.tree.leaves(self._marks()), strict=True):
            if mark and (fault := self.fault(spec)) is not None:
                name = tree.path_name(path) or "observation"
                raise ValueError(f"{type(self).__name__}: {name} must {fault}, got {spec}")

    def observation_spec(self) -> Tree:
        return map_marked(self._marks(), self.map_spec, self.env.observation_spec())

    def _marks(self) -> Tree:
        """Marks the leaves of the observation that are mapped: bools in its structure."""
        return select(type(self).__name__, self.env.observation_spec(), self.fields, self.kind, self.applies)


class LeafObservationWrapper(Leafwise, ObservationWrapper):
    """Maps leaves ``[B, ...]`` of the observation one by one. Subclasses implement ``map_leaf``.

    Implement ``map_spec`` as well if the bounds of the result are known. ``applies``, ``kind`` and ``fault`` define
    which leaves the wrapper maps; the argument ``fields`` selects among them.

    Owns ``observation``; maps ``env_info["final_observation"]`` in the same way.
    """

    @abc.abstractmethod
    def map_leaf(self, x: jax.Array, spec: specs.Array) -> jax.Array:
        """Maps a batch of leaves ``[B, ...]`` that fit ``spec``."""

    def map_spec(self, spec: specs.Array) -> specs.Array:
        """Returns shape and dtype of the result of ``map_leaf``, without bounds."""
        lanes, owner = self._spec_lanes, f"{type(self).__name__}.map_leaf"
        return specs.mapped_spec(lambda x: checked_observation(owner, self.map_leaf(x, spec), lanes), spec, lanes)

    def observation(self, observation: Tree) -> Tree:
        return map_marked(self._marks(), self.map_leaf, observation, self.env.observation_spec())


class RowRewardWrapper(Wrapper):
    """Computes the reward (``[B]`` or ``[B, R]``) from all fields of a row. Subclasses implement ``reward_of_row``.

    Owns ``reward``; the reward at FIRST is always 0.
    """

    owns: ClassVar[frozenset[str]] = frozenset({"reward"})

    @abc.abstractmethod
    def reward_of_row(self, timestep: TimeStep) -> jax.Array:
        """Computes the reward of a batch of rows: ``[B]`` or ``[B, R]`` of any numeric dtype."""

    def begin(self, starts: Starts, previous: Tree = None) -> tuple[Tree, TimeStep]:
        state, timestep = super().begin(starts, previous)
        return state, self._with_reward(timestep)

    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        state, timestep = self.env.proceed(state, action)
        return state, self._with_reward(timestep)

    def _with_reward(self, timestep: TimeStep) -> TimeStep:
        return with_reward(type(self).__name__, timestep, self.reward_of_row(timestep))


class RewardWrapper(RowRewardWrapper):
    """Maps the reward, float32 ``[B]`` or ``[B, R]`` of R > 1. Subclasses implement ``reward``.

    Implement ``reward_spec`` as well if the bounds of the result are known.

    Owns ``reward``; the reward at FIRST stays 0.
    """

    @abc.abstractmethod
    def reward(self, reward: jax.Array) -> jax.Array:
        """Maps a batch of rewards of ``env``: float32 ``[B]`` or ``[B, R]``."""

    def reward_spec(self) -> specs.Array:
        """Returns the shape of the result of ``reward``, without bounds."""
        lanes, owner = self._spec_lanes, f"{type(self).__name__}.reward"
        mapped = specs.mapped_spec(
            lambda x: checked_reward(owner, self.reward(x), (lanes,)), self.env.reward_spec(), lanes
        )
        return mapped.replace(name="reward")

    def reward_of_row(self, timestep: TimeStep) -> jax.Array:
        return self.reward(timestep.reward)
