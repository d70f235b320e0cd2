"""Flatten the observation to one vector."""

from typing import Any

import jax

from jaxenv import specs, tree
from jaxenv.core import ObservationWrapper
from jaxenv.tree import Tree


class FlattenObservation(ObservationWrapper):
    """Concatenates all leaves of the observation, each in row-major order, to one vector with their bounds.

    Entries of a dict are in the order of their sorted keys, as in JAX; parts in ``fields`` keep the given order. The
    vector has the common dtype of all leaves, or float32 if they differ. Owns ``observation``; maps
    ``env_info["final_observation"]`` in the same way.

    Args:
        fields: dotted paths of the parts in the vector: ``("observation", "desired_goal")`` joins a state and its goal.
            Other parts are dropped. All by default.
        one_hot: encode a bounded integer of shape ``()`` with n values as a one-hot vector; ``False`` uses the number
            itself.

    >>> import jaxenv, numpy as np
    >>> env = jaxenv.wrappers.FlattenObservation(jaxenv.testing.Chain(length=3))
    >>> env.observation_spec()
    Bounded((3,), int32, 0, 1, name='observation')
    >>> env.observation(np.array([2, 0], np.int32)).tolist()
    [[0, 0, 1], [1, 0, 0]]
    """

    fields: Any = tree.static(default=None)
    one_hot: bool = tree.static(default=True)

    in_evaluation = "kept"

    def check(self) -> None:
        specs.select("FlattenObservation", self.env.observation_spec(), self.fields)

    def _parts(self, observation: Tree) -> list[Any]:
        """Returns the leaves of the vector, in its order."""
        paths = specs.field_paths("FlattenObservation", self.fields)
        return [leaf for path in paths for leaf in jax.tree.leaves(tree.get_field(observation, path))]

    def observation(self, observation: Tree) -> Tree:
        parts, own = (tuple(self._parts(x)) for x in (self.env.observation_spec(), observation))
        return specs.flatten(parts, own, one_hot=self.one_hot)

    def observation_spec(self) -> Tree:
        inner = self.env.observation_spec()
        spec = specs.flattened(tuple(self._parts(inner)), one_hot=self.one_hot)
        return spec.replace(name=inner.name if specs.is_spec(inner) else "observation")
