"""The base of wrappers that map the observation by a function."""

import abc
from typing import ClassVar

from jaxenv import specs, tree
from jaxenv.core._checks.rows import checked_observation, map_observation
from jaxenv.core.facts import Facts
from jaxenv.core.starts import Starts
from jaxenv.core.timestep import TimeStep
from jaxenv.core.wrapper import Wrapper
from jaxenv.tree import Tree


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
