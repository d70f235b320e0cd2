"""The base of stateless wrappers that map an observation leaf by leaf."""

import abc

import jax

from jaxenv import specs
from jaxenv.core._checks.rows import checked_observation
from jaxenv.core.bases.leafwise import Leafwise
from jaxenv.core.bases.observation_wrapper import ObservationWrapper
from jaxenv.specs._bounds import mapped_spec
from jaxenv.tree import Tree


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
        return mapped_spec(lambda x: checked_observation(owner, self.map_leaf(x, spec), lanes), spec, lanes)

    def observation(self, observation: Tree) -> Tree:
        marks, spec = self._marks(), self.env.observation_spec()
        return jax.tree.map(lambda mark, s, x: self.map_leaf(x, s) if mark else x, marks, spec, observation)
