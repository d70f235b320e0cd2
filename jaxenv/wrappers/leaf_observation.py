"""A base for wrappers that map the leaves of an observation one by one."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import _numeric, specs, tree
from jaxenv.tree import Tree
from jaxenv.wrapper import Wrapper
from jaxenv.wrappers.base import ObservationWrapper, mapped_spec


class Leafwise(Wrapper):
    """Which leaves of the observation a wrapper maps, and the spec of the result: for stateless and lane wrappers.

    Args:
        env: an environment whose observation has at least one leaf that the wrapper can map.
        fields: dotted paths such as ``"sensors.camera"``, or one of them. A path names a leaf or a subtree, of which
            every leaf is mapped and must be of the wrapper's ``kind``. ``None`` maps all leaves of that kind and
            leaves the others as they are.

    Raises:
        ValueError: for a path that is not there, a leaf of another kind, or an observation without any of the kind.
    """

    fields: Any = tree.static(default=None, kw_only=True)

    owns: ClassVar[frozenset[str]] = frozenset({"observation"})
    # What a leaf must be, as errors say it.
    kind: ClassVar[str] = "an array"

    def applies(self, spec: specs.Array) -> bool:
        """Whether a leaf is of the ``kind`` that the wrapper maps. Every leaf, by default."""
        return True

    def fault(self, spec: specs.Array) -> str | None:
        """What a leaf of the right kind lacks, as a sentence goes on after "must": "have 3 channels"."""
        return None

    def map_spec(self, spec: specs.Array) -> specs.Array:
        """The spec of what becomes of a leaf."""
        raise NotImplementedError(f"{type(self).__name__}.map_spec")

    def check(self):
        spec = self.env.observation_spec()
        leaves = zip(jax.tree.leaves(self._chosen()), tree.flatten_with_path(spec)[0], strict=True)
        found = [leaf for chosen, leaf in leaves if chosen]
        if not found:
            rule = f"observation must hold {self.kind}" if self.fields is None else "fields must name at least one leaf"
            raise ValueError(f"{type(self).__name__}: {rule}, got {spec if self.fields is None else self.fields}")
        for path, spec in found:
            wrong = self.fault(spec) if self.applies(spec) else f"be {self.kind}"
            if wrong is not None:
                name = tree.path_name(path) or "observation"
                raise ValueError(f"{type(self).__name__}: {name} must {wrong}, got {spec}")

    def observation_spec(self):
        spec = self.env.observation_spec()
        return jax.tree.map(lambda mark, s: self.map_spec(s) if mark else s, self._chosen(), spec)

    def _chosen(self) -> Tree:
        """Marks, in the structure of the observation: which leaves are mapped."""
        spec = self.env.observation_spec()
        if self.fields is None:
            return jax.tree.map(self.applies, spec)
        marks = jax.tree.map(lambda _: False, spec)
        for path in (self.fields,) if isinstance(self.fields, str) else self.fields:
            try:
                marks = tree.transform_field(marks, str(path), lambda below: jax.tree.map(lambda _: True, below))
            except ValueError as unknown:
                raise ValueError(f"{type(self).__name__}: fields: {unknown}") from None
        return marks


class LeafObservationWrapper(Leafwise, ObservationWrapper):
    """Maps leaves ``[B, ...]`` of the observation one by one. Write ``map_leaf``, and ``map_spec`` for known bounds.

    ``applies``, ``kind`` and ``fault`` say which leaves these are, ``fields`` lets the user choose among them (as ALF's
    ``BaseObservationWrapper``, whose ``transform_observation`` and ``transform_space`` see leaves as well).

    Owns ``observation``; ``env_info["final_observation"]`` is mapped alike.
    """

    def map_leaf(self, x: jax.Array, spec: specs.Array) -> jax.Array:
        """The new leaf for a batch ``[B, ...]`` of old ones, each of which fits ``spec``."""
        raise NotImplementedError(f"{type(self).__name__}.map_leaf")

    def map_spec(self, spec):
        """Shape and dtype of what ``map_leaf`` returns, without bounds."""
        return mapped_spec(lambda x: self.map_leaf(x, spec), spec, self.spec_lanes)

    def observation(self, observation):
        marks, spec = self._chosen(), self.env.observation_spec()
        return jax.tree.map(lambda mark, s, x: self.map_leaf(x, s) if mark else x, marks, spec, observation)


# --- bounds ----------------------------------------------------------------------------------------------------------


def bounds(spec: specs.Array) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds in the spec's shape and dtype; where there are none, the ends of the dtype."""
    if isinstance(spec, specs.Bounded):
        return spec.minimum, spec.maximum
    low, high = _ends(spec.dtype)
    return np.full(spec.shape, low, spec.dtype), np.full(spec.shape, high, spec.dtype)


def _ends(dtype: np.dtype) -> tuple[Any, Any]:
    if dtype.kind == "b":
        return False, True
    return (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.kind in "iu" else (-np.inf, np.inf)


def rearranged(spec: specs.Array, fn: Any) -> specs.Array:
    """The spec of ``fn(x)`` where ``fn`` only moves or drops elements of a batch ``[B, ...]``: bounds move along.

    ``fn`` must take NumPy arrays as well.
    """
    if isinstance(spec, specs.Bounded):
        low, high = fn(spec.minimum[None])[0], fn(spec.maximum[None])[0]
        return spec.replace(shape=low.shape, minimum=low, maximum=high)
    return spec.replace(shape=fn(np.broadcast_to(np.zeros((), spec.dtype), (1, *spec.shape))).shape[1:])


def fit(spec: specs.Array, x: jax.Array) -> jax.Array:
    """Floats ``x`` (``[B, ...]``) as values of a spec: rounded for integers, and within bounds in spite of rounding."""
    if spec.is_discrete:
        x = jnp.round(x)
    if isinstance(spec, specs.Bounded):
        x = _numeric.clip(x, *(_one_if_alike(bound, x) for bound in (spec.minimum, spec.maximum)))
    return x.astype(spec.dtype)


def _one_if_alike(bound: np.ndarray, x: jax.Array) -> np.ndarray:
    """A bound aligned to ``x``; one number if it is the same everywhere: no image-sized constant in compiled code."""
    bound = bound.astype(x.dtype)
    alike = bound.size > 0 and np.all(bound == bound.reshape(-1)[0])
    return bound.reshape(-1)[0] if alike else specs.aligned(bound, x.ndim)
