"""Flatten the observation to one vector."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._bounds import bounds
from jaxenv._fields import field_paths, select
from jaxenv._wrapper_bases import ObservationWrapper


class FlattenObservation(ObservationWrapper):
    """Concatenates all leaves of the observation, each in row-major order, to one vector with their bounds.

    Entries of a dict are in the order of their sorted keys, as in JAX; those of ``fields`` are in the given order. The
    vector has the common dtype of all leaves, or float32 if they differ. Owns ``observation``; maps
    ``env_info["final_observation"]`` in the same way.

    Args:
        env: any environment.
        fields: dotted paths of the parts in the vector: ``("observation", "desired_goal")`` joins a state and its goal.
            Other parts are dropped. All by default.
        one_hot: encode a bounded integer of shape ``()`` with n values as n elements, one of which is 1; ``False`` uses
            the number itself.

    Raises:
        ValueError: for an unknown path, or an observation without arrays.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.FlattenObservation(jaxenv.testing.Chain(length=3))
    >>> env.observation_spec()
    Bounded((3,), int32, 0, 1, name='observation')
    >>> env.observation(np.array([2, 0], np.int32)).tolist()
    [[0, 0, 1], [1, 0, 0]]
    """

    fields: Any = tree.static(default=None)
    one_hot: bool = tree.static(default=True)

    def check(self):
        select("FlattenObservation", self.env.observation_spec(), self.fields)

    def _parts(self, observation):
        """The leaves of the vector, in its order."""
        paths = field_paths("FlattenObservation", self.fields)
        return [leaf for path in paths for leaf in jax.tree.leaves(tree.get_field(observation, path))]

    def _is_choice(self, spec):
        return self.one_hot and isinstance(spec, specs.Bounded) and spec.shape == () and spec.dtype.kind in "iu"

    def _dtype(self):
        dtypes = {spec.dtype for spec in self._parts(self.env.observation_spec())}
        return dtypes.pop() if len(dtypes) == 1 else np.dtype(np.float32)

    def observation(self, observation):
        dtype, parts = self._dtype(), []
        for spec, x in zip(self._parts(self.env.observation_spec()), self._parts(observation), strict=True):
            if self._is_choice(spec):
                values = np.arange(spec.num_values, dtype=spec.dtype) + spec.minimum
                x = x[:, None] == values[None]
            parts.append(jax.lax.convert_element_type(x.reshape(x.shape[0], -1), dtype))
        return jnp.concatenate(parts, axis=-1)

    def observation_spec(self):
        inner, dtype, ends = self.env.observation_spec(), self._dtype(), []
        parts = self._parts(inner)
        for spec in parts:
            if self._is_choice(spec):
                ends.append((np.zeros(spec.num_values), np.ones(spec.num_values)))
            else:
                ends.append(bounds(spec))
        low, high = (np.concatenate([end[i].reshape(-1).astype(dtype) for end in ends]) for i in (0, 1))
        name = inner.name if specs.is_spec(inner) else "observation"
        if not any(isinstance(spec, specs.Bounded) for spec in parts):
            return specs.Array(low.shape, dtype, name)
        return specs.Bounded(low.shape, dtype, low, high, name)
