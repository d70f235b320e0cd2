"""The ``fields`` argument of wrappers that map an observation leaf by leaf."""

import abc
from typing import Any, ClassVar

import jax

from jaxenv import specs, tree
from jaxenv.core.wrapper import Wrapper
from jaxenv.specs._fields import select
from jaxenv.tree import Tree


class Leafwise(Wrapper):
    """Selects the leaves ``[B, ...]`` of the observation that a wrapper maps. A mixin for stateless and lane wrappers.

    Owns ``observation``.

    Args:
        env: an environment whose observation has at least one leaf of the wrapper's ``kind``.
        fields: a dotted path such as ``"sensors.camera"``, or a sequence of them. A path names a leaf, or a subtree
            all of whose leaves are mapped; each must be of the ``kind``. ``None`` maps every leaf of that kind.

    Raises:
        ValueError: for an unknown path, a named leaf of another kind, or an observation without a leaf of the kind.
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
        return jax.tree.map(lambda mark, s: self.map_spec(s) if mark else s, self._marks(), spec)

    def _marks(self) -> Tree:
        """Marks the leaves of the observation that are mapped: bools in its structure."""
        return select(type(self).__name__, self.env.observation_spec(), self.fields, self.kind, self.applies)
