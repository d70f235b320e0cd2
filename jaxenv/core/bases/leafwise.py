"""The bases of wrappers that map an observation leaf by leaf."""

import abc
from typing import Any, ClassVar

import jax

from jaxenv import specs, tree
from jaxenv.core._checks.rows import checked_observation
from jaxenv.core.bases.observation_wrapper import ObservationWrapper
from jaxenv.core.wrapper import Wrapper
from jaxenv.specs._fields import map_marked, select
from jaxenv.tree import Tree


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
        leaves = tree.flatten_with_path(self.env.observation_spec())[0]
        for (path, spec), mark in zip(leaves, jax.tree.leaves(self._marks()), strict=True):
            fault = self.fault(spec) if mark else None
            if fault is not None:
                name = tree.path_name(path) or "observation"
                raise ValueError(f"{type(self).__name__}: {name} must {fault}, got {spec}")

    def observation_spec(self) -> Tree:
        spec = self.env.observation_spec()
        return map_marked(self._marks(), self.map_spec, spec)

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
