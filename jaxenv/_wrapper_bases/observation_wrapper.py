"""The base of wrappers that map the observation by a function."""

import abc
from typing import ClassVar

from jaxenv import tree
from jaxenv._bounds import mapped_spec
from jaxenv._observation import map_observation
from jaxenv.tree import Tree
from jaxenv.wrapper import Wrapper


class ObservationWrapper(Wrapper):
    """Maps the observation, a tree of ``[B, ...]``. Subclasses implement ``observation``.

    Implement ``observation_spec`` as well if the bounds of the result are known.

    Owns ``observation``; maps ``env_info["final_observation"]`` in the same way.
    """

    owns: ClassVar[frozenset[str]] = frozenset({"observation"})

    @abc.abstractmethod
    def observation(self, observation: Tree) -> Tree:
        """The new observation for a batch of inner ones, ``[B, ...]``."""

    def observation_spec(self):
        """Shapes and dtypes of what ``observation`` returns, without bounds."""
        return mapped_spec(self.observation, self.env.observation_spec(), self.spec_lanes)

    @property
    def shows_state(self):
        return self.env.shows_state

    def observation_of(self, state):
        return self._mapped(self.env.observation_of(self.inner(state)))

    def begin(self, keys, env_id, episode, previous=None):
        state, timestep = self.env.begin(keys, env_id, episode, previous)
        return state, map_observation(self._mapped, timestep)

    def step(self, state, action):
        state, timestep = self.env.step(state, action)
        return state, map_observation(self._mapped, timestep)

    def _mapped(self, observation: Tree) -> Tree:
        return tree.strong(self.observation(observation))
